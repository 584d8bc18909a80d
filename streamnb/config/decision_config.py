"""What to decide of an event, as the section ``[decision]`` declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from streamnb.config.config_sections import Section
from streamnb.config.validators import COSTS, NEW_PRIORS, NOVELTY, number, whole


class DecisionConfig(Section, frozen=True):
    """It is decided where any of these is given; see `streamnb.scoring.decision_rule`.

    Attributes:
        costs: decision -> truth -> what that costs; others cost 1, or 0 where they are the same.
        reject: what it costs not to decide; None: what can be decided always is.
        priors: how frequent classes will be: "learned" (as they were), "uniform", "windowed" (as of late), or
            label -> weight.
        window: how many labelled events "windowed" counts.
        novelty: nothing is decided of what is less usual than this share of its class; 0: that is not asked.
    """

    costs: Annotated[dict[str, dict[str, float]], COSTS] = msgspec.field(default_factory=dict)
    reject: Annotated[float | None, number(0)] = None
    priors: Annotated[str | dict[str, float], NEW_PRIORS] = "learned"
    window: Annotated[int, whole(1, 1_000_000)] = 1000
    novelty: Annotated[float, NOVELTY] = 0.0

    @property
    def is_given(self) -> bool:
        """Whether it is decided."""
        return self != DecisionConfig()

    @property
    def corrects(self) -> bool:
        """Whether other priors count than those that were learned."""
        return isinstance(self.priors, Mapping) or self.priors != "learned"
