"""Quality in metrics reports as Prometheus metrics: scores, calibration, rates, hypotheses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

import numpy as np
from prometheus_client import CollectorRegistry, Gauge

from streamnb.events import LabelReport, MetricsReport, PosteriorReport, Scores

MOST_NAMES = 100
LONGEST_NAME = 200

_SCORES = {
    "accuracy": ("streamnb_accuracy_ratio", "Share of labelled events that were predicted right."),
    "log_loss": ("streamnb_log_loss", "Mean of -ln P(truth), in nats."),
    "macro_f1": ("streamnb_macro_f1_ratio", "Unweighted mean of the F1 of every class."),
    "kappa": ("streamnb_kappa_ratio", "Cohen's kappa: accuracy beyond chance."),
    "brier": ("streamnb_brier_score", "Mean squared error of the probabilities, from 0 to 2."),
    "calibration_error": (
        "streamnb_calibration_error_ratio",
        "Expected calibration error: how far confidence is from accuracy.",
    ),
}

_BOUNDS = {
    "lower": ("streamnb_accuracy_lower_ratio", "Lower bound of the credible interval of the accuracy."),
    "upper": ("streamnb_accuracy_upper_ratio", "Upper bound of the credible interval of the accuracy."),
}

_RATES = {
    "rate": ("streamnb_class_rate_ratio", "Share of the learned weight that is of one class."),
    "lower": ("streamnb_class_rate_lower_ratio", "Lower bound of the credible interval of a class's rate."),
    "upper": ("streamnb_class_rate_upper_ratio", "Upper bound of the credible interval of a class's rate."),
}

_DECISIONS = {
    "mean_cost": ("streamnb_decision_mean_cost", "Mean cost of what was decided of labelled events."),
    "coverage": ("streamnb_decision_coverage_ratio", "Share of labelled events that were decided."),
    "accuracy": ("streamnb_decision_accuracy_ratio", "Share of these that was decided right."),
}

_RELIABILITY = {
    "confidence": (
        "streamnb_calibration_confidence_ratio",
        "Mean confidence of the predictions in one bin of confidence.",
    ),
    "accuracy": (
        "streamnb_calibration_accuracy_ratio",
        "Share of the predictions in one bin of confidence that were right.",
    ),
    "events": ("streamnb_calibration_events", "Labelled events in one bin of confidence."),
}


class BoundedNames:
    """Bounded set of label values: the first names get a series each, all further names share "(other)".

    Clients choose the labels, and a series is never removed: without a bound a producer could fill the memory
    of this process and of Prometheus.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    def bounded(self, name: str) -> str:
        """Return the name, or "(other)" if there are too many or it is too long."""
        if name not in self._known:
            if len(self._known) >= MOST_NAMES or len(name) > LONGEST_NAME:
                return "(other)"
            self._known.add(name)
        return name


class Quality:
    """The metrics in reports; hypothesis metrics appear with the first hypotheses."""

    def __init__(self, registry: CollectorRegistry, labels: BoundedNames) -> None:
        gauge = partial(Gauge, registry=registry)
        self._registry = registry
        self._scores = {field: gauge(*named, ["scope"]) for field, named in _SCORES.items()}
        self._bounds = {field: gauge(*named, ["scope"]) for field, named in _BOUNDS.items()}
        curves = {field: gauge(*named, ["scope", "bin"]) for field, named in _RELIABILITY.items()}
        self._curves = {scope: _Series(curves, scope) for scope in ("all", "window")}
        self._rates = _Series({field: gauge(*named, ["label"]) for field, named in _RATES.items()})
        self._decisions = _Series({field: gauge(*named, ["scope"]) for field, named in _DECISIONS.items()})
        self._labels = labels
        self._weighing: _Weighing | None = None
        self._judging: _Judging | None = None

    def set(self, report: MetricsReport) -> None:
        """Store a report's scores, cumulative and of the window."""
        self._set_scores("all", report.cumulative)
        self._set_scores("window", report.window)
        # Rates of classes that share a name are omitted: their bounds do not add up.
        rates = zip(report.labels, report.class_rates, strict=False)
        self._rates.set({label: rate for label, rate in rates if self._labels.bounded(label) == label})
        found = report.decisions
        scopes = {} if found is None else {"all": found.cumulative, "window": found.window}
        self._decisions.set({scope: one for scope, one in scopes.items() if one.events})
        if report.posterior is not None:
            self._weighing = self._weighing or _Weighing(self._registry)
            self._weighing.set(report.posterior)
        if report.verdicts is not None:
            self._judging = self._judging or _Judging(self._registry)
            self._judging.set(report.verdicts)

    def _set_scores(self, scope: str, scores: Scores) -> None:
        for field, gauge in self._scores.items():
            gauge.labels(scope).set(getattr(scores, field) if scores.events else np.nan)
        for field, gauge in self._bounds.items():
            gauge.labels(scope).set(getattr(scores.accuracy_interval, field, np.nan))
        # The names of bins sort as their confidences.
        self._curves[scope].set({f"{one.lower:.1f}-{one.upper:.1f}": one for one in scores.reliability})


class _Series:
    """Series by name, which appear and disappear, of gauges labelled by `labels` and then by name."""

    def __init__(self, gauges: Mapping[str, Gauge], *labels: str) -> None:
        self._gauges = gauges
        self._labels = labels
        self._names: set[str] = set()  # names with series

    def set(self, named: Mapping[str, object]) -> None:
        for field, gauge in self._gauges.items():
            for gone in self._names - named.keys():
                gauge.remove(*self._labels, gone)
            for name, one in named.items():
                value = getattr(one, field)
                gauge.labels(*self._labels, name).set(np.nan if value is None else value)
        self._names = set(named)


class _Weighing:
    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._posterior = gauge(
            "streamnb_hypothesis_posterior_ratio", "Probability of a hypothesis.", ["hypothesis"]
        )
        self._log_loss = gauge(
            "streamnb_hypothesis_log_loss", "Mean of -ln P(truth) by one hypothesis, in nats.", ["hypothesis"]
        )
        self._mixture = gauge("streamnb_mixture_log_loss", "The same by the mixture of all hypotheses.")
        self._regret = gauge(
            "streamnb_regret_nats", "Total log loss of the mixture minus the best hypothesis's."
        )
        self._bound = gauge("streamnb_regret_bound_nats", "Upper bound of the regret.")

    def set(self, posterior: PosteriorReport) -> None:
        events = posterior.observations
        for scored in posterior.hypotheses:
            self._posterior.labels(scored.name).set(scored.posterior)
            self._log_loss.labels(scored.name).set(scored.loss / events if events else np.nan)
        self._mixture.set(posterior.loss / events if events else np.nan)
        self._regret.set(posterior.regret)
        self._bound.set(posterior.bound)


class _Judging:
    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._sources = BoundedNames()
        self._outcomes = gauge("streamnb_verdicts", "Labels that came, by what became of them.", ["outcome"])
        self._by_source = gauge("streamnb_source_verdicts", "Labels that came, by their source.", ["source"])
        self._coverage = gauge("streamnb_label_coverage_ratio", "Share of events that have a label so far.")
        self._pending = gauge("streamnb_pending_events", "Events that wait, judged or not.")
        self._awaited = gauge("streamnb_awaited_events", "Ids that labels name and no event has had yet.")
        self._delay = gauge(
            "streamnb_label_delay_seconds", "Bound on the delay of this share of the first labels.", ["share"]
        )
        self._accuracy = gauge(
            "streamnb_delay_accuracy_ratio", "Share predicted right, by the bound of the delay.", ["most"]
        )
        told = "Estimated accuracy of predictions that have no label yet, and the bounds of its interval."
        self._unjudged = gauge("streamnb_unjudged_accuracy_ratio", told, ["bound"])
        self._doubt = gauge("streamnb_unjudged_accuracy_doubt", "1 if that estimate is in doubt, else 0.")

    def set(self, verdicts: LabelReport) -> None:
        for outcome, number in verdicts.outcomes.items():
            self._outcomes.labels(outcome).set(number)
        by_source: Counter[str] = Counter()
        for source, number in verdicts.sources.items():
            by_source[self._sources.bounded(source)] += number
        for source, number in by_source.items():
            self._by_source.labels(source).set(number)
        self._coverage.set(verdicts.coverage)
        self._pending.set(verdicts.pending)
        self._awaited.set(verdicts.awaited)
        quantiles = {"0.5": verdicts.median_delay, "0.9": verdicts.p90_delay, "0.99": verdicts.p99_delay}
        for quantile, delay in quantiles.items():
            beyond = np.inf if verdicts.delays else np.nan
            self._delay.labels(quantile).set(beyond if delay is None else delay)
        for row in verdicts.delays:
            most = "+Inf" if row.most is None else f"{row.most:g}"
            self._accuracy.labels(most).set(row.accuracy)
        estimate = verdicts.unjudged
        bounds = (np.nan, np.nan, np.nan)
        if estimate is not None:
            bounds = estimate.accuracy, estimate.interval.lower, estimate.interval.upper
        for bound, value in zip(("mean", "lower", "upper"), bounds, strict=True):
            self._unjudged.labels(bound).set(value)
        self._doubt.set(np.nan if estimate is None else bool(estimate.doubt))
