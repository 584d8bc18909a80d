"""All events that wait for their labels, found by their ids.

They lie in chunks in the order of the stream, numbered without end: where a chunk begins and ends depends on
the events alone, so that equal streams have equal chunks. When the memory of one is given back is up to this
class, and cannot be told from outside: whether an event still waits is decided by `Watermark`, each time.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streamnb.engine.labels.label_block import DTYPES, FULL, NONE, LabelBlock, SavedBlock, WaitingEvents
from streamnb.engine.labels.watermark import Watermark
from streamnb.errors import SnapshotError
from streamnb.features.tokenizer import TokenBuffer
from streamnb.features.vocabulary import Vocabulary

ABSENT = -1
"""In place of the number of an event that does not wait."""
_MOST_DEAD = 2  # ids that nobody asks for, for each that is waited for


class _Ids:
    """Ids and the newest event of each. It is no state: chunks have all that it holds."""

    def __init__(self) -> None:
        self._vocabulary = Vocabulary()
        self._newest = np.zeros(0, dtype=np.int64)

    @property
    def n_bytes(self) -> int:
        """Memory."""
        vocabulary = self._vocabulary
        arrays = vocabulary.slots, vocabulary.cells, vocabulary.arena, vocabulary.groups, self._newest
        return sum(array.nbytes for array in arrays)

    @property
    def size(self) -> int:
        """How many there are, of events that were dropped too."""
        return self._vocabulary.size

    def add(self, ids: Sequence[bytes], first: int) -> None:
        """Events from number `first` on have these ids."""
        rows = self._rows(ids, adds=True)
        if self.size > self._newest.size:
            self._newest = np.pad(self._newest, (0, self.size + self.size // 2 - self._newest.size))
        self._newest[rows] = np.arange(first, first + len(ids))  # the last of equal ones stays

    def find(self, ids: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """The newest event of each id, `ABSENT` where there is none."""
        if not self.size:
            return np.full(len(ids), ABSENT)
        rows = self._rows(ids, adds=False)
        return np.where(rows >= 0, self._newest[np.maximum(rows, 0)], ABSENT)

    def drop(self, before: int) -> None:
        """Forget the ids of events with smaller numbers."""
        self._newest = self._newest[: self.size]
        stays = self._newest >= before
        self._newest = self._newest[stays]
        self._vocabulary.keep(stays)
        self._vocabulary.compact(self.size)

    def _rows(self, ids: Sequence[bytes], *, adds: bool) -> npt.NDArray[np.int32]:
        one_group = np.zeros(len(ids), dtype=np.int32)
        whole = np.ones(len(ids), dtype=np.bool_)
        tokens = TokenBuffer(list(ids), whole, one_group, self._vocabulary.secret)
        return self._vocabulary.rows(tokens, one_group, whole if adds else np.zeros_like(whole))


class _CopiedRows:
    """What of a chunk changes from here on, and is not stored yet."""

    def __init__(self, first: int, chunk: LabelBlock, held: Container[str]) -> None:
        saved = chunk.saved
        self.first, self.chunk, self.size, self.version = first, chunk, chunk.size, chunk.version
        self.is_new, self.is_full = saved.fixed not in held, chunk.is_full
        self.fixed = None if chunk.is_full else chunk.fixed_blob()  # one that is full changes no more
        is_same = saved.version == chunk.version and saved.changing in held
        self.changing = None if is_same else chunk.changing_blob()


class LabelBufferCopy:
    """The chunks as they are at one moment, hashed in slices while the stream goes on.

    Args:
        chunks: number of the first event -> chunk, those with an event that still waits.
        held: names of blobs that are stored already.
    """

    def __init__(self, chunks: Mapping[int, LabelBlock], held: Container[str]) -> None:
        self._held = held
        self._rows: list[list[Any]] = []
        self.segments: dict[str, bytes] = {}
        self._left = [_CopiedRows(first, chunk, held) for first, chunk in reversed([*chunks.items()])]

    def advance(self, n_bytes: int) -> bool:
        """Hash about so many bytes more; whether that is all."""
        while self._left and n_bytes > 0:
            copied = self._left.pop()
            fixed, changing, _ = copied.chunk.saved
            if copied.is_new:
                blob = copied.chunk.fixed_blob() if copied.fixed is None else copied.fixed
                fixed = self._keep(blob)
                n_bytes -= len(blob)
            if copied.changing is not None:
                changing = self._keep(copied.changing)
                n_bytes -= len(copied.changing)
            copied.chunk.saved = SavedBlock(fixed if copied.is_full else "", changing, copied.version)
            self._rows.append([copied.first, copied.size, fixed, changing])
        return not self._left

    def rows(self) -> list[list[Any]]:
        """First event, size and the names of both blobs of each chunk, once all is hashed."""
        return self._rows

    def _keep(self, blob: bytes) -> str:
        name = hashlib.sha256(blob).hexdigest()
        if name not in self._held:
            self.segments[name] = blob
        return name


class LabelBuffer:
    """The events that wait.

    Attributes:
        next: number of the next event.
        horizon: until when an event waits.
    """

    def __init__(self, horizon: Watermark) -> None:
        self.horizon = horizon
        self.next = 0
        self._chunks: dict[int, LabelBlock] = {}  # by the number of the first event
        self._firsts: list[int] = []  # these, rising
        self._ids = _Ids()

    @property
    def n_bytes(self) -> int:
        """Memory of all, about."""
        return self._ids.n_bytes + sum(chunk.n_bytes for chunk in self._chunks.values())

    @property
    def size(self) -> int:
        """How many wait by now."""
        horizon = self.horizon
        return sum([one.n_alive(horizon.earliest, horizon.least) for one in self._chunks.values()])

    @property
    def oldest(self) -> int:
        """Number of an event: none before it waits. It is the same after a restart."""
        return next((begin for begin, *_ in self.waiting(0)), self.next)

    def append(self, events: WaitingEvents) -> int:
        """Let more events wait; the number of the first."""
        first = self.next
        self._ids.add(events.ids, first)
        done = 0
        while done < len(events.ids):
            if not self._firsts or self._chunks[self._firsts[-1]].is_full:
                self._firsts.append(self.next)
                self._chunks[self.next] = LabelBlock()
            taken = self._chunks[self._firsts[-1]].append(events.part(done, done + FULL))
            self.next += taken
            done += taken
        return first

    def find(
        self, ids: Sequence[bytes], earliest: npt.NDArray[np.float64], least: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The newest event of each id that waits, or `ABSENT`; limits as in `Watermark`, as of each id."""
        found = self._ids.find(ids)
        for chunk, places, of in self.parts(found):
            time, place = chunk.columns["time"][places], chunk.columns["place"][places]
            found[of[~((time >= earliest[of]) & (place >= least[of]))]] = ABSENT  # a time may be NaN
        return found

    def forget(self, numbers: npt.NDArray[np.int64], least: int) -> None:
        """Let those with fewer bytes before them be `ABSENT`."""
        for chunk, places, of in self.parts(numbers):
            numbers[of[chunk.columns["place"][places] < least]] = ABSENT

    def parts(
        self, numbers: npt.NDArray[np.int64]
    ) -> Iterator[tuple[LabelBlock, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """The chunks of some events: the places of those that are in it, and which of `numbers` these are.

        Those of chunks that were given back become `ABSENT`.
        """
        owners = np.searchsorted(self._firsts, numbers, side="right") - 1
        is_one = owners.size and owners[0] == owners.min() == owners.max()
        for owner in owners[:1].tolist() if is_one else np.unique(owners).tolist():
            of = np.flatnonzero(owners == owner)
            if owner < 0:
                numbers[of] = ABSENT
            else:
                first = self._firsts[owner]
                yield self._chunks[first], numbers[of] - first, of

    def column(self, name: str, numbers: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """One column of events that wait."""
        found: npt.NDArray[Any] = np.zeros(numbers.size, dtype=DTYPES[name])
        for chunk, places, of in self.parts(numbers):
            found[of] = chunk.columns[name][places]
        return found

    def write(self, numbers: npt.NDArray[np.int64], **columns: Any) -> None:
        """Change columns of events that wait, each to an array or to one value."""
        given = {name: np.broadcast_to(values, numbers.shape) for name, values in columns.items()}
        for chunk, places, of in self.parts(numbers):
            chunk.version += 1
            for name, values in given.items():
                chunk.columns[name][places] = values[of]

    def events(self, numbers: npt.NDArray[np.int64]) -> tuple[list[dict[str, Any]], list[float | None]]:
        """The attributes of events, and their times."""
        xs: list[dict[str, Any]] = []
        ts: list[float | None] = []
        order = [numbers[:0]]
        for chunk, places, of in self.parts(numbers):
            more = chunk.events(places)
            xs += more[0]
            ts += more[1]
            order.append(of)
        places = np.concatenate(order)
        if (np.diff(places) < 0).any():
            in_order = np.argsort(places).tolist()
            return [xs[i] for i in in_order], [ts[i] for i in in_order]
        return xs, ts

    def sizes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Bytes of the ids, attributes and probabilities of events."""
        found = np.zeros(numbers.size, dtype=np.int64)
        for chunk, places, of in self.parts(numbers):
            found[of] = chunk.sizes(places)
        return found

    def served(self, numbers: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.float64]:
        """What was served of events, shape (n, classes)."""
        rows = np.zeros((numbers.size, classes))
        for chunk, places, of in self.parts(numbers):
            rows[of] = chunk.served(places, classes)
        return rows

    def blocks(self) -> dict[int, LabelBlock]:
        """All of them, by the number of the first event."""
        return dict(self._chunks)

    def redact(self, numbers: npt.NDArray[np.int64]) -> None:
        """Forget events: what they were is overwritten, and they wait no longer."""
        numbers = numbers[(numbers >= 0) & (numbers < self.next)]
        for chunk, places, _ in self.parts(numbers):
            chunk.redact(places)

    def at(self, number: int) -> tuple[LabelBlock, int]:
        """The chunk of an event that waits, and its place there."""
        first = self._firsts[bisect_right(self._firsts, number) - 1]
        return self._chunks[first], number - first

    def drop(self) -> None:
        """Give back the memory of chunks of which no event waits any more."""
        horizon, gone = self.horizon, 0
        for first in self._firsts:
            chunk = self._chunks[first]
            if not chunk.is_full or chunk.alive(horizon.earliest, horizon.least).any():
                break
            del self._chunks[first]
            gone += 1
        del self._firsts[:gone]
        if self._firsts and self._ids.size > FULL + _MOST_DEAD * (self.next - self._firsts[0]):
            self._ids.drop(self._firsts[0])

    def waiting(self, first: int) -> Iterator[tuple[int, LabelBlock, npt.NDArray[np.int64]]]:
        """Of each chunk with events from number `first` on: where it begins, and the places of those."""
        for begin, chunk, mask in self._alive():
            places = np.flatnonzero(mask)
            places = places[places + begin >= first]
            if places.size:
                yield begin, chunk, places

    def newest_unlabelled(self, most: int) -> npt.NDArray[np.int64]:
        """The newest events that wait and were never judged, at most so many; the oldest first."""
        found, left = [], most
        for first in reversed(self._firsts):
            chunk = self._chunks[first]
            waits = chunk.alive(self.horizon.earliest, self.horizon.least)
            places = np.flatnonzero(waits & (chunk.columns["score"][: chunk.size] == NONE))[-left:]
            found.append(places + first)
            left -= places.size
            if not left:
                break
        return np.concatenate([np.zeros(0, dtype=np.int64), *found[::-1]])

    def copying(self, held: Container[str]) -> LabelBufferCopy:
        """All of it as it is now; blobs among `held` need not be stored again."""
        # The last one is there also where none waits: who goes on from the copy fills it, as this one does.
        kept = {first: chunk for first, chunk, mask in self._alive() if mask.any() or not chunk.is_full}
        return LabelBufferCopy(kept, held)

    def load(self, rows: Sequence[Sequence[Any]], segments: Mapping[str, bytes], following: int) -> None:
        """Go on from what a copy gave. Raises SnapshotError where it is none."""
        self._chunks, self._ids, self.next = {}, _Ids(), following
        end = 0
        for first, size, fixed, changing in rows:
            try:
                chunk = LabelBlock.from_blobs(size, segments[fixed], segments[changing])
            except KeyError as error:
                raise SnapshotError(f"events that wait for labels: segment {error} is not there") from error
            except (ValueError, msgspec.MsgspecError) as error:
                raise SnapshotError(f"events that wait for labels, from number {first}: {error!r}") from error
            if not end <= first <= following - size:
                raise SnapshotError(f"events that wait for labels: {size} from number {first}, out of order")
            end = first + size
            chunk.saved = SavedBlock(fixed if chunk.is_full else "", changing, chunk.version)
            self._chunks[first] = chunk
            self._ids.add(chunk.ids(), first)
        self._firsts = list(self._chunks)
        if self._firsts and not chunk.is_full and end != following:
            raise SnapshotError(
                f"events that wait for labels: the next is number {following}, after {end - 1}"
            )

    def _alive(self) -> Iterator[tuple[int, LabelBlock, npt.NDArray[np.bool_]]]:
        for first, chunk in self._chunks.items():
            yield first, chunk, chunk.alive(self.horizon.earliest, self.horizon.least)
