"""Law of a budget of memory that is raised, lowered or taken away between learning and correcting.

An event takes back what it taught, and nothing of what there was no room for when it was learned, whatever
room there is by now: no learner is stopped by that, and a recount from the log finds the same.
"""

from __future__ import annotations

import json
import random
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, HiddenMarkovNB, Hypothesis, NaiveBayes, OneDependence, Text
from streamnb.cli import main
from streamnb.config import load
from streamnb.engine.ports import NewRecord
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.runtime import context
from streamnb.statistics.memory_budget import MemoryBudget
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.processed_slices import _read
from streamnb.verification.log_verification import learned_state
from streamnb.verification.recount.event_recount import RecountPlan, TenantRecount
from streamnb.verification.recount.label_recount import LabelRecount
from streamnb.verification.recount.recount_comparison import compare
from tests.support.late import late_learner, look_for_room_often, random_stream

pytestmark = [pytest.mark.slow, pytest.mark.early(52)]


class Tenants(TenantModels):
    """Whose shared model has a room that is given."""

    room = None

    def __init__(self):
        super().__init__({"text": "text"}, "subject", tenants=5, memory=1 << 14, shared=True)

    def _new_shared(self):
        made = super()._new_shared()
        made.statistics.room = self.room
        return made

    @property
    def statistics(self):
        """Where tests set the room, and look for it."""
        return self


MODELS = {
    "naive_bayes": lambda: NaiveBayes({"text": "text", "subject": Text(event_model="bernoulli")}),
    "chains": lambda: HiddenMarkovNB({"text": "text"}, entity="subject"),
    "mixture": lambda: BayesOptimalNB(
        {"text": "text", "subject": "text"}, [Hypothesis(), Hypothesis("presence"), OneDependence()]
    ),
    "tenants": Tenants,
}
ROOMS = (
    None,
    MemoryBudget(600, 2 << 17),
    MemoryBudget(1500, 1 << 17),
    MemoryBudget(4000, 3 << 17),
    MemoryBudget(1 << 20, 99 << 17),
)
"""With place for a few words and attributes, for some more, and for all."""


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    look_for_room_often(monkeypatch)


@pytest.mark.thorough_for("chains", "mixture")
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6))
@example(seed=213)  # of two new labels that are said of an event only one is learned, and takes room
@example(seed=1302)
def test_what_there_was_no_room_for_is_not_taken_back_and_a_recount_agrees(name, seed):
    rng, findings = random.Random(seed), CheckResults()
    left = random_stream(rng, 80, 200, classes="rstu", more_features=4).records
    learner = late_learner(MODELS[name](), repeats="skip")
    late = LabelRecount(TenantRecount.for_model(learner.model))
    while left:
        size = rng.randrange(60)
        part, left = left[:size], left[size:]
        model = MODELS[name]()
        model.statistics.room = rng.choice(ROOMS)
        learner.reconfigure(learner.settings, model)
        plan = RecountPlan.of_model(learner.settings, learner.model)
        learner.process(part, 1.0)
        late.take([(one, _read(one, learner.settings)) for one in part], 0, plan)
        compare(late.recount, learned_state(learner), "recount", len(left), findings)
        assert findings.all() == []
    again = late_learner(MODELS[name]())
    again.load(learner.parts(), learner.copying().segments())
    assert again.model.state()[0] == learner.model.state()[0]


def said(n, label, ids="e"):
    """Events with words and attributes of their own, and more of both than the smaller budget has room for."""
    return [
        {
            "id": f"{ids}{i}",
            "text": " ".join(f"w{i}x{j}" for j in range(200)),
            "features": {f"n{i}": float(i), f"v{i}": "v"},
            "label": label,
        }
        for i in range(n)
    ]


@pytest.mark.parametrize("kind", ["naive_bayes", "mixture"])
def test_a_budget_is_raised_old_labels_are_corrected_and_all_is_verified(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    corrections = [{"id": f"{ids}{i}", "label": "c"} for ids in "ef" for i in range(40)]
    lives = [
        ("1MiB", "events", said(40, "a")),
        ("64MiB", "events", said(40, "b", "f")),
        ("64MiB", "labels", corrections),
        ("1MiB", "labels", [{**one, "label": "d"} for one in corrections]),
    ]
    for budget, topic, lines in lives:
        flags = [f"model.kind={kind}", "topics.labels=labels", f"memory.budget={budget}", "http.listen="]
        config = load(None, {}, flags)
        given = [word for flag in flags for word in ("--set", flag)]
        with closing(context.open_log(config)) as log:
            log.append([NewRecord(topic, None, json.dumps(line).encode()) for line in lines])
        assert main(["run", "--until-end", *given]) == 0
    capsys.readouterr()
    assert main(["verify", "--json", *given]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verified"]
    assert any("as labels changed" in finding["text"] for finding in found["findings"])
