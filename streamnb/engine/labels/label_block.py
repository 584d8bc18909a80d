"""Events that wait for their labels, some thousands together: what was served of each, what is said of it.

What never changes stands apart from what does, so that a snapshot writes only what is new: see `blobs`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamnb.engine.labels.source_labels import SourceLabel
from streamnb.errors import SnapshotError
from streamnb.values.example_weights import HEAVIEST
from streamnb.values.state_validation import MOST, checked, reject, whole

FULL = 4096
"""The most events in a chunk."""
_FULL_BYTES = 1 << 20  # of ids, attributes and probabilities, after which a chunk takes no more events
NONE, SEVERAL = -1, -2
_ALL, _TOP = 16, 8  # of up to so many classes all probabilities are kept, else the greatest
_FIXED: dict[str, str] = {
    "time": "<f8",
    "ts": "<f8",
    "place": "<i8",
    "age": "<i8",
    "start": "<u4",
    "known": "<u4",
    "id_bytes": "<u2",
}
_CHANGING: dict[str, str] = {
    "label": "<i4",
    "weight": "<f8",
    "source": "<i2",
    "said_at": "<f8",
    "partition": "<u2",
    "offset": "<i8",
    "score": "<i8",
    "delay": "<i1",
    "pruned": "<i4",
}
_OF_NOBODY = {"label", "source", "score", "delay"}  # at first
DTYPES = {**_FIXED, **_CHANGING}
"""Of columns."""
_X = msgspec.msgpack.Decoder(dict[str, str | bool | float])
_encode = msgspec.msgpack.encode


class WaitingEvents(NamedTuple):
    """n events that begin to wait.

    Attributes:
        ids: UTF-8.
        xs: their attributes, as they were predicted, as msgpack.
        probabilities: what `kept_probabilities` kept of their predictions.
        columns: name -> float64[n] or int64[n]: ts, the time of each, or NaN; time, when the log recorded it;
            place, bytes of all events before it; age, how many events the model had learned before; known,
            how many classes it knew.
    """

    ids: Sequence[bytes]
    xs: Sequence[bytes]
    probabilities: Sequence[bytes]
    columns: Mapping[str, npt.NDArray[Any]]

    def part(self, first: int, stop: int) -> WaitingEvents:
        """Those from one to before another."""
        columns = {name: column[first:stop] for name, column in self.columns.items()}
        return WaitingEvents(
            self.ids[first:stop], self.xs[first:stop], self.probabilities[first:stop], columns
        )


def lengths(values: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """How long each is."""
    return np.fromiter(map(len, values), dtype=np.int64, count=len(values))


class SavedBlock(NamedTuple):
    """Under which names the last snapshot holds a chunk, as it was at a version; of an open one neither."""

    fixed: str = ""
    changing: str = ""
    version: int = -1


class LabelBlock:
    """Up to `FULL` events.

    Attributes:
        size: how many.
        columns: name -> column. Never changed are those of `Waiting`, and start, where its bytes begin in
            `payload`. The others: label and weight, the truth that holds, the number of its class or `NONE`;
            source and said_at, the number of the source that says so, `NONE` or `SEVERAL`, and when it did;
            partition and offset, the number of the partition of the record that says so, and its offset;
            score, its number in the window of scores, or `NONE`; delay, the bucket of the delay of its first
            verdict, or `NONE`; pruned, how often the vocabulary had been pruned when the event was learned.
        oldest: the least time at which one was recorded.
        said: place -> what is said of it, where several sources speak.
        version: grows with every change.
        saved: what a snapshot holds of it.
    """

    def __init__(self) -> None:
        self.size = 0
        first = {name: NONE if name in _OF_NOBODY else 0 for name in DTYPES}
        self.columns = {name: np.full(FULL, first[name], dtype) for name, dtype in DTYPES.items()}
        self.payload = bytearray()
        self.oldest = math.inf
        self.said: dict[int, tuple[SourceLabel, ...]] = {}
        self.version = 0
        self.saved = SavedBlock()

    @property
    def is_full(self) -> bool:
        """Whether it takes no more events."""
        return self.size == FULL or len(self.payload) >= _FULL_BYTES

    @property
    def n_bytes(self) -> int:
        """Memory, about."""
        columns = sum(column.nbytes for column in self.columns.values())
        return columns + len(self.payload) + 300 * len(self.said)

    def append(self, events: WaitingEvents) -> int:
        """Take more events until it is full, which it is not; how many were taken."""
        id_bytes, *more = map(lengths, events[:3])
        ends = len(self.payload) + np.cumsum(sum(more, id_bytes))
        taken = min(FULL - self.size, 1 + int(np.searchsorted(ends[:-1], _FULL_BYTES)))
        if taken < ends.size:
            events, id_bytes, ends = events.part(0, taken), id_bytes[:taken], ends[:taken]
        first, stop = self.size, self.size + taken
        for name, column in events.columns.items():
            self.columns[name][first:stop] = column
        self.columns["start"][first] = len(self.payload)
        self.columns["start"][first + 1 : stop] = ends[:-1]
        self.columns["id_bytes"][first:stop] = id_bytes
        self.payload += b"".join(chain.from_iterable(zip(*events[:3], strict=True)))
        self.oldest = min(self.oldest, float(events.columns["time"].min()))
        self.size = stop
        self.version += 1
        if self.is_full:
            self._shrink()
        return taken

    def _shrink(self) -> None:
        """Give back what columns do not need."""
        self.columns = {name: column[: self.size].copy() for name, column in self.columns.items()}

    def alive(self, earliest: float, least: int) -> npt.NDArray[np.bool_]:
        """Which of its events still wait; see `Watermark`."""
        if self._all_wait(earliest, least):
            return np.ones(self.size, dtype=np.bool_)
        time, place = self.columns["time"][: self.size], self.columns["place"][: self.size]
        return (time >= earliest) & (place >= least)

    def n_alive(self, earliest: float, least: int) -> int:
        """How many these are."""
        return self.size if self._all_wait(earliest, least) else int(self.alive(earliest, least).sum())

    def _all_wait(self, earliest: float, least: int) -> bool:
        return self.oldest >= earliest and int(self.columns["place"][0]) >= least

    def id(self, place: int) -> bytes:
        """The id of one event."""
        start = int(self.columns["start"][place])
        return bytes(self.payload[start : start + int(self.columns["id_bytes"][place])])

    def ids(self) -> list[bytes]:
        """Those of all."""
        starts = self.columns["start"][: self.size].tolist()
        lengths = self.columns["id_bytes"][: self.size].tolist()
        payload = bytes(self.payload)
        return [payload[start : start + n] for start, n in zip(starts, lengths, strict=True)]

    def events(self, places: npt.NDArray[np.int64]) -> tuple[list[dict[str, Any]], list[float | None]]:
        """The attributes of some events, and their times."""
        starts, stops, known = self._extents(places)
        begins = (starts + self.columns["id_bytes"][places]).tolist()
        ends = (stops - _probability_bytes(known)).tolist()
        payload, decode = memoryview(self.payload), _X.decode
        xs = [decode(payload[begin:end]) for begin, end in zip(begins, ends, strict=True)]
        ts = self.columns["ts"][places]
        if np.isnan(ts).any():
            return xs, [None if math.isnan(t) else t for t in ts.tolist()]
        return xs, ts.tolist()

    def served(self, places: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.float64]:
        """What was served of events, shape (n, classes), 0 beyond those known; see `kept_probabilities`."""
        _, stops, known = self._extents(places)
        rows = np.zeros((places.size, classes))
        payload = np.frombuffer(self.payload, dtype=np.uint8)
        for number in np.unique(known).tolist():
            same = np.flatnonzero(known == number)
            length = int(_probability_bytes(np.array(number)))
            kept = payload[stops[same, np.newaxis] - length + np.arange(length)]
            rows[same, :number] = restored(kept, number)
        return rows

    def sizes(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Bytes of the ids, attributes and probabilities of events."""
        starts, stops, _ = self._extents(places)
        return stops - starts

    def redact(self, places: npt.NDArray[np.int64]) -> None:
        """Overwrite what events were, but for their scores; they never wait again."""
        self.columns["time"][places] = np.nan  # before no time, and after none
        for begin, end in zip(*(edge.tolist() for edge in self._extents(places)[:2]), strict=True):
            self.payload[begin:end] = bytes(end - begin)
        self.oldest = math.nan
        self.columns["label"][places] = self.columns["source"][places] = NONE
        for place in places.tolist():
            self.said.pop(place, None)
        self.version += 1
        self.saved = SavedBlock()

    def _extents(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
        """Where the bytes of events begin and end, and how many classes were known."""
        start = self.columns["start"]
        following = np.minimum(places + 1, self.size - 1)
        stops = np.where(places + 1 < self.size, start[following], len(self.payload)).astype(np.int64)
        return start[places].astype(np.int64), stops, self.columns["known"][places].astype(np.int64)

    def _blobs(self, names: Iterable[str]) -> list[bytes]:
        return [self.columns[name][: self.size].tobytes() for name in names]

    def fixed_blob(self) -> bytes:
        """What never changes, once the chunk is full: columns, then payload."""
        return b"".join([*self._blobs(_FIXED), self.payload])

    def changing_blob(self) -> bytes:
        """What changes: columns, then what several sources say."""
        return b"".join([*self._blobs(_CHANGING), _encode(sorted(self.said.items())) if self.said else b""])

    @classmethod
    def from_blobs(cls, size: int, fixed: bytes, changing: bytes) -> LabelBlock:
        """The chunk that gave these. Raises SnapshotError, ValueError or msgspec.MsgspecError for others."""
        made = cls()
        made.size = size
        made.payload = bytearray(made._fill(_FIXED, fixed))
        rest = made._fill(_CHANGING, changing)
        if rest:
            pairs = msgspec.msgpack.decode(rest, type=list[tuple[int, tuple[SourceLabel, ...]]])
            made.said = dict(pairs)
        made._check()
        if made.is_full:
            made._shrink()
        made.oldest = float(made.columns["time"][:size].min())
        return made

    def check(self, classes: int, sources: int, partitions: int, delays: int) -> None:
        """Raise SnapshotError if a class, source, partition or bucket of delays is not one of so many."""
        numbers = {
            "label": (NONE, classes - 1),
            "source": (SEVERAL, sources - 1),
            "partition": (0, max(0, partitions - 1)),
            "offset": (0, MOST),
            "delay": (NONE, delays - 1),
            "score": (NONE, MOST),
            "pruned": (0, MOST),
        }
        checked(
            {name: self.columns[name][: self.size] for name in numbers},
            {
                name: whole("events", low=low, high=high, dtype=_CHANGING[name])
                for name, (low, high) in numbers.items()
            },
        )
        weight = self.columns["weight"][: self.size]
        reject("weight", ~((weight >= 0.0) & (weight <= HEAVIEST)), "it is no weight")
        reject("known", self.columns["known"][: self.size] > classes, f"there are {classes} classes")

    def _check(self) -> None:
        n = self.size
        starts = np.append(self.columns["start"][:n], len(self.payload)).astype(np.int64)
        known = self.columns["known"][:n].astype(np.int64)
        least = self.columns["id_bytes"][:n] + _probability_bytes(known)
        if starts[:1].any() or (np.diff(starts) < least).any():
            raise SnapshotError("events that wait for labels: their bytes do not lie one after the other")
        several = np.flatnonzero(self.columns["source"][:n] == SEVERAL).tolist()
        if any(not 0 <= place < n for place in self.said) or not self.said.keys() >= set(several):
            raise SnapshotError("events that wait for labels: something is said of one that is not there")
        self.events(np.flatnonzero(~np.isnan(self.columns["time"][:n])))  # those that are blank say nothing

    def _fill(self, names: Iterable[str], blob: bytes) -> bytes:
        """Write the columns that a blob begins with; what is left of it."""
        at = 0
        for name in names:
            column = self.columns[name]
            length = column.itemsize * self.size
            if len(blob) < at + length:
                raise SnapshotError(f"events that wait for labels: column {name} is cut short")
            column[: self.size] = np.frombuffer(blob, column.dtype, self.size, at)
            at += length
        return blob[at:]


def _probability_bytes(known: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.where(known <= _ALL, 8 * known, 12 * _TOP)


def kept_probabilities(rows: npt.NDArray[np.float64], known: npt.NDArray[np.int64]) -> list[bytes]:
    """What is kept of each row of probabilities, of its known classes.

    All, or beyond 16 the eight greatest with their numbers: what the others have together is shared out among
    them evenly when a prediction is scored.
    """
    if rows.shape[1] <= _ALL:
        kept, width = rows.tobytes(), 8 * rows.shape[1]
        return [kept[i * width : i * width + 8 * k] for i, k in enumerate(known.tolist())]
    return [_kept(row[:k]) for row, k in zip(rows, known.tolist(), strict=True)]


def _kept(row: npt.NDArray[np.float64]) -> bytes:
    if row.size <= _ALL:
        return row.tobytes()
    top = np.argsort(-row, kind="stable")[:_TOP]
    return top.astype("<u4").tobytes() + row[top].tobytes()


def restored(kept: npt.NDArray[np.uint8], known: int) -> npt.NDArray[np.float64]:
    """The probabilities by which n predictions are scored, shape (n, known), of what was kept: (n, bytes)."""
    if known <= _ALL:
        return kept.view("<f8")
    n = np.arange(len(kept))[:, np.newaxis]
    top, greatest = kept[:, : 4 * _TOP].copy().view("<u4"), kept[:, 4 * _TOP :].copy().view("<f8")
    rest = np.maximum(0.0, 1.0 - np.cumsum(greatest, axis=1)[:, -1:])
    rows = np.repeat(rest / (known - _TOP), known, axis=1)
    rows[n, top] = greatest
    return rows
