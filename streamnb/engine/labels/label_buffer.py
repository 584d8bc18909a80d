"""Buffer of all events that wait for a label, indexed by event id.

Events lie in blocks in the order of the stream, with consecutive numbers. Block boundaries depend on the
events alone, so equal streams have equal blocks. When a block's memory is freed is not observable:
`Watermark` alone decides if an event still waits.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from streamnb.engine.labels.label_block import DTYPES, FULL, NONE, LabelBlock, SavedBlock, WaitingEvents
from streamnb.engine.labels.watermark import Watermark
from streamnb.errors import SnapshotError
from streamnb.features.tokenizer import TokenBuffer
from streamnb.features.vocabulary import Vocabulary
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.type_aliases import Array, Codes, Flags

ABSENT = -1
"""Number of an event that does not wait."""
_MOST_DEAD = 2  # ids of expired events for each waiting one


class _Ids:
    """Index from ids to their newest event, derived from the blocks."""

    def __init__(self) -> None:
        self._vocabulary = Vocabulary()
        self._newest = np.zeros(0, dtype=np.int64)

    @property
    def n_bytes(self) -> int:
        vocabulary = self._vocabulary
        arrays = vocabulary.slots, vocabulary.cells, vocabulary.arena, vocabulary.groups, self._newest
        return sum(array.nbytes for array in arrays)

    @property
    def size(self) -> int:
        return self._vocabulary.size

    def add(self, ids: Sequence[bytes], first: int) -> None:
        rows = self._rows(ids, adds=True)
        if self.size > self._newest.size:
            self._newest = np.pad(self._newest, (0, self.size + self.size // 2 - self._newest.size))
        self._newest[rows] = np.arange(first, first + len(ids))  # the last of equal ids wins

    def find(self, ids: Sequence[bytes]) -> Ints:
        """Return the newest event of each id, or `ABSENT`."""
        if not self.size:
            return np.full(len(ids), ABSENT)
        rows = self._rows(ids, adds=False)
        return np.where(rows >= 0, self._newest[np.maximum(rows, 0)], ABSENT)

    def drop(self, before: int) -> None:
        """Remove the ids of events with smaller numbers."""
        self._newest = self._newest[: self.size]
        stays = self._newest >= before
        self._newest = self._newest[stays]
        self._vocabulary.keep(stays)
        self._vocabulary.compact(self.size)

    def _rows(self, ids: Sequence[bytes], *, adds: bool) -> Codes:
        one_group = np.zeros(len(ids), dtype=np.int32)
        whole = np.ones(len(ids), dtype=np.bool_)
        tokens = TokenBuffer(list(ids), whole, one_group, self._vocabulary.secret)
        return self._vocabulary.rows(tokens, one_group, whole if adds else np.zeros_like(whole))


class _CopiedRows:
    """Mutable data of a block that is not stored yet."""

    def __init__(self, first: int, chunk: LabelBlock, held: Container[str]) -> None:
        saved = chunk.saved
        self.first, self.chunk, self.size, self.version = first, chunk, chunk.size, chunk.version
        self.is_new, self.is_full = saved.fixed not in held, chunk.is_full
        self.fixed = None if chunk.is_full else chunk.fixed_blob()  # a full block is immutable here
        is_same = saved.version == chunk.version and saved.changing in held
        self.changing = None if is_same else chunk.changing_blob()


class LabelBufferCopy:
    """Consistent copy of the blocks, hashed in slices while the stream continues.

    Args:
        chunks: number of the first event -> block; blocks with a waiting event.
        held: names of blobs that are stored already.

    Attributes:
        rows: first event, size and blob names of each block, complete once all is hashed.
    """

    def __init__(self, chunks: Mapping[int, LabelBlock], held: Container[str]) -> None:
        self._held = held
        self.rows: list[list[Any]] = []
        self.segments: dict[str, bytes] = {}
        self._left = [_CopiedRows(first, chunk, held) for first, chunk in reversed([*chunks.items()])]

    def advance(self, n_bytes: int) -> bool:
        """Hash about `n_bytes` more; return if all is hashed."""
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
            self.rows.append([copied.first, copied.size, fixed, changing])
        return not self._left

    def _keep(self, blob: bytes) -> str:
        name = hashlib.sha256(blob).hexdigest()
        if name not in self._held:
            self.segments[name] = blob
        return name


class DelayedLabelsCopy:
    """All state at one moment, copied in slices."""

    def __init__(
        self, meta: dict[str, Any], early: bytes, scores: SnapshotPart, pending: LabelBufferCopy
    ) -> None:
        name = hashlib.sha256(early).hexdigest()
        self._meta, self._scores, self._pending = {**meta, "early": name}, scores, pending
        self._early = {name: early}

    def advance(self, n_bytes: int) -> bool:
        """Copy about `n_bytes` more; return if the copy is complete."""
        return self._pending.advance(n_bytes)

    def parts(self) -> dict[str, SnapshotPart]:
        """Return the parts of a snapshot."""
        self._pending.advance(1 << 62)
        rows = self._pending.rows
        segments = [*self._early, *(name for _, _, fixed, changing in rows for name in (fixed, changing))]
        meta = {**self._meta, "chunks": rows, "segments": segments}
        return {"labels": SnapshotPart(meta, {}), "progressive": self._scores}

    def segments(self) -> dict[str, bytes]:
        """Return the segments that are not stored already."""
        self._pending.advance(1 << 62)
        return self._early | self._pending.segments


class LabelBuffer:
    """Waiting events.

    Attributes:
        next: number of the next event.
        horizon: the watermark that expires events.
        expired: called with each expired block, and the number of its first event.
    """

    def __init__(self, horizon: Watermark) -> None:
        self.horizon = horizon
        self.expired: Callable[[int, LabelBlock], None] | None = None
        self.next = 0
        self._chunks: dict[int, LabelBlock] = {}  # by first event number
        self._firsts: list[int] = []  # its keys, ascending
        self._ids = _Ids()

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes."""
        return self._ids.n_bytes + sum(chunk.n_bytes for chunk in self._chunks.values())

    @property
    def size(self) -> int:
        """Number of waiting events."""
        horizon = self.horizon
        return sum([one.n_alive(horizon.earliest, horizon.least) for one in self._chunks.values()])

    @property
    def oldest(self) -> int:
        """Number of the first event that may wait; the same after a restart."""
        return next((begin for begin, *_ in self.waiting(0)), self.next)

    def append(self, events: WaitingEvents) -> int:
        """Append waiting events; return the number of the first."""
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

    def find(self, ids: Sequence[bytes], earliest: Floats, least: Ints) -> Ints:
        """Return the newest waiting event of each id, or `ABSENT`; limits per id as in `Watermark`."""
        found = self._ids.find(ids)
        for chunk, places, of in self.parts(found):
            time, place = chunk.columns["time"][places], chunk.columns["place"][places]
            found[of[~((time >= earliest[of]) & (place >= least[of]))]] = ABSENT  # a time may be NaN
        return found

    def forget(self, numbers: Ints, least: int) -> None:
        """Replace events with fewer than `least` bytes before them by `ABSENT`, in place."""
        for chunk, places, of in self.parts(numbers):
            numbers[of[chunk.columns["place"][places] < least]] = ABSENT

    def parts(self, numbers: Ints) -> Iterator[tuple[LabelBlock, Ints, Ints]]:
        """Yield blocks, with indexes in the block and in `numbers`; set missing events to `ABSENT`."""
        owners = np.searchsorted(self._firsts, numbers, side="right") - 1
        is_one = owners.size and owners[0] == owners.min() == owners.max()
        for owner in owners[:1].tolist() if is_one else np.unique(owners).tolist():
            of = np.flatnonzero(owners == owner)
            if owner < 0:
                numbers[of] = ABSENT
            else:
                first = self._firsts[owner]
                yield self._chunks[first], numbers[of] - first, of

    def column(self, name: str, numbers: Ints) -> Array:
        """Return one column of waiting events."""
        found: Array = np.zeros(numbers.size, dtype=DTYPES[name])
        for chunk, places, of in self.parts(numbers):
            found[of] = chunk.columns[name][places]
        return found

    def write(self, numbers: Ints, **columns: Any) -> None:
        """Set columns of waiting events, each to an array or a scalar."""
        given = {name: np.broadcast_to(values, numbers.shape) for name, values in columns.items()}
        for chunk, places, of in self.parts(numbers):
            chunk.version += 1
            for name, values in given.items():
                chunk.columns[name][places] = values[of]

    def events(self, numbers: Ints) -> tuple[list[dict[str, Any]], list[float | None]]:
        """Return attributes and times of events."""
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

    def sizes(self, numbers: Ints) -> Ints:
        """Return the bytes of ids, attributes and probabilities of events."""
        found = np.zeros(numbers.size, dtype=np.int64)
        for chunk, places, of in self.parts(numbers):
            found[of] = chunk.sizes(places)
        return found

    def served(self, numbers: Ints, classes: int) -> Floats:
        """Return served probabilities, shape (n, classes)."""
        rows = np.zeros((numbers.size, classes))
        for chunk, places, of in self.parts(numbers):
            rows[of] = chunk.served(places, classes)
        return rows

    def blocks(self) -> dict[int, LabelBlock]:
        """Return all blocks by the number of their first event."""
        return dict(self._chunks)

    def redact(self, numbers: Ints) -> None:
        """Overwrite events, which wait no longer."""
        numbers = numbers[(numbers >= 0) & (numbers < self.next)]
        for chunk, places, _ in self.parts(numbers):
            chunk.redact(places)

    def at(self, number: int) -> tuple[LabelBlock, int]:
        """Return the block of a waiting event, and its index there."""
        first = self._firsts[bisect_right(self._firsts, number) - 1]
        return self._chunks[first], number - first

    def drop(self) -> None:
        """Free the leading blocks without a waiting event."""
        horizon, gone = self.horizon, 0
        for first in self._firsts:
            chunk = self._chunks[first]
            if not chunk.is_full or chunk.alive(horizon.earliest, horizon.least).any():
                break
            if self.expired is not None:
                self.expired(first, chunk)
            del self._chunks[first]
            gone += 1
        del self._firsts[:gone]
        if self._firsts and self._ids.size > FULL + _MOST_DEAD * (self.next - self._firsts[0]):
            self._ids.drop(self._firsts[0])

    def waiting(self, first: int) -> Iterator[tuple[int, LabelBlock, Ints]]:
        """Yield the first number and the indexes of waiting events of each block, from `first` on."""
        for begin, chunk, mask in self._alive():
            places = np.flatnonzero(mask)
            places = places[places + begin >= first]
            if places.size:
                yield begin, chunk, places

    def newest_unlabelled(self, most: int) -> Ints:
        """Return the newest waiting events without a score, at most `most`, oldest first."""
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
        """Return a consistent copy; blobs in `held` are stored already."""
        # The open block is kept even if no event waits: a restored buffer continues to fill it.
        kept = {first: chunk for first, chunk, mask in self._alive() if mask.any() or not chunk.is_full}
        return LabelBufferCopy(kept, held)

    def load(self, rows: Sequence[Sequence[Any]], segments: Mapping[str, bytes], following: int) -> None:
        """Restore from the rows of a copy; raise SnapshotError if they are invalid."""
        self._chunks, self._ids, self.next = {}, _Ids(), following
        end = 0
        for first, size, fixed, changing in rows:
            try:
                chunk = LabelBlock.from_blobs(size, segments[fixed], segments[changing])
            except KeyError as error:
                raise SnapshotError(f"events that wait for labels: segment {error} is not there") from error
            except (ValueError, msgspec.MsgspecError) as error:
                raise SnapshotError(f"events that wait for labels, from number {first}: damaged") from error
            if not end <= first <= following - size:
                raise SnapshotError(f"events that wait for labels: {size} from number {first}, out of order")
            end = first + size
            chunk.saved = SavedBlock(fixed if chunk.is_full else "", changing, chunk.version)
            self._chunks[first] = chunk
            self._ids.add(chunk.ids(), first)
        self._firsts = list(self._chunks)
        if self._firsts and not chunk.is_full and end != following:
            raise SnapshotError(f"events that wait for labels: {following} is next, after {end - 1}")

    def _alive(self) -> Iterator[tuple[int, LabelBlock, Flags]]:
        for first, chunk in self._chunks.items():
            yield first, chunk, chunk.alive(self.horizon.earliest, self.horizon.least)
