"""Lives by the commands alone: learn, roll back, learn anew, forget, lose snapshots; after each step `verify` is clean."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamnb.cli import main

pytestmark = pytest.mark.early(33)

ERRORS = "monitors=[{name='errors', kind='error-rate', tolerated=0.05, alarming=0.3%s}]"
COSTS = "decision.costs={spam={ham=1}, ham={spam=1}}"
LATE = "topics.labels=labels"
TENANTS = ["model.kind=tenants", "events.entity=$.tenant", "topics.tenants=tenants"]
SMALL = "posterior.memory=1MiB"  # each commit, start and `verify` looks through all tables
CONFIGURATIONS = {
    "mixture": [SMALL],
    "renewed": [SMALL, ERRORS % ", action='renew'", "topics.alerts=alerts"],
    "paused": [SMALL, ERRORS % ", action='pause'", "topics.alerts=alerts", LATE],
    "quarantine": ["model.kind=naive_bayes", LATE, "classes.min_learns=3"],
    "novelty": ["model.kind=naive_bayes", "decision.novelty=0.05", COSTS, LATE],
    "windowed": ["model.kind=naive_bayes", "decision.priors=windowed", COSTS],
    "pruned": ["model.kind=naive_bayes", "model.prune.every=7", "model.prune.min_count=2", "drift.detectors=adwin,ddm"],
    "bounded": ["model.kind=naive_bayes", "memory.budget=1MiB", LATE],
    "chains": ["model.kind=hidden_markov", "model.entities=3", "events.entity=$.tenant"],
    "tenants": [*TENANTS, "model.tenants=3"],
    "tenants that share": [*TENANTS, "model.shared=true", LATE],
    "semi-supervised": ["model.kind=semi_supervised"],
}  # fmt: skip
OWN = {"spam": "a b c".split(), "ham": "d e f".split()}
CHANGES = [
    [LATE],
    [ERRORS % "", "topics.alerts=alerts"],
    ["classes.min_learns=2"],
    ["drift.detectors=adwin"],
    ["classes.max=1"],
    ["memory.budget=1MiB"],
    ["classes.aliases={spam='junk'}"],
]
STEPS = st.lists(
    st.sampled_from(["learn", "roll back", "learn anew", "forget", "lose", "change"]), max_size=6
)


class Life:
    """A log and its snapshots in the working directory, and what is done to them."""

    def __init__(self, sets, rng, capsys):
        own = ["http.listen=", "metrics.every_events=5", "commit.events=4", "snapshots.every_events=9"]
        own += ["snapshots.keep=1000", "snapshots.folder=kept", "log.url=sqlite:///log.db"]
        self.flags = [word for key in (*own, *sets) for word in ("--set", key)]
        self.rng, self.capsys, self.n, self.is_late, self.is_anew = rng, capsys, 0, LATE in sets, False

    def told(self, *arguments, code=0):
        self.capsys.readouterr()
        found = main([*map(str, arguments), *self.flags])
        said = self.capsys.readouterr()
        assert found in {0, code}, said.out + said.err
        return said.out

    def learn(self):
        events = [self.event() for _ in range(self.rng.randrange(1, 25))]
        Path("events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        self.told("replay", "events.jsonl")
        for _ in range(self.rng.randrange(5) * self.is_late):
            self.told("label", f"e{self.rng.randrange(self.n + 3)}", self.rng.choice(["spam", "ham"]))
        self.told("run", "--until-end")

    def event(self):
        rng, label = self.rng, self.rng.choice(list(OWN))
        words = rng.choices([*OWN[label], "g", "h", f"w{rng.randrange(40)}"], k=5)
        made = {
            "id": f"e{self.n}",
            "tenant": rng.choice("uvwxy"),
            "text": " ".join(words),
            "ts": 1.7e9 + 60 * self.n,
        }
        made |= {"features": {"x": rng.random(), "k": rng.choice("pq")}}
        self.n += 1
        return made | ({"label": rng.choice([label, label, label, "spam"])} if rng.random() < 0.8 else {})

    def change(self):
        keys = {key.partition("=")[0] for key in self.flags[1::2]}
        some = [key for key in self.rng.choice(CHANGES) if key.partition("=")[0] not in keys]
        self.is_late |= LATE in some
        self.flags += [word for key in some for word in ("--set", key)]
        self.told("run", "--until-end")

    def roll_back(self):
        stands = json.loads(self.told("inspect", "--json"))["journal"]
        self.told("snapshot", "rollback", "--to", self.rng.randrange(1, max(2, stands)), code=1)

    def learn_anew(self):
        self.told("rebuild", code=1)
        self.is_anew = True

    def forget(self):
        self.told("forget", "--id", f"e{self.rng.randrange(self.n)}", code=1)
        self.is_anew = True

    def lose(self):
        if not self.is_anew:  # else a model lies among the snapshots
            shutil.rmtree("kept", ignore_errors=True)
            self.told("run", "--until-end")


@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), steps=STEPS)
def test_after_each_step_verify_is_clean(name, seed, steps, tmp_path_factory, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path_factory.mktemp("life"))
    life = Life(CONFIGURATIONS[name], random.Random(seed), capsys)
    for step in ["learn", *steps, "learn"]:
        getattr(life, step.replace(" ", "_"))()
        life.told("verify")


@pytest.mark.parametrize("changed", CHANGES, ids=lambda keys: keys[0].partition("=")[0])
def test_a_rollback_to_before_a_change_of_the_configuration_goes_on_under_it(
    changed, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    life = Life(["model.kind=naive_bayes"], random.Random(1), capsys)
    life.learn()
    life.flags += [word for key in changed for word in ("--set", key)]
    life.is_late = LATE in changed
    life.learn()
    life.told("snapshot", "rollback", "--to", 2)
    for step in (life.learn, life.learn, life.lose):
        life.told("verify")
        step()
    life.told("verify")
