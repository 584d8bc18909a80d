"""Decisions about events, as the section ``[decision]`` declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from streamnb.config.config_sections import Section
from streamnb.config.validators import COSTS, NEW_PRIORS, NOVELTY, number, whole


class DecisionConfig(Section, frozen=True):
    """Events are decided if any of these is set; see `streamnb.scoring.decision_rule`.

    Attributes:
        costs: decision -> truth -> cost; the default is 1, or 0 if both are the same.
        reject: cost of not deciding; None decides whenever possible.
        priors: future class frequencies: "learned" (as so far), "uniform", "windowed" (as recently), or label
            -> weight.
        window: number of labelled events for "windowed".
        novelty: an event less typical than this share of its class is not decided; 0 disables the check.
    """

    costs: Annotated[dict[str, dict[str, float]], COSTS] = msgspec.field(default_factory=dict)
    reject: Annotated[float | None, number(0)] = None
    priors: Annotated[str | dict[str, float], NEW_PRIORS] = "learned"
    window: Annotated[int, whole(1, 1_000_000)] = 1000
    novelty: Annotated[float, NOVELTY] = 0.0

    @property
    def is_given(self) -> bool:
        """True if events are decided."""
        return self != DecisionConfig()

    @property
    def corrects(self) -> bool:
        """True if other priors than the learned ones apply."""
        return isinstance(self.priors, Mapping) or self.priors != "learned"
