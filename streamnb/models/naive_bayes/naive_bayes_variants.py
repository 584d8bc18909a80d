"""Variants of `NaiveBayes` whose attributes are all of one kind, whatever their values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

from river.base import tags

from streamnb.features.attributes import Attribute, EventModel, Nominal
from streamnb.features.event_reader import EventReader, place_text
from streamnb.features.event_writer import EventWriter
from streamnb.features.tokenizer import words
from streamnb.models.interface.stream_model import Events, Labels
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.naive_bayes.naive_bayes_tables import Covariance
from streamnb.models.naive_bayes.single_event import EncodedEvent
from streamnb.statistics.class_priors import ClassPrior
from streamnb.values.attribute_kinds import CONTINUOUS, NOMINAL, text_kind
from streamnb.values.nominal_values import value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Times, Weights

_FINEST = 1 << 20


class _WordsReader(EventReader):
    """A reader of one text: strings are split into words, a number counts the word that is its name."""

    _implied: ClassVar[Mapping[Any, Attribute]] = {}

    def kind(self, name: Any, value: Any) -> int:
        return text_kind(self.event_model)

    def write(self, writer: EventWriter, x: Any) -> None:
        super().write(writer, {"text": x} if isinstance(x, str) else x)

    def texts(self, x: Any) -> tuple[Mapping[Any, Any], frozenset[Any]]:
        bag: Counter[str] = Counter()
        for name, value in ({"text": x} if isinstance(x, str) else x).items():
            if isinstance(value, str):
                bag.update(words(value))
                continue
            for token, times in (value if isinstance(value, Mapping) else {name: value}).items():
                if not is_missing(times):
                    bag[value_text(token)] += times
        return {"text": bag}, frozenset({"text"})

    def columns(self, frame: Any) -> None:
        """Check nothing: a column is a word or a text, depending on its values."""

    def write_all(self, writer: EventWriter, xs: Sequence[Any]) -> None:
        if not self.write_texts(writer, text_kind(self.event_model), "text", xs):
            super().write_all(writer, xs)

    def place(self, writer: EventWriter, name: Any, value: Any) -> None:
        is_whole = isinstance(value, str) or hasattr(value, "items")
        bag_or_text = value if is_whole else {value_text(name): value}
        place_text(writer, text_kind(self.event_model), "text", bag_or_text)


class _NominalReader(EventReader):
    _implied: ClassVar[Mapping[Any, Attribute]] = {}

    def kind(self, name: Any, value: Any) -> int:
        return NOMINAL


class _NumberReader(EventReader):
    _implied: ClassVar[Mapping[Any, Attribute]] = {}

    def kind(self, name: Any, value: Any) -> int:
        return CONTINUOUS


class _WordsNB(NaiveBayes):
    _reads_by = _WordsReader
    _event_model: EventModel

    def __init__(
        self,
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: ClassPrior = "learned",
    ) -> None:
        super().__init__(alpha=alpha, m=m, p=p, prior=prior, event_model=self._event_model)

    def _encoded_event(self, x: Any) -> EncodedEvent | None:
        kind = text_kind(self._event_model)
        if type(x) is str:
            return self._single_events.of_text(self._statistics, kind, "text", x)
        return self._single_events.of_bag(self._statistics, kind, "text", x)


class MultinomialNB(_WordsNB):
    r"""Naive Bayes of word counts (LEARN_NAIVE_BAYES_TEXT, Mitchell 1997, table 6.2).

        P(w_k | v_j) = (n_k + alpha) / (n + alpha |Vocabulary|)

    `x` is a text, or a mapping. Its strings are texts (cut by the rules of docs/texts.md), and its numbers,
    not negative, count the word that is their name. Words never seen are skipped.

    Args:
        alpha: added to every count; 0 is read as the limit.
        m: use the m-estimate in place of alpha.
        p: prior estimate of the m-estimate; None is 1 / |Vocabulary|.
        prior: as in `NaiveBayes`.

    Examples:
        >>> from streamnb import MultinomialNB
        >>> model = MultinomialNB(alpha=1)
        >>> for text, label in [
        ...     ("Chinese Beijing Chinese", "yes"), ("Chinese Chinese Shanghai", "yes"),
        ...     ("Chinese Macao", "yes"), ("Tokyo Japan Chinese", "no"),
        ... ]:
        ...     model.learn_one(text, label)
        >>> probabilities = model.predict_proba_one("Chinese Chinese Chinese Tokyo Japan")
        >>> {label: round(p, 4) for label, p in probabilities.items()}
        {'yes': 0.6898, 'no': 0.3102}
    """

    _event_model = "multinomial"

    def document_log_likelihood(self, x: Any) -> dict[Any, float]:
        """Return log P(d | v) of each class, as a bag of words: in any order of the known words, in nats.

            P(d | v) = n! / (n_1! ... n_k!)  prod P(w_i | v)^n_i

        `joint_log_likelihood` is log P(v) and the same product without the coefficient. The coefficient is
        equal for all classes, so P(v | d) does not depend on it. Words never seen are skipped.

        Examples:
            >>> model = MultinomialNB(alpha=0)
            >>> model.learn_one("a a b", "good")
            >>> round(model.document_log_likelihood("a b")["good"], 6)  # log of 2! 2/3 1/3
            -0.81093
        """
        (bag,) = self._reader.texts(x)[0].values()
        vocabulary = self.class_counts("text") if self.knows("text") else {}
        known = [float(times) for word, times in bag.items() if word in vocabulary]
        coefficient = math.lgamma(math.fsum(known) + 1.0) - math.fsum(math.lgamma(n + 1.0) for n in known)
        prior = self.joint_log_likelihood({})
        return {y: log - prior[y] + coefficient for y, log in self.joint_log_likelihood(x).items()}

    def _more_tags(self) -> set[str]:
        return {tags.POSITIVE_INPUT}


class BernoulliNB(_WordsNB):
    r"""Naive Bayes of word presence: absent words count too.

        P(d | y) = prod_i P(w_i = 1 | y)^b_i P(w_i = 0 | y)^(1 - b_i)
        P(w_i = 1 | y) = (n_i + alpha) / (n + 2 alpha)

    `x` as for `MultinomialNB`; a number above zero marks the word that is its name as present. An event
    without any attribute has no text and gets the prior; one whose words are all zero is an empty text.

    Args:
        alpha: added to every count; 0 is read as the limit.
        m: use the m-estimate in place of alpha.
        p: prior estimate of the m-estimate; None is 1/2.
        prior: as in `NaiveBayes`.

    Examples:
        >>> from streamnb import BernoulliNB
        >>> model = BernoulliNB()
        >>> model.learn_one("win cash now", "spam")
        >>> model.learn_one("lunch now", "ham")
        >>> model.predict_one("cash")
        'spam'
    """

    _event_model = "bernoulli"


class CategoricalNB(NaiveBayes):
    """Naive Bayes of nominal attributes, each a value of its field; values are compared by their text.

        P(a_i | v) = (n_c + m p) / (n + m)        n = events of class v that have the field

    Args:
        alpha: added to every count (m = alpha k, p = 1 / k, with k the number of values of the field that are
            declared or seen).
        m: use the m-estimate in place of alpha.
        p: prior estimate of the m-estimate; None is 1 / k.
        prior: as in `NaiveBayes`.
        attributes: name -> `Nominal`, for attributes with declared values, their own smoothing, or a p of
            each value: ``{"wind": Nominal(m=2, p={"weak": 0.7, "strong": 0.3})}``.

    Examples:
        >>> from streamnb import CategoricalNB
        >>> model = CategoricalNB(alpha=1)
        >>> model.learn_one({"outlook": "sunny", "windy": True}, "no")
        >>> model.learn_one({"outlook": "rain", "windy": False}, "yes")
        >>> model.predict_one({"outlook": "rain"})
        'yes'
    """

    _reads_by = _NominalReader

    def __init__(
        self,
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: ClassPrior = "learned",
        attributes: Mapping[Any, Attribute | str] | None = None,
    ) -> None:
        super().__init__(attributes, alpha, m, p, prior)
        for name, spec in self._reader.declared.items():
            if not isinstance(spec, Nominal):
                raise ValueError(f"attribute {name!r}: every attribute is nominal here, not {spec!r}")  # noqa: TRY004

    @classmethod
    def from_tables(
        cls,
        prior: Mapping[Any, float],
        tables: Mapping[Any, Mapping[Any, Mapping[Any, float]]],
        alpha: float = 0.0,
        times: int = 1,
    ) -> Self:
        """Return a model of given `tables`: attribute -> label -> value -> P(value | label).

        Probabilities are read as fractions with a denominator of at most 2^20, which is exact for decimals of
        six digits. Each distribution is learned as the fewest whole examples that have it, `times` times.
        Later learning adds to these examples.

        Raises ValueError for a distribution that does not sum to 1, or would need more than 2^20 examples.

        Examples:
            >>> from streamnb import CategoricalNB
            >>> animal = CategoricalNB.from_tables(
            ...     {"lion": 0.1, "not lion": 0.9},
            ...     {"fur": {"lion": {"yes": 0.5, "no": 0.5}, "not lion": {"yes": 0.1, "no": 0.9}}},
            ... )
            >>> round(animal.predict_proba_one({"fur": "yes"})["lion"], 3)  # .05 / (.05 + .09)
            0.357
        """
        model = cls(alpha=alpha, prior=prior)
        for name, rows in tables.items():
            for label, row in rows.items():
                shares = {value: Fraction(p).limit_denominator(_FINEST) for value, p in row.items()}
                examples = math.lcm(*(share.denominator for share in shares.values())) * times
                if sum(shares.values()) != 1 or min(shares.values()) < 0:
                    raise ValueError(f"{name!r} of {label!r}: {dict(row)} does not sum to 1")
                for value, share in shares.items():
                    if share:
                        model.learn_one({name: value}, label, int(share * examples))
        return model


class GaussianNB(NaiveBayes):
    """Naive Bayes of continuous attributes, each Gaussian within a class.

        P(x_i | y) = N(x_i; mu_iy, var_iy),  mu = sum x / n,  var = (sum (x - mu)^2 + 10 H) / (n + 10)

    H is the variance pooled over classes (see docs/model.md). With few examples the variance of a class is
    close to H, and it is at least H / 5. So a number that is constant in every class still separates classes,
    and one that is the same in all classes has no effect. `class_moments` returns sum (x - mu)^2 / n, without
    H. Values that differ only by rounding (a standard deviation of at most 8 eps |mean|) have no spread. One
    value of 1e12 among values near 1 dominates a variance for good: clip values to their known range
    (``min(max(x, low), high)``) in learning and in predicting.

    With ``covariance="tied"`` all classes share the variance of sum (x - mu)^2 / n over all classes, without
    H: P(y | x) is a logistic function of x, and the boundary between two classes is linear.

    Args:
        prior: as in `NaiveBayes`.
        covariance: "own", or "tied".

    Examples:
        >>> from streamnb import GaussianNB
        >>> model = GaussianNB()
        >>> for x, y in [(2.0, 1), (-1.2, 1), (2.2, 1), (-4.0, 0), (-6.0, 0)]:
        ...     model.learn_one({"x1": x}, y)
        >>> moment = model.class_moments("x1")[1]
        >>> round(moment.mean, 2), round(moment.variance, 2)
        (1.0, 2.43)
        >>> model.predict_one({"x1": -3.0})
        0
    """

    _reads_by = _NumberReader

    def __init__(self, prior: ClassPrior = "learned", covariance: Covariance = "own") -> None:
        super().__init__(prior=prior, covariance=covariance)


class LabelCounts(NaiveBayes):
    """Naive Bayes without attributes: it knows the classes, so a label too many is refused as it was."""

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Count the labels alone."""
        super().learn_late_many([{} for _ in xs], ys, ws, ts, again=again)

    def unlearn_many(self, *_: Any, **__: Any) -> None:
        """Do nothing."""
