"""Partial aggregates: learned from some events in parallel, and added to a model afterwards.

A partial is a model that learned only these events, with the scores of its parent model on them and their
place in a log. Counts and scores are sums of integers, so partials merged in any order equal the whole, bit
for bit. Moments are merged by Chan's formula, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.features.encoded_batch import Encoded
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.scoring.prequential_scores import score_each
from streamnb.statistics.counts import add_rows
from streamnb.statistics.moments import merge_moments
from streamnb.values.example_weights import UNIT
from streamnb.values.hooks import Hooks
from streamnb.values.state_validation import MOST, checked, reject, state_errors, whole
from streamnb.values.type_aliases import Array, State

_LOSS_UNIT = 1 << 30  # losses are summed in 2^-30 nats
_MOST_COUNTS = 1 << 27  # rows x classes: a gibibyte
_SPARSE = "table_lengths", "table_classes", "table_weights"


class SourceRange(NamedTuple):
    """Records of a partition, from offset `first` up to but not including `past`."""

    partition: str
    first: int
    past: int


class Tested(NamedTuple):
    """Scores of predictions: labelled events, events predicted right, sum of losses (2^-30 nats)."""

    events: int
    right: int
    loss: int

    @classmethod
    def of_predictions(cls, probabilities: Floats, truths: Ints) -> Tested:
        """Score n predictions, each as `ProgressiveValidation` does."""
        labels, terms = score_each(probabilities, truths)
        losses = np.rint(terms[:, 0] * _LOSS_UNIT).astype(np.int64)
        return cls(truths.size, int(np.count_nonzero(labels[:, 0] == labels[:, 1])), int(losses.sum()))


class Partial(NamedTuple):
    """A model of some events only, with the scores of earlier predictions of them; see `NaiveBayes.partial`.

    Attributes:
        model: a `NaiveBayes`, or a variant, that has learned only these events.
        tested: additive integer scores of the labelled events, predicted before they were learned.
        ranges: offsets of the events by partition; empty if not given.
    """

    model: Any
    tested: Tested
    ranges: tuple[SourceRange, ...] = ()

    @property
    def accuracy(self) -> float:
        """Share of labelled events that were predicted right; 0 without any."""
        return self.tested.right / max(1, self.tested.events)

    @property
    def log_loss(self) -> float:
        """Mean of -ln P(truth) in nats; 0 without events."""
        return self.tested.loss / _LOSS_UNIT / max(1, self.tested.events)

    def to_bytes(self) -> bytes:
        """Return canonical bytes, equal for equal partials on every machine: a snapshot without positions.

        Raises SnapshotError for a model that cannot be saved (see `save`) or more than 2^27 words x classes.
        """
        return Hooks.model_files().partial_bytes(self)

    @staticmethod
    def from_bytes(encoded: bytes) -> Partial:
        """Return the partial of `to_bytes`. Raises SnapshotError for damaged or other bytes."""
        partial: Partial = Hooks.model_files().partial_of(encoded)
        return partial

    def state(self) -> State:
        """Return the model's `state` with a sparse table of counts."""
        meta, arrays = self.model.state()
        table = arrays["table"]
        check_size(*table.shape)
        rows, classes = np.nonzero(table)
        sparse = np.bincount(rows, minlength=len(table)), classes, table[rows, classes]
        others = {name: array for name, array in arrays.items() if name != "table"}
        scores = {"tested": list(self.tested), "ranges": list(map(list, self.ranges))}
        narrow = (array.astype(_narrowest(array)) for array in sparse)
        return {**meta, **scores}, {**others, **dict(zip(_SPARSE, narrow, strict=True))}

    @classmethod
    @state_errors("a partial", ValueError)
    def from_state(cls, model: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Partial:
        """Return the partial of a `state`, loaded into `model`, which has the same parameters.

        Raises SnapshotError for an invalid state.
        """
        tested = Tested(*meta["tested"])
        if {*map(type, tested)} != {int} or not 0 <= tested.right <= tested.events <= MOST > tested.loss >= 0:
            raise SnapshotError(
                f"tested: {tested} must be a number of events, how many were right, and their loss"
            )
        ranges = joined(SourceRange(*given) for given in meta["ranges"])
        if [*map(list, ranges)] != meta["ranges"]:
            raise SnapshotError("ranges: not in order, or not joined")
        model.load_state(meta, {**arrays, "table": _dense(len(meta["classes"]), arrays)})
        return cls(model, tested, ranges)


def merge_all(partials: Iterable[Partial]) -> Partial:
    """Return one partial of all the events, identical to the byte for any order of `partials`.

    Partials are merged in the order of their ranges; partials without ranges in the order of their bytes.
    Raises ValueError for ranges that overlap or leave a gap (with partition and offsets), for models of
    different classes or parameters, and without any partial.

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
        raise ValueError("no partial to merge: pass at least one")
    ranges = joined(one for partial in in_order for one in partial.ranges)
    model = in_order[0].model.clone()
    for partial in in_order:
        model.merge(partial.model)
    tested = Tested(*(sum(column) for column in zip(*(one.tested for one in in_order), strict=True)))
    return Partial(model, tested, ranges)


def joined(ranges: Iterable[tuple[str, int, int]]) -> tuple[SourceRange, ...]:
    """Join adjacent ranges, sorted. Raises ValueError if invalid, overlapping or with gaps."""
    given, found = list(ranges), list[SourceRange]()
    for partition, first, past in given:
        if type(partition) is not str or {type(first), type(past)} != {int} or not 0 <= first < past <= MOST:
            raise ValueError(
                f"a range is a partition's name, its first offset and its last plus 1, not "
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
    """Raise SnapshotError for a table too large for memory, which a few bytes of a file may claim."""
    if rows * classes > _MOST_COUNTS:
        raise SnapshotError(
            f"a partial of {rows:,} words and values x {classes:,} classes is too large for bytes "
            f"(2^27 counts): make several of fewer events"
        )


def seen_by(own: SufficientStatistics, other: SufficientStatistics, encoded: Encoded) -> Encoded:
    """Renumber events that are encoded for `own` to the words, values and attributes of `other`."""
    groups, fields = other.layout.numbers_in(own.layout, adds=False)
    rows = other.vocabulary.merge_keys(own.vocabulary, groups, adds=False)
    batch = encoded.batch.renumbered(groups, fields, rows)
    return encoded._replace(batch=batch, known=np.full(batch.label.size, len(other.classes)))


def merge_statistics(own: SufficientStatistics, other: SufficientStatistics) -> None:
    """Add all of `other` to `own`: counts exactly, moments by Chan's formula.

    Takes time proportional to the size of `other`. Stop words of `own` are left out, as if `own` had learned
    the events. Raises ValueError, and changes nothing, if `other` dropped other words or `own` has a memory
    budget.
    """
    if own.room is not None:
        raise ValueError(
            "a model with a memory budget depends on the order of events: nothing is merged into it"
        )
    sums = (own.class_weights, other.class_weights), (own.counts.totals, other.counts.totals)
    if any(sum(part.sum(dtype=np.float64) for part in both) > MOST for both in sums):
        raise ValueError(f"counts of more than {MOST // UNIT:,} words or examples are not kept")
    if (stopped := other.stop_words()) and not stopped <= own.stop_words():
        raise ValueError("a model that was pruned to other stop words cannot be merged into this one")
    own.finish_copy()
    other.finish_copy()
    columns = np.array([own.column(label) for label in other.classes], dtype=np.int64)
    groups, fields = own.layout.numbers_in(other.layout, adds=True)
    rows = own.vocabulary.merge_keys(other.vocabulary, groups)
    own.reserve()
    K, counted = columns.size, rows >= 0
    table, left_out = other.counts.table[: rows.size, :K], np.zeros_like(other.counts.totals[:, :K])
    add_rows(table[~counted], other.vocabulary.groups[: rows.size][~counted], left_out)
    left_out[other.counts.slot >= 0] = 0  # Bernoulli totals count texts, whatever words they have
    own.counts.totals[np.ix_(groups, columns)] += other.counts.totals[:, :K] - left_out
    rows = rows[counted]
    own.counts.add(rows, columns, table[counted], own.vocabulary.groups[rows])
    own.class_weights[columns] += other.class_weights[:K]
    own.events += other.events
    cells = np.ix_(fields, columns)
    merged = [array[cells] for array in own.moments]
    merge_moments(*merged, *(array[: fields.size, :K] for array in other.moments))
    for array, values in zip(own.moments, merged, strict=True):
        array[cells] = values


def _narrowest(array: Array) -> npt.DTypeLike:
    return np.min_scalar_type(int(array.max(initial=0)))


def _dense(classes: int, arrays: Mapping[str, Array]) -> Ints:
    rows = arrays["groups"].size
    check_size(rows, classes)
    lows, highs, sizes = (0, 0, 1), (classes, classes - 1, MOST), ("rows", "counts", "counts")
    expected = {
        name: whole(size, low=low, high=high, dtype=_narrowest(arrays[name]))
        for name, low, high, size in zip(_SPARSE, lows, highs, sizes, strict=True)
    }
    found = checked({name: arrays[name] for name in _SPARSE}, expected, rows=rows)
    lengths, columns, weights = (found[name].astype(np.int64) for name in _SPARSE)
    reject(_SPARSE[0], lengths.sum() != columns.size, f"does not add up to the {columns.size} counts")
    places = np.repeat(np.arange(rows) * classes, lengths) + columns
    reject(_SPARSE[1], np.diff(places) <= 0, "not in order")
    table = np.zeros((rows, classes), dtype=np.int64)
    table.reshape(-1)[places] = weights
    return table
