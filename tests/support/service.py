"""What tests of the engine need: learners, workers, events, and readers of topics."""

from __future__ import annotations

import json
import random
from concurrent.futures import Future

import zstandard

from streamnb import NaiveBayes, Text
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Settings
from streamnb.errors import StreamnbError
from streamnb.formats.codec import decode_prediction
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.snapshot_container import part_digest
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker import Worker
from streamnb.runtime.worker_context import CommitPolicy

TOPICS = {"events": 1, "predictions": 1, "metrics": 1, "dead_letters": 1, "journal": 1}
IDENTITY = JobIdentity(("events",), "journal", "c0ffee", {"python": "3"})
WORDS = [f"w{i}" for i in range(40)]


class AtOnce(SnapshotFolder):
    """Snapshots that are kept before the stream flows on, so that it is known which."""

    def save_aside(self, made):
        return outcome_of(lambda: self.save(made()))


def many(path):
    """A store that keeps all of a test's snapshots."""
    return AtOnce(path, keep=100)


def outcome_of(work):
    outcome = Future()
    try:
        outcome.set_result(work())
    except StreamnbError as error:
        outcome.set_exception(error)
    return outcome


class Ticking:
    """A clock that goes on by a second at each look."""

    def __init__(self):
        self.now = 1_790_000_000.0

    def __call__(self):
        self.now += 1.0
        return self.now


def new_learner(**settings):
    model = settings.pop("model", None) or NaiveBayes(
        {"text": Text(), "subject": Text(event_model="bernoulli")}
    )
    return EventProcessor(Settings(**{"schema": EventSchema()} | settings), model)


def new_worker(
    log, folder, *, learner=None, pace=None, clock=None, identity=IDENTITY, store=SnapshotFolder, **options
):
    return Worker(
        log,
        store(folder),
        learner or new_learner(),
        identity,
        pace or CommitPolicy(),
        clock or Ticking(),
        **options,
    )


def snapshot_content(path):
    """The bytes of a snapshot in the file of a folder, decompressed."""
    return zstandard.ZstdDecompressor().decompress(path.read_bytes())


def kill(worker):
    """Let a worker end as a killed process does: its connection closes, and nothing else happens."""
    worker.context.log.close()


def raw_events(n, seed=0, *, labelled=0.8):
    """Mixed events of three classes, one in five without a label."""
    rng = random.Random(seed)
    events = []
    for i in range(n):
        label = rng.choice("abc")
        events.append(
            json.dumps(
                {
                    "id": f"e{i}",
                    "ts": 1_700_000_000.0 + 600 * i,
                    "text": " ".join(rng.choices(WORDS, k=rng.randrange(8))),
                    "features": {
                        "subject": rng.choice(WORDS),
                        "colour": rng.choice(["r", "g"]),
                        "x": rng.gauss(0, 1),
                    },
                    "label": label if rng.random() < labelled else None,
                }
            ).encode()
        )
    return events


def records(raws, topic="events", keys=None):
    keys = keys or [None] * len(raws)
    return [
        Record(Partition(topic, 0), i, key, raw, 0.0)
        for i, (key, raw) in enumerate(zip(keys, raws, strict=True))
    ]


def produce(log, raws, topic="events"):
    log.append([NewRecord(topic, None, raw) for raw in raws])


def read_topic(log, topic):
    found = []
    for partition in log.partitions(topic):
        offset = log.offsets(partition)[0]
        while part := log.read(partition, offset, 10_000):
            found += part
            offset = part[-1].offset + 1
    return found


def predictions(log_or_outputs):
    """Predictions without their times."""
    values = (
        [record.value for record in read_topic(log_or_outputs, "predictions")]
        if hasattr(log_or_outputs, "partitions")
        else [output.value for output in log_or_outputs if output.topic == "predictions"]
    )
    return [timeless(decode_prediction(value)) for value in values]


def timeless(prediction):
    return {name: getattr(prediction, name) for name in prediction.__struct_fields__ if name != "ts"}


def model_digest(learner):
    return part_digest(*learner.parts()["model"])


def digests(learner):
    """Of the whole state but the time of the last report."""
    parts = dict(learner.parts())
    meta = {name: value for name, value in parts["learner"].meta.items() if name != "reported_at"}
    parts["learner"] = parts["learner"]._replace(meta=meta)
    return {name: part_digest(*part) for name, part in parts.items()}
