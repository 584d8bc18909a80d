"""The metrics: what was told is what is counted, every scrape is of one moment, and promtool finds no fault."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from importlib.metadata import version
from math import inf, isnan, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from streamnb.config import Config
from streamnb.conversion.source_metrics import SourceMetrics
from streamnb.engine.ports import Partition
from streamnb.engine.processing.counters import Counters
from streamnb.engine.sensor import Committed, WorkerState
from streamnb.events import (
    DETECTORS,
    REASONS,
    AccuracyEstimate,
    ActionReport,
    ClassRate,
    DecisionReport,
    DecisionScores,
    DelayScores,
    HypothesisScore,
    Interval,
    LabelReport,
    MetricsReport,
    ModelInfo,
    MonitorReport,
    PosteriorReport,
    ReliabilityBin,
    Scores,
)
from streamnb.models.interface.tenant_usage import Tenant, TenantsUse
from streamnb.serving.http_api import metrics_of
from streamnb.serving.replica import Replica
from streamnb.serving.webhook_metrics import WebhookMetrics
from streamnb.statistics.memory_budget import MemoryComponent, MemoryUse
from streamnb.telemetry.prometheus_quality import LONGEST_NAME, MOST_NAMES
from streamnb.telemetry.prometheus_sensor import PrometheusSensor

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
COUNTS = st.integers(0, 10_000)
LABELS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
LATENCIES = st.floats(-10, 1e5)


def commit(**told):
    counts = {name: told.pop(name) for name in told.keys() & vars(Counters()).keys()}
    nothing = {"n": 1, "consumed": 0, "seconds": 0.1, "at": 1790000000.5, "latencies": []}
    return Committed(**nothing | told, tally=Counters(**counts))


COMMITS = st.builds(
    commit,
    n=st.integers(1, 10**12),
    consumed=COUNTS,
    learned=st.dictionaries(LABELS, COUNTS),
    predicted=st.dictionaries(st.none() | LABELS, COUNTS),
    dead_letters=st.dictionaries(st.sampled_from(REASONS), COUNTS),
    drifts=st.dictionaries(st.sampled_from(DETECTORS), COUNTS),
    alerts=st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.just("error-rate"), st.sampled_from(["raised", "cleared"])),
        COUNTS,
    ),
    seconds=st.floats(0, 100),
    at=st.floats(0, 2e9),
    latencies=st.lists(LATENCIES, max_size=30) | st.lists(LATENCIES).map(tuple),
)


POSTERIOR = PosteriorReport(
    hypotheses=(
        HypothesisScore("presence alpha=1", 0.5, 0.75, 4.0),
        HypothesisScore("other", 0.5, 0.25, 6.0),
    ),
    best="presence alpha=1",
    loss=4.5,
    regret=0.5,
    bound=0.6931471805599453,
    observations=8,
    switching_rate=0.0,
)


def report(cumulative, window, posterior=None):
    return MetricsReport(
        events=9,
        learned=8,
        dead_letters=1,
        cumulative=cumulative,
        window=window,
        window_size=5,
        classes=3,
        labels=("ham", "spam", "eggs"),
        confusion=((0,),),
        attributes=17,
        model=ModelInfo("default", 8),
        ts=1790000000.0,
        posterior=posterior,
    )


VERDICTS = LabelReport(
    served=10,
    judged=8,
    coverage=0.8,
    pending=7,
    outcomes={"first": 6, "changed": 1},
    sources={"analyst": 3, "event": 2},
    delays=(DelayScores(0.0, 2, 1.0, 0.1), DelayScores(None, 6, 0.5, 0.7)),
    median_delay=None,
    p90_delay=None,
    p99_delay=None,
    awaited=3,
    unjudged=AccuracyEstimate(2, 0.9, Interval(0.7, 0.95), "changing"),
)


DECISIONS = DecisionReport(DecisionScores(9, 0.5, 0.25, 0.75), DecisionScores(2, 0.3, 0.0))
MONITORS = (MonitorReport("errors", "error-rate", True, 1.5), MonitorReport("silent", "no-events", False))


def tell_everything(sensor):
    sensor.entered(WorkerState.RUNNING)
    sensor.recovered(1.5, 100)
    told = {
        "learned": {"spam": 1},
        "predicted": {None: 1},
        "dead_letters": {"missing": 1},
        "drifts": {"ddm": 1},
        "alerts": {("errors", "error-rate", "raised"): 1},
    }
    sensor.committed(commit(**told))
    curve = (ReliabilityBin(0.9, 1.0, 0.95, 0.9, 9),)
    told = report(*[Scores(9, 0.9, 0.3, 0.8, 0.7, 0.2, 0.1, curve)] * 2, POSTERIOR)
    told = replace(told, class_rates=(ClassRate(3.0, 0.375, 0.1, 0.7),), verdicts=VERDICTS)
    sensor.reported(replace(told, monitors=MONITORS, decisions=DECISIONS))
    sensor.remembered(MemoryUse({"words": MemoryComponent(700, 800)}, 3, 4.5))
    sensor.shared_out(TenantsUse(3, 2, [Tenant("t", 9, 8, 4)]))
    sensor.observed({Partition("events", 0): 3}, 4096)
    sensor.saved(0.25, 2048)
    sensor.configured("c0ffee")


def exposed(sensor):
    return generate_latest(sensor.registry).decode()


def scrape(sensor):
    """(name, labels) -> value, as a reader of the exposition gets it."""
    samples = {}
    for family in parse(exposed(sensor)):
        for sample in family.samples:
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def series(samples, name):
    """The values of one metric with one label: label value -> value."""
    return {key[1][1]: value for key, value in samples.items() if key[0] == name}


@given(st.lists(COMMITS, min_size=1, max_size=8))
def test_totals_are_the_sums_of_what_was_told(commits):
    sensor = PrometheusSensor()
    for one in commits:
        sensor.committed(one)
    samples = scrape(sensor)
    assert samples["streamnb_events_consumed_total",] == sum(one.consumed for one in commits)
    for name, field in [
        ("streamnb_events_learned_total", "learned"),
        ("streamnb_predictions_total", "predicted"),
        ("streamnb_dead_letters_total", "dead_letters"),
        ("streamnb_drifts_total", "drifts"),
    ]:
        told = [getattr(one.tally, field) for one in commits]
        assert sum(series(samples, name).values()) == sum(sum(counts.values()) for counts in told)
        known = series(samples, name).keys() - {"(none)", "(other)"}
        for key in known:
            assert series(samples, name)[key] == sum(counts.get(key, 0) for counts in told)
    alerts = {key: value for key, value in samples.items() if key[0] == "streamnb_alerts_total"}
    for key, value in alerts.items():
        of = tuple(dict(key[1:])[label] for label in ("monitor", "kind", "state"))
        assert value == sum(one.tally.alerts.get(of, 0) for one in commits)
    assert sum(alerts.values()) == sum(sum(one.tally.alerts.values()) for one in commits)
    assert samples["streamnb_commit_duration_seconds_count",] == len(commits)
    assert samples["streamnb_commit_duration_seconds_sum",] == pytest.approx(sum(c.seconds for c in commits))
    assert samples["streamnb_last_commit_timestamp_seconds",] == commits[-1].at
    assert samples["streamnb_journal_record",] == commits[-1].n


def test_a_monitor_is_shown_as_the_last_report_tells_it_and_no_more_once_it_is_gone():
    sensor = PrometheusSensor()
    told = report(*[Scores(9, 0.9, 0.3, 0.8, 0.7, 0.2, 0.1)] * 2)
    sensor.reported(replace(told, monitors=MONITORS))
    errors, silent = ((("kind", one.kind), ("monitor", one.name)) for one in MONITORS)
    shown = {key: value for key, value in scrape(sensor).items() if key[0].startswith("streamnb_monitor")}
    assert shown == {
        ("streamnb_monitor_raised", *errors): 1.0,
        ("streamnb_monitor_raised", *silent): 0.0,
        ("streamnb_monitor_bayes_factor", *errors): 1.5,
    }
    sensor.reported(told)
    assert not any(key[0].startswith("streamnb_monitor") for key in scrape(sensor))


def test_what_alarms_did_is_shown_as_the_last_report_tells_it():
    sensor = PrometheusSensor()
    told = report(*[Scores(9, 0.9, 0.3, 0.8, 0.7, 0.2, 0.1)] * 2)
    names = "streamnb_learning_paused", "streamnb_labels_passed_over", "streamnb_model_renewals"
    for acted, expected in [
        (ActionReport(True, 7, 2), (1, 7, 2)),
        (ActionReport(False, 8, 2), (0, 8, 2)),
        (None, (0, 0, 0)),
    ]:
        sensor.reported(replace(told, actions=acted))
        assert tuple(scrape(sensor)[name,] for name in names) == expected


@given(st.lists(st.lists(LATENCIES | st.sampled_from([0.005, 1.0, 3600.0])), min_size=1, max_size=5))
def test_latencies_lie_in_their_buckets(batches):
    sensor = PrometheusSensor()
    for batch in batches:
        sensor.committed(commit(latencies=batch))
    samples = scrape(sensor)
    told = [max(0.0, latency) for batch in batches for latency in batch]
    buckets = series(samples, "streamnb_event_latency_seconds_bucket")
    assert float(max(buckets, key=float)) == float("inf")
    for bound, count in buckets.items():
        assert count == sum(latency <= float(bound) for latency in told)
    assert samples["streamnb_event_latency_seconds_count",] == len(told)
    assert samples["streamnb_event_latency_seconds_sum",] == pytest.approx(sum(told))


def test_an_empty_model_predicts_none():
    sensor = PrometheusSensor()
    sensor.committed(commit(predicted={None: 2, "spam": 3}))
    assert series(scrape(sensor), "streamnb_predictions_total") == {"(none)": 2, "spam": 3}


def test_labels_beyond_a_hundred_are_others():
    sensor = PrometheusSensor()
    labels = {f"label {i}": i + 1 for i in range(MOST_NAMES + 50)}
    for _ in range(2):
        sensor.committed(commit(learned=labels, predicted={**labels, None: 7}))
    samples = scrape(sensor)
    learned = series(samples, "streamnb_events_learned_total")
    assert MOST_NAMES == 100
    assert len(learned) == MOST_NAMES + 1
    assert learned["label 99"] == 2 * 100
    assert learned["(other)"] == 2 * sum(range(101, 151))
    predicted = series(samples, "streamnb_predictions_total")
    assert predicted.pop("(none)") == 14
    assert predicted == learned, "a label is named in both or in neither"


def test_labels_that_are_too_long_are_others():
    sensor = PrometheusSensor()
    fits = "x" * LONGEST_NAME
    sensor.committed(commit(learned={fits: 1, fits + "x": 2}))
    assert series(scrape(sensor), "streamnb_events_learned_total") == {fits: 1, "(other)": 2}


def test_reasons_have_a_bound_of_their_own():
    sensor = PrometheusSensor()
    sensor.committed(commit(learned={f"{i}": 1 for i in range(200)}, dead_letters=dict.fromkeys(REASONS, 1)))
    assert series(scrape(sensor), "streamnb_dead_letters_total") == dict.fromkeys(REASONS, 1)


def test_scores_of_both_scopes():
    sensor = PrometheusSensor()
    sensor.reported(
        report(Scores(9, 0.9, 0.3, 0.8, 0.7, 0.2, 0.1), Scores(5, 0.6, 0.5, 0.4, -0.3, 1.2, 0.05))
    )
    samples = scrape(sensor)
    for name, everything, window in [
        ("streamnb_accuracy_ratio", 0.9, 0.6),
        ("streamnb_log_loss", 0.3, 0.5),
        ("streamnb_macro_f1_ratio", 0.8, 0.4),
        ("streamnb_kappa_ratio", 0.7, -0.3),
        ("streamnb_brier_score", 0.2, 1.2),
        ("streamnb_calibration_error_ratio", 0.1, 0.05),
    ]:
        assert series(samples, name) == {"all": everything, "window": window}
    assert samples["streamnb_vocabulary_attributes",] == 17
    assert samples["streamnb_classes",] == 3


def curves(sensor):
    """(field, scope, bin) -> value, of the calibration curves."""
    return {
        (sample.name.split("_")[2], sample.labels["scope"], sample.labels["bin"]): sample.value
        for family in parse(exposed(sensor))
        for sample in family.samples
        if "bin" in sample.labels
    }


def test_calibration_curves_are_those_of_the_last_report():
    sensor = PrometheusSensor()
    scores = Scores(9, 0.9, 0.3, 0.8, 0.7, 0.2, 0.1)
    sensor.reported(report(scores, scores))
    assert curves(sensor) == {}, "a report of before curves were recorded"
    low, middle, high = (
        ReliabilityBin(0.0, 0.1, 0.0625, 0.0, 2),
        ReliabilityBin(0.2, 0.3, 0.25, 0.5, 4),
        ReliabilityBin(0.9, 1.0, 0.96875, 0.875, 8),
    )
    for everything, window in [((low, middle, high), (low, high)), ((low, middle, high), (middle, high))]:
        sensor.reported(report(replace(scores, reliability=everything), replace(scores, reliability=window)))
        assert curves(sensor) == {
            (field, scope, f"{one.lower}-{one.upper}"): getattr(one, field)
            for scope, bins in (("all", everything), ("window", window))
            for one in bins
            for field in ("confidence", "accuracy", "events")
        }


def test_scores_of_nothing_are_not_a_number():
    sensor = PrometheusSensor()
    sensor.reported(report(*[Scores(0, *[nan] * 6)] * 2))
    assert all(isnan(score) for score in series(scrape(sensor), "streamnb_accuracy_ratio").values())


@given(st.lists(st.dictionaries(st.builds(Partition, LABELS, st.integers(0, 3)), COUNTS), max_size=5))
def test_only_the_partitions_told_last_have_a_lag(told):
    sensor = PrometheusSensor()
    for lag in told:
        sensor.observed(lag, 1)
    lags = {
        key[1:]: value for key, value in scrape(sensor).items() if key[0] == "streamnb_consumer_lag_records"
    }
    assert lags == {
        (("partition", str(partition.number)), ("topic", partition.topic)): records
        for partition, records in (told[-1] if told else {}).items()
    }


def test_parts_of_a_budget_and_what_was_forgotten_for_it():
    sensor = PrometheusSensor()
    for words, weight in [(3, 4.5), (5, 7.0), (2, 2.0)]:  # the last is of a model that was loaded
        sensor.remembered(
            MemoryUse(
                {"words": MemoryComponent(700, 800), "byte_runs": MemoryComponent(64, 0)}, words, weight
            )
        )
    samples = scrape(sensor)
    assert samples["streamnb_memory_bytes", ("part", "words")] == 700
    assert samples["streamnb_memory_limit_bytes", ("part", "words")] == 800
    assert samples["streamnb_memory_limit_bytes", ("part", "byte_runs")] == 64
    assert samples["streamnb_forgotten_words_total",] == 7
    assert samples["streamnb_forgotten_weight_total",] == 9.0


def test_the_largest_tenants_and_no_others():
    sensor = PrometheusSensor()
    sensor.shared_out(TenantsUse(3, 2, [Tenant("gone", 9, 8, 4)]))
    sensor.shared_out(TenantsUse(4, 1, [Tenant("../é", 10, 8, 6), Tenant("", 9, 0, 0)]))
    told = {key: value for key, value in scrape(sensor).items() if key[0].startswith("streamnb_tenant")}
    assert told == {
        ("streamnb_tenants", ("models", "all")): 4,
        ("streamnb_tenants", ("models", "at work")): 1,
        ("streamnb_tenant_events", ("tenant", "../é")): 10,
        ("streamnb_tenant_events", ("tenant", "")): 9,
        ("streamnb_tenant_accuracy_ratio", ("tenant", "../é")): 0.75,
    }


def test_memory_recovery_and_snapshots():
    sensor = PrometheusSensor(clock=iter([1790000001.0, 1790000002.0]).__next__)
    sensor.observed({}, 4096)
    sensor.recovered(1.5, 100)
    sensor.saved(0.25, 1024)
    sensor.saved(0.5, 2048)
    samples = scrape(sensor)
    assert samples["streamnb_model_bytes",] == 4096
    assert samples["streamnb_recovery_duration_seconds",] == 1.5
    assert samples["streamnb_snapshot_duration_seconds_count",] == 2
    assert samples["streamnb_snapshot_duration_seconds_sum",] == 0.75
    assert samples["streamnb_snapshot_bytes",] == 2048
    assert samples["streamnb_last_snapshot_timestamp_seconds",] == 1790000002.0
    assert samples["streamnb_snapshot_failures_total",] == 0
    sensor.unsaved("no space left")
    assert scrape(sensor)["streamnb_snapshot_failures_total",] == 1


@pytest.mark.parametrize("state", WorkerState)
def test_exactly_one_state_is_one(state):
    sensor = PrometheusSensor()
    assert series(scrape(sensor), "streamnb_state")["starting"] == 1
    sensor.entered(WorkerState.RUNNING)
    sensor.entered(state)
    assert series(scrape(sensor), "streamnb_state") == {other.value: other is state for other in WorkerState}


def test_the_version_is_told():
    assert series(scrape(PrometheusSensor()), "streamnb_build_info") == {version("streamnb"): 1}


@pytest.fixture
def hasty():
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty")
def test_a_scrape_sees_every_commit_whole_or_not_at_all():
    sensor, done = PrometheusSensor(), threading.Event()

    def learn():
        while not done.is_set():
            for state in WorkerState:
                sensor.entered(state)
            sensor.committed(commit(consumed=4, learned={"a": 1, "b": 3}, latencies=[0.1] * 4))

    worker = threading.Thread(target=learn)
    worker.start()
    try:
        for _ in range(100):
            samples = scrape(sensor)
            assert sum(series(samples, "streamnb_state").values()) == 1
            learned = series(samples, "streamnb_events_learned_total")
            assert samples["streamnb_events_consumed_total",] == sum(learned.values())
            assert (
                samples["streamnb_events_consumed_total",] == samples["streamnb_event_latency_seconds_count",]
            )
            assert (
                learned.get("b", 0)
                == 3 * learned.get("a", 0)
                == 3 * samples["streamnb_commit_duration_seconds_count",]
            )
    finally:
        done.set()
        worker.join()
    assert learned["a"] > 0


def test_every_registry_is_its_own():
    before = set(REGISTRY._names_to_collectors)
    first, second = PrometheusSensor(CollectorRegistry()), PrometheusSensor()
    first.committed(commit(consumed=5))
    assert scrape(second)["streamnb_events_consumed_total",] == 0
    assert set(REGISTRY._names_to_collectors) == before
    with pytest.raises(ValueError, match="Duplicated"):
        PrometheusSensor(first.registry)


def test_single_metrics_can_be_asked_for():
    """As in /metrics?name[]=streamnb_state."""
    restricted = PrometheusSensor().registry.restricted_registry(["streamnb_journal_record"])
    assert [family.name for family in parse(generate_latest(restricted).decode())] == [
        "streamnb_journal_record"
    ]


def test_process_metrics_are_there():
    assert scrape(PrometheusSensor())["process_resident_memory_bytes",] > 0


def test_openmetrics_can_be_read_too():
    sensor = PrometheusSensor()
    tell_everything(sensor)
    families = {family.name for family in parse_openmetrics(generate_openmetrics(sensor.registry).decode())}
    assert {"streamnb_events_consumed", "streamnb_build", "streamnb_event_latency_seconds"} <= families


@pytest.fixture
def promtool():
    """Prometheus' own checker, on standard input. Where it is not installed the test is skipped; in CI it fails."""
    if shutil.which("promtool") is None and os.environ.get("CI") != "true":
        pytest.skip("promtool is not installed (Debian: prometheus)")

    def check(what, *arguments, text=None):
        return subprocess.run(
            ["promtool", "check", what, *arguments], input=text, capture_output=True, text=True, check=False
        )

    return check


def test_promtool_finds_no_fault(promtool):
    sensor = PrometheusSensor()
    tell_everything(sensor)
    checked = promtool("metrics", text=exposed(sensor))
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_promtool_reads_the_examples_of_the_page(promtool, tmp_path):
    blocks = re.findall(r"^```promql\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    examples = [line for block in blocks for line in block.splitlines()]
    rules = [{"record": f"example:{i}", "expr": example} for i, example in enumerate(examples)]
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "examples", "rules": rules}]}))
    checked = promtool("rules", str(file))
    assert f"SUCCESS: {len(examples)} rules found" in checked.stdout, checked.stdout + checked.stderr


def test_hypotheses_are_told_where_the_model_weighs_some_and_only_there():
    sensor, scores = PrometheusSensor(), Scores(8, 0.9, 0.3, 0.8, 0.7, 0.2, 0.1)
    names = ("streamnb_hypothesis", "streamnb_mixture", "streamnb_regret")
    sensor.reported(report(scores, scores))
    assert not [line for line in exposed(sensor).splitlines() if any(name in line for name in names)]
    for _ in range(2):
        sensor.reported(report(scores, scores, POSTERIOR))
        found = {
            (sample.name, sample.labels.get("hypothesis")): sample.value
            for family in parse(exposed(sensor))
            for sample in family.samples
            if sample.name.startswith(names)
        }
        assert found == {
            ("streamnb_hypothesis_posterior_ratio", "presence alpha=1"): 0.75,
            ("streamnb_hypothesis_posterior_ratio", "other"): 0.25,
            ("streamnb_hypothesis_log_loss", "presence alpha=1"): 0.5,
            ("streamnb_hypothesis_log_loss", "other"): 0.75,
            ("streamnb_mixture_log_loss", None): 0.5625,
            ("streamnb_regret_nats", None): 0.5,
            ("streamnb_regret_bound_nats", None): 0.6931471805599453,
        }
    nothing = replace(POSTERIOR, observations=0, loss=0.0, regret=0.0)
    sensor.reported(report(scores, scores, nothing))
    assert "streamnb_mixture_log_loss NaN" in exposed(sensor)


def test_labels_that_come_late_are_told_where_there_are_some_and_only_there():
    sensor, scores = PrometheusSensor(), Scores(8, 0.9, 0.3, 0.8, 0.7, 0.2, 0.1)
    sensor.reported(report(scores, scores))
    assert "verdicts" not in exposed(sensor)
    sources = {f"s{i}": 1 for i in range(150)}
    sensor.reported(replace(report(scores, scores), verdicts=replace(VERDICTS, sources=sources)))
    samples = scrape(sensor)
    assert series(samples, "streamnb_verdicts") == {"first": 6.0, "changed": 1.0}
    assert series(samples, "streamnb_source_verdicts")["(other)"] == 50.0
    assert samples["streamnb_label_coverage_ratio",] == 0.8
    assert samples["streamnb_pending_events",] == 7.0
    assert series(samples, "streamnb_label_delay_seconds") == dict.fromkeys(("0.5", "0.9", "0.99"), inf)
    assert series(samples, "streamnb_delay_accuracy_ratio") == {"0": 1.0, "+Inf": 0.5}
    bounds = {"mean": 0.9, "lower": 0.7, "upper": 0.95}
    assert series(samples, "streamnb_unjudged_accuracy_ratio") == bounds
    assert samples["streamnb_unjudged_accuracy_doubt",] == 1.0
    assert samples["streamnb_awaited_events",] == 3.0
    sensor.reported(replace(report(scores, scores), verdicts=replace(VERDICTS, unjudged=None)))
    assert "streamnb_unjudged_accuracy_doubt NaN" in exposed(sensor)


def documented():
    """Name -> (type, labels), of the tables of docs/metrics.md."""
    rows = re.findall(r"^\| `(streamnb_\w+)` \| (\w+) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len({name for name, *_ in rows})
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def test_the_page_lists_every_metric_and_no_other():
    sensor = PrometheusSensor()
    tell_everything(sensor)
    registry, answered = metrics_of(Replica(Config(), print))
    answered("/predict", 200, 0.01)
    webhooks = WebhookMetrics(registry)
    webhooks.messages.labels("desk", "delivered").inc()
    for gauge in (webhooks.sending, webhooks.failures, webhooks.behind):
        gauge.labels("desk").set(0)
    sources = SourceMetrics(registry)
    sources.records.labels("crm", "events").inc()
    for gauge in (sources.converting, sources.behind):
        gauge.labels("crm").set(0)
    families = {
        sample.name if family.type != "histogram" else family.name: (family.type, set(sample.labels) - {"le"})
        for family in [*parse(exposed(sensor)), *parse(generate_latest(registry).decode())]
        for sample in family.samples
        if not family.name.startswith("process_") and not family.name.endswith("_created")
    }
    assert documented() == families


def test_the_examples_of_the_page_ask_for_metrics_that_are_there():
    names = set(re.findall(r"\bstreamnb_\w+", PAGE.read_text()))
    known = set(documented())
    histograms = {
        f"{name}_{part}"
        for name, (kind, _) in documented().items()
        if kind == "histogram"
        for part in ("bucket", "sum", "count")
    }
    assert names <= known | histograms


def test_a_standby_is_ready_while_it_follows_and_only_while_it_stands_by():
    sensor = PrometheusSensor()
    sensor.entered(WorkerState.STANDBY)
    assert scrape(sensor)["streamnb_standby_ready",] == 0
    sensor.stood_by(3, 8)
    assert scrape(sensor)["streamnb_standby_ready",] == 1
    assert scrape(sensor)["streamnb_replica_behind_records",] == 3
    assert scrape(sensor)["streamnb_journal_record",] == 8
    sensor.stood_by(None, -1)
    assert scrape(sensor)["streamnb_standby_ready",] == 0
    sensor.stood_by(0, 9)
    sensor.entered(WorkerState.RECOVERING)
    assert scrape(sensor)["streamnb_standby_ready",] == 0


def test_a_process_has_one_configuration_and_none_before_it_is_known():
    sensor = PrometheusSensor()
    assert series(scrape(sensor), "streamnb_configuration_info") == {}
    sensor.configured("old")
    sensor.configured("new")
    assert series(scrape(sensor), "streamnb_configuration_info") == {"new": 1}


def test_the_margin_of_a_recovery_and_missing_offsets_are_shown():
    sensor = PrometheusSensor()
    sensor.recoverable(12.5, 3600.0)
    sensor.missed(3)
    sensor.missed(4)
    found = scrape(sensor)
    assert found["streamnb_recovery_margin_seconds",] == 12.5
    assert found["streamnb_recovery_retention_seconds",] == 3600
    assert found["streamnb_missing_offsets_total",] == 7
