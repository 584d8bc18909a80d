"""Hypotheses of a model, as ``[[hypotheses]]`` tables declare them, and their weighing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from streamnb.config.attribute_config import AttributeConfig, check_smoothing
from streamnb.config.config_literals import format_duration
from streamnb.config.config_sections import Section, kinds_of, read_entries, tables
from streamnb.config.validators import (
    ABOVE_ZERO,
    NAME,
    PRIOR_WEIGHT,
    PROPORTION,
    RATE,
    SIZE,
    duration,
    number,
    refused,
    whole,
)
from streamnb.errors import ConfigError
from streamnb.features.attributes import EventModel
from streamnb.models.registry import DEFAULT_HYPOTHESES, load
from streamnb.models.registry import HYPOTHESES as HYPOTHESES_OF_MODELS

_OWN: dict[str, dict[str, Any]] = {
    "naive_bayes": {
        **dict.fromkeys("likelihood alpha m p prior half_life".split()),
        "density": "gaussian",
        "calibrated": False,
    },
    "softmax": {"rate": 0.6, "pairs": False},
    "byte_softmax": {"rate": 0.6, "first_bytes": 2000},
    "pool": {"variance": 0.1, "calibrated": False},
    "one_dependence": {"prior_weight": 5.0, "max_attributes": None},
    "mondrian_forest": {"trees": 8},
    "recent_gaussian": {"half_life_events": 32},
}
"""Kind -> the keys that not all kinds have, with their defaults."""
_NOT_NAIVE: dict[str, Any] = dict.fromkeys(("density", "calibrated"))
"""Fields of `HypothesisConfig` whose default applies to the default kind only."""


class HypothesisConfig(Section, frozen=True):
    """One hypothesis: a naive Bayes model on the shared counts, or a separate learner.

    A key of another kind is None, and so is a setting that a naive Bayes hypothesis takes from the model.
    Smoothing is taken as a whole: alpha, or m with p.

    Attributes:
        kind: "naive_bayes", "softmax", "byte_softmax", "pool", "one_dependence", "mondrian_forest" or
            "recent_gaussian"; see `streamnb.models.mixture` for all but the first.
        likelihood: how texts are read; see `streamnb.models.mixture.hypotheses.Hypothesis`.
        alpha: added to every count.
        m: equivalent sample size of the m-estimate, in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen.
        prior: of the labels: "learned", "uniform", or "given" by the model's `priors`.
        half_life: seconds of event time after which what was learned counts half; None never forgets.
        density: how continuous values are read: "gaussian", or "binned", which cannot forget.
        calibrated: whether a naive Bayes model is raised to a power that is learned, or a pool's confidence
            corrected.
        rate: of learning, of a softmax regression, on bytes or not.
        first_bytes: how many bytes of a text are read by a softmax regression on bytes.
        pairs: whether pairs of adjacent words and of attributes are features of a softmax regression.
        variance: of a pool's weights before anything is learned.
        prior_weight: weight of P(value | label) next to pairs of values, in examples.
        max_attributes: number of attributes read in pairs, the first that are learned; None reads all.
        trees: number of trees of a forest.
        half_life_events: number of learned events after which an event counts half, of recent events.
        weight: relative prior probability of the hypothesis itself; 0 for a hypothesis that is not weighed.
        name: its name in predictions, metrics and reports; None derives it.
    """

    kind: Literal[
        "naive_bayes",
        "softmax",
        "byte_softmax",
        "pool",
        "one_dependence",
        "mondrian_forest",
        "recent_gaussian",
    ] = "naive_bayes"
    likelihood: Literal["multinomial", "presence", "bernoulli", "complement"] | None = None
    alpha: Annotated[float | None, ABOVE_ZERO] = None
    m: Annotated[float | None, ABOVE_ZERO] = None
    p: Annotated[float | None, PROPORTION] = None
    prior: Literal["learned", "uniform", "given"] | None = None
    half_life: Annotated[float | None, duration(above_zero=True)] = None
    density: Literal["gaussian", "binned"] | None = "gaussian"
    calibrated: bool | None = False
    rate: Annotated[float | None, ABOVE_ZERO] = None
    first_bytes: Annotated[int | None, whole(4, 1 << 20)] = None
    pairs: bool | None = None
    variance: Annotated[float | None, ABOVE_ZERO] = None
    prior_weight: Annotated[float | None, PRIOR_WEIGHT] = None
    max_attributes: Annotated[int | None, whole(1, 1 << 12)] = None
    trees: Annotated[int | None, whole(1, 1000)] = None
    half_life_events: Annotated[int | None, whole(1, 1_000_000_000)] = None
    weight: Annotated[float, number(0)] = 1.0
    name: Annotated[str | None, NAME] = None

    def read_as(self, event_model: EventModel) -> str:
        """Return its likelihood, in a model whose texts are read as `event_model`."""
        return self.likelihood or event_model

    @property
    def has_smoothing(self) -> bool:
        """True if it has smoothing of its own."""
        return self.alpha is not None or self.m is not None

    @property
    def takes_smoothing(self) -> bool:
        """True if it takes the smoothing of the model."""
        return self.kind == "naive_bayes" and not self.has_smoothing

    @property
    def is_opinion(self) -> bool:
        """True if a pool includes it."""
        is_calibrated = self.kind == "naive_bayes" and bool(self.calibrated)
        return is_calibrated or self.kind not in {"naive_bayes", "pool"}

    @property
    def is_renewed(self) -> bool:
        """True if any of it restarts when the model is renewed."""
        learns = self.kind not in {"naive_bayes", "one_dependence"} or bool(self.calibrated)
        return learns or self.half_life is not None or self.density == "binned"

    @property
    def own(self) -> dict[str, Any]:
        """The keys set here that not all kinds have."""
        given = {name: getattr(self, name) for name in _OWN[self.kind]}
        return {name: value for name, value in given.items() if value is not None}


class PosteriorConfig(Section, frozen=True):
    """Weighing and use of hypotheses; unused without hypotheses.

    Attributes:
        prediction: "mixture" (Bayes optimal), "map" (the most probable) or "gibbs" (a random draw).
        switching_rate: probability that the best hypothesis changes from one event to the next; None is 0 for
            declared hypotheses, and more for the default ones (`streamnb.config.Config`).
        seed: of the draws.
        memory: bytes for the features of softmax regressions; when it is used up no more are added.
            Those on bytes take at most an eighth more.
        floor: whether a label costs a mixture at most the logarithm of the number of events.
        caution: whether softmax regressions doubt a class that has few examples in a long stream.
    """

    prediction: Literal["mixture", "map", "gibbs"] = "mixture"
    switching_rate: Annotated[float | None, RATE] = None
    seed: Annotated[int, whole(0, 2**63 - 1)] = 0
    memory: Annotated[int, SIZE] = 256 << 20
    floor: bool = True
    caution: bool = True


@cache
def default_hypotheses() -> tuple[HypothesisConfig, ...]:
    """Return the default hypotheses of a mixture, as tables would declare them."""
    kinds = {load(path): kind for kind, path in HYPOTHESES_OF_MODELS.items() if kind != "naive_bayes"}

    def declared(hypothesis: Any) -> HypothesisConfig:
        given = {
            name: value
            for name, value in vars(hypothesis).items()
            if value not in {"", "learned"} and name in HypothesisConfig.__struct_fields__
        }
        kind = kinds.get(type(hypothesis))
        # The class prior of naive Bayes comes from the model.
        return HypothesisConfig(**{**({"kind": kind, **_NOT_NAIVE} if kind else {}), **given})

    return tuple(map(declared, load(DEFAULT_HYPOTHESES)))


def misfits_of_attributes(attributes: Sequence[AttributeConfig], instead: str = "") -> Iterator[ConfigError]:
    """Yield errors, which end with `instead`, for all settings of attributes that hypotheses exclude."""
    for i, attribute in enumerate(attributes):
        key = f"attributes[{i}]"
        if attribute.event_model is not None:
            expected = f"no event_model with hypotheses, which define how texts are read{instead}"
            yield refused(f"{key}.event_model", attribute.event_model, expected)
        for name in ("alpha", "m"):
            if getattr(attribute, name) == 0.0:
                yield refused(f"{key}.{name}", 0.0, f"{ABOVE_ZERO.expected} with hypotheses{instead}")


def _check(key: str, hypotheses: Sequence[HypothesisConfig]) -> None:
    """Refuse an empty pool, different settings of bytes, and zero weights only."""
    for i, hypothesis in enumerate(hypotheses):
        if hypothesis.kind == "pool" and not any(other.is_opinion for other in hypotheses):
            kinds = (
                'of kind "softmax", "byte_softmax", "one_dependence", "mondrian_forest" or "recent_gaussian"'
            )
            kinds += " or with calibrated = true"
            raise refused(f"{key}[{i}].kind", "pool", f"another hypothesis to pool, {kinds}")
    read = [(i, h.first_bytes) for i, h in enumerate(hypotheses) if h.first_bytes is not None]
    for i, first_bytes in read:
        if first_bytes != read[0][1]:
            expected = f"{read[0][1]}, as {key}[{read[0][0]}] has: all share what they read"
            raise refused(f"{key}[{i}].first_bytes", first_bytes, expected)
    if hypotheses and not any(hypothesis.weight for hypothesis in hypotheses):
        raise refused(f"{key}[0].weight", 0.0, "a weight above 0 for at least one of the hypotheses")


def _read_table(key: str, table: object) -> HypothesisConfig:
    expected = "a table such as { likelihood = ..., alpha = ... }"
    values = read_entries(HypothesisConfig, key, table, expected)
    kind = values.get("kind", HypothesisConfig().kind)
    for name, value in values.items():
        owners = [owner for owner, own in _OWN.items() if name in own]
        if owners and kind not in owners:
            found = f'{kinds_of(HypothesisConfig)[name].write(value)} and {key}.kind is "{kind}"'
            expected = " or ".join(f'"{owner}"' for owner in owners)
            raise ConfigError(f"{key}.{name} is {found}; expected {name} with kind = {expected} alone")
    hypothesis = HypothesisConfig(**{**_NOT_NAIVE, **_OWN[kind], **values})
    check_smoothing(key, hypothesis.alpha, hypothesis.m, hypothesis.p)
    if hypothesis.half_life is not None and hypothesis.density == "binned":
        found = format_duration(hypothesis.half_life)
        expected = 'no half_life with density = "binned", for bins do not forget'
        raise refused(f"{key}.half_life", found, expected)
    return hypothesis


HYPOTHESES = tables("hypotheses", _read_table, _check)
