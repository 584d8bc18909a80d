"""Naive Bayes over any mixture of text, nominal and continuous attributes, one event at a time.

    v_NB = argmax_v P(v) prod_i P(a_i | v)        Mitchell, Machine Learning (1997), section 6.9

The state is sufficient statistics only: counts and moments. Smoothing and priors are applied when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from river import base

from streamnb.errors import UnlearnError
from streamnb.model.attributes.attributes import (
    TEXT,
    Attribute,
    Continuous,
    EventModel,
    Nominal,
    Text,
    check_attributes,
    check_smoothing,
    some_of,
)
from streamnb.model.attributes.kinds import CONTINUOUS, NOMINAL, text_kind
from streamnb.model.attributes.parameters import brief
from streamnb.model.attributes.priors import Prior, check_prior, prior_mode, prior_weights
from streamnb.model.attributes.ranges import is_missing
from streamnb.model.attributes.values import declared_texts, value_text
from streamnb.model.attributes.weights import UNIT, units
from streamnb.model.encoding.batch import Encoded
from streamnb.model.encoding.data_frame import Column, Columns, columns_of, is_frame
from streamnb.model.encoding.event_writer import EventWriter
from streamnb.model.encoding.targets import Asked
from streamnb.model.interface.evidence import Explanation, Item, odds, ranked, single_events
from streamnb.model.interface.predictions import Posteriors
from streamnb.model.naive_bayes.kernels import run, unlearn_event
from streamnb.model.naive_bayes.linear_view import LinearView, linear_view
from streamnb.model.naive_bayes.single_event import OneByOne, OneEvent, Reading
from streamnb.model.naive_bayes.state_copy import StateCopy
from streamnb.model.naive_bayes.sufficient_statistics import Moment, Statistics
from streamnb.model.naive_bayes.tables import Tables

__all__ = ["NaiveBayes"]

Label = Hashable
_KINDS: dict[str, Attribute] = {"text": Text(), "nominal": Nominal(), "continuous": Continuous()}


class NaiveBayes(base.MiniBatchClassifier):  # type: ignore[misc]  # River is untyped here
    """Naive Bayes over text, nominal and continuous attributes, one likelihood factor each.

    A missing attribute (absent, None, or a number that is not finite) drops its factor, in learning and in
    predicting. Words and nominal values never seen are skipped, but for values that are declared; where a
    list declares them, others are refused (see `Nominal`). Attributes that are not declared are taken by the
    type of their value: strings and booleans are nominal, other numbers continuous; but what is called `text`
    is a text, as it is in the events of a log.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous".
        alpha: smoothing of every discrete attribute that does not say otherwise; 0 is read as the limit.
        m: use the m-estimate (n_c + m p) / (n + m) in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen. Where values
            are declared it is refused unless it sums to 1 over them.
        prior: "learned" (frequency), "uniform", or label -> relative weight (a label left out has none).
        event_model: of texts that do not say otherwise, "multinomial" or "bernoulli".

    Examples:
        >>> from streamnb import NaiveBayes
        >>> model = NaiveBayes({"text": "text"})
        >>> model.learn_one({"text": "Free entry, win now", "links": 3}, "spam")
        >>> model.learn_one({"text": "See you at lunch?", "links": 0}, "ham")
        >>> model.predict_one({"text": "free lunch, win!"})
        'spam'

    References:
        Mitchell, Machine Learning (1997), chapter 6; Manning, Raghavan and Schuetze (2008), chapter 13.
    """

    _implied: ClassVar[Mapping[Any, Attribute]] = {TEXT: Text()}

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: Prior = "learned",
        event_model: EventModel = "multinomial",
    ) -> None:
        check_attributes(attributes)
        check_smoothing(alpha, None, None)
        check_smoothing(None, m, p)
        check_prior(prior)
        Text(event_model=event_model)  # checks the name
        self.attributes = attributes
        self.alpha = alpha
        self.m = m
        self.p = p
        self.prior = prior
        self.event_model = event_model
        self._statistics = Statistics()
        self._declared = self._declaring()
        self._closed = {
            name: _texts_of(name, values)
            for name, spec in self._declared.items()
            if (values := getattr(spec, "values", None)) is not None
        }
        self._check_p(p)
        self._read_with: tuple[Any, ...] = ()
        self._smoothing = np.zeros((4, 0))  # alpha, m, p and declared values of each group
        self._given = np.zeros(0)  # relative weight of each class where priors are given
        self._one_by_one = OneByOne()

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def declared(self) -> dict[Any, Attribute]:
        """What attributes are by declaration, or by name alone; others go by the type of their value."""
        return dict(self._declared)

    @property
    def classes(self) -> list[Any]:
        """Every class met, in the order in which they were met."""
        return list(self._statistics.classes)

    @property
    def statistics(self) -> Statistics:
        """All that was learned."""
        return self._statistics

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, in examples."""
        weights = self._statistics.class_weights
        return {label: int(weights[k]) / UNIT for label, k in self._statistics.classes.items()}

    @property
    def n_events(self) -> int:
        """How many events were learned, less those unlearned."""
        return self._statistics.events

    @property
    def n_attributes(self) -> int:
        """How many words and nominal values have a count above zero."""
        return int(self._statistics.counts.live.sum())

    @property
    def n_bytes(self) -> int:
        """Memory of all that was learned, bytes, room to grow included."""
        return self._statistics.n_bytes

    def class_counts(self, name: Any) -> dict[str, dict[Any, float]]:
        """Word or value -> class -> weight of one text or nominal attribute. Raises KeyError."""
        return self._statistics.class_counts(name)

    def class_moments(self, name: Any) -> dict[Any, Moment]:
        """Class -> moments of one continuous attribute. Raises KeyError."""
        return self._statistics.class_moments(name)

    def joint_log_likelihood(self, x: Any) -> dict[Any, float]:
        """Log P(v, x) of every class v with examples (nats); -inf where alpha = 0 rules a class out.

        Raises TypeError or ValueError for a value that its attribute's kind does not take.
        """
        return self._joints([x])[0]

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """P(v | x) of every class v with examples; they sum to 1. Empty while nothing has been learned."""
        found = self._predicted(x)
        if found is None:
            found = self._by_class(self.predict_posteriors([x]).probabilities[0])
        return found

    def predict_posteriors(self, xs: Iterable[Any], ts: Iterable[float | None] | None = None) -> Posteriors:
        """P(v | x) of many events, by the model as it is, or as it will be at the times `ts` (seconds)."""
        return self._posteriors(self._encode(xs, ts=ts))

    def predict_proba_many(self, X: Any) -> Any:
        """P(v | x) of each row of a data frame (NaN = missing), as a data frame; columns = classes."""
        import pandas as pd  # noqa: PLC0415  optional: whoever passes a data frame has it

        probabilities = self.predict_posteriors(X).probabilities
        columns = {label: probabilities[:, k] for label, k in self._known().items()}
        return pd.DataFrame(columns, index=X.index)

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """What each attribute value adds to the log odds of the predicted class against the runner-up.

        At the time `t` (seconds), for models that forget.

        The strongest first, at most `top`; values that say nothing are left out. Empty with fewer than two
        classes. See `evidence` for what an item is.
        """
        explanation = self.explanation_one(x, t)
        return [] if explanation is None else explanation.items[:top]

    def explanation_one(self, x: Any, t: float | None = None) -> Explanation | None:
        """`explain_one` in full: the two classes, the prior's log odds, and all items.

        None with fewer than two classes.
        """
        encoded = self._encode([x], ts=[t])
        probabilities = self._by_class(self._posteriors(encoded).probabilities[0])
        if len(probabilities) < 2:
            return None
        first, second = sorted(probabilities, key=probabilities.__getitem__, reverse=True)[:2]
        return Explanation(first, second, *self._taken_apart(x, encoded, first, second))

    def linear_view(self, positive: Any, negative: Any = None) -> LinearView:
        """Log P(positive | x) / P(negative | x) as a linear function, of the model as it is.

        `negative` may be left out where there are two classes. Raises ValueError where one of the two has no
        examples, or given priors rule out both.

        Examples:
            >>> model = NaiveBayes({"text": "text"})
            >>> model.learn_one({"text": "win cash now"}, "spam")
            >>> model.learn_one({"text": "lunch now"}, "ham")
            >>> view = model.linear_view("spam")
            >>> [(item.value, round(item.weight, 3)) for item in view.top(2)["spam"]]
            [('win', 0.539), ('cash', 0.539)]
        """
        return linear_view(self._statistics, self._tables(), positive, negative, self._write)

    # -- learning -----------------------------------------------------------------------------------------

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: float | None = None) -> None:
        """Learn one event `x` of class `y`, counted `w` times (in steps of 1/1024), of time `t` (seconds).

        Time matters to models that forget alone; None is the latest so far.

        Raises TypeError or ValueError, and learns nothing, for a value that its attribute does not take.
        """
        if t is not None or not self._learned(x, y, w):
            self._learn(self._encode([x], [y], [w], [t]))

    def learn_many(
        self, X: Any, y: Any, w: Iterable[float] | None = None, ts: Iterable[float | None] | None = None
    ) -> None:
        """Learn many events in order: a data frame and a series, or any iterables of one length."""
        self._learn(self._encode(X, y, w, ts))

    def predict_then_learn_many(
        self,
        xs: Iterable[Any],
        ys: Iterable[Any],
        ws: Iterable[float] | None = None,
        ts: Iterable[float | None] | None = None,
    ) -> Posteriors:
        """Predict each event by all that was learned before it, then learn it, strictly in order.

        An event whose label is None is only predicted. How a stream is cut into calls changes nothing, but
        that classes first met in a later call have no column in an earlier one's answer.

        Args:
            xs: the events; a data frame has one in each row (NaN = missing), and is the fastest for tables.
            ys: their labels.
            ws: their weights; 1 by default.
            ts: their times in seconds, for models that forget; the others count alike at all times.
        """
        return self._posteriors(self._encode(xs, ys, ws, ts), learn=True)

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)``: exactly on counts, to rounding on moments.

        That is the rounding of the largest value that the class has held of the attribute (see `moments` for
        the bound): one that is some 1e7 standard deviations of the others away leaves noise of their size.

        Raises UnlearnError, and changes nothing, where the counts show that this was never learned.
        """
        weight = units(w)
        if weight == 0:
            return
        k = self._statistics.classes.get(y, -1)
        encoded = self._encode([x])
        batch = encoded.batch._replace(label=np.array([k]), weight=np.array([weight]))
        self._statistics.room_for_texts(encoded.most)
        self._statistics.settle()
        if k < 0 or encoded.skipped or not unlearn_event(self._tables(), batch, 0):
            raise UnlearnError(f"this event was never learned as {y!r} with weight {w}")
        self._statistics.events -= 1

    def merge(self, other: NaiveBayes) -> Self:
        """Add all that `other` has learned, as if its events had been learned here; returns self.

        Exact on counts; moments by Chan's formula. Raises ValueError where the two were built differently
        or have different stop words (see `prune`).
        """
        if type(other) is not type(self) or other._get_params() != self._get_params():
            raise ValueError("only models of the same class and parameters can be merged")
        self._statistics.merge(other._statistics)
        self._read_with = ()
        return self

    def prune(
        self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: int | None = None
    ) -> int:
        """Forget words of the text attributes; returns how many.

        Drops the `drop_most_frequent` most frequent words for good (they are stop words from then on), then
        those with a total weight below `min_count`, then the rarest until at most `max_attributes` words
        and values are left. Of equals, those met later go first. What was forgotten cannot be unlearned.

        Joachims (1996) removed the 100 most frequent words and those seen fewer than 3 times.
        """
        return self._statistics.prune(min_count, drop_most_frequent, max_attributes)

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """All that was learned: JSON-able values, and arrays. Equal states have equal bytes.

        Raises TypeError for labels and names that are not strings, booleans or numbers.
        """
        return self.copying().state()

    def copying(self) -> StateCopy:
        """The `state` as it is now, to be copied while the model goes on learning."""
        return self._statistics.copying(type(self).__name__)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Replace all that was learned by the `state` of a model of the same class; returns self.

        Raises ValueError for one of another class, and SnapshotError for one that is damaged.
        """
        if meta.get("type") != type(self).__name__:
            raise ValueError(f"this is the state of a {meta.get('type')}, not of a {type(self).__name__}")
        self._statistics = Statistics.from_state(meta, arrays)
        self._declared = self._declaring()
        self._read_with = ()
        return self

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _multiclass(self) -> bool:
        return True

    def _declaring(self) -> dict[Any, Attribute]:
        """The attributes as declared, and those implied; but in a state from before `text` may be a value."""
        layout = self._statistics.layout
        is_value = (NOMINAL, TEXT) in layout.groups or TEXT in layout.fields
        declared = {name: _attribute(name, spec) for name, spec in (self.attributes or {}).items()}
        return declared if is_value else {**self._implied, **declared}

    def _texts(self, x: Any) -> tuple[Mapping[Any, Any], frozenset[Any]]:
        """The event, and which of its attributes are texts."""
        return x, frozenset(name for name, spec in self._declared.items() if isinstance(spec, Text))

    def _kind(self, name: Any, value: Any) -> int:
        """MULTINOMIAL, BERNOULLI, NOMINAL or CONTINUOUS; it hangs on the value's type alone."""
        spec = self._declared.get(name)
        if isinstance(spec, Text):
            return text_kind(spec.event_model or self.event_model)
        if isinstance(spec, Nominal) or (spec is None and isinstance(value, (str, bool, np.bool_))):
            return NOMINAL
        return CONTINUOUS

    def _place(self, writer: EventWriter, name: Any, value: Any) -> None:
        """Write one attribute that is not missing where its kind wants it."""
        kind = self._kind(name, value)
        if kind == NOMINAL:
            if name in self._closed:
                _check_listed(value, self._closed[name])
            writer.nominal(name, value)
        elif kind == CONTINUOUS:
            writer.continuous(name, value)
        else:
            place_text(writer, kind, name, value)

    def _write(self, writer: EventWriter, x: Any) -> None:
        """Write every attribute of an event that is not missing."""
        for name, value in x.items():
            if not is_missing(value):
                try:
                    self._place(writer, name, value)
                except (TypeError, ValueError) as error:
                    kind = TypeError if isinstance(error, TypeError) else ValueError
                    raise kind(f"attribute {name!r}: {error}") from error

    def _predicted(self, x: Any) -> dict[Any, float] | None:
        """`predict_proba_one` without a batch; None where the event needs one."""
        return self._one_by_one.predicted(self._statistics, self._reading(), self._in_one(x))

    def _learned(self, x: Any, y: Any, w: float) -> bool:
        """Learn an event without a batch; False, and nothing learned, where it needs one."""
        weight = UNIT if type(w) is float and w == 1.0 else units(w)
        return self._one_by_one.learned(self._statistics, self._reading(), self._in_one(x), y, weight)

    def _in_one(self, x: Any) -> OneEvent | None:
        """The event as arrays; None where it needs a batch, which refuses what is not to be taken."""
        if self._closed and not self._takes(x):
            return None
        return self._one_by_one.of_shape(self._statistics, x, self._kind)

    def _encode(
        self,
        xs: Iterable[Any],
        ys: Iterable[Any] | None = None,
        ws: Iterable[float] | None = None,
        ts: Iterable[float | None] | None = None,
    ) -> Encoded:
        """Events as arrays; those with a label and a weight get their class, groups and rows."""
        rows: Any = xs if isinstance(xs, Sequence) or is_frame(xs) else list(xs)
        asked = Asked.of(len(rows), *(None if given is None else _listed(given) for given in (ys, ws, ts)))
        columns = self._columns(rows) if is_frame(rows) else None
        if columns is not None:
            return self._statistics.encode(Columns(columns), asked)
        writer = EventWriter()
        self._write_all(writer, _rows(rows))
        return self._statistics.encode(writer, asked)

    def _columns(self, frame: Any) -> list[Column] | None:
        """The columns of a data frame; None where its rows are to be written one by one, or be refused."""
        columns = columns_of(frame, self._kind)
        if any(
            name in self._closed and not self._closed[name].keys() >= set(map(bytes.decode, texts))
            for _, name, _, _, texts in columns or ()
        ):
            return None
        return columns

    def _takes(self, x: Any) -> bool:
        """Whether every value of an attribute whose values are listed is one of them."""
        given = ((x.get(name), texts) for name, texts in self._closed.items())
        return all(
            is_missing(value) or (type(value) in {str, int, bool} and value_text(value) in texts)
            for value, texts in given
        )

    def _write_all(self, writer: EventWriter, xs: Sequence[Any]) -> None:
        """Write events and finish each; those that are one text each go the short way, all at once."""
        name = next(iter(xs[0])) if set(map(type, xs)) == {dict} and xs[0] else None
        spec = self._declared.get(name)
        if isinstance(spec, Text):
            texts: list[Any] = [x.get(name) if len(x) == 1 else None for x in xs]
            if self._write_texts(writer, text_kind(spec.event_model or self.event_model), name, texts):
                return
        for x in xs:
            self._write(writer, x)
            writer.end()

    @staticmethod
    def _write_texts(writer: EventWriter, kind: int, name: Any, texts: Sequence[Any]) -> bool:
        """Write events that are a text each; False, and nothing written, where one is none that can be."""
        if set(map(type, texts)) != {str}:
            return False
        try:
            writer.text_each(kind, name, texts)
        except UnicodeEncodeError:  # whoever writes them one by one says of which attribute it is
            return False
        return True

    def _taken_apart(
        self,
        x: Any,
        encoded: Encoded,  # noqa: ARG002  for models of many hypotheses
        first: Any,
        second: Any,
    ) -> tuple[float, list[Item]]:
        """What the prior and each value add to the log odds of the first class against the second."""
        singles = list(single_events(*self._texts(x)))
        joints = self._joints([{}, *(event for single in singles for event in single[2:])])
        items = (
            Item(name, value, odds(joints[2 * i + 1], joints[2 * i + 2], first, second))
            for i, (name, value, _, _) in enumerate(singles)
        )
        return odds(joints[0], dict.fromkeys(joints[0], 0.0), first, second), ranked(items)

    def _joints(self, xs: Sequence[Any]) -> list[dict[Any, float]]:
        """Log P(v, x) of every class v with examples, of each event."""
        joints = np.empty((len(xs), len(self._statistics.classes)))
        self._run(self._encode(xs), predict=True, joints=joints)
        return [self._by_class(row) for row in joints]

    def _posteriors(self, encoded: Encoded, *, learn: bool = False) -> Posteriors:
        """Predict events in order, and learn them where they are to be learned."""
        return Posteriors(self.classes, self._run(encoded, predict=True, learn=learn), encoded.known)

    def _learn(self, encoded: Encoded) -> None:
        self._run(encoded, learn=True)

    def _run(
        self,
        encoded: Encoded,
        *,
        predict: bool = False,
        learn: bool = False,
        joints: npt.NDArray[np.float64] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Predict and learn events in order; the probabilities, where they were asked for."""
        n, K = encoded.batch.label.size, len(self._statistics.classes)
        probabilities = np.empty((n if predict else 0, K))
        joints = np.empty((0, K)) if joints is None else joints
        self._in_order(encoded, self._tables, probabilities, joints, predict=predict, learn=learn)
        return probabilities

    def _in_order(
        self,
        encoded: Encoded,
        tables: Callable[[], Tables],
        probabilities: npt.NDArray[np.float64],
        joints: npt.NDArray[np.float64],
        *,
        predict: bool,
        learn: bool,
    ) -> None:
        """Let the kernel predict and learn events in order, by tables that are made anew where they grew."""
        batch, most = encoded.batch, encoded.most
        done, n = 0, batch.label.size
        if learn:
            self._statistics.keep(batch.rows)
        while done < n:
            done = run(done, most, tables(), batch, predict, learn, probabilities, joints)
            if done < n:
                self._statistics.room_for_texts(most)
        if learn:
            self._statistics.events += int(np.count_nonzero(batch.label >= 0))

    def _tables(self) -> Tables:
        """The statistics as the kernels take them, with the smoothing and priors to read them by."""
        statistics = self._statistics
        counts, K = statistics.counts, len(statistics.classes)
        smoothing, prior, mode = self._reading()
        return Tables(
            statistics.class_weights[:K],
            counts.table,
            counts.totals,
            counts.live,
            counts.kinds,
            counts.slot,
            counts.histograms,
            statistics.moments.n,
            statistics.moments.mean,
            statistics.moments.M2,
            smoothing[0],
            smoothing[1],
            smoothing[2],
            smoothing[3],
            prior,
            mode,
        )

    def _reading(self) -> Reading:
        """Smoothing (alpha, m, p, declared) of groups, weights of given priors, and the prior's mode, now."""
        counts, K = self._statistics.counts, len(self._statistics.classes)
        read_with = (self.alpha, self.m, self.p)
        if read_with != self._read_with:
            self._read_with, self._smoothing = read_with, np.zeros((4, 0))
            counts.histograms.stale[:] = True
        if self._smoothing.shape[1] < counts.kinds.size:
            more = self._smoothing_from(self._smoothing.shape[1])
            # By rows, always: kernels are compiled for a layout, and numpy would choose it by those of both.
            self._smoothing = np.ascontiguousarray(np.hstack([self._smoothing, more]))
        if self._given.size != K or type(self.prior) is not str:
            self._given = prior_weights(self.prior, self._statistics.classes)
        return self._smoothing, self._given, prior_mode(self.prior)

    def _smoothing_from(self, first: int) -> npt.NDArray[np.float64]:
        """alpha, m (-1: use alpha), p (nan: uniform) and declared, from `first` on. Shape (4, groups)."""
        chosen = [
            (*self._smoothing_of(name, self.alpha, self.m, self.p), self._n_declared(name))
            for _, name in islice(self._statistics.layout.groups, first, None)
        ]
        return np.array(chosen, dtype=np.float64).reshape(-1, 4).T

    def _n_declared(self, name: Any) -> int:
        """How many values are declared of an attribute, with those learned before they were; 0 for none.

        The latter can grow no more: values that are not listed are refused.
        """
        spec = self._declared.get(name)
        declared = spec.declared if isinstance(spec, Nominal) else 0
        if name in self._closed:
            declared += len(self._statistics.class_counts(name).keys() - self._closed[name].keys())
        return declared

    def _check_p(self, p: float | None) -> None:
        """Raise ValueError where p, or an attribute's own, does not sum to 1 over its declared values."""
        for name, spec in self._declared.items():
            if isinstance(spec, Nominal):
                spec.check_p(name, p if (spec.alpha, spec.m) == (None, None) else spec.p)

    def _smoothing_of(
        self, name: Any, alpha: float | None, m: float | None, p: float | None
    ) -> tuple[float, float, float]:
        """alpha, m (-1: use alpha) and p (nan: uniform) of an attribute: its own, or those given."""
        spec = self._declared.get(name)
        if isinstance(spec, (Text, Nominal)) and (spec.alpha, spec.m) != (None, None):
            alpha, m, p = spec.alpha, spec.m, spec.p
        return alpha or 0.0, -1.0 if m is None else m, np.nan if p is None else p

    def _known(self) -> dict[Any, int]:
        """Label -> column, of the classes with examples."""
        weights = self._statistics.class_weights
        return {label: k for label, k in self._statistics.classes.items() if weights[k] > 0}

    def _by_class(self, values: npt.NDArray[np.float64]) -> dict[Any, float]:
        return {label: float(values[k]) for label, k in self._known().items()}


def place_text(writer: EventWriter, kind: int, name: Any, value: Any) -> None:
    """Write a text: a string, or a bag of words (token -> how often)."""
    if isinstance(value, str):
        writer.text(kind, name, value)
    elif isinstance(value, Mapping):
        for token, times in value.items():
            if not is_missing(times):
                writer.token(kind, name, value_text(token), times)
    else:
        raise TypeError(f"expected a text or a bag of words, got {type(value).__name__}")


def _attribute(name: Any, spec: Attribute | str) -> Attribute:
    if isinstance(spec, (Text, Nominal, Continuous)):
        return spec
    if spec in _KINDS:
        return _KINDS[spec]
    raise ValueError(f"attribute {name!r}: expected one of {', '.join(_KINDS)}, not {spec!r}")


def _texts_of(name: Any, values: Iterable[Any]) -> dict[str, None]:
    """The texts by which the values of an attribute are compared, in order. Raises ValueError."""
    texts = declared_texts(values)
    if len(set(texts)) < len(texts):
        raise ValueError(f"attribute {name!r}: one of its values is there twice: {some_of(texts)}")
    return dict.fromkeys(texts)


def _check_listed(value: Any, texts: Mapping[str, None]) -> None:
    """Raise ValueError for a value that is not declared."""
    if value_text(value) not in texts:
        raise ValueError(f"{brief(repr(value))} is not one of its values ({some_of(texts)})")


def _listed(given: Iterable[Any]) -> Sequence[Any]:
    return given if isinstance(given, Sequence) else list(given)


def _rows(X: Any) -> Any:
    """The rows of a data frame as dictionaries; anything else as it is."""
    return X.to_dict("records") if is_frame(X) else X
