"""A worker's metrics for Prometheus; `docs/metrics.md` says what each means and how to use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from threading import Lock
from wsgiref.types import WSGIApplication

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, make_wsgi_app
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from streamnb.engine.ports import Partition
from streamnb.engine.sensor import Committed, Sensor, State
from streamnb.events import MetricsReport, PosteriorReport, ReliabilityBin, Scores

__all__ = ["PrometheusSensor"]

MOST_NAMES = 100
LONGEST_NAME = 200

_COMMIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
_SNAPSHOT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

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


class PrometheusSensor(Sensor):
    """Keeps the metrics of one worker and gives them to a registry.

    A scrape sees every call whole or not at all, since both take one lock: the totals of one scrape fit each
    other, and exactly one state is 1.

    Args:
        registry: gets the metrics, and those of this process; None = one of its own.
        clock: seconds since the epoch.

    Raises:
        ValueError: the registry has such metrics already.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self._clock = clock
        self._lock = Lock()
        self._labels, self._reasons = _Names(), _Names()
        self._lagging: set[Partition] = set()
        self._metrics = CollectorRegistry()
        self._weighing: _Weighing | None = None  # a model without hypotheses has none of these metrics
        self._count_events()
        self._measure_commits()
        self._measure_the_model()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def _count_events(self) -> None:
        counter = partial(Counter, registry=self._metrics)
        self._consumed = counter("streamnb_events_consumed_total", "Records consumed, of every sort.")
        self._learned = counter("streamnb_events_learned_total", "Events learned.", ["label"])
        self._predicted = counter("streamnb_predictions_total", "Predictions published.", ["label"])
        self._refused = counter("streamnb_dead_letters_total", "Records refused.", ["reason"])
        self._drifts = counter("streamnb_drifts_total", "Drifts found and published.", ["detector"])

    def _measure_commits(self) -> None:
        gauge = partial(Gauge, registry=self._metrics)
        self._lag = gauge(
            "streamnb_consumer_lag_records", "Records that wait to be consumed.", ["topic", "partition"]
        )
        self._commit = Histogram(
            "streamnb_commit_duration_seconds",
            "How long the log took to commit.",
            registry=self._metrics,
            buckets=_COMMIT_BUCKETS,
        )
        self._latency = _BatchHistogram(
            "streamnb_event_latency_seconds",
            "From a record's timestamp in the log to the moment its outcome was visible.",
            _LATENCY_BUCKETS,
        )
        self._metrics.register(self._latency)
        self._committed_at = gauge("streamnb_last_commit_timestamp_seconds", "When the last commit was made.")
        self._journal = gauge("streamnb_journal_record", "Number of the last journal record.")

    def _measure_the_model(self) -> None:
        gauge = partial(Gauge, registry=self._metrics)
        self._scores = {field: gauge(*named, ["scope"]) for field, named in _SCORES.items()}
        curves = {field: gauge(*named, ["scope", "bin"]) for field, named in _RELIABILITY.items()}
        self._curves = {scope: _Curve(scope, curves) for scope in ("all", "window")}
        self._attributes = gauge("streamnb_vocabulary_attributes", "Attribute rows that the model holds.")
        self._classes = gauge("streamnb_classes", "Classes that the model knows.")
        self._model_bytes = gauge("streamnb_model_bytes", "Memory that the model holds.")
        self._recovery = gauge("streamnb_recovery_duration_seconds", "How long the last recovery took.")
        self._snapshot = Histogram(
            "streamnb_snapshot_duration_seconds",
            "How long a snapshot took to keep.",
            registry=self._metrics,
            buckets=_SNAPSHOT_BUCKETS,
        )
        self._snapshot_bytes = gauge("streamnb_snapshot_bytes", "Size of the last snapshot.")
        self._saved_at = gauge("streamnb_last_snapshot_timestamp_seconds", "When the last snapshot was kept.")
        self._unsaved = Counter(
            "streamnb_snapshot_failures_total", "Snapshots that could not be kept.", registry=self._metrics
        )
        self._state = gauge("streamnb_state", "1 for what the worker is doing, 0 for the rest.", ["state"])
        self._set_state(State.STARTING)
        build = Info("streamnb_build", "Which streamnb this is.", registry=self._metrics)
        build.info({"version": version("streamnb")})

    def web_app(self) -> WSGIApplication:
        """The registry as a web page, in the format that the reader asks for and compressed if it can be."""
        app: WSGIApplication = make_wsgi_app(self.registry)
        return app

    def collect(self) -> Iterable[Metric]:
        """All metrics of the worker at one moment; called by the registry, from any thread."""
        with self._lock:
            return [_without_births(metric) for metric in self._metrics.collect()]

    describe = collect

    def entered(self, state: State) -> None:
        """Exactly this state is 1."""
        with self._lock:
            self._set_state(state)

    def recovered(self, seconds: float, events: int) -> None:  # noqa: ARG002  counters are of this process alone
        """Keep how long it took."""
        with self._lock:
            self._recovery.set(seconds)

    def committed(self, commit: Committed) -> None:
        """Add what it did to the totals; 0.03 microseconds an event."""
        with self._lock:
            self._consumed.inc(commit.consumed)
            for label, count in commit.learned.items():
                self._learned.labels(self._labels.bounded(label)).inc(count)
            for predicted, count in commit.predicted.items():
                name = "(none)" if predicted is None else self._labels.bounded(predicted)
                self._predicted.labels(name).inc(count)
            for reason, count in commit.dead_letters.items():
                self._refused.labels(self._reasons.bounded(reason)).inc(count)
            for detector, count in commit.drifts.items():
                self._drifts.labels(detector).inc(count)
            self._commit.observe(commit.seconds)
            self._latency.observe(commit.latencies)
            self._committed_at.set(commit.at)
            self._journal.set(commit.n)

    def reported(self, report: MetricsReport) -> None:
        """Keep the scores, of everything and of the window, the model's extent, and the posterior."""
        with self._lock:
            self._set_scores("all", report.cumulative)
            self._set_scores("window", report.window)
            self._attributes.set(report.attributes)
            self._classes.set(report.classes)
            if report.posterior is not None:
                self._set_posterior(report.posterior)

    def observed(self, lag: Mapping[Partition, int], model_bytes: int) -> None:
        """Keep the lag of these partitions and no others."""
        with self._lock:
            for gone in self._lagging.difference(lag):
                self._lag.remove(*gone)
            self._lagging = set(lag)
            for partition, records in lag.items():
                self._lag.labels(*partition).set(records)
            self._model_bytes.set(model_bytes)

    def saved(self, seconds: float, size: int) -> None:
        """Keep how long it took, its size, and that it was now."""
        with self._lock:
            self._snapshot.observe(seconds)
            self._snapshot_bytes.set(size)
            self._saved_at.set(self._clock())

    def unsaved(self, reason: str) -> None:  # noqa: ARG002  a label would have no bound
        """Count it."""
        with self._lock:
            self._unsaved.inc()

    def _set_posterior(self, posterior: PosteriorReport) -> None:
        if self._weighing is None:
            self._weighing = _Weighing(self._metrics)
        self._weighing.set(posterior)

    def _set_state(self, current: State) -> None:
        for state in State:
            self._state.labels(state.value).set(state is current)

    def _set_scores(self, scope: str, scores: Scores) -> None:
        for field, gauge in self._scores.items():
            gauge.labels(scope).set(getattr(scores, field))
        self._curves[scope].set(scores.reliability)


class _Curve:
    """The calibration curve of one scope: a series for each bin that holds events.

    Args:
        scope: which.
        gauges: of the curves of all scopes, by the field of a bin; labelled by scope and bin.
    """

    def __init__(self, scope: str, gauges: Mapping[str, Gauge]) -> None:
        self._scope = scope
        self._gauges = gauges
        self._names: set[str] = set()  # the bins that have series

    def set(self, bins: Iterable[ReliabilityBin]) -> None:
        """Keep these bins and no others: a window leaves some behind."""
        # Names of bins sort as their confidences do.
        named = {f"{one.lower:.1f}-{one.upper:.1f}": one for one in bins}
        for field, gauge in self._gauges.items():
            for gone in self._names - named.keys():
                gauge.remove(self._scope, gone)
            for name, one in named.items():
                gauge.labels(self._scope, name).set(getattr(one, field))
        self._names = set(named)


class _Weighing:
    """What a model that weighs hypotheses has beside other metrics."""

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
            "streamnb_regret_nats", "Total log loss of the mixture less that of the best hypothesis."
        )
        self._bound = gauge("streamnb_regret_bound_nats", "What the regret cannot exceed.")

    def set(self, posterior: PosteriorReport) -> None:
        """Keep what a report says."""
        events = posterior.observations
        for scored in posterior.hypotheses:
            self._posterior.labels(scored.name).set(scored.posterior)
            self._log_loss.labels(scored.name).set(scored.loss / events if events else np.nan)
        self._mixture.set(posterior.loss / events if events else np.nan)
        self._regret.set(posterior.regret)
        self._bound.set(posterior.bound)


class _Names:
    """The first names met keep their own series, the others share "(other)".

    What is sent decides what labels there are, and a series once made stays: without a bound a producer could
    fill the memory of this process and of its watcher.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    def bounded(self, name: str) -> str:
        """The name itself, or "(other)" where there are too many or it is too long."""
        if name not in self._known:
            if len(self._known) >= MOST_NAMES or len(name) > LONGEST_NAME:
                return "(other)"
            self._known.add(name)
        return name


class _BatchHistogram:
    """A histogram that is told many values at once.

    prometheus_client's own costs 0.8 microseconds a value, more than learning an event may cost; this 0.03.

    Args:
        name: of the metric.
        documentation: of the metric.
        bounds: upper bounds of the buckets but the last, ascending; a value equal to one lies below it.
    """

    def __init__(self, name: str, documentation: str, bounds: Sequence[float]) -> None:
        self._name, self._documentation, self._bounds = name, documentation, bounds
        self._counts = np.zeros(len(bounds) + 1, np.int64)
        self._sum = 0.0

    def observe(self, values: Sequence[float]) -> None:
        """Add them all. One below 0 (the clocks of two machines differ) counts as 0: a sum never falls."""
        positive = np.maximum(np.asarray(values, np.float64), 0.0)
        buckets = np.searchsorted(self._bounds, positive, side="left")
        self._counts += np.bincount(buckets, minlength=len(self._counts))
        self._sum += float(positive.sum())

    def collect(self) -> Iterable[Metric]:
        """The histogram as it stands."""
        names = [*map(str, self._bounds), "+Inf"]
        totals = self._counts.cumsum().tolist()
        buckets = list(zip(names, totals, strict=True))
        return [HistogramMetricFamily(self._name, self._documentation, buckets=buckets, sum_value=self._sum)]


def _without_births(metric: Metric) -> Metric:
    """Drop the series that say when each counter began: for all of them that is when the process did."""
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    return metric
