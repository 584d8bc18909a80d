"""Counters of a learner since their last read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from streamnb.events import MetricsReport


@dataclass
class Counters:
    """Counters since the last read, not part of the state.

    Attributes:
        learned: label -> events.
        predicted: label -> predictions; None for an empty model.
        dead_letters: reason -> records.
        drifts: detector -> drifts found.
        alerts: (monitor, kind, state) -> alerts.
        small_weights: labels whose weight is above 0 and below 1/1024, and counts as 1/1024.
        report: the last report.
    """

    learned: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str | None] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    drifts: Counter[str] = field(default_factory=Counter)
    alerts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    small_weights: int = 0
    report: MetricsReport | None = None
