"""classes.min_learns beside late labels, a model that is learned anew, and one that lives through the past again."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from streamnb.engine.retraining.log_retraining import Retraining
from streamnb.evaluation.log_history import history_of, replay_history
from streamnb.runtime import factories
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.retrained_model_check import check_rebuilt
from tests.engine.retraining.test_log_retraining import append, processed, serving, source
from tests.support.late import Stream, examples
from tests.support.service import digests, read_topic
from tests.support.verifying import configured, told, verified

pytestmark = pytest.mark.slow

LEAST = 5
FLAG = f"classes.min_learns={LEAST}"
KINDS = {"naive_bayes": ["model.kind=naive_bayes"], "mixture": []}


class Told:
    """A learner of late labels, asked by one event after the other."""

    def __init__(self, log, worker):
        self.log, self.worker, self.stream, self._sent = log, worker, Stream(), 0

    def hears(self):
        append(self.log, self.stream.records[self._sent :])
        self._sent = len(self.stream.records)
        self.worker.run(until_end=True)

    def names(self):
        """What the next prediction names; and what it may name, by the labels that hold."""
        weights = examples(processed(self.log))
        self.stream.event(f"probe{self._sent}", "a b c")
        self.hears()
        said = json.loads(read_topic(self.log, "predictions")[-1].value)["probabilities"]
        return {*said}, {label for label, weight in weights.items() if weight >= LEAST}

    def label(self, ids, label, **how):
        for i in ids:
            self.stream.verdict(f"e{i}", label, **how)
        self.hears()


@pytest.mark.storm_for("kafka-naive_bayes")
@pytest.mark.parametrize("kind", KINDS)
def test_who_may_be_predicted_hangs_on_the_labels_that_hold_also_in_a_model_learned_anew(
    open_log, tmp_path, kind
):
    log = open_log(
        **dict.fromkeys(("events", "labels", "predictions", "metrics", "dead_letters", "journal"), 1)
    )
    sets = [*KINDS[kind], FLAG]
    with closing(serving(log, tmp_path, *sets)) as worker:
        asked = Told(log, worker)
        for i in range(40):
            asked.stream.event(f"e{i}", "a b" if i % 2 else "c d")
        found = []
        for ids, label in [
            (range(8), "x"),
            (range(8, 13), "y"),  # the fifth example
            (range(12, 13), "x"),  # corrected: four are left
            (range(13, 17), "z"),
            (range(17, 19), "y"),
        ]:
            asked.label(ids, label)
            found.append(asked.names())
        rebuilding = Retraining(source(open_log(), tmp_path, *sets))
        asked.label(range(19, 21), "z")
        found.append(asked.names())
        rebuilding.follow()
        rebuilt = rebuilding.retrained()
        worker.context.snapshots.offer(rebuilding.snapshot(rebuilt))
        adopted = worker.install_model(rebuilt).n
        found.append(asked.names())
        asked.label(range(13, 16), "x")  # z falls below the number again
        found.append(asked.names())
        asked.label(range(22, 25), "z")
        found.append(asked.names())
    assert [named for named, _ in found] == [may for _, may in found]
    assert [sorted(named) for named, _ in found] == [
        ["x"], ["x", "y"], ["x"], ["x"], ["x", "y"], ["x", "y", "z"], ["x", "y", "z"], ["x", "y"], ["x", "y", "z"],
    ]  # fmt: skip
    assert (
        told(
            verified(
                open_log(),
                tmp_path,
                *sets,
                "topics.labels=labels",
                "labels.window=1000d",
                "decision.reject=0.3",
            )
        )
        == []
    )
    findings = CheckResults()
    check_rebuilt(source(open_log(), tmp_path, *sets), adopted, findings)
    assert [one.verdict.name for one in findings.all()] == ["OK"]


@pytest.mark.storm_for("kafka-naive_bayes")
@pytest.mark.parametrize("kind", KINDS)
def test_a_past_that_is_lived_through_again_has_the_quarantine_of_the_candidate(open_log, tmp_path, kind):
    """What `compare` does: it answers as a learner would have that had the number from the beginning."""
    topics = dict.fromkeys(("events", "labels", "predictions", "metrics", "dead_letters", "journal"), 1)
    log = open_log(**topics)
    late = ["topics.labels=labels", "labels.window=1000d", "decision.reject=0.3"]
    with closing(serving(log, tmp_path / "one", *KINDS[kind])) as worker:
        asked = Told(log, worker)
        for i in range(30):
            asked.stream.event(f"e{i}", "a b" if i % 2 else "c d")
        for ids, label in [(range(6), "x"), (range(6, 10), "y"), (range(10, 15), "y"), (range(8, 14), "z")]:
            asked.label(ids, label)
            asked.names()
    log, config = open_log(), configured(*late, *KINDS[kind], FLAG)
    candidate = factories.learner(config)
    said = [
        one
        for one in replay_history(candidate, history_of(configured(*late, *KINDS[kind]), log))
        if one.topic == "predictions"
    ]
    names = [frozenset(json.loads(one.value)["probabilities"]) for one in said[-4:]]
    assert names == [{"x"}, {"x"}, {"x", "y"}, {"x", "z"}]
    assert digests(candidate)["model"] == digests(worker.learner)["model"]
    published = [json.loads(one.value)["probabilities"].keys() for one in read_topic(log, "predictions")[-4:]]
    assert published[:2] == [{"x"}, {"x", "y"}]
