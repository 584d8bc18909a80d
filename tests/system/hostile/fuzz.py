"""Whatever bytes come, a reader gives a value or an error of its own, in seconds and some memory, and a learner goes on.

python -m tests.system.hostile.fuzz [SECONDS] [SEED] [READER ...] gives each reader its share of the time, over and over.
What made one fail is printed as a line for CORPUS, where it stays as a case of the tests.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from streamnb import BayesOptimalNB
from streamnb import config as configuration
from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import LabelSettings, Settings
from streamnb.errors import StreamnbError
from streamnb.formats import snapshot_container
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.journal_record import START, JournalRecord, Slice, decode_journal, encode_journal, seal
from tests.system.hostile.file_readers import file_readers

CORPUS: list[tuple[str, bytes]] = [
    (
        "journal",
        (
            b'{"version":1,"n":0,"previous":"20087bfe86840b798b8d9759ee664c0474e730e10303b7f06106e8e3e25a36c6",'
            b'"kind":"genesis","now":1700000000.0,"slices":[],"positions":{},"outputs":"20","machine":"m","dig\xfast":"8c"}'
        ),
    )
]
"""(name of the reader, bytes) of what was found once."""
_SLOWEST = 5.0  # seconds for one
_LARGEST = 256  # MB that one may add to the most that the process has used
_CHECKSUM = 32  # bytes
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")
_ODD = [
    b"\x00",
    b"\xff",
    b'"',
    b"[",
    b"{",
    b"}",
    b"1e400",
    b"-0",
    b"null",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"9" * 400,
]


def mutated(rng: random.Random, raw: bytes, others: list[bytes]) -> bytes:
    """Some bytes of it changed, doubled, left out, or in the place of others."""
    for _ in range(rng.randrange(1, 5)):
        at, n = rng.randrange(len(raw) + 1), rng.choice([1, 1, 2, 9, 60])
        other = rng.choice(others)
        begin = rng.randrange(len(other) + 1)
        more = rng.choice(
            [rng.randbytes(n), rng.choice(_ODD) * rng.choice([1, 1, 300]), other[begin : begin + n], b""]
        )
        raw = raw[:at] + more + raw[at + rng.choice([0, len(more), n]) :]
    return raw


def _events(i: int) -> bytes:
    event = {
        "id": f"e{i % 5}",
        "text": "some words é",
        "features": {"x": 1.5, "c": "red"},
        "label": "ab"[i % 2],
    }
    return json.dumps(event | {"ts": 1.7e9 + i}).encode()


def _verdicts(i: int) -> bytes:
    if i % 3 == 0:
        return json.dumps({"withdraw": True, "source": "bot", "since": 1.0}).encode()
    return json.dumps({"id": f"e{i % 5}", "label": "b", "source": "bot", "weight": 2, "ts": 1.7e9}).encode()


class _Stream:
    """A learner that goes on, with a budget, a limit of labels, and small topics."""

    def __init__(self) -> None:
        model = BayesOptimalNB({"text": "text"})
        model.keep_within(8 << 20)
        made = Settings(
            EventSchema(), labels=LabelSettings("labels"), max_classes=50, top=9, max_bytes=20_000
        )
        self._learner = EventProcessor(made, model)

    def take(self, topic: str, raw: bytes) -> None:
        n = self._learner.consumed
        self._learner.process([Record(Partition(topic, 0), n, raw[:9], raw, 1.7e9 + n)], 1.7e9 + n, work=1)
        assert self._learner.consumed == n + 1


def _snapshot(raw: bytes) -> None:
    """Also with the checksum that belongs to it: what it holds is then looked at."""
    for whole in (raw, b"".join(snapshot_container._with_checksum(iter([raw[:-_CHECKSUM]])))):
        try:
            snapshot_container.decode(whole)
        except StreamnbError:
            continue


def _configuration(raw: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(raw)
        file.flush()
        configuration.load(Path(file.name), {}, [])


def peak_memory() -> float:
    """Return the most MB that the process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def readers() -> dict[str, tuple[Callable[[bytes], object], list[bytes]]]:
    """Name -> what reads bytes, and bytes that it can read."""
    return _record_readers() | file_readers(Path(_FOLDER.name))


def _record_readers() -> dict[str, tuple[Callable[[bytes], object], list[bytes]]]:
    stream, learner = _Stream(), _Stream()
    for i in range(20):
        learner.take("events", _events(i))
    kept = snapshot_container.encode(snapshot_container.Snapshot(0, "", {}, "", {}, learner._learner.parts()))
    sealed = seal(
        JournalRecord(1, 0, START, "genesis", 1.7e9, (Slice("events", 0, 0, 9, 9, 7),), {}, START, "m")
    )
    default = (Path(__file__).parents[3] / "config" / "default.toml").read_bytes()
    return {
        "events": (lambda raw: stream.take("events", raw), [_events(i) for i in range(9)]),
        "labels": (lambda raw: stream.take("labels", raw), [_verdicts(i) for i in range(9)]),
        "snapshots": (_snapshot, [kept]),
        "journal": (decode_journal, [encode_journal(sealed)]),
        "configuration": (_configuration, [default, *default.split(b"\n\n")]),
    }


def fuzz(
    seconds: float, seed: int, names: Collection[str] = ()
) -> list[tuple[str, bytes, BaseException | str]]:
    """What failed, and how, of the readers with these names, or of all."""
    rng, found = random.Random(seed), []
    all_readers = {name: one for name, one in readers().items() if not names or name in names}
    for read, known in all_readers.values():  # so that kernels are compiled
        for raw in known:
            with suppress(Exception):
                read(raw)
    deadline = time.monotonic() + seconds
    everything = [raw for _, known in all_readers.values() for raw in known if len(raw) < 6000]
    counts = dict.fromkeys(all_readers, 0)
    while time.monotonic() < deadline:
        for name, (read, known) in all_readers.items():
            began = time.monotonic()
            while time.monotonic() < began + 0.2:
                raw = mutated(rng, rng.choice(known), everything)
                counts[name] += 1
                started, used = time.process_time(), peak_memory()
                try:
                    read(raw)
                except StreamnbError:
                    pass
                except Exception as error:  # noqa: BLE001  whatever it is
                    found.append((name, raw, error))
                if (
                    counts[name] > 1 and time.process_time() - started > _SLOWEST
                ):  # kernels are compiled at first
                    found.append((name, raw, "it took too long"))
                if counts[name] > 1 and peak_memory() - used > _LARGEST:
                    found.append((name, raw, "it took too much memory"))
    sys.stdout.write(", ".join(f"{n:,} {name}" for name, n in counts.items()) + "\n")
    return found


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:3]]
    failed = fuzz(*given[:1] or [900], *given[1:] or [random.SystemRandom().randrange(10**6)], sys.argv[3:])
    for name, raw, error in failed[:20]:
        sys.stdout.write(f"    ({name!r}, {raw!r}),  # {error!r}\n")
    sys.stdout.write(f"{peak_memory():,.0f} MB at most\n")
    sys.exit(bool(failed))
