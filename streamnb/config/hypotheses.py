"""What a model weighs, as ``[[hypotheses]]`` tables declare it, and by what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from streamnb.config.attributes import AttributeConfig, check_smoothing
from streamnb.config.kinds import ABOVE_ZERO, NAME, PROPORTION, RATE, Kind, choice, duration, refused, whole
from streamnb.config.sections import Section
from streamnb.config.table_lists import read_entries, write_tables
from streamnb.errors import ConfigError
from streamnb.model.attributes import EventModel

__all__ = ["HYPOTHESES", "HypothesisConfig", "PosteriorConfig", "misfits_of_attributes"]


class HypothesisConfig(Section, frozen=True):
    """One hypothesis: a naive Bayes model that reads the counts which all share.

    What is None is the model's. Smoothing is taken whole: alpha, or m with p.

    Attributes:
        likelihood: how texts are read; see `streamnb.model.hypotheses.Hypothesis`.
        alpha: added to every count.
        m: equivalent sample size of the m-estimate, in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values seen.
        prior: of the labels: "learned", "uniform", or "given" by the model's `priors`.
        half_life: seconds of event time after which what was learned counts half; None never forgets.
        weight: relative prior probability of the hypothesis itself.
        name: what predictions, metrics and reports call it; None says how it reads.
    """

    likelihood: Annotated[
        Literal["multinomial", "presence", "bernoulli", "complement"] | None,
        choice("multinomial", "presence", "bernoulli", "complement"),
    ] = None
    alpha: Annotated[float | None, ABOVE_ZERO] = None
    m: Annotated[float | None, ABOVE_ZERO] = None
    p: Annotated[float | None, PROPORTION] = None
    prior: Annotated[Literal["learned", "uniform", "given"] | None, choice("learned", "uniform", "given")] = (
        None
    )
    half_life: Annotated[float | None, duration(above_zero=True)] = None
    weight: Annotated[float, ABOVE_ZERO] = 1.0
    name: Annotated[str | None, NAME] = None

    def read_as(self, event_model: EventModel) -> str:
        """Its likelihood, in a model whose texts are read as `event_model`."""
        return self.likelihood or event_model

    @property
    def has_smoothing(self) -> bool:
        """Whether it is smoothed by values of its own."""
        return self.alpha is not None or self.m is not None


class PosteriorConfig(Section, frozen=True):
    """How hypotheses are weighed and used; without hypotheses it is not read.

    Attributes:
        prediction: "mixture" (Bayes optimal), "map" (the most probable) or "gibbs" (one that is drawn).
        switching_rate: probability that another hypothesis is right from one event to the next.
        seed: of the draws.
    """

    prediction: Annotated[Literal["mixture", "map", "gibbs"], choice("mixture", "map", "gibbs")] = "mixture"
    switching_rate: Annotated[float, RATE] = 0.0
    seed: Annotated[int, whole(0, 2**63 - 1)] = 0


def misfits_of_attributes(attributes: Sequence[AttributeConfig]) -> Iterator[ConfigError]:
    """What attributes declare that cannot stand beside hypotheses."""
    for i, attribute in enumerate(attributes):
        key = f"attributes[{i}]"
        if attribute.event_model is not None:
            expected = "no event_model beside hypotheses, which say how texts are read"
            yield refused(f"{key}.event_model", attribute.event_model, expected)
        for name in ("alpha", "m"):
            if getattr(attribute, name) == 0.0:
                yield refused(f"{key}.{name}", 0.0, f"{ABOVE_ZERO.expected} beside hypotheses")


class _Hypotheses(Kind[Any], frozen=True):
    """A list of tables, each read as a `HypothesisConfig`."""

    def read(self, key: str, value: object) -> tuple[HypothesisConfig, ...]:
        """The hypotheses in order; an error names the one at fault as ``hypotheses[0]``."""
        tables = super().read(key, value)
        hypotheses = tuple(_read_table(f"{key}[{i}]", table) for i, table in enumerate(tables))
        first: dict[str, int] = {}
        for i, hypothesis in enumerate(hypotheses):
            name = hypothesis.name
            if name is not None and (same := first.setdefault(name, i)) != i:
                raise refused(f"{key}[{i}].name", name, f"another name than {key}[{same}] has")
        return hypotheses


def _read_table(key: str, table: object) -> HypothesisConfig:
    hypothesis = HypothesisConfig(
        **read_entries(HypothesisConfig, key, table, "a table such as { likelihood = ..., alpha = ... }")
    )
    check_smoothing(key, hypothesis.alpha, hypothesis.m, hypothesis.p)
    return hypothesis


HYPOTHESES = _Hypotheses(
    "list of tables",
    "[[hypotheses]] tables, or a list of tables",
    lambda value: value if isinstance(value, list) else None,
    write_tables,
)
