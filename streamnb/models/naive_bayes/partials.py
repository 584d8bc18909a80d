"""What some events teach, learned apart from a model, in parallel, and added to it afterwards.

A partial is a model that has learned these events alone; beside it stands how well the model that made it had
predicted them, and where in a log they are. Counts and scores are sums of integers: however a stream is cut,
and in whatever order the parts come, they are those of the whole, bit for bit. Moments are merged by Chan's
formula, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.scoring.prequential_scores import score_each
from streamnb.values.hooks import Hooks
from streamnb.values.state_validation import MOST, checked, reject, state_errors, whole
from streamnb.values.type_aliases import Array, State

_LOSS_UNIT = 1 << 30  # losses are summed in 2^-30 nats
_MOST_COUNTS = 1 << 27  # rows x classes: a gibibyte
_SPARSE = "table_lengths", "table_classes", "table_weights"


class SourceRange(NamedTuple):
    """Records of a partition: from the offset `first` up to the one before `past`."""

    partition: str
    first: int
    past: int


class Tested(NamedTuple):
    """How labelled events had been predicted: how many, how many right, and their losses in 2^-30 nats."""

    events: int
    right: int
    loss: int

    @classmethod
    def of_predictions(cls, probabilities: Floats, truths: Ints) -> Tested:
        """Of n events, as `ProgressiveValidation` scores each."""
        labels, terms = score_each(probabilities, truths)
        losses = np.rint(terms[:, 0] * _LOSS_UNIT).astype(np.int64)
        return cls(truths.size, int(np.count_nonzero(labels[:, 0] == labels[:, 1])), int(losses.sum()))


class Partial(NamedTuple):
    """What some events teach a model, and how it had predicted them: `NaiveBayes.partial` makes it.

    Attributes:
        model: a `NaiveBayes`, or variant of it, that has learned these events alone.
        tested: how those with a label had been predicted, in integers that may be added.
        ranges: where the events are in a log, by partition; empty where that was not said.
    """

    model: Any
    tested: Tested
    ranges: tuple[SourceRange, ...] = ()

    @property
    def accuracy(self) -> float:
        """The share of labelled events that had been predicted right; 0 of none."""
        return self.tested.right / max(1, self.tested.events)

    @property
    def log_loss(self) -> float:
        """The mean of -ln P(truth), nats; 0 of no event."""
        return self.tested.loss / _LOSS_UNIT / max(1, self.tested.events)

    def to_bytes(self) -> bytes:
        """Canonical: equal partials are equal bytes, whatever machine made them; a snapshot without a place.

        Raises SnapshotError for what has no form in a file (see `save`), and more than 2^27 words x classes.
        """
        return Hooks.model_files().partial_bytes(self)

    @staticmethod
    def from_bytes(encoded: bytes) -> Partial:
        """The partial of `to_bytes`. Raises SnapshotError for bytes that are damaged, or of no partial."""
        partial: Partial = Hooks.model_files().partial_of(encoded)
        return partial

    def state(self) -> State:
        """As a model's `state`, with those counts alone that are not zero."""
        meta, arrays = self.model.state()
        table = arrays["table"]
        check_size(*table.shape)
        rows, classes = np.nonzero(table)
        sparse = np.bincount(rows, minlength=len(table)), classes, table[rows, classes]
        others = {name: array for name, array in arrays.items() if name != "table"}
        told = {"tested": list(self.tested), "ranges": list(map(list, self.ranges))}
        narrow = (array.astype(_narrowest(array)) for array in sparse)
        return {**meta, **told}, {**others, **dict(zip(_SPARSE, narrow, strict=True))}

    @classmethod
    @state_errors("a partial", ValueError)
    def from_state(cls, model: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Partial:
        """The partial of a `state`, by a model made like the one it had, which takes it over.

        Raises SnapshotError where it is none.
        """
        tested = Tested(*meta["tested"])
        if {*map(type, tested)} != {int} or not 0 <= tested.right <= tested.events <= MOST > tested.loss >= 0:
            raise SnapshotError(f"tested: {tested} is no number of events, those right, and their loss")
        ranges = joined(SourceRange(*given) for given in meta["ranges"])
        if [*map(list, ranges)] != meta["ranges"]:
            raise SnapshotError("ranges: not in order, or not joined")
        model.load_state(meta, {**arrays, "table": _dense(len(meta["classes"]), arrays)})
        return cls(model, tested, ranges)


def merge_all(partials: Iterable[Partial]) -> Partial:
    """The partial of all their events; the same, to the byte, in whatever order they come.

    They are merged in the order of their ranges, and those without any in that of their bytes.

    Raises ValueError, which names partition and offsets, where ranges overlap or leave a gap; for models of
    different classes or parameters; and where there is no partial.

    Examples:
        >>> from streamnb import MultinomialNB, merge_all
        >>> model = MultinomialNB()
        >>> _, first = model.partial(["win cash"], ["spam"], ranges=[("mails-0", 0, 1)])
        >>> _, second = model.partial(["lunch", "noon"], ["ham", "ham"], ranges=[("mails-0", 1, 3)])
        >>> whole = merge_all([second, first])
        >>> whole.ranges, model.apply(whole).class_weights
        ((SourceRange(partition='mails-0', first=0, past=3),), {'spam': 1.0, 'ham': 2.0})
    """
    in_order = sorted(partials, key=lambda one: (one.ranges, b"" if one.ranges else one.to_bytes()))
    if not in_order:
        raise ValueError("there is no partial to merge: give one at least")
    ranges = joined(one for partial in in_order for one in partial.ranges)
    model = in_order[0].model.clone()
    for partial in in_order:
        model.merge(partial.model)
    tested = Tested(*(sum(column) for column in zip(*(one.tested for one in in_order), strict=True)))
    return Partial(model, tested, ranges)


def joined(ranges: Iterable[tuple[str, int, int]]) -> tuple[SourceRange, ...]:
    """Ranges in order, one for each partition. Raises ValueError for what is none, an overlap or a gap."""
    given, found = list(ranges), list[SourceRange]()
    for partition, first, past in given:
        if type(partition) is not str or {type(first), type(past)} != {int} or not 0 <= first < past <= MOST:
            raise ValueError(
                f"a range is a partition's name, its first offset and the one past its last, not "
                f"{(partition, first, past)!r}"
            )
    for partition, first, past in sorted(given):
        begin = first
        if found and found[-1].partition == partition:
            _, begin, end = found.pop()
            if end != first:
                low, past_them = sorted((first, min(past, end)))
                wrong = "there twice: leave one out" if end > first else "missing: merge them, too"
                raise ValueError(f"partition {partition!r}: offsets {low} to {past_them - 1} are {wrong}")
        found.append(SourceRange(partition, begin, past))
    return tuple(found)


def check_size(rows: int, classes: int) -> None:
    """Raise SnapshotError for a table that a few bytes of a file may ask for, and no memory has."""
    if rows * classes > _MOST_COUNTS:
        raise SnapshotError(
            f"a partial of {rows:,} words and values x {classes:,} classes is too large for bytes "
            f"(2^27 counts): make several of fewer events"
        )


def _narrowest(array: Array) -> npt.DTypeLike:
    """The smallest type that holds these numbers, none of them below zero."""
    return np.min_scalar_type(int(array.max(initial=0)))


def _dense(classes: int, arrays: Mapping[str, Array]) -> Ints:
    """The table, int64[rows, K], of the counts that are not zero. Raises SnapshotError."""
    rows = arrays["groups"].size
    check_size(rows, classes)
    lows, highs, sizes = (0, 0, 1), (classes, classes - 1, MOST), ("rows", "counts", "counts")
    expected = {
        name: whole(size, low=low, high=high, dtype=_narrowest(arrays[name]))
        for name, low, high, size in zip(_SPARSE, lows, highs, sizes, strict=True)
    }
    found = checked({name: arrays[name] for name in _SPARSE}, expected, rows=rows)
    lengths, columns, weights = (found[name].astype(np.int64) for name in _SPARSE)
    reject(_SPARSE[0], lengths.sum() != columns.size, f"{columns.size} counts are not those of its rows")
    places = np.repeat(np.arange(rows) * classes, lengths) + columns
    reject(_SPARSE[1], np.diff(places) <= 0, "not in order")
    table = np.zeros((rows, classes), dtype=np.int64)
    table.reshape(-1)[places] = weights
    return table
