"""What happened in a learner since somebody last asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from streamnb.events import MetricsReport


@dataclass
class Counters:
    """What happened since someone last asked; it is no state, and in no snapshot.

    Attributes:
        learned: label -> events.
        predicted: label -> predictions; None is an empty model's.
        dead_letters: reason -> records.
        drifts: detector -> drifts found.
        alerts: (monitor, kind, state) -> alerts.
        small_weights: labels whose weight is above 0 and below 1/1024, and counts 1/1024.
        report: the last report made.
    """

    learned: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str | None] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    drifts: Counter[str] = field(default_factory=Counter)
    alerts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    small_weights: int = 0
    report: MetricsReport | None = None
