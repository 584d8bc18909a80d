"""Whatever arrives as an event or a label, a learner commits past it, and says of what it refused where and why.

And what it then has learned is what a recount finds.
"""

from __future__ import annotations

import json
import random
import time

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streamnb.engine.ports import NewRecord
from streamnb.formats.codec import decode_prediction
from tests.support.service import read_topic
from tests.support.verifying import new_worker, told, verified

pytestmark = pytest.mark.thorough

LOGS = ["sqlite", "kafka", "librdkafka"]
TOPICS = {"events": 2, "labels": 2, "predictions": 1, "metrics": 1, "dead_letters": 1, "journal": 1}
MODELS = {
    "naive_bayes": ("model.kind=naive_bayes", "memory.budget=1MiB", "classes.max=9"),
    "default": ("memory.budget=8MiB", "classes.max=200", "predictions.top=9", "labels.window=1h"),
    "skipping": ("model.kind=naive_bayes", "events.repeats=skip", "events.letter_bytes=64B"),
}
NUMBERS = ["-0", "1e400", "-1e-400", "9" * 5000, "1.7976931348623157e308", "NaN", "0.1", "true", "null"]
TEXTS = ["", "a b c", "é ß \u2028", "\x00", "😀" * 40, "x" * 4000, " ".join(map(str, range(900)))]
TIMES = [None, -1.0, 0.0, 1.0, 1.7e9, 4e9, 1.7e12, 1e308]


def any_json(rng, depth=3):
    """The text of any value: also what no encoder would write."""
    kind = rng.randrange(7 if depth else 4)
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind < 4:
        return json.dumps(rng.choice(TEXTS))
    if kind == 4:
        return f"[{','.join(any_json(rng, depth - 1) for _ in range(rng.randrange(4)))}]"
    return fields(rng, {rng.choice("abé"): any_json(rng, depth - 1) for _ in range(rng.randrange(4))})


def fields(rng, named):
    """An object, one of whose fields may be there twice."""
    pairs = [f"{json.dumps(name)}:{value}" for name, value in named.items()]
    return f"{{{','.join(pairs + pairs[:1] * (rng.random() < 0.05))}}}"


def one_of(rng, *usual):
    return any_json(rng) if rng.random() < 0.1 else json.dumps(rng.choice(usual))


def any_event(rng):
    found = {"id": one_of(rng, *(f"e{i}" for i in range(20))), "text": one_of(rng, *TEXTS)}
    if rng.random() < 0.5:
        found["features"] = fields(
            rng, {f"f{rng.randrange(12)}": one_of(rng, 1.5, -1e300, "red", True) for _ in range(9)}
        )
    if rng.random() < 0.7:
        found["label"] = one_of(rng, "a", "b", f"l{rng.randrange(50)}", None)
    if rng.random() < 0.3:
        found["ts"] = one_of(rng, *TIMES)
    return fields(rng, found)


def any_label(rng):
    if rng.random() < 0.1:
        return fields(
            rng,
            {"withdraw": one_of(rng, True), "source": one_of(rng, "s", "t"), "since": one_of(rng, *TIMES)},
        )
    found = {
        "id": one_of(rng, *(f"e{i}" for i in range(20)), "never seen"),
        "label": one_of(rng, "a", "b", None),
    }
    for name, usual in {
        "source": ["s", "t", "u", "v", "w"],
        "weight": [0, 0.5, 1e9, -1],
        "ts": TIMES,
    }.items():
        if rng.random() < 0.3:
            found[name] = one_of(rng, *usual)
    return fields(rng, found)


def any_value(rng):
    """Bytes, None for a tombstone."""
    raw = rng.choice([any_event, any_event, any_label, any_json])(rng)
    odd = {
        0: lambda: None,
        1: lambda: rng.randbytes(rng.randrange(300)),
        2: lambda: rng.choice([b"[", b'{"a":', b'{"features":{"f":[']) * rng.choice([9, 200, 20_000]),
        3: lambda: raw.encode(rng.choice(["utf-16", "utf-32", "utf-8-sig"])),
        4: lambda: raw.encode()[: rng.randrange(len(raw))],
        5: lambda: raw.encode().replace(b"a", b"\xff"),
    }
    return odd.get(rng.randrange(20), raw.encode)()


def any_record(rng):
    """Of either topic: (record, seconds since the epoch as its log says)."""
    key = rng.choice([None, b"", b"k", b"\xff\xfe", rng.randbytes(30), b"k" * 20_000])
    headers = (("h", b"\xff"), ("reason", b"mine"), ("é" * 9, b"x" * rng.choice([0, 9, 20_000])))
    topic = rng.choice(["events", "labels"])
    return NewRecord(topic, key, any_value(rng), headers[: rng.randrange(4)]), rng.choice(
        [None, -1, 1, 1.7e9]
    )


def largest(topic, size):
    """Records of so many bytes, with their keys, that are an event or a label, or none."""
    rest = size - 200
    return [
        NewRecord(topic, b"k", b" " * rest),
        NewRecord(topic, b"k", json.dumps({"id": "large", "label": "a", "text": "x" * rest}).encode()[:rest]),
        NewRecord(topic, b"k", (json.dumps({"id": "e1", "label": "b"}) + " " * rest)[:rest].encode()),
        NewRecord(topic, b"k" * 30_000, b"\xff" * (rest - 30_000)),
    ]


def written(log, stamped):
    """Into the log as a stranger writes them: with any time, and without a value."""
    if not hasattr(log, "_address"):
        with log._store.transaction("IMMEDIATE"):
            for record, at in stamped:
                log._store.insert(
                    [record._replace(value=record.value or b"")], time.time() if at is None else at
                )
        return
    failed = []
    producer = Producer({"bootstrap.servers": log._address, "message.max.bytes": 4 << 20})
    for record, at in stamped:
        millis = 0 if at is None else int(1000 * at) if at > 0 else -1
        producer.produce(
            log._prefix + record.topic,
            record.value,
            record.key,
            headers=list(record.headers),
            timestamp=millis,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failed == []


def learned(open_log, folder, model, stamped):
    """A learner lives to the end of the log, and what was promised of it is looked at."""
    sets = ("topics.labels=labels", *MODELS[model])
    written(open_log(**TOPICS), stamped)
    worker = new_worker(open_log(), folder, *sets, clock=time.time)
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    log = open_log()
    ends = {p: log.offsets(p)[1] for topic in ("events", "labels") for p in log.partitions(topic)}
    assert {p: worker.checkpoint.positions[p] for p in ends} == ends
    there = {
        (r.partition.topic, r.partition.number, r.offset): r
        for topic in ("events", "labels")
        for r in read_topic(log, topic)
    }
    assert len(there) == len(stamped)
    refused = {}
    for letter in read_topic(log, "dead-letters"):
        headers = dict(letter.headers)
        place = headers["topic"].decode(), int(headers["partition"]), int(headers["offset"])
        assert place in there
        if (
            headers["reason"] != b"unknown-event"
        ):  # which there is one of for each source, as it was understood
            assert place not in refused
            assert headers["reason"] != b"mine"
            assert there[place].value.startswith(letter.value)
        refused[place] = headers["reason"]
    predicted = [decode_prediction(record.value) for record in read_topic(log, "predictions")]
    events = sum(place[0] == "events" for place in there)
    answered = len(predicted) + sum(place[0] == "events" for place in refused)
    assert answered <= events if "events.repeats=skip" in sets else answered == events
    assert told(verified(open_log(), folder, *sets)) == []
    return worker.learner, refused


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(rng=random.Random(1), model="default")
@given(rng=st.integers(0, 10**6).map(random.Random), model=st.sampled_from(sorted(MODELS)))
def test_any_records_are_committed_past(open_log, tmp_path_factory, rng, model):
    stamped = [any_record(rng) for _ in range(rng.choice([1, 30, 200]))]
    learned(open_log.other(), tmp_path_factory.mktemp("any"), model, stamped)


@pytest.mark.storm_for("librdkafka")
def test_a_batch_of_any_records_and_thousands_of_labels(open_log, tmp_path):
    """On each log, by either client; with records that fill their topic."""
    rng = random.Random(7)
    stamped = [any_record(rng) for _ in range(600)]
    size = 1 << 20
    stamped += [(record, None) for topic in ("events", "labels") for record in largest(topic, size)]
    many = [{"id": f"many{i}", "text": f"w{i % 50}", "label": f"label {i}"} for i in range(3_000)]
    stamped += [(NewRecord("events", None, json.dumps(event).encode()), None) for event in many]
    learner, refused = learned(open_log, tmp_path, "default", stamped)
    assert len(learner.model.classes) == 200
    assert {b"too-many-classes", b"invalid-json", b"invalid-utf8", b"wrong-type", b"label-record"} <= set(
        refused.values()
    )
