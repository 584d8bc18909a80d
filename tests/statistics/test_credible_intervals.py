"""Credible intervals of accuracy and class rates: what reports say, that it holds, and where it can be read."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from contextlib import closing
from shutil import rmtree
from urllib.request import urlopen

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse
from scipy import special, stats

from streamnb import config as configuration
from streamnb.engine.processing import metrics_reports
from streamnb.engine.processing.metrics_reports import with_interval, with_intervals
from streamnb.errors import JournalError
from streamnb.events import ClassRate, Interval, MetricsReport, Scores
from streamnb.formats.codec import decode_metrics, decode_prediction, encode_metrics
from streamnb.persistence import platform_fingerprint as prints
from streamnb.persistence.platform_fingerprint import fingerprint
from streamnb.reports.text_tables import print_report
from streamnb.runtime import factories
from streamnb.statistics.credible_intervals import beta_intervals
from streamnb.telemetry.http_endpoints import Endpoints, Health
from streamnb.telemetry.prometheus_sensor import PrometheusSensor
from tests.support.service import (
    IDENTITY,
    TOPICS,
    many,
    new_learner,
    new_worker,
    produce,
    raw_events,
    read_topic,
    records,
)

pytestmark = pytest.mark.thorough

LOGS = ["sqlite"]
RAWS = raw_events(500, seed=3)
FALSE_ALARM = 1e-6  # of each statistical test below, were the intervals as good as they say


def class_rates(weights, mass):
    return with_intervals((), weights, mass)[1]


def jeffreys(successes, n, mass=0.95):
    """The interval as scipy has it, whose quantiles are good to eight digits or so."""
    return pytest.approx(
        stats.beta(successes + 0.5, n - successes + 0.5).interval(mass), rel=1e-7, abs=1e-300
    )


def pair(interval):
    return interval.lower, interval.upper


# -- what they are ------------------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_interval_of_an_accuracy_is_that_of_its_count(n, data, mass):
    right = data.draw(st.integers(0, n))
    scores = with_interval(Scores(n, right / n, *[0.5] * 5), mass)
    assert pair(scores.accuracy_interval) == jeffreys(right, n, mass)
    assert msgspec.structs.replace(scores, accuracy_interval=None) == Scores(n, right / n, *[0.5] * 5)


@given(st.integers(1, 2**50).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_a_share_tells_its_count(drawn):
    """`with_interval` has the accuracy alone: right / n in doubles must lead back to right."""
    n, right = drawn
    assert round(right / n * n) == right


@given(
    st.lists(st.integers(0, 10**9).map(lambda units: units / 1024), max_size=8), st.sampled_from([0.9, 0.95])
)
def test_rates_are_those_of_each_class_against_all_others(weights, mass):
    total = sum(weights)
    rates = class_rates(weights, mass)
    if not total:
        assert rates == ()
        return
    assert [one.weight for one in rates] == weights
    assert [one.rate for one in rates] == pytest.approx([weight / total for weight in weights])
    for weight, one in zip(weights, rates, strict=True):
        assert (one.lower, one.upper) == jeffreys(weight, total, mass)


def test_of_nothing_there_is_no_interval():
    nothing = Scores(0, *[0.0] * 6)
    assert with_interval(nothing, 0.95) is nothing
    assert class_rates([], 0.95) == class_rates([0.0, 0.0], 0.95) == ()
    report = new_learner().report(1.0)
    assert (report.cumulative.accuracy_interval, report.window.accuracy_interval) == (None, None)
    assert (report.class_rates, report.interval_mass) == ((), 0.95)


# -- that they hold -----------------------------------------------------------------------------------------

STREAMS = 200_000


def covered(chance, successes, n, mass=0.95, widened=1.0):
    """How many intervals hold the chance; `widened` draws them in or out around their middle."""
    lower, upper = beta_intervals(successes + 0.5, n - successes + 0.5, mass)
    middle, half = (lower + upper) / 2, widened * (upper - lower) / 2
    return int(np.count_nonzero((middle - half <= chance) & (chance <= middle + half)))


def is_plausible(hits, trials, share):
    """Whether so many hits are no wonder where each has probability `share`; false alarms: FALSE_ALARM."""
    two_sided = 2 * min(stats.binom.cdf(hits, trials, share), stats.binom.sf(hits - 1, trials, share))
    return two_sided > FALSE_ALARM


@pytest.mark.parametrize("n", [1, 7, 100, 5000])
@pytest.mark.parametrize("mass", [0.5, 0.95, 0.99])
def test_intervals_hold_what_they_promise_on_streams_from_the_prior(n, mass):
    """Where the chance is drawn from the prior, a credible interval of mass m holds it in a share m of streams."""
    rng = np.random.default_rng([n, round(100 * mass)])
    chance = rng.beta(0.5, 0.5, size=STREAMS)
    successes = rng.binomial(n, chance)
    assert is_plausible(covered(chance, successes, n, mass), STREAMS, mass)


@pytest.mark.parametrize("widened", [0.5, 0.9, 1.1, 2.0])
def test_wrong_intervals_are_caught(widened):
    rng = np.random.default_rng(11)
    chance = rng.beta(0.5, 0.5, size=STREAMS)
    successes = rng.binomial(1000, chance)
    assert is_plausible(covered(chance, successes, 1000), STREAMS, 0.95)
    assert not is_plausible(covered(chance, successes, 1000, widened=widened), STREAMS, 0.95)


def test_the_accuracy_of_a_learner_that_improves_is_covered_at_least_as_often():
    """Chances that rise from 1/2 to .95: the interval holds their mean in no less than its share of streams."""
    rng, n, streams = np.random.default_rng(9), 400, 20_000
    chances = 0.95 - 0.45 * np.exp(-np.arange(n) / 80)
    right = (rng.random((streams, n)) < chances).sum(axis=1)
    hits = covered(chances.mean(), right, n)
    assert stats.binom.cdf(hits, streams, 0.95) > FALSE_ALARM
    assert stats.binom.cdf(covered(chances.mean(), right, n, widened=0.5), streams, 0.95) < FALSE_ALARM


# -- where they can be read ---------------------------------------------------------------------------------


def recounted(log, window):
    """What the log says: how many were learned of each label; of all scored and of the window: how many, how many right."""
    truth = {event["id"]: event for event in (json.loads(r.value) for r in read_topic(log, "events"))}
    weights, rights = Counter(), []
    for prediction in (decode_prediction(record.value) for record in read_topic(log, "predictions")):
        label = truth[prediction.id]["label"]
        if label is not None:
            weights[label] += 1
            rights.append(prediction.label == label)
    return weights, [(len(some), sum(some)) for some in (rights, rights[-window:])]


def scraped(sensor):
    """Metric and the value of its label -> value, as HTTP answers."""
    endpoints = Endpoints(("127.0.0.1", 0), Health(), sensor.web_app())
    endpoints.start()
    try:
        with urlopen("http://{}:{}/metrics".format(*endpoints.address)) as page:  # noqa: S310  it is ours
            families = parse(page.read().decode())
            return {(s.name, *s.labels.values()): s.value for f in families for s in f.samples}
    finally:
        endpoints.close()


def test_the_configuration_says_how_sure():
    assert factories.settings(configuration.load(None, {}, [])).interval == 0.95
    assert factories.settings(configuration.load(None, {}, ["metrics.interval=0.8"])).interval == 0.8


@pytest.mark.parametrize("mass", [0.95, 0.8])
def test_topic_and_page_say_what_scipy_says_of_the_log(open_log, tmp_path, mass):
    log, sensor = open_log(**TOPICS), PrometheusSensor()
    produce(log, RAWS)
    learner = new_learner(window=60, report_seconds=0.0, interval=mass)
    worker = new_worker(log, tmp_path / "snapshots", learner=learner, sensor=sensor)
    worker.start("test")
    with closing(worker):
        worker.run(until_end=True)
        published = [decode_metrics(record.value) for record in read_topic(open_log(), "metrics")]
        last, page = published[-1], scraped(sensor)
        weights, scopes = recounted(open_log(), 60)
    assert last.interval_mass == mass
    total = sum(weights.values())
    assert dict(zip(last.labels, (one.weight for one in last.class_rates), strict=True)) == weights
    for label, one in zip(last.labels, last.class_rates, strict=True):
        assert pair(one) == jeffreys(weights[label], total, mass)
        assert page["streamnb_class_rate_ratio", label] == one.rate == pytest.approx(weights[label] / total)
        assert page["streamnb_class_rate_lower_ratio", label] == one.lower
        assert page["streamnb_class_rate_upper_ratio", label] == one.upper
    for name, scores, (n, right) in zip(
        ("all", "window"), (last.cumulative, last.window), scopes, strict=True
    ):
        assert (scores.events, scores.accuracy) == (n, right / n)
        assert pair(scores.accuracy_interval) == jeffreys(right, n, mass)
        assert page["streamnb_accuracy_lower_ratio", name] == scores.accuracy_interval.lower
        assert page["streamnb_accuracy_upper_ratio", name] == scores.accuracy_interval.upper


def test_the_report_after_a_recovery_is_the_one_before(open_log, tmp_path):
    """Restart is no restart: of a snapshot, and of what was replayed after it."""
    log = open_log(**TOPICS)
    produce(log, RAWS[:300])
    one = new_worker(log, tmp_path / "snapshots", learner=new_learner(window=60), store=many)
    one.start("one")
    with closing(one):
        one.run(until_end=True)
        before = one.learner.report(1.0)
    two = new_worker(open_log(), tmp_path / "snapshots", learner=new_learner(window=60), store=many)
    two.start("two")
    with closing(two):
        assert two.learner.report(1.0) == before
    assert before.cumulative.accuracy_interval
    assert len(before.class_rates) == 3
    again = new_learner(window=60)
    again.load(one.learner.parts())
    assert again.report(1.0) == before


def test_quantiles_of_another_scipy_do_not_end_a_recovery(open_log, tmp_path, monkeypatch):
    """They may differ in a last bit: what another version published is not compared."""

    def identity():
        return dataclasses.replace(IDENTITY, fingerprint=fingerprint())

    log = open_log(**TOPICS)
    produce(log, RAWS[:300])
    one = new_worker(log, tmp_path / "snapshots", learner=new_learner(), identity=identity())
    one.start("one")
    with closing(one):
        one.run(until_end=True)
    rmtree(tmp_path / "snapshots")  # so that everything is replayed
    # Intervals that this process has computed before are of its own scipy.
    monkeypatch.setattr(metrics_reports, "_intervals", metrics_reports._intervals.__wrapped__)
    monkeypatch.setattr(
        metrics_reports, "beta_intervals", lambda *drawn: np.nextafter(beta_intervals(*drawn), 1.0)
    )
    two = new_worker(open_log(), tmp_path / "snapshots", learner=new_learner(), identity=identity())
    with closing(two), pytest.raises(JournalError, match="gave other outputs than it published"):
        two.start("two")
    version = prints.version
    monkeypatch.setattr(prints, "version", lambda name: "1.99" if name == "scipy" else version(name))
    three = new_worker(open_log(), tmp_path / "snapshots", learner=new_learner(), identity=identity())
    three.start("three")
    with closing(three):
        assert three.learner.consumed == 300


def test_beyond_a_hundred_classes_there_are_no_rates():
    raws = [b'{"id":"%d","text":"a","label":"c%d"}' % (i, i) for i in range(101)]
    learner, sensor = new_learner(), PrometheusSensor()
    learner.process(records(raws[:100]), 1.0)
    report = learner.report(1.0)
    assert len(report.class_rates) == len(report.labels) == 100
    sensor.reported(report)
    assert sum(name == "streamnb_class_rate_ratio" for name, *_ in scraped(sensor)) == 100
    learner.process(records(raws[100:]), 1.0)
    report = learner.report(1.0)
    assert (report.labels, report.class_rates) == ((), ())
    assert report.window.accuracy_interval
    sensor.reported(report)
    assert not [name for name, *_ in scraped(sensor) if name.startswith("streamnb_class_rate")]


def report_of(labels, rates, scores):
    return MetricsReport(
        9, 9, 0, scores, scores, 5, len(labels), labels, (), 1, decode_metrics(OLD).model, 1.0,
        interval_mass=0.9, class_rates=rates,
    )  # fmt: skip


OLD = (
    b'{"kind":"report","events":3,"learned":2,"dead_letters":1,"cumulative":{"events":2,"accuracy":0.5,"log_loss":0.7,'
    b'"macro_f1":0.4,"kappa":0.1,"brier":0.3,"calibration_error":0.2},"window":{"events":2,"accuracy":0.5,'
    b'"log_loss":0.7,"macro_f1":0.4,"kappa":0.1,"brier":0.3,"calibration_error":0.2},"window_size":100,"classes":2,'
    b'"labels":["a","b"],"confusion":[[1,0,1],[0,0,0]],"attributes":9,"model":{"name":"d","events":2},"ts":4.5}'
)
SCORES = Scores(2, 0.5, 0.7, 0.4, 0.1, 0.3, 0.2)


def test_intervals_survive_the_wire():
    scores = with_interval(SCORES, 0.9)
    report = report_of(("a", "b"), class_rates([1.5, 3.0], 0.9), scores)
    assert decode_metrics(encode_metrics(report)) == report
    told = json.loads(encode_metrics(report))
    assert told["interval_mass"] == 0.9
    assert told["window"]["accuracy_interval"] == msgspec.to_builtins(scores.accuracy_interval)
    assert [list(one) for one in told["class_rates"]] == [["weight", "rate", "lower", "upper"]] * 2


def test_the_page_keeps_to_its_bound_of_labels_and_to_the_last_report():
    labels = [f"c{i}" for i in range(150)]
    sensor = PrometheusSensor()
    rate = ClassRate(1.0, 0.5, 0.25, 0.75)
    sensor.reported(report_of((*labels[:99], "x" * 201, *labels[99:]), (rate,) * 151, SCORES))
    found = [label for name, *label in scraped(sensor) if name == "streamnb_class_rate_upper_ratio"]
    assert found == [[label] for label in labels[:100]], "those that share a name have no series"
    sensor.reported(report_of(("c1",), (rate,), SCORES))
    found = [label for name, *label in scraped(sensor) if name == "streamnb_class_rate_upper_ratio"]
    assert found == [["c1"]]


def test_what_people_are_shown(capsys):
    scores = with_interval(SCORES, 0.9)
    print_report(report_of(("a", "b"), class_rates([1234.5, 3000.0], 0.9), scores))
    shown = capsys.readouterr().out
    lower, upper = special.betaincinv(1.5, 1.5, 0.05), special.betaincinv(1.5, 1.5, 0.95)
    assert f"90% interval       {lower:.4f}-{upper:.4f}  {lower:.4f}-{upper:.4f}\n" in shown
    assert re.search(r"^accuracy +0\.5000 +0\.5000\n90% interval ", shown, re.MULTILINE)
    (row,) = [line for line in shown.splitlines() if line.startswith("b ") and "3,000" in line]
    bounds = stats.beta(3000.5, 1235).interval(0.9)
    assert row.split() == ["b", "3,000", f"{3000 / 4234.5:.4f}", f"{bounds[0]:.4f}-{bounds[1]:.4f}"]


def test_an_interval_of_nothing_is_shown_as_nothing(capsys):
    print_report(msgspec.structs.replace(report_of((), (), SCORES), classes=0))
    assert "90% interval" in capsys.readouterr().out
    assert pair(Interval(0.25, 0.75)) == (0.25, 0.75)
