"""After a rehearsal a learner, and who asks its model, finds every kernel that it needs at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from streamnb.config import load
from streamnb.runtime import context, factories
from streamnb.runtime.warmup import rehearse

pytestmark = pytest.mark.thorough

PROGRAM = """
import sys
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.cli import main
from streamnb.runtime import context, factories
from streamnb.queries.answers import rehearse_answers
from streamnb.config import load
from streamnb.engine.ports import NewRecord
from streamnb.kernels.jit import _Kernel

folder, settings = sys.argv[1], sys.argv[2:]
url = f"log.url=sqlite:///{folder}/log.db"
factories.warm_up(load(None, {}, [url, *settings]), rehearse_answers)
factories.warm_up = lambda config=None, *_: 0.0
compile = _Kernel.compile
late = set()

def noted(kernel, sig):
    if tuple(sig) not in kernel.overloads:
        late.add(f"{kernel.__module__}.{kernel.__name__}")
    return compile(kernel, sig)

_Kernel.compile = noted
options = [option for key in [url, "http.listen=", "snapshots.every_events=40", *settings] for option in ("--set", key)]
with open(f"{folder}/events.jsonl", "rb") as events:
    lines = events.read().splitlines()
for part in (lines[:100], lines[100:]):  # the second recovers from a snapshot, and from the journal
    with SqliteLog(f"{folder}/log.db") as log:
        if not log.topic_ids(["events"]):
            log.create_topic("events", 1)
        log.append([NewRecord("events", b"%d" % i, line) for i, line in enumerate(part)])
    assert main(["run", "--until-end", *options]) == 0
event = lines[0].decode()
for asked in (["predict", event], ["explain", event], ["explain", event, "--against", "b"], ["token", "one"], ["inspect"]):
    print(asked[0], main([*asked, *options]))
print(sorted(late))
"""
KINDS = {
    "mixture": [],
    "mixture with evidence": ["predictions.evidence=5"],
    "naive_bayes": ["predictions.evidence=5", "model.prune.every=50", "model.prune.max_attributes=40"],
    **{kind: ["predictions.evidence=5"] for kind in ("semi_supervised", "hidden_markov", "tenants")},
    "logistic_regression": [],
}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_compiled_or_loaded_after_a_rehearsal(tmp_path, kind):
    events = [
        {
            "id": f"e{i}",
            "text": f"one two n{i % 7}",
            "features": {
                "colour": "red" if i % 3 else "blue",
                "height": i / 3.0,
                **({"late": 1.0} if i > 150 else {}),
            },
            "ts": 60.0 * i,
            **({"label": "abcd"[i % 4]} if i % 5 else {}),
        }
        for i in range(200)
    ]
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    settings = [f"model.kind={kind.split()[0]}", *KINDS[kind]]
    if kind == "logistic_regression":
        settings.append('attributes=[{name = "height", kind = "continuous", path = "$.features.height"}]')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path, *settings],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "200 events, 160 learned, 0 dead letters" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


PLACES = [
    [],
    ["events.label=$.features.label", "events.id=$.meta.id", "events.ts=$.meta.ts"],
    [
        'attributes=[{name="a", kind="text", path="$.text.body"}, {name="b", kind="nominal", path="$.label.b"}]',
        "events.label=$.label.name",
    ],
    ['attributes=[{name="a", kind="nominal", path="$.a", values=["x", "y"]}]', "events.id=$.b.id"],
    ['attributes=[{name="height", kind="continuous", path="$.features.height.m"}]'],
]


@pytest.mark.parametrize(
    "settings", [["events.ts=$.features"], ["events.id=$.label.id"], ["events.label=$.id.label"]]
)
def test_paths_that_lead_through_each_others_values_end_no_rehearsal(settings):
    """Whatever such a configuration makes of real events, a learner says so itself."""
    config = load(None, {}, ["model.kind=naive_bayes", *settings])
    learner = factories.learner(config)
    rehearse(learner, context.schema(config))
    assert learner.consumed == 60


@pytest.mark.parametrize("settings", PLACES)
def test_all_events_of_a_rehearsal_are_learned_but_those_without_a_label(settings):
    config = load(None, {}, ["model.kind=naive_bayes", *settings])
    learner = factories.learner(config)
    rehearse(learner, context.schema(config))
    assert (learner.consumed, learner.dead_letters, learner.model.n_events) == (60, 0, 45)
