"""Columns of some thousand waiting events: served predictions and source labels.

Immutable and mutable columns are stored separately, so that a snapshot writes only what changed: see
`fixed_blob` and `changing_blob`.
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
from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.example_weights import HEAVIEST
from streamnb.values.state_validation import MOST, checked, reject, whole
from streamnb.values.type_aliases import Array, Flags

FULL = 4096
"""Maximum number of events in a block."""
_FULL_BYTES = 1 << 20  # of ids, attributes and probabilities; a block beyond is full
NONE, SEVERAL = -1, -2
_ALL, _TOP = 16, 8  # up to 16 classes keep all probabilities, else the 8 largest
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
_INITIALLY_NONE = {"label", "source", "score", "delay"}
DTYPES = {**_FIXED, **_CHANGING}
"""NumPy type of each column."""
_X = msgspec.msgpack.Decoder(dict[str, str | bool | float])
_encode = msgspec.msgpack.encode


class WaitingEvents(NamedTuple):
    """n events that begin to wait.

    Attributes:
        ids: UTF-8.
        xs: attributes at prediction time, as msgpack.
        probabilities: their predictions, from `kept_probabilities`.
        columns: name -> float64[n] or int64[n]: ts, the event time, or NaN; time, the log timestamp; place,
            bytes of all events before; age, events the model had learned before; known, classes it knew.
    """

    ids: Sequence[bytes]
    xs: Sequence[bytes]
    probabilities: Sequence[bytes]
    columns: Mapping[str, Array]

    def part(self, first: int, stop: int) -> WaitingEvents:
        """Return events `first` up to, but not including, `stop`."""
        columns = {name: column[first:stop] for name, column in self.columns.items()}
        return WaitingEvents(
            self.ids[first:stop], self.xs[first:stop], self.probabilities[first:stop], columns
        )


def lengths(values: Sequence[bytes]) -> Ints:
    """Return the length of each value, int64[n]."""
    return np.fromiter(map(len, values), dtype=np.int64, count=len(values))


class SavedBlock(NamedTuple):
    """Names of the blobs of a block in the last snapshot, and its version then; an open block has none."""

    fixed: str = ""
    changing: str = ""
    version: int = -1


class LabelBlock:
    """Up to `FULL` waiting events.

    Attributes:
        size: number of events.
        columns: name -> array. Immutable: the columns of `WaitingEvents`, and start, the offset of the
            event's bytes in `payload`. Mutable: label and weight, the resolved label as class number or
            `NONE`; source and said_at, the source number, `NONE` or `SEVERAL`, and the time of its label;
            partition and offset of the label record; score, the number in the window of scores, or `NONE`;
            delay, the delay bucket of the first label, or `NONE`; pruned, the model's number of prunings when
            it learned the event.
        oldest: minimum log timestamp.
        said: index -> source labels, of events with several sources.
        version: increases with every change.
        saved: names of its blobs in the last snapshot.
    """

    def __init__(self) -> None:
        self.size = 0
        first = {name: NONE if name in _INITIALLY_NONE else 0 for name in DTYPES}
        self.columns = {name: np.full(FULL, first[name], dtype) for name, dtype in DTYPES.items()}
        self.payload = bytearray()
        self.oldest = math.inf
        self.said: dict[int, tuple[SourceLabel, ...]] = {}
        self.version = 0
        self.saved = SavedBlock()

    @property
    def is_full(self) -> bool:
        """True if no further event can be appended."""
        return self.size == FULL or len(self.payload) >= _FULL_BYTES

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes."""
        columns = sum(column.nbytes for column in self.columns.values())
        return columns + len(self.payload) + 300 * len(self.said)

    def append(self, events: WaitingEvents) -> int:
        """Append events until the block is full; return the number appended. Must not be full before."""
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
        self.columns = {name: column[: self.size].copy() for name, column in self.columns.items()}

    def alive(self, earliest: float, least: int) -> Flags:
        """Return the mask of events that still wait; see `Watermark`."""
        if self._all_wait(earliest, least):
            return np.ones(self.size, dtype=np.bool_)
        time, place = self.columns["time"][: self.size], self.columns["place"][: self.size]
        return (time >= earliest) & (place >= least)

    def n_alive(self, earliest: float, least: int) -> int:
        """Return the number of events that still wait."""
        return self.size if self._all_wait(earliest, least) else int(self.alive(earliest, least).sum())

    def _all_wait(self, earliest: float, least: int) -> bool:
        return self.oldest >= earliest and int(self.columns["place"][0]) >= least

    def id(self, place: int) -> bytes:
        """Return the id of one event."""
        start = int(self.columns["start"][place])
        return bytes(self.payload[start : start + int(self.columns["id_bytes"][place])])

    def ids(self) -> list[bytes]:
        """Return the ids of all events."""
        starts = self.columns["start"][: self.size].tolist()
        lengths = self.columns["id_bytes"][: self.size].tolist()
        payload = bytes(self.payload)
        return [payload[start : start + n] for start, n in zip(starts, lengths, strict=True)]

    def events(self, places: Ints) -> tuple[list[dict[str, Any]], list[float | None]]:
        """Return attributes and times of events."""
        starts, stops, known = self._extents(places)
        begins = (starts + self.columns["id_bytes"][places]).tolist()
        ends = (stops - _probability_bytes(known)).tolist()
        payload, decode = memoryview(self.payload), _X.decode
        xs = [decode(payload[begin:end]) for begin, end in zip(begins, ends, strict=True)]
        ts = self.columns["ts"][places]
        if np.isnan(ts).any():
            return xs, [None if math.isnan(t) else t for t in ts.tolist()]
        return xs, ts.tolist()

    def served(self, places: Ints, classes: int) -> Floats:
        """Return served probabilities, shape (n, classes), 0 for later classes; see `kept_probabilities`."""
        _, stops, known = self._extents(places)
        rows = np.zeros((places.size, classes))
        payload = np.frombuffer(self.payload, dtype=np.uint8)
        for number in np.unique(known).tolist():
            same = np.flatnonzero(known == number)
            length = int(_probability_bytes(np.array(number)))
            kept = payload[stops[same, np.newaxis] - length + np.arange(length)]
            rows[same, :number] = restored(kept, number)
        return rows

    def sizes(self, places: Ints) -> Ints:
        """Return the bytes of ids, attributes and probabilities of events."""
        starts, stops, _ = self._extents(places)
        return stops - starts

    def redact(self, places: Ints) -> None:
        """Overwrite events except their scores; they never wait again."""
        self.columns["time"][places] = np.nan  # NaN fails every comparison
        for begin, end in zip(*(edge.tolist() for edge in self._extents(places)[:2]), strict=True):
            self.payload[begin:end] = bytes(end - begin)
        self.oldest = math.nan
        self.columns["label"][places] = self.columns["source"][places] = NONE
        for place in places.tolist():
            self.said.pop(place, None)
        self.version += 1
        self.saved = SavedBlock()

    def _extents(self, places: Ints) -> tuple[Ints, ...]:
        """Return start and end of the events' bytes, and their number of known classes."""
        start = self.columns["start"]
        following = np.minimum(places + 1, self.size - 1)
        stops = np.where(places + 1 < self.size, start[following], len(self.payload)).astype(np.int64)
        return start[places].astype(np.int64), stops, self.columns["known"][places].astype(np.int64)

    def _blobs(self, names: Iterable[str]) -> list[bytes]:
        return [self.columns[name][: self.size].tobytes() for name in names]

    def fixed_blob(self) -> bytes:
        """Return the immutable columns and the payload; constant once the block is full."""
        return b"".join([*self._blobs(_FIXED), self.payload])

    def changing_blob(self) -> bytes:
        """Return the mutable columns and the labels of events with several sources."""
        return b"".join([*self._blobs(_CHANGING), _encode(sorted(self.said.items())) if self.said else b""])

    @classmethod
    def from_blobs(cls, size: int, fixed: bytes, changing: bytes) -> LabelBlock:
        """Restore from both blobs; raise SnapshotError, ValueError or msgspec.MsgspecError."""
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
        """Raise SnapshotError for a class, source, partition or delay bucket beyond these numbers."""
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
        reject("weight", ~((weight >= 0.0) & (weight <= HEAVIEST)), f"a weight is in [0, {HEAVIEST}]")
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
            raise SnapshotError("events that wait for labels: source labels of an event outside the block")
        self.events(np.flatnonzero(~np.isnan(self.columns["time"][:n])))  # redacted events have no bytes

    def _fill(self, names: Iterable[str], blob: bytes) -> bytes:
        """Fill columns from the beginning of a blob; return the rest of it."""
        at = 0
        for name in names:
            column = self.columns[name]
            length = column.itemsize * self.size
            if len(blob) < at + length:
                raise SnapshotError(f"events that wait for labels: column {name} is cut short")
            column[: self.size] = np.frombuffer(blob, column.dtype, self.size, at)
            at += length
        return blob[at:]


def _probability_bytes(known: Ints) -> Ints:
    return np.where(known <= _ALL, 8 * known, 12 * _TOP)


def kept_probabilities(rows: Floats, known: Ints) -> list[bytes]:
    """Encode each row of probabilities of its known classes.

    Beyond 16 classes only the eight largest are kept, with their class numbers. When a prediction is scored,
    the remaining probability is divided evenly among the remaining classes.
    """
    if rows.shape[1] <= _ALL:
        kept, width = rows.tobytes(), 8 * rows.shape[1]
        return [kept[i * width : i * width + 8 * k] for i, k in enumerate(known.tolist())]
    return [_kept(row[:k]) for row, k in zip(rows, known.tolist(), strict=True)]


def _kept(row: Floats) -> bytes:
    if row.size <= _ALL:
        return row.tobytes()
    top = np.argsort(-row, kind="stable")[:_TOP]
    return top.astype("<u4").tobytes() + row[top].tobytes()


def restored(kept: npt.NDArray[np.uint8], known: int) -> Floats:
    """Decode the bytes of n predictions, shape (n, bytes), to probabilities, shape (n, known)."""
    if known <= _ALL:
        return kept.view("<f8")
    n = np.arange(len(kept))[:, np.newaxis]
    top, greatest = kept[:, : 4 * _TOP].copy().view("<u4"), kept[:, 4 * _TOP :].copy().view("<f8")
    rest = np.maximum(0.0, 1.0 - np.cumsum(greatest, axis=1)[:, -1:])
    rows = np.repeat(rest / (known - _TOP), known, axis=1)
    rows[n, top] = greatest
    return rows
