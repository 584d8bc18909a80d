"""Verification of a model that weighs hypotheses, and forgets: what is right is clean, what is damaged is told."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from streamnb import BayesOptimalNB, Hypothesis, Text
from streamnb.engine.ports import Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Pruning, Settings
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.event_schema import EventSchema
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.verification.check_results import CheckResults, Outcome
from streamnb.verification.log_verification import VerificationSource, verify
from streamnb.verification.recount.event_recount import RecountPlan
from tests.support.service import IDENTITY, TOPICS, new_worker, produce, raw_events
from tests.support.topics_of_logs import trim
from tests.support.verifying import PACE, edit_snapshot, told

pytestmark = pytest.mark.slow

RAWS = [*raw_events(298, seed=8), b"{", b"[]"]
END = 10  # 300 records in commits of 30; snapshots at 3, 6, 9 and 10
HYPOTHESES = [
    Hypothesis("multinomial"),
    Hypothesis("bernoulli"),
    Hypothesis("multinomial", half_life=3600.0),
    Hypothesis("presence", half_life=60.0),
    Hypothesis("complement", weight=0.0),
]


def learner():
    model = BayesOptimalNB({"text": Text(), "subject": Text()}, HYPOTHESES, switching_rate=0.0)
    return EventProcessor(Settings(EventSchema(), pruning=Pruning(50, 2.0, 1, 40)), model)


@pytest.fixture
def learned(tmp_path):
    """A log that was learned, in two lives."""
    with SqliteLog(tmp_path / "log.db", session_timeout=5.0) as log:
        for name, partitions in TOPICS.items():
            log.create_topic(name.replace("_", "-"), partitions)
    for part in (RAWS[:120], RAWS[120:]):
        with SqliteLog(tmp_path / "log.db", session_timeout=5.0) as log:
            produce(log, part)
            worker = new_worker(
                log,
                tmp_path / "snapshots",
                learner=learner(),
                pace=PACE,
                store=lambda path: SnapshotFolder(path, 100),
            )
            worker.start("test")
            worker.run(until_end=True)
            worker.close()
    with SqliteLog(tmp_path / "log.db", session_timeout=5.0) as log:
        yield log


def verified(log, folder, identity=IDENTITY):
    plan = RecountPlan.of_model(learner().settings, learner().model)
    return verify(
        VerificationSource(log, SnapshotFolder(folder), learner, identity, lambda _: plan), CheckResults()
    )


def test_what_was_learned_is_clean_with_the_snapshots_on_the_way(learned, tmp_path):
    outcome = verified(learned, tmp_path / "snapshots")
    assert told(outcome) == []
    assert told(outcome, Outcome.UNCHECKED) == []
    assert outcome.events == 300
    fine = told(outcome, Outcome.OK)
    assert sum(check == "snapshots" for check, _ in fine) >= 3
    assert ("replay", "with snapshots and without, the state is the same bit for bit") in fine


def test_the_recount_begins_with_a_snapshot_where_events_are_gone(learned, tmp_path):
    trim(learned, Partition("events", 0), 200)
    outcome = verified(learned, tmp_path / "snapshots")
    assert told(outcome) == []
    assert 0 < outcome.events < 300
    assert outcome.compared.counts > 0


def test_two_kinds_of_machine_may_differ_in_powers_and_logarithms(learned, tmp_path):
    def other_bits(parts):
        arrays = parts["model"].arrays
        arrays["decayed_table"] *= 1 + 2.0**-52
        arrays["posterior_log_posterior"] *= 1 + 2.0**-52

    edit_snapshot(tmp_path / "snapshots", other_bits)
    found = {check for check, _ in told(verified(learned, tmp_path / "snapshots"))}
    assert found == {"replay", "learners", "snapshots"}
    elsewhere = dataclasses.replace(IDENTITY, fingerprint={"python": "4"})
    assert told(verified(learned, tmp_path / "snapshots", elsewhere)) == []


def one(name, place, change):
    def edit(parts):
        array = parts["model"].arrays[name]
        array[place] = change(array[place])

    return edit


DAMAGE = {
    "log posterior": (one("posterior_log_posterior", 1, lambda v: v * (1 + 1e-9)), "log posterior against its loss", "posterior_log_posterior"),
    "loss": (one("posterior_losses", (2, 0), lambda v: v + 1e-6), "log posterior against its loss", "posterior_losses"),
    "texts": (one("texts", (0, 0), lambda v: v + 1), "texts", "texts"),
}  # fmt: skip


DECAYED = {
    "decayed_table": (5, 1, 0),
    "decayed_row_epoch": (5, 1),
    "decayed_totals": (1, 0, 1),
    "decayed_classes": (0, 0),
    "decayed_n": (1, 0, 1),
    "decayed_mean": (1, 0, 1),
    "decayed_M2": (1, 0, 1),
}


@pytest.mark.parametrize("name", DECAYED)
@pytest.mark.parametrize("n", [3, pytest.param(END, marks=pytest.mark.thorough)])
def test_one_bit_of_what_forgets_is_told_with_its_place(learned, tmp_path, name, n):
    """By a replay, whether the snapshot is the newest or an older one."""
    place, newest = DECAYED[name], edit_snapshot(tmp_path / "snapshots", lambda _: None)

    def next_one(parts):
        array = parts["model"].arrays[name]
        array.view(np.int64)[place] += -1 if array.dtype == np.int64 else 1

    edit_snapshot(tmp_path / "snapshots", next_one, None if n == END else n)
    outcome = verified(learned, tmp_path / "snapshots")
    at = f"at journal record {newest if n == END else n}"
    where = f"{name}[{', '.join(map(str, place))}] is "
    texts = told(outcome)
    assert {check for check, _ in texts} == ({"snapshots", "learners"} if n == END else {"snapshots"})
    assert all(text.startswith(f"{at}: {where}") for _, text in texts)


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("n", [3, pytest.param(END, marks=pytest.mark.thorough)])
def test_a_snapshot_that_is_another_is_told(learned, tmp_path, name, n):
    """With right checksums: an older one by the recount and the posterior's books, the newest by a replay, too."""
    edit, what, array = DAMAGE[name]
    newest = edit_snapshot(tmp_path / "snapshots", lambda _: None)
    edit_snapshot(tmp_path / "snapshots", edit, None if n == END else n)
    outcome = verified(learned, tmp_path / "snapshots")
    texts = told(outcome)
    at = f"at journal record {newest if n == END else n}"
    assert any(check == "snapshots" and text.startswith(at) and what in text for check, text in texts)
    replayed = f"part 'model' of the state differs with and without snapshots: {array}"
    assert (("replay", replayed) in texts) == (n == END)
    assert {check for check, _ in texts} == (
        {"snapshots", "recount", "replay"} if n == END else {"snapshots"}
    )
