"""Section of a metrics report on labels that arrive separately from their events."""

from __future__ import annotations

from itertools import accumulate

from streamnb.engine.labels.delay_scores import DELAYS
from streamnb.engine.labels.delayed_labels import DelayedLabels
from streamnb.events import DelayScores, LabelReport
from streamnb.scoring.revisable_scores import nats

_MOST = (0.0, *DELAYS, None)


def label_report(late: DelayedLabels, mass: float | None) -> LabelReport:
    """Return counts, delays and scores; with `mass` of the interval also estimates of unlabelled events."""
    judged = late.scoring.scores.events
    return LabelReport(
        served=late.served,
        judged=judged,
        coverage=judged / late.served if late.served else 0.0,
        pending=late.pending.size,
        outcomes=dict(sorted(late.outcomes.items())),
        sources=dict(sorted(late.by_source.items())),
        delays=tuple(
            DelayScores(most, events, right / events, nats(loss) / events)
            for most, (events, right, loss) in zip(_MOST, late.scoring.delays, strict=True)
            if events
        ),
        median_delay=_quantile(late, 0.5),
        p90_delay=_quantile(late, 0.9),
        p99_delay=_quantile(late, 0.99),
        unjudged=None if mass is None else late.scoring.unlabelled(mass),
        awaited=0 if mass is None else late.awaited,
    )


def _quantile(late: DelayedLabels, share: float) -> float | None:
    """Return the smallest delay bound that a `share` of the labelled events keeps."""
    events = [row[0] for row in late.scoring.delays]
    total = sum(events)
    for most, below in zip(_MOST, accumulate(events), strict=True):
        if total and below >= share * total:
            return most
    return None
