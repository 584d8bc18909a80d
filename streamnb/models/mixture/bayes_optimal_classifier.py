"""Bayes optimal classifier over any River classifiers, each weighed by its past predictions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, get_args

import numpy as np
from river import base

from streamnb.features.targets import EncodedExamples
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.attribution import Item
from streamnb.models.interface.river_classifier import (
    answer_of,
    corrections_of,
    load_state_of,
    prunings_of,
    state_of,
    teach_one,
    unteach_one,
)
from streamnb.models.interface.stream_model import Corrections, Events, Labels, Prunings
from streamnb.scoring.prequential_scores import ESCAPE
from streamnb.statistics.counter_rng import check_seed
from streamnb.statistics.hypothesis_weights import weighted_mean
from streamnb.statistics.sequential_posterior import SequentialPosterior
from streamnb.values.example_weights import has_weight
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_mapping
from streamnb.values.savable import Savable
from streamnb.values.state_validation import named, state_errors
from streamnb.values.type_aliases import Array, State, Times, Weights

PredictionMode = Literal["mixture", "map", "gibbs"]
_POSTERIOR = "posterior_"  # prefix of the posterior's arrays in a state


class BayesOptimalClassifier(Savable, base.Classifier):  # type: ignore[misc]  # River is untyped here
    """A mixture of classifiers, weighed by their posterior probability given all that they predicted.

        P(v | x, D) = sum over h of P(v | x, h) P(h | D)
        P(h | D, (x, y)) is proportional to P(y | x, h) P(h | D), h having learned D but not yet (x, y)

    **Bound.** After T events the total log loss of the mixture, sum of -ln P(y | x, D), is at most the loss
    of every classifier h plus ln 1/P0(h) + T ln 1/(1 - r), with P0 its prior and r the switching rate. For n
    classifiers of equal prior and r = 0 the excess over the best classifier is at most ln n in all, for
    streams of any length and origin. The bound holds for log loss and ``prediction="mixture"``, not for
    accuracy and not for the other modes. The loss is measured on the published predictions, as
    `ProgressiveValidation` scores them, except for rounding and 1e-15 for each event and label; if a model
    gave every label probability 0, the published predictions lose less.

    Answers of a classifier are normalised:
        sum         probabilities are divided by their sum: no classifier gains by claiming more than 1.
        floor       then each is raised to at least 1e-15, in weighing and in predicting: a label that a
                    classifier does not know costs it 34.5 nats, and does not exclude it.
        {}          the answer of an untrained classifier counts as probability 0 for every label.
        NaN, inf    and negative numbers count as 0.
        no method   a classifier without `predict_proba_one` counts as certain of its `predict_one`.
    The labels are the union over the classifiers; if there are none, the prediction is empty.

    Modes of prediction:
        "mixture"   the Bayesian prediction; its most probable label is the Bayes optimal classification.
        "map"       the prediction of the most probable classifier.
        "gibbs"     the prediction of a classifier drawn from the posterior after each event learned. The
                    draw is a function of `seed` and the number of events learned, so a replay repeats it.

    Args:
        models: name -> classifier, or a sequence of classifiers named by their class and, if several have
            the same, a number from 1. As in River's ensembles they are trained in place.
        prior: name -> relative weight, of every model; None is equal weights. A model of weight 0 learns
            but does not contribute to predictions.
        switching_rate: r, 0 <= r < 1, for streams whose best model changes.
        prediction: "mixture", "map" or "gibbs".
        seed: of the Gibbs draws, an integer from 0 to 2^128 - 1.

    Raises:
        ValueError: if `models` is empty, a model occurs twice, `prior` names other models, or a value is out
            of range.

    Examples:
        >>> from river import dummy
        >>> from streamnb import BayesOptimalClassifier, CategoricalNB
        >>> model = BayesOptimalClassifier({"class": dummy.PriorClassifier(), "colour": CategoricalNB()})
        >>> for _ in range(4):
        ...     model.learn_one({"colour": "red"}, "apple")
        ...     model.learn_one({"colour": "yellow"}, "banana")
        >>> {name: round(p, 2) for name, p in model.posterior.probabilities.items()}
        {'class': 0.05, 'colour': 0.95}
        >>> model.predict_one({"colour": "yellow"})
        'banana'
        >>> model.posterior.regret() <= model.posterior.bound()
        True

    References:
        Mitchell, Machine Learning (1997), sections 6.7 and 6.8; Dawid (1984), "The prequential approach";
        Herbster and Warmuth (1998), "Tracking the best expert".
    """

    def __init__(
        self,
        models: Mapping[str, base.Classifier] | Sequence[base.Classifier],
        prior: Mapping[str, float] | None = None,
        switching_rate: float = 0.0,
        prediction: PredictionMode = "mixture",
        seed: int = 0,
    ) -> None:
        if prediction not in get_args(PredictionMode):
            raise ValueError(f"prediction must be one of {get_args(PredictionMode)}, got {prediction!r}")
        check_seed(seed)
        check_mapping("prior", prior, "{'naive': 1.0}")
        self.models = models
        self.prior = prior
        self.switching_rate = switching_rate
        self.prediction = prediction
        self.seed = seed
        if len({id(model) for model in self._classifiers()}) < len(models):
            raise ValueError("a model occurs twice: it would learn each event twice")
        names = list(models) if isinstance(models, Mapping) else _names(models)
        if prior is not None and prior.keys() != set(names):
            raise ValueError(f"a prior of {list(prior)} for the models {names}")
        self.posterior = SequentialPosterior(
            names if prior is None else {name: prior[name] for name in names}, switching_rate
        )
        """The posterior over the models' names, with losses, regret and bound; read-only."""

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import dummy, naive_bayes  # noqa: PLC0415  for checks alone

        yield {"models": [naive_bayes.GaussianNB(), dummy.PriorClassifier()], "prediction": "map"}

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of each model that has `parameters`, by its name."""
        models = zip(self.posterior.hypotheses, self._classifiers(), strict=True)
        return {name: model.parameters() for name, model in models if hasattr(model, "parameters")}

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of all models of `parameters`."""
        return sum(model.n_parameters for model in self._classifiers() if hasattr(model, "parameters"))

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Update the posterior with each model's probability of `y`, then let each model learn the event.

        The weight `w` does not change the update of the posterior, unless `w` is 0: then nothing is learned.
        An event without a label (None) leaves the posterior unchanged, and is learned by models that have
        `learn_unlabelled_one`.

        An exception of a model is passed on. The posterior, that model and the models after it are then
        unchanged, if the model refuses before it learns, as all models of this package do. The models before
        it unlearn the event as far as their `corrections` allow; River's models cannot, and have learned it.
        """
        self._learn(x, y, w)

    def learn_late_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn an event that first came without its label, by `learn_late_one` if a model has it."""
        self._learn(x, y, w, late=True)

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Unlearn these events, in order, from all models that can; the posterior is unchanged."""
        for x, y, w, number in EncodedExamples.from_examples(xs, ys, ws, prunings).each():
            self._of_each(
                partial(unteach_one, x=x, y=y, w=w, prunings=number), partial(teach_one, x=x, y=y, w=w)
            )

    def learn_unlabelled_one(self, x: dict[Any, Any], w: float = 1.0) -> None:
        """Teach the event to models that learn without labels; the posterior is unchanged."""
        self.learn_one(x, None, w)

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return P(v | x, D) of each label that a model mentions, by the mode; they sum to 1."""
        answers = [answer_of(model, x) for model in self._classifiers()]
        labels = list(dict.fromkeys(label for answer in answers for label in answer))
        if not labels:
            return {}
        table = np.array([[answer.get(label, 0.0) for label in labels] for answer in answers])
        mean = weighted_mean(self._listened(), np.maximum(table, ESCAPE))
        return dict(zip(labels, (mean / math.fsum(mean)).tolist(), strict=True))

    def explain_one(self, x: dict[Any, Any], top: int | None = None) -> list[Item]:
        """Return the most probable model's explanation of its prediction, if it has `explain_one`."""
        best = self._classifiers()[int(self.posterior.weights.log_posterior.argmax())]
        explain = getattr(best, "explain_one", None)
        return [] if explain is None else explain(x, top)

    def prune(
        self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: int | None = None
    ) -> int:
        """Prune every model that has a vocabulary; return the largest number dropped. See `NaiveBayes`."""
        able = [model for model in self._classifiers() if hasattr(model, "prune")]
        return max((model.prune(min_count, drop_most_frequent, max_attributes) for model in able), default=0)

    @property
    def corrections(self) -> Corrections:
        """Either "counts", if any model can unlearn its counts, or "again"; never the posterior."""
        return "again" if set(map(corrections_of, self._classifiers())) == {"again"} else "counts"

    @property
    def n_prunings(self) -> int:
        """Largest number of prunings of any model."""
        return max(map(prunings_of, self._classifiers()))

    @property
    def n_attributes(self) -> int:
        """Largest number of words and values of any model that has this count."""
        return max(getattr(model, "n_attributes", 0) for model in self._classifiers())

    @property
    def n_bytes(self) -> int:
        """Memory of the models that report theirs, bytes."""
        return sum(getattr(model, "n_bytes", 0) for model in self._classifiers())

    def state(self) -> State:
        """Return the state of the posterior and all models. Raises TypeError if a model has no `state`."""
        meta, arrays = self.posterior.state()
        found = {f"{_POSTERIOR}{name}": array for name, array in arrays.items()}
        models = []
        for i, model in enumerate(self._classifiers()):
            model_meta, model_arrays = state_of(model)
            models.append(model_meta)
            found |= {f"{_model(i)}{name}": array for name, array in model_arrays.items()}
        return {"type": type(self).__name__, "posterior": meta, "models": models}, found

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace everything learned by the `state` of a mixture of the same models; return self.

        Raises ValueError for a state of other models, priors or switching rate, and SnapshotError for a
        damaged state; then no model is changed.
        """
        if meta.get("type") != type(self).__name__:
            raise ValueError(f"this is the state of a {meta.get('type')}, not of a {type(self).__name__}")
        with state_errors(f"a {type(self).__name__}"):
            posterior = SequentialPosterior.from_state(meta["posterior"], named(arrays, _POSTERIOR))
            if _weighed_by(posterior) != _weighed_by(self.posterior):
                raise ValueError(f"a state of other models, priors or switching rate: {posterior}")
            models = list(zip(self._classifiers(), meta["models"], strict=True))
            self._load(models, arrays)
        self.posterior = posterior
        return self

    def _load(self, models: Sequence[tuple[Any, Any]], arrays: Mapping[str, Array]) -> None:
        """Load each model's part of a state, or, if one cannot, restore all."""
        before = [state_of(model) for model, _ in models]
        loaded = 0
        try:
            for i, (model, meta) in enumerate(models):
                load_state_of(model, meta, named(arrays, _model(i)))
                loaded += 1
        except Exception:
            for (model, _), state in zip(models[:loaded], before, strict=False):
                load_state_of(model, *state)
            raise

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:  # noqa: FBT001, FBT002
        """Return an untrained copy, or, with `include_attributes`, a copy with everything learned."""
        fresh: dict[str, Any] = {}
        if not include_attributes:
            models = self.models
            fresh["models"] = (
                {name: model.clone() for name, model in models.items()}
                if isinstance(models, Mapping)
                else [model.clone() for model in models]
            )
        cloned: Self = super().clone(fresh | (new_params or {}), include_attributes)
        return cloned

    def _learn(self, x: dict[Any, Any], y: Any, w: float, *, late: bool = False) -> None:
        answers: list[dict[Any, float]] = []
        if not is_missing(y) and has_weight(w):
            answers = [answer_of(model, x) for model in self._classifiers()]
        self._of_each(
            partial(teach_one, x=x, y=y, w=w, late=late), partial(unteach_one, x=x, y=y, w=w, prunings=None)
        )
        if answers:
            self.posterior.update_log([math.log(max(answer.get(y, 0.0), ESCAPE)) for answer in answers])

    def _of_each(self, do: Callable[[Any], None], undo: Callable[[Any], None]) -> None:
        """Apply `do` to every model; if one refuses, undo it for those that can unlearn."""
        done: list[Any] = []
        try:
            for model in self._classifiers():
                do(model)
                done.append(model)
        except Exception:
            for model in done:
                if corrections_of(model) != "again":
                    undo(model)
            raise

    def _classifiers(self) -> list[Any]:
        return list(self.models.values() if isinstance(self.models, Mapping) else self.models)

    def _listened(self) -> Floats:
        posterior = self.posterior
        if self.prediction == "mixture":
            return np.array(list(posterior.probabilities.values()))
        chosen = (
            posterior.map() if self.prediction == "map" else posterior.draw(posterior.observations, self.seed)
        )
        return np.array([float(name == chosen) for name in posterior.hypotheses])

    @property
    def _multiclass(self) -> bool:
        return all(model._multiclass for model in self._classifiers())  # noqa: SLF001  River's own

    def _more_tags(self) -> set[str]:
        return set().union(*(model._tags for model in self._classifiers()))  # noqa: SLF001  River's own


def _model(i: int) -> str:
    return f"model{i}_"


def _weighed_by(posterior: SequentialPosterior) -> tuple[list[Any], bytes, float]:
    return posterior.hypotheses, posterior.weights.log_prior.tobytes(), posterior.switching_rate


def _names(models: Sequence[Any]) -> list[str]:
    classes = [type(model).__name__ for model in models]
    times, met = Counter(classes), Counter[str]()
    names = []
    for name in classes:
        met[name] += 1
        names.append(f"{name}-{met[name]}" if times[name] > 1 else name)
    return names
