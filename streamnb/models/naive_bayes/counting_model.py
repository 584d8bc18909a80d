"""The common base of classifiers that learn counts and moments."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from river import base

from streamnb.errors import UnlearnError
from streamnb.features.attributes import Attribute
from streamnb.features.column_quality import warn_of_frame, warn_of_sentences
from streamnb.features.data_frames import is_frame
from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.event_reader import EventReader
from streamnb.features.targets import EncodedExamples, Targets
from streamnb.kernels.array_types import Ints
from streamnb.models.interface.attribution import Explanation, Item, Items
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import Corrections, Events, Labels, Prunings
from streamnb.models.naive_bayes.group_smoothing import GroupSmoothing
from streamnb.models.naive_bayes.learned_counts import LearnedCounts
from streamnb.models.naive_bayes.naive_bayes_kernels import unlearn_events
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews, SmoothingParams
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.models.naive_bayes.unused_values import UnusedValue, ValueLookup, has_used
from streamnb.values.example_weights import UNIT, units
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Flags, Times, Weights


class CountingModel(LearnedCounts, base.MiniBatchClassifier):  # type: ignore[misc]  # River is untyped here
    """A classifier that learns sufficient statistics, and derives everything else from them.

    Invariant: events are predicted, learned and unlearned strictly in order, so their division into calls
    changes nothing. Subclasses define how the statistics score an event: `_posteriors`, `_learn`,
    `_taken_apart` and `_reading`.
    """

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self._statistics = SufficientStatistics()
        self._specs = GroupSmoothing(reader)

    tells_evidence = False
    """If True, predictions have `evidence`; False for hidden Markov models."""

    entity: Any = None
    """Attribute that names the chain of an event; None if events are independent of each other."""

    @property
    def declared(self) -> dict[Any, Attribute]:
        """Attributes whose kind is declared or implied by name; others go by the type of their value."""
        return dict(self._reader.declared)

    corrections: Corrections = "exact"
    """Method by which a changed label is corrected: see `StreamModel`."""

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(v | x) of every class v with examples; they sum to 1. Empty before any learning."""
        return self._by_class(self._posteriors(self._encode_question([x])).probabilities[0])

    @property
    def lookup(self) -> ValueLookup:
        """Questions about single values: their weights, and the values that a prediction ignores."""
        return ValueLookup(self._statistics, self._reader, self._encode_earlier)

    def value_counts(self, name: Any, value: Any) -> dict[Any, float]:
        """Return class -> learned weight of one word or value of an attribute."""
        return self.lookup.value_counts(name, value)

    def unused_values(self, x: Any) -> list[UnusedValue]:
        """Return the values of an event that the model cannot use, each with the reason.

        A prediction rests on the other values, and on how frequent the classes are.

        Examples:
            >>> from streamnb import NaiveBayes
            >>> model = NaiveBayes()
            >>> model.learn_one({"amount": 905.0, "vip": True}, "fraud")
            >>> [value.message for value in model.unused_values({"amount": "905", "vip": True})]
            ['amount is a string ("905"), and was learned as a number: send the number 905']
        """
        return self.lookup.unused_values(x)

    def predict_posteriors(self, xs: Events, ts: Times = None) -> Posteriors:
        """Return P(v | x) of many events, by the current model, decayed to the times `ts` (seconds)."""
        encoded = self._encode(xs, ts=ts)
        return self._posteriors(encoded)._replace(used=has_used(encoded.batch))

    def predict_proba_many(self, X: Any) -> Any:
        """Return P(v | x) of each row of a data frame (NaN = missing) as a data frame; columns = classes."""
        if not is_frame(X):
            raise TypeError(f"X is a data frame, not {type(X).__name__}: see predict_posteriors")
        import pandas as pd  # noqa: PLC0415  optional: callers that pass a data frame have it

        probabilities = self._posteriors(self._encode_question(X)).probabilities
        columns = {label: probabilities[:, k] for label, k in self._known().items()}
        return pd.DataFrame(columns, index=X.index)

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """Return what each attribute value adds to the log odds of the predicted class against the runner-up.

        Strongest items first, at most `top`, at the time `t` (seconds) for models that decay. Values without
        effect are left out. Empty with fewer than two classes. See `evidence` for the form of an item.
        """
        explanation = self.explanation_one(x, t)
        if explanation is None:
            return Items.of_classes(len(self.classes))
        return Items.with_prior(explanation.prior, explanation.items[:top])

    def explanation_one(
        self, x: Any, t: float | None = None, against: Any = None, of: Any = None
    ) -> Explanation | None:
        """Return `explain_one` in full: the two classes, the log odds of the prior, and all items.

        `of` replaces the most probable class and `against` the runner-up. None with fewer than two classes.
        Raises ValueError for a class without examples.
        """
        encoded = self._encode([x], ts=[t])
        probabilities = self._by_class(self._posteriors(encoded).probabilities[0])
        if len(probabilities) < 2:
            return None
        first, second = sorted(probabilities, key=probabilities.__getitem__, reverse=True)[:2]
        if of not in {None, first}:
            first, second = of, first
        second = second if against in {None, first} else against
        for label in (first, second):
            if label not in probabilities:
                raise ValueError(f"nothing has been learned of a class {label!r}")
        return Explanation(first, second, *self._taken_apart(x, encoded, first, second))

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: float | None = None) -> None:
        """Learn one event `x` of class `y`, counted `w` times (in steps of 1/1024), of time `t` (seconds).

        Only models that decay use the time; None is the latest so far. Warns if an undeclared attribute looks
        like a text. Raises TypeError or ValueError, and learns nothing, if an attribute does not accept its
        value.
        """
        if t is not None or self._statistics.room is not None or not self._learned(x, y, w):
            self._learn(self._encode([x], [y], [w], [t]))
            warn_of_sentences(self._reader, x, type(self).__name__)

    def learn_many(self, X: Any, y: Any, w: Weights = None, ts: Times = None) -> None:
        """Learn many events in order: a data frame and a series, or any iterables of one length.

        Warns like `learn_one`, for the first event; for a data frame also of columns and labels that look
        unintended.
        """
        before = self.n_events
        self._learn(self._encode(X, y, w, ts))
        if is_frame(X):
            warn_of_frame(self._reader, X, self._statistics.classes)
        if before.bit_length() < self.n_events.bit_length():
            first = X.head(1).to_dict("records") if is_frame(X) else X
            x = first[0] if isinstance(first, Sequence) else {}
            warn_of_sentences(self._reader, x, type(self).__name__)

    def predict_then_learn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None
    ) -> Posteriors:
        """Predict each event by everything learned before it, then learn it, strictly in order.

        An event whose label is None is only predicted. The division of a stream into calls changes nothing,
        except that an answer has no column for classes first met in a later call.

        Args:
            xs: the events; a data frame has one in each row (NaN = missing), and is the fastest for tables.
            ys: their labels.
            ws: their weights; 1 by default.
            ts: their times in seconds, for models that decay; other models ignore them.
        """
        answer = self._posteriors(self._encode(xs, ys, ws, ts), learn=True)
        if is_frame(xs):
            warn_of_frame(self._reader, xs, self._statistics.classes)
        return answer

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)``: exactly on counts, to rounding on moments.

        The error is the rounding of the largest value that the class has held of the attribute (see
        `moments`). Raises UnlearnError, and changes nothing, if the counts prove that this was never learned.
        """
        if is_missing(y) and units(w):
            raise UnlearnError("an event without a label was never learned")
        self.unlearn_many([x], [y], [w])

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Unlearn these events in order; see `StreamModel`.

        Exact on counts, on moments as in `unlearn_one`. Raises UnlearnError at the first event that, by the
        counts, was never learned so: only events before it are unlearned.
        """
        events = EncodedExamples.from_examples(xs, ys, ws, prunings)
        if events.prunings is not None and self._statistics.room_changes:
            known = map(self._statistics.attributes_learned, events.prunings.tolist())
            within, kind_of = self._statistics.layout.within, self._reader.kind
            events = events._replace(xs=list(map(within, events.xs, known, repeat(kind_of))))
        encoded = self._encode_earlier(events.xs)
        # An attribute was never learned, and not for lack of memory: find its event.
        was_short = self._statistics.room is not None or self._statistics.room_changes
        is_unknown = encoded.skipped and not was_short
        if is_unknown and len(events.xs) > 1:
            for x, y, w, number in events.each():
                self.unlearn_many([x], [y], [w], prunings=None if number is None else [number])
            return
        columns = [-1 if is_unknown else self._statistics.classes.get(y, -1) for y in events.labels]
        batch = encoded.batch._replace(
            label=np.array(columns, dtype=np.int64),
            weight=events.weights,
            rows=self._statistics.rows_learned(encoded.batch, events.prunings),
        )
        self._statistics.keep(batch.rows)
        done = self._taken_out(encoded, batch)
        self._statistics.events -= done
        if done < len(events.xs):
            y, w = events.labels[done], int(events.weights[done]) / UNIT
            raise UnlearnError(f"this event was never learned as {y!r} with weight {w:g}")

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn events that were predicted earlier without a label, like any other events."""
        self._learn(self._encode_earlier(xs, ys, ws, ts))

    def partial(self, *_: Any, **__: Any) -> Any:
        """Raise ValueError, as does `apply`, if the model is not a sum over events."""
        raise ValueError(
            f"a {type(self).__name__} depends on the order of events, so it has no partials: learn all "
            "events in order (learn_many), or the counts alone, by a NaiveBayes"
        )

    apply = partial

    _multiclass = True

    def _encode_question(self, xs: Events) -> Encoded:
        encoded = self._encode(xs)
        if encoded.skipped:
            self.lookup.warn_of_types(xs)
        return encoded

    @abstractmethod
    def _posteriors(self, encoded: Encoded, *, learn: bool = False) -> Posteriors:
        """Predict events in order, and learn them if `learn`."""

    @abstractmethod
    def _learn(self, encoded: Encoded) -> None:
        """Learn events in order."""

    @abstractmethod
    def _taken_apart(self, x: Any, encoded: Encoded, first: Any, second: Any) -> tuple[float, list[Item]]:
        """Return what the prior and each value add to the log odds of the first class against the second."""

    @abstractmethod
    def _reading(self) -> SmoothingParams:
        """Return smoothing (alpha, m, p, declared) of groups, given prior weights, and prior mode."""

    def _learned(self, x: Any, y: Any, w: float) -> bool:
        """Try to learn an event without a batch; return False, and learn nothing, if it needs one."""
        return False

    def _encode(self, xs: Events, ys: Labels | None = None, ws: Weights = None, ts: Times = None) -> Encoded:
        rows: Any = xs if isinstance(xs, Sequence) or is_frame(xs) else list(xs)
        return self._statistics.encode(self._reader.written(rows), Targets.from_labels(len(rows), ys, ws, ts))

    def _encode_earlier(self, *events: Any) -> Encoded:
        """Encode events that were accepted earlier, when other values may have been listed."""
        reader = self._reader
        if not reader.closed:
            return self._encode(*events)
        self._reader = copy.copy(reader)
        self._reader.closed = {}
        try:
            return self._encode(*events)
        finally:
            self._reader = reader

    def _in_order(self, encoded: Encoded, most: int, step: Callable[[int], int], *, learn: bool) -> None:
        """Call `step` with the next event until all are done; reserve `most` counts in between."""
        batch, done = encoded.batch, 0
        if learn:
            self._statistics.keep(batch.rows)
        while done < batch.label.size:
            done = step(done)
            if done < batch.label.size:
                self._statistics.reserve_texts(most)
        if learn:
            self._statistics.events += int(np.count_nonzero(batch.label >= 0))

    def _taken_out(self, encoded: Encoded, batch: Batch) -> int:
        """Unlearn the events of `batch`, until one cannot have been learned; return how many."""
        begins, starts = self._first_of_chains(encoded)

        def step(done: int) -> int:
            return int(unlearn_events(done, encoded.most, self._tables(), batch, begins, starts))

        return self._as_far_as(step, batch.label.size, encoded.most)

    def _as_far_as(self, step: Callable[[int], int], n: int, most: int) -> int:
        done = step(0)
        while 0 <= done < n:
            self._statistics.reserve_texts(most)
            done = step(done)
        return done if done >= 0 else -1 - done

    def _first_of_chains(self, encoded: Encoded) -> tuple[Flags, Ints]:
        """Return the flags of events that are chains by themselves, and the counts of first states."""
        return np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64)

    def _tables(self) -> CountViews:
        return self._statistics.tables(self._reading())
