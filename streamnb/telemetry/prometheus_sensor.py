"""A worker's metrics for Prometheus; `docs/metrics.md` explains each metric."""

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
from streamnb.engine.sensor import Committed, Sensor, WorkerState
from streamnb.events import ActionReport, MetricsReport
from streamnb.models.interface.tenant_usage import TenantsUse
from streamnb.statistics.memory_budget import MemoryUse
from streamnb.telemetry.prometheus_quality import BoundedNames, Quality

_COMMIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
_SNAPSHOT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class PrometheusSensor(Sensor):
    """The metrics of one worker in a Prometheus registry.

    Scrapes and updates use one lock, so a scrape sees every call whole or not at all: the totals of one
    scrape are consistent, and exactly one state is 1.
    The registry also receives the metrics of this process. Raises ValueError if it has such metrics already.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self._clock = clock
        self._lock = Lock()
        self._labels, self._reasons = BoundedNames(), BoundedNames()
        self._lagging: set[Partition] = set()
        self._metrics = CollectorRegistry()
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
        of_monitors = ["monitor", "kind"]
        self._alerts = counter("streamnb_alerts_total", "Alerts published.", [*of_monitors, "state"])
        gauge = partial(Gauge, registry=self._metrics)
        text = "1 while the alarm of a monitor is raised."
        self._raised = gauge("streamnb_monitor_raised", text, of_monitors)
        text = (
            "A monitor's Bayes factor: out of bounds against within; while its alarm is raised, the reverse."
        )
        self._bayes_factor = gauge("streamnb_monitor_bayes_factor", text, of_monitors)

        text = "1 while learning is paused by an alarm."
        self._paused = gauge("streamnb_learning_paused", text)
        self._passed_over = gauge("streamnb_labels_passed_over", "Labels that came while it was paused.")
        self._renewed = gauge("streamnb_model_renewals", "Renewals of the model by an alarm.")

    def _measure_commits(self) -> None:
        gauge = partial(Gauge, registry=self._metrics)
        text = "Records that wait to be consumed."
        self._lag = gauge("streamnb_consumer_lag_records", text, ["topic", "partition"])
        histogram = partial(Histogram, registry=self._metrics, buckets=_COMMIT_BUCKETS)
        self._commit = histogram("streamnb_commit_duration_seconds", "Time that the log took to commit.")
        text = "From a record's timestamp in the log to the moment its outcome was visible."
        self._latency = _BatchHistogram("streamnb_event_latency_seconds", text, _LATENCY_BUCKETS)
        self._metrics.register(self._latency)
        self._committed_at = gauge("streamnb_last_commit_timestamp_seconds", "When the last commit was made.")
        self._journal = gauge("streamnb_journal_record", "Number of the last journal record.")
        text = "Journal records that a standby or a scorer's replica is behind the learner."
        self._behind = gauge("streamnb_replica_behind_records", text)
        text = "Until the log deletes a record that a recovery needs; 0 if it has done so."
        self._margin = gauge("streamnb_recovery_margin_seconds", text)
        text = "Shortest retention of the topics that are read."
        self._retention = gauge("streamnb_recovery_retention_seconds", text)
        text = "Passed offsets without a record that no transaction explains."
        self._missing = Counter("streamnb_missing_offsets_total", text, registry=self._metrics)
        text = "1 while a standby could take over; 0 while it could not, and in other states."
        self._can_take_over = gauge("streamnb_standby_ready", text)

    def _measure_the_model(self) -> None:
        gauge = partial(Gauge, registry=self._metrics)
        self._quality = Quality(self._metrics, self._labels)
        self._attributes = gauge("streamnb_vocabulary_attributes", "Attribute rows that the model holds.")
        self._classes = gauge("streamnb_classes", "Classes that the model knows.")
        self._model_bytes = gauge("streamnb_model_bytes", "Memory that the model holds.")
        text = "Memory that a part of what is learned takes of memory.budget."
        self._memory = gauge("streamnb_memory_bytes", text, ["part"])
        text = "Memory from which on something is forgotten, or nothing is added."
        self._memory_limit = gauge("streamnb_memory_limit_bytes", text, ["part"])
        counter = partial(Counter, registry=self._metrics)
        text = "Words and values forgotten for memory.budget."
        self._forgotten_words = counter("streamnb_forgotten_words_total", text)
        text = "Weight of the words and values forgotten for memory.budget, in examples."
        self._forgotten_weight = counter("streamnb_forgotten_weight_total", text)
        self._forgotten = 0, 0.0
        self._tenants = gauge("streamnb_tenants", "Tenants that have a model of their own.", ["models"])
        self._tenant_events = gauge("streamnb_tenant_events", "Events learned of a tenant.", ["tenant"])
        text = "Share of a tenant's events that were predicted right before they were learned."
        self._tenant_accuracy = gauge("streamnb_tenant_accuracy_ratio", text, ["tenant"])
        self._recovery = gauge("streamnb_recovery_duration_seconds", "Duration of the last recovery.")
        histogram = partial(Histogram, registry=self._metrics, buckets=_SNAPSHOT_BUCKETS)
        self._snapshot = histogram(
            "streamnb_snapshot_duration_seconds", "Time that it took to save a snapshot."
        )
        self._snapshot_bytes = gauge("streamnb_snapshot_bytes", "Size of the last snapshot.")
        self._saved_at = gauge("streamnb_last_snapshot_timestamp_seconds", "When the last snapshot was kept.")
        text = "Snapshots that could not be kept."
        self._unsaved = Counter("streamnb_snapshot_failures_total", text, registry=self._metrics)
        self._state = gauge("streamnb_state", "1 for what the worker is doing, 0 for the rest.", ["state"])
        self._set_state(WorkerState.STARTING)
        text = "Hash of the configuration under which this process learns, or would after a takeover."
        self._configuration = gauge("streamnb_configuration_info", text, ["hash"])
        build = Info("streamnb_build", "The version of streamnb.", registry=self._metrics)
        build.info({"version": version("streamnb")})

    def web_app(self) -> WSGIApplication:
        """Return the registry as a WSGI application, with content negotiation and compression."""
        app: WSGIApplication = make_wsgi_app(self.registry)
        return app

    def collect(self) -> Iterable[Metric]:
        """Return all metrics of the worker at one moment; called by the registry, from any thread."""
        with self._lock:
            return [_without_births(metric) for metric in self._metrics.collect()]

    describe = collect

    def entered(self, state: WorkerState) -> None:
        """Set exactly this state to 1."""
        with self._lock:
            self._set_state(state)

    def recoverable(self, seconds: float, retention: float) -> None:
        """Store the time that is left, and the retention."""
        with self._lock:
            self._margin.set(seconds)
            self._retention.set(retention)

    def missed(self, n: int) -> None:
        """Count missing offsets."""
        with self._lock:
            self._missing.inc(n)

    def recovered(self, seconds: float, events: int) -> None:  # noqa: ARG002  counters are of this process alone
        """Store the duration of the recovery."""
        with self._lock:
            self._recovery.set(seconds)

    def committed(self, commit: Committed) -> None:
        """Add a commit to the totals; 0.03 microseconds an event."""
        with self._lock:
            self._consumed.inc(commit.consumed)
            for label, count in commit.tally.learned.items():
                self._learned.labels(self._labels.bounded(label)).inc(count)
            for predicted, count in commit.tally.predicted.items():
                name = "(none)" if predicted is None else self._labels.bounded(predicted)
                self._predicted.labels(name).inc(count)
            for reason, count in commit.tally.dead_letters.items():
                self._refused.labels(self._reasons.bounded(reason)).inc(count)
            for detector, count in commit.tally.drifts.items():
                self._drifts.labels(detector).inc(count)
            for alert, count in commit.tally.alerts.items():
                self._alerts.labels(*alert).inc(count)
            self._commit.observe(commit.seconds)
            self._latency.observe(commit.latencies)
            self._committed_at.set(commit.at)
            self._journal.set(commit.n)

    def reported(self, report: MetricsReport) -> None:
        """Store the report's quality scores, and the size of the model."""
        with self._lock:
            self._quality.set(report)
            for gauge in (self._raised, self._bayes_factor):
                gauge.clear()  # removes monitors that no longer exist
            for one in report.monitors:
                self._raised.labels(one.name, one.kind).set(one.raised)
                if one.bayes_factor is not None:
                    self._bayes_factor.labels(one.name, one.kind).set(one.bayes_factor)
            acted = report.actions or ActionReport(False, 0, 0)
            self._paused.set(acted.is_paused)
            self._passed_over.set(acted.passed_over)
            self._renewed.set(acted.renewed)
            self._attributes.set(report.attributes)
            self._classes.set(report.classes)

    def observed(self, lag: Mapping[Partition, int], model_bytes: int) -> None:
        """Store the lag of these partitions, and remove all other partitions."""
        with self._lock:
            for gone in self._lagging.difference(lag):
                self._lag.remove(*gone)
            self._lagging = set(lag)
            for partition, records in lag.items():
                self._lag.labels(*partition).set(records)
            self._model_bytes.set(model_bytes)

    def remembered(self, memory: MemoryUse) -> None:
        """Store the memory of each part, and count the words evicted since the last call."""
        with self._lock:
            for name, part in memory.parts.items():
                self._memory.labels(name).set(part.taken)
                self._memory_limit.labels(name).set(part.most or part.taken)
            totals = memory.words, memory.weight
            counters = self._forgotten_words, self._forgotten_weight
            for counter, now, before in zip(counters, totals, self._forgotten, strict=True):
                counter.inc(now - before if now >= before else now)  # a loaded model restarts its counters
            self._forgotten = totals

    def shared_out(self, use: TenantsUse) -> None:
        """Store the number of tenants and the statistics of the largest; remove all other tenants."""
        with self._lock:
            self._tenants.labels("all").set(use.tenants)
            self._tenants.labels("at work").set(use.at_work)
            for gauge in (self._tenant_events, self._tenant_accuracy):
                gauge.clear()
            for one in use.top:
                self._tenant_events.labels(one.name).set(one.events)
                if one.tested:
                    self._tenant_accuracy.labels(one.name).set(one.right / one.tested)

    def followed(self, behind: int) -> None:
        """Store the replica's lag."""
        with self._lock:
            self._behind.set(behind)

    def stood_by(self, behind: int | None, record: int) -> None:
        """Store the standby's lag, what it has learned, and if it could take over."""
        with self._lock:
            self._can_take_over.set(behind is not None)
            if behind is not None:
                self._behind.set(behind)
                self._journal.set(record)

    def configured(self, config_hash: str) -> None:
        """Store the hash."""
        with self._lock:
            self._configuration.clear()
            self._configuration.labels(config_hash).set(1)

    def saved(self, seconds: float, size: int) -> None:
        """Store the duration, size and time of a snapshot."""
        with self._lock:
            self._snapshot.observe(seconds)
            self._snapshot_bytes.set(size)
            self._saved_at.set(self._clock())

    def unsaved(self, reason: str) -> None:  # noqa: ARG002  a label would have no bound
        """Count a failed snapshot."""
        with self._lock:
            self._unsaved.inc()

    def _set_state(self, current: WorkerState) -> None:
        for state in WorkerState:
            self._state.labels(state.value).set(state is current)
        if current is not WorkerState.STANDBY:
            self._can_take_over.set(0)


class _BatchHistogram:
    """A histogram with batched updates.

    prometheus_client's histogram costs 0.8 microseconds a value, more than learning an event may cost; this
    one costs 0.03.
    `bounds` are the upper bounds of the buckets but the last, ascending and inclusive.
    """

    def __init__(self, name: str, documentation: str, bounds: Sequence[float]) -> None:
        self._name, self._documentation, self._bounds = name, documentation, bounds
        self._counts = np.zeros(len(bounds) + 1, np.int64)
        self._sum = 0.0

    def observe(self, values: Sequence[float]) -> None:
        """Add all values. Negative ones (the clocks of two machines differ) count as 0: a sum never falls."""
        positive = np.maximum(np.asarray(values, np.float64), 0.0)
        buckets = np.searchsorted(self._bounds, positive, side="left")
        self._counts += np.bincount(buckets, minlength=len(self._counts))
        self._sum += float(positive.sum())

    def collect(self) -> Iterable[Metric]:
        names = [*map(str, self._bounds), "+Inf"]
        totals = self._counts.cumsum().tolist()
        buckets = list(zip(names, totals, strict=True))
        return [HistogramMetricFamily(self._name, self._documentation, buckets=buckets, sum_value=self._sum)]


def _without_births(metric: Metric) -> Metric:
    """Drop the creation times of counters: all equal the start of the process."""
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    return metric
