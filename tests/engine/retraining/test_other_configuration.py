"""A model that is learned anew under another configuration, and taken up with it by one journal record."""

from __future__ import annotations

import json
import random
import threading
from contextlib import closing

import pytest

from streamnb.cli import main
from streamnb.engine.journal.recovery import recover
from streamnb.engine.ports import NewRecord
from streamnb.engine.retraining.log_retraining import Retraining
from streamnb.errors import JournalError
from streamnb.runtime import factories
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.retrained_model_check import check_rebuilt
from tests.engine.retraining.test_aliases import learn_anew, run
from tests.engine.retraining.test_aliases import source as source_of
from tests.engine.retraining.test_log_retraining import (
    LATE,
    MODELS,
    TOPICS,
    append,
    flags_of,
    processed,
    serving,
    source,
    undisturbed,
)
from tests.support.late import effective_labels, random_stream
from tests.support.service import AtOnce, digests, model_digest
from tests.support.verifying import configured, journal_of, new_worker, told, verified

pytestmark = [pytest.mark.slow, pytest.mark.early(39)]

BAYES = MODELS["naive_bayes"]
CHAINS = ["model.kind=hidden_markov"]
OTHERS = {
    "to a mixture": (BAYES, []),
    "to naive Bayes": ([], BAYES),
    "with other hypotheses": ([], ["hypotheses=[{name='one', alpha=0.1}, {name='two', alpha=2.0}]"]),
    "that forgets words": (BAYES, [*BAYES, "model.prune.every=13", "model.prune.min_count=2"]),
    "of another kind": (BAYES, CHAINS),
}


@pytest.mark.storm_for("kafka", but="kafka-to a mixture")
@pytest.mark.thorough_for(
    "kafka",
    "sqlite-to naive Bayes",
    "sqlite-with other hypotheses",
    "sqlite-that forgets words",
    but="kafka-to a mixture",
)
@pytest.mark.parametrize(("before", "after"), OTHERS.values(), ids=OTHERS)
def test_it_is_the_model_of_a_run_under_the_other_and_what_follows_is_too(open_log, tmp_path, before, after):
    log, folder = open_log(**TOPICS), tmp_path / "snapshots"
    records = random_stream(random.Random(3), 120, 200, weights=(None, 0)).records
    append(log, records[:200])
    with closing(serving(log, folder, *before)) as worker:
        worker.run(until_end=True)
    becomes = factories.identity(configured(*LATE, *after))
    rebuilding = Retraining(source(open_log(), folder, *before), under=becomes.semantic_config)
    known = processed(open_log())
    rebuilt = rebuilding.retrained()
    assert rebuilt.digest == model_digest(undisturbed(known, effective_labels(known), *after))
    with closing(serving(open_log(), folder, *before)) as worker:
        worker.context.snapshots.offer(rebuilding.snapshot(rebuilt))
        scores = worker.learner.late.scoring.scores.cumulative()
        n = worker.install_model(rebuilt, becomes).n
        assert (model_digest(worker.learner), worker.learner.late.scoring.scores.cumulative()) == (
            rebuilt.digest,
            scores,
        )
    log = open_log()
    assert [(record.kind, record.config_hash) for record in journal_of(log)[n:]] == [
        ("adopt", becomes.config_hash)
    ]
    if before[:1] != after[:1]:
        then = configured(*LATE, *before)
        with pytest.raises(JournalError, match="cannot continue under this configuration"):
            recover(log, AtOnce(folder, 100), factories.learner(then), factories.identity(then))
    append(log, records[200:])
    with closing(serving(log, folder, *after)) as worker:
        worker.run(until_end=True)
    log = open_log()
    for path in folder.glob("snapshot-*"):
        if int(path.stem.split("-")[1]) >= n:
            path.unlink()  # so that recovery passes the record that took the model up
    again = factories.learner(configured(*LATE, *after))
    recover(log, AtOnce(folder, 100), again, factories.identity(configured(*LATE, *after)))
    assert digests(again) == digests(worker.learner)
    findings = CheckResults()
    check_rebuilt(source(log, folder, *after), n, findings)
    assert findings.is_clean
    assert told(verified(log, folder, *LATE, *after)) == []
    later = processed(log)
    assert Retraining(source(log, folder, *after)).retrained().digest == model_digest(
        undisturbed(later, effective_labels(later), *after)
    )


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_events_that_only_the_other_configuration_refuses_are_no_difference(open_log, tmp_path, capsys):
    log = open_log(**{name: n for name, n in TOPICS.items() if name != "labels"})
    says = [645 if i % 7 == 0 else f"w{i % 5} w{i % 3}" for i in range(60)]
    raws = [{"id": f"e{i}", "label": "ab"[i % 2], "features": {"says": x}} for i, x in enumerate(says)]
    log.append([NewRecord("events", None, json.dumps(raw).encode()) for raw in raws])
    after = "attributes=[{name='says', kind='text'}]"
    with closing(new_worker(log, tmp_path)) as worker:
        worker.start("a learner")
        worker.run(until_end=True)
    sets = [f"log.url=sqlite:///{tmp_path}/log.db", f"snapshots.folder={tmp_path}", after]
    assert main(["rebuild", *(part for one in sets for part in ("--set", one))]) == 0
    assert "51 of 60 events learned again" in capsys.readouterr().out
    log = open_log()
    log.append([NewRecord("events", None, json.dumps(raw).encode()) for raw in raws])
    with closing(new_worker(log, tmp_path, after)) as worker:
        worker.start("a learner")
        worker.run(until_end=True)
        assert (worker.learner.model.n_events, worker.learner.dead_letters) == (102, 9)
    assert told(verified(open_log(), tmp_path, after)) == []


CHANGED = {
    "fewer labels than there are": ("classes.max=10", "classes.max=4"),
    "more labels than there were": ("classes.max=4", "classes.max=10"),
    "more memory": ("memory.budget=1MiB", "memory.budget=64MiB"),
    "less memory": ("memory.budget=64MiB", "memory.budget=1MiB"),
    "words are forgotten": ("model.prune.every=0", "model.prune.every=50"),
}


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
@pytest.mark.parametrize("late", [[], LATE], ids=["at once", "late"])
@pytest.mark.parametrize(("before", "after"), CHANGED.values(), ids=CHANGED)
def test_what_was_learned_under_several_configurations_is_learned_anew_under_the_last(
    open_log, tmp_path, before, after, late
):
    """With the labels that were admitted when they came; and `verify` counts by what holds now."""
    topics = TOPICS if late else {name: n for name, n in TOPICS.items() if name != "labels"}
    log = open_log(**topics)
    words = [" ".join(f"w{i * 31 + j * j * 17}" for j in range(60)) for i in range(200)]
    raws = [json.dumps({"id": f"e{i}", "label": f"L{i * 7 % 10}", "text": x}) for i, x in enumerate(words)]
    log.append([NewRecord("events", None, raw.encode()) for raw in raws])
    run(log, tmp_path, *BAYES, *late, before)
    made = run(open_log(), tmp_path, *BAYES, *late, after)
    learned, classes = made.model.n_events, made.model.classes
    assert len(classes) == (4 if before == "classes.max=4" else 10)
    learn_anew(open_log(), tmp_path, *BAYES, *late, after)
    again = run(open_log(), tmp_path, *BAYES, *late, after)
    assert (again.model.n_events, again.model.classes) == (learned, classes)
    assert told(verified(open_log(), tmp_path, *BAYES, *late, after)) == []
    findings = CheckResults()
    check_rebuilt(
        source_of(open_log(), tmp_path, *BAYES, *late, after), journal_of(open_log())[-1].n, findings
    )
    assert findings.is_clean


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_the_command_takes_it_up_while_no_learner_runs_and_says_what_it_cannot_take_up(
    open_log, tmp_path, capsys
):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 60).records)
    with closing(serving(log, tmp_path, *BAYES)) as worker:
        worker.run(until_end=True)

        def rebuild(*sets):
            more = [part for one in sets for part in ("--set", one)]
            return main([*flags_of(tmp_path, "rebuild"), *more]), capsys.readouterr()

        def beside():
            refused.append(rebuild("log.session_timeout=2s", "model.kind=hidden_markov"))
            worker.stop()

        refused = []
        thread = threading.Thread(target=beside)
        thread.start()
        worker.run()
        thread.join()
        assert [(status, "stop the learner first" in said.err) for status, said in refused] == [(1, True)]
    for changed in ("attributes=[{name='text', kind='text'}]", "metrics.window=7", "events.label=$.y"):
        status, said = rebuild(changed)
        assert (status, "cannot have these changes: " in said.err, changed.split("=")[0] in said.err) == (
            1,
            True,
            True,
        )
    assert [record.kind for record in journal_of(open_log())].count("adopt") == 0
    status, said = rebuild("model.kind=hidden_markov")
    assert (status, "installed by record" in said.out) == (0, True)
    assert journal_of(open_log())[-1].config["model"]["kind"] == "hidden_markov"
    status, said = rebuild("model.kind=hidden_markov")
    assert (status, journal_of(open_log())[-1].config) == (0, {})
    end = journal_of(open_log())[-1].n
    flags = flags_of(tmp_path, "snapshot", "rollback", "--to", str(end - 2))
    assert main([*flags, "--set", "model.kind=hidden_markov"]) == 2
    assert "model.kind was" in capsys.readouterr().err
    serving(open_log(), tmp_path, "model.kind=hidden_markov").close()
