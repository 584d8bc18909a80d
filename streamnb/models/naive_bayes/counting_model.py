"""The common base of classifiers that learn counts and moments."""

from __future__ import annotations

import copy
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Self

import numpy as np
from river import base

from streamnb.errors import OtherTypeWarning, UndeclaredTextWarning, UnlearnError
from streamnb.features.attributes import Attribute, Nominal, Text
from streamnb.features.column_quality import warn_of_columns, warn_of_labels
from streamnb.features.data_frames import is_frame
from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.event_reader import EventReader
from streamnb.features.targets import EncodedExamples, Targets
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.attribution import Explanation, Item, Items
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import (
    Corrections,
    Events,
    Labels,
    Most,
    Prunings,
    StateCopying,
    StreamModel,
)
from streamnb.models.naive_bayes.naive_bayes_kernels import unlearn_events
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews, SmoothingParams
from streamnb.models.naive_bayes.sufficient_statistics import Moment, SufficientStatistics
from streamnb.models.naive_bayes.unused_values import (
    LearnedTypes,
    UnusedValue,
    has_used,
    learned_types,
    other_spellings,
    other_types,
)
from streamnb.statistics.memory_budget import MemoryBudget, MemoryUse
from streamnb.values.attribute_kinds import CONTINUOUS
from streamnb.values.example_weights import UNIT, units
from streamnb.values.messages import Message, warn_user
from streamnb.values.nominal_values import as_event, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.savable import Savable
from streamnb.values.type_aliases import Array, Aside, Flags, State, Times, Weights, concatenated


class CountingModel(Savable, base.MiniBatchClassifier):  # type: ignore[misc]  # River is untyped here
    """A classifier that learns sufficient statistics, and derives everything else from them.

    It reads events, and owns the statistics, their state and the order of learning. Subclasses define how the
    statistics score an event: `_posteriors`, `_learn`, `_taken_apart` and `_reading`.
    """

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self._statistics = SufficientStatistics()

    tells_evidence = False
    """If True, predictions have `evidence`; False for hidden Markov models."""

    @property
    def declared(self) -> dict[Any, Attribute]:
        """Attributes whose kind is declared or implied by name; others go by the type of their value."""
        return dict(self._reader.declared)

    @property
    def classes(self) -> list[Any]:
        """Every class met, in order of first appearance."""
        return list(self._statistics.classes)

    @property
    def statistics(self) -> SufficientStatistics:
        """Everything learned, without holes. Do not use it while an event is being learned."""
        if not self.is_settled:
            self._statistics.finish_copy()
        return self._statistics

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, in examples."""
        weights = self._statistics.class_weights
        return {label: int(weights[k]) / UNIT for label, k in self._statistics.classes.items()}

    @property
    def n_events(self) -> int:
        """Number of events learned, less those unlearned."""
        return self._statistics.events

    corrections: Corrections = "exact"
    """Method by which a changed label is corrected: see `StreamModel`."""

    @property
    def n_prunings(self) -> int:
        """Number of prunings so far; see `unlearn_many`."""
        return self._statistics.survivors.size

    @property
    def n_attributes(self) -> int:
        """Number of words and nominal values with a count above zero."""
        return int(self._statistics.counts.live.sum())

    @property
    def n_bytes(self) -> int:
        """Memory of everything learned, in bytes, including spare capacity."""
        return self._statistics.n_bytes

    def class_counts(self, name: Any) -> dict[str, dict[Any, float]]:
        """Return word or value -> class -> weight of a text or nominal attribute. Raises KeyError."""
        return self._statistics.class_counts(name)

    def value_counts(self, name: Any, value: Any) -> dict[Any, float]:
        """Return class -> learned weight of one word or value of an attribute."""
        rows = self._encode_earlier([{name: value}]).batch.rows
        if rows.size != 1 or rows[0] < 0:
            return {}
        found = self._statistics.counts.table[rows[0]]
        return {label: int(found[k]) / UNIT for label, k in self._statistics.classes.items() if found[k]}

    def class_moments(self, name: Any) -> dict[Any, Moment]:
        """Return class -> moments of a continuous attribute. Raises KeyError."""
        return self._statistics.class_moments(name)

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(v | x) of every class v with examples; they sum to 1. Empty before any learning."""
        return self._by_class(self._posteriors(self._encode_question([x])).probabilities[0])

    @property
    def learned_attributes(self) -> list[Any]:
        """Names of learned attributes in order of first appearance, continuous attributes last."""
        layout = self._statistics.layout
        return [*dict.fromkeys((*(name for _, name in layout.groups), *layout.fields))]

    def knows(self, name: Any) -> bool:
        """Return whether anything was learned of an attribute."""
        layout = self._statistics.layout
        return bool(learned_types(layout, name))

    @property
    def learned_types(self) -> LearnedTypes:
        """The types by which attributes were learned so far, unaffected by later learning."""
        layout = self._statistics.layout
        return LearnedTypes(frozenset(layout.groups), frozenset(layout.fields))

    def other_types(self, x: Any, learned: LearnedTypes | None = None) -> list[UnusedValue]:
        """Return the values of an event whose attribute was `learned` (default: so far) by another type."""
        known = self._statistics.layout if learned is None else learned
        return list(other_types(self._reader.kind, known, self._reader.texts(x)[0]))

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
        event, texts = self._reader.texts(x)
        found = self.other_types(x)
        others = {one.attribute for one in found}
        for name, value in event.items():
            if name in others or is_missing(value):
                continue
            if has_used(self._encode_earlier([{name: value}]).batch)[0]:
                continue
            if not self.knows(name):
                found.append(UnusedValue(name, value, "attribute"))
            elif name in texts:
                found.append(UnusedValue(name, value, "words"))
            else:
                near = [one for one in other_spellings(value_text(value)) if self.value_counts(name, one)]
                found.append(UnusedValue(name, value, "value", f'"{near[0]}"' if near else ""))
        return found

    def other_spellings(self, xs: Sequence[Any]) -> list[list[UnusedValue]]:
        """Return the strings of each event that were learned with another case or other blanks alone."""
        asked: list[list[tuple[Any, str]]] = []
        for x in xs:
            event, texts = self._reader.texts(x)
            asked.append([(k, v) for k, v in event.items() if isinstance(v, str) and k not in texts])
        known = self._learned_values(pair for pairs in asked for pair in pairs if self.knows(pair[0]))
        others = {
            (k, v): [(k, one) for one in other_spellings(v)] for (k, v), has in known.items() if not has
        }
        learned = self._learned_values(pair for pairs in others.values() for pair in pairs)
        near = {pair: next((v for k, v in found if learned[k, v]), None) for pair, found in others.items()}
        return [
            [
                UnusedValue(k, v, "value", f'"{one}"')
                for k, v in pairs
                if (one := near.get((k, v))) is not None
            ]
            for pairs in asked
        ]

    def _learned_values(self, pairs: Iterable[tuple[Any, str]]) -> dict[tuple[Any, str], bool]:
        distinct = list(dict.fromkeys(pairs))
        if not distinct:
            return {}
        used = has_used(self._encode_earlier([{name: value} for name, value in distinct]).batch)
        return dict(zip(distinct, used.tolist(), strict=True))

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
        return Items(explanation.items[:top])

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
            self._warn_of_sentences(x)

    def learn_many(self, X: Any, y: Any, w: Weights = None, ts: Times = None) -> None:
        """Learn many events in order: a data frame and a series, or any iterables of one length.

        Warns like `learn_one`, for the first event; for a data frame also of columns and labels that look
        unintended.
        """
        before = self.n_events
        self._learn(self._encode(X, y, w, ts))
        if is_frame(X):
            warn_of_columns(X, self._reader.declared, self._reader.told_odd)
            warn_of_labels(self._statistics.classes, self._reader.told_odd)
        if before.bit_length() < self.n_events.bit_length():
            first = X.head(1).to_dict("records") if is_frame(X) else X
            self._warn_of_sentences(first[0] if isinstance(first, Sequence) else {})

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
        return self._posteriors(self._encode(xs, ys, ws, ts), learn=True)

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
        events = self._as_learned(EncodedExamples.from_examples(xs, ys, ws, prunings))
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

    def prune(self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: Most = None) -> int:
        """Forget words of the text attributes; return how many.

        Drops the `drop_most_frequent` most frequent words for good (they become stop words), then words with
        a total weight below `min_count`, then the rarest until at most `max_attributes` words and values
        remain. Of equals, the latest go first. Forgotten words are not unlearned again, see `unlearn_many`.

        Joachims (1996) removed the 100 most frequent words and those seen fewer than 3 times.
        """
        return self._statistics.prune(min_count, drop_most_frequent, max_attributes)

    def keep_within(self, n_bytes: int) -> None:
        """Limit the memory of everything learned, with a copy of it, to `n_bytes`; see `evict`.

        Features of softmax regressions use up to the `memory` given to the model in any case.
        """
        self._statistics.room = self._budget(n_bytes)

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Return whether `words` words and values of `n_bytes` bytes fit, with this number of classes."""
        self._statistics.hold(len(self._statistics.classes))
        return self._statistics.has_capacity(classes, n_bytes, words)

    def reset_adaptive(self) -> None:
        """Do nothing: counts hold what is true of most of a stream."""

    def change_budget(self, before: StreamModel) -> None:
        """Continue from another model's statistics with this model's memory budget; see `StreamModel`."""
        if isinstance(before, CountingModel):
            self._statistics.change_budget(before._statistics.room)  # noqa: SLF001  of this class

    def evict(self, classes: int) -> None:
        """Evict the values that matter least, if this number of classes leaves too little memory."""
        self._statistics.evict(classes)

    @property
    def memory_use(self) -> MemoryUse:
        """Share of the memory budget in use."""
        return self._statistics.memory_use

    @property
    def most_classes(self) -> int:
        """Maximum number of classes within the memory budget."""
        layout, room = self._statistics.layout, self._statistics.room
        return sys.maxsize if room is None else room.classes(len(layout.groups) + len(layout.fields))

    def partial(self, *_: Any, **__: Any) -> Any:
        """Raise ValueError, as does `apply`, if the model is not a sum over events."""
        raise ValueError(
            f"a {type(self).__name__} depends on the order of events, so it has no partials: learn all "
            "events in order (learn_many), or the counts alone, by a NaiveBayes"
        )

    apply = partial

    def state(self) -> State:
        """Return everything learned: JSON-able values, and arrays. Equal states have equal bytes.

        Raises TypeError for labels and names that are not strings, booleans or numbers, and SnapshotError if
        JSON cannot represent them: a lone surrogate, an integer beyond 64 bits.
        """
        return self.copying().state()

    @property
    def is_settled(self) -> bool:
        """True if the vocabulary has no holes."""
        return not self._statistics.vocabulary.holes

    def copying(self, _aside: Aside = concatenated, /) -> StateCopying:
        """Begin to copy the current `state` while the model continues to learn."""
        return self._statistics.copying(type(self).__name__)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace everything by a `state` of this class; return self. Raises ValueError or SnapshotError."""
        if meta.get("type") != type(self).__name__:
            raise ValueError(f"this is the state of a {meta.get('type')}, not of a {type(self).__name__}")
        room = self._statistics.room
        self._statistics = SufficientStatistics.from_state(meta, arrays)
        self._statistics.room = room
        return self

    _multiclass = True

    def _warn_of_sentences(self, x: Any) -> None:
        """Warn of texts. Python shows a warning once per line of user code, whatever line here raises it."""
        for name in self._reader.sentences(x):
            kind = type(self).__name__
            text = (
                f"attribute {name!r} looks like a text, and is taken for one value: "
                f"{kind}(attributes={{{name!r}: 'text'}}) reads its words, 'nominal' keeps it as one value"
            )
            warn_user(Message("text-as-value", text, paths=[str(name)]), UndeclaredTextWarning)

    def _encode_question(self, xs: Events) -> Encoded:
        encoded = self._encode(xs)
        if encoded.skipped:
            self._warn_of_types(xs)
        return encoded

    def _warn_of_types(self, xs: Any) -> None:
        x = {name: one for name in xs for one in xs[name].dropna().head(1)} if is_frame(xs) else xs[0]
        for one in self.other_types(x):
            if one.attribute not in self._reader.told_types:
                self._reader.told_types.add(one.attribute)
                warn_user(
                    Message("type-changed", one.message, attribute=str(one.attribute)), OtherTypeWarning
                )

    def _budget(self, n_bytes: int) -> MemoryBudget:
        """Return a budget: a third for rows, as much for a copy of them, and the rest for other tables."""
        return MemoryBudget(n_bytes // 3, n_bytes)

    @abstractmethod
    def _posteriors(self, encoded: Encoded, *, learn: bool = False) -> Posteriors:
        """Predict events in order, and learn them if `learn`."""

    def _asked_evidence(self, encoded: Encoded) -> Floats | None:
        return np.empty(encoded.known.size) if self.tells_evidence else None

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

    def _as_learned(self, events: EncodedExamples) -> EncodedExamples:
        """Remove attributes that had no capacity when their event was learned, and have it now."""
        if events.prunings is None or not self._statistics.room_changes:
            return events
        groups, fields = self._statistics.layout.groups, self._statistics.layout.fields

        def learned(x: Any, known: tuple[int, int]) -> Any:
            def is_own(name: Any, value: Any) -> bool:
                kind = self._reader.kind(name, value)
                if kind == CONTINUOUS:
                    return fields.get(name, -1) < known[1]
                return groups.get((kind, name), -1) < known[0]

            return {name: value for name, value in as_event(x).items() if is_own(name, value)}

        known = map(self._statistics.attributes_learned, events.prunings.tolist())
        return events._replace(xs=list(map(learned, events.xs, known)))

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

    def _by_group(self, columns: Floats, column: Callable[[Any], Any]) -> Floats:
        """Return `columns` of the groups, extended by `column(attribute)` for each group added since."""
        groups = self._statistics.layout.groups
        if columns.shape[-1] == len(groups):
            return columns
        added = [column(name) for _, name in islice(groups, columns.shape[-1], None)]
        more = np.array(added, dtype=np.float64).reshape(len(added), *columns.shape[-2::-1]).T
        # Row-major: kernels are compiled for one layout, and numpy would choose it by both inputs.
        return np.ascontiguousarray(np.concatenate([columns, more], axis=-1))

    def _n_declared(self, name: Any) -> int:
        """Return the number of declared values, plus undeclared ones learned before; 0 if undeclared."""
        spec = self._reader.declared.get(name)
        declared = spec.declared if isinstance(spec, Nominal) else 0
        if name in self._reader.closed:
            declared += len(self._statistics.class_counts(name).keys() - self._reader.closed[name].keys())
        return declared

    def _check_p(self, p: float | None) -> None:
        for name, spec in self._reader.declared.items():
            if isinstance(spec, Nominal):
                spec.check_p(name, p if (spec.alpha, spec.m) == (None, None) else spec.p)

    def _smoothing_of(
        self, name: Any, alpha: float | None, m: float | None, p: float | None
    ) -> tuple[float, float, float]:
        """Return alpha, m (-1: use alpha) and p (nan: uniform) of an attribute: its own, or the defaults."""
        spec = self._reader.declared.get(name)
        if isinstance(spec, (Text, Nominal)) and (spec.alpha, spec.m) != (None, None):
            alpha, m, p = spec.alpha, spec.m, spec.p
        return alpha or 0.0, -1.0 if m is None else m, np.nan if p is None else p

    def _known(self) -> dict[Any, int]:
        weights = self._statistics.class_weights
        return {label: k for label, k in self._statistics.classes.items() if weights[k] > 0}

    def _by_class(self, values: Floats) -> dict[Any, float]:
        return {label: float(values[k]) for label, k in self._known().items()}
