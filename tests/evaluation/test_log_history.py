"""What a model would have said on a log's own history: as the learner did, as on a file, and two side by side."""

from __future__ import annotations

import json
import random
import re
import shlex
from contextlib import closing

import msgspec
import pytest

from streamnb.cli import main
from streamnb.engine.journal.journal_entries import roll_back
from streamnb.engine.journal.recovery import standing
from streamnb.engine.ports import Partition, Record
from streamnb.engine.retraining.log_retraining import Retraining
from streamnb.errors import ConfigError, JournalError
from streamnb.evaluation.event_costs import PrequentialProcessor
from streamnb.evaluation.log_history import (
    LogHistory,
    history_of,
    history_of_rows,
    replay_history,
    run_through,
)
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from tests.engine.retraining.test_log_retraining import (
    LATE,
    MODELS,
    TOPICS,
    append,
    forgotten,
    serving,
    source,
)
from tests.support.late import EVENTS, Stream, random_stream
from tests.support.service import AtOnce, read_topic
from tests.support.topics_of_logs import trim
from tests.support.verifying import configured, new_worker

pytestmark = pytest.mark.early(51)

PACE = CommitPolicy(commit_events=7, commit_seconds=0.0, snapshot_events=30)
BAYES = MODELS["naive_bayes"]


def told(learner):
    """The scores, as a report has them, apart from times."""
    return msgspec.structs.replace(learner.report(0.0), ts=0.0)


def lived(log, folder, *sets, learner=factories.learner):
    config = configured(*sets, f"snapshots.folder={folder}")
    made = learner(config)
    for _ in replay_history(made, history_of(config, log)):
        pass
    return made


def test_what_is_left_of_a_withdrawal_is_worked_off(tmp_path):
    """A source that said more than is worked through at once has taught nothing, at the end."""
    stream, said = Stream(), 600
    for i in range(said):
        stream.event(f"e{i}", "w1")
        stream.verdict(f"e{i}", "x", "bot")
    stream.retract("bot")
    learner = factories.learner(configured(*LATE, *BAYES, f"snapshots.folder={tmp_path}"))
    list(replay_history(learner, [LogHistory(stream.records[:-1], 1.0)]))
    assert learner.model.n_events == said
    list(replay_history(learner, [LogHistory(stream.records[-1:], 2.0)]))
    assert learner.model.n_events == 0


@pytest.mark.thorough_for("sqlite-naive_bayes", "kafka-mixture")
@pytest.mark.parametrize("kind", ["naive_bayes", "mixture"])
def test_with_late_labels_it_says_what_the_learner_published(open_log, tmp_path, kind):
    """Two lives, verdicts that change and come early; and noting costs changes nothing, and adds up."""
    log, sets = open_log(**TOPICS), [*LATE, *MODELS[kind]]
    records = random_stream(random.Random(2), 120, 240).records
    for part in (records[:150], records[150:]):
        append(open_log(), part)
        with closing(serving(open_log(), tmp_path, *MODELS[kind])) as worker:
            worker.run(until_end=True)
    log = open_log()
    assert told(lived(log, tmp_path, *sets)) == told(worker.learner)
    judged = lived(log, tmp_path, *sets, learner=PrequentialProcessor)
    assert told(judged) == told(worker.learner)
    scores, costs = worker.learner.late.scoring.scores.cumulative(), judged.costs
    assert costs.place.size == scores.events > 50
    assert costs.loss.mean() == pytest.approx(scores.log_loss, rel=1e-12)
    assert costs.right.mean() == pytest.approx(scores.accuracy, rel=1e-12)


@pytest.mark.thorough_for("kafka")
def test_with_labels_in_events_it_is_that_of_a_file(open_log, tmp_path):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(3), 90, 0, labelled=0.8).records)
    worker = new_worker(open_log(), tmp_path, *BAYES, pace=PACE)
    with closing(worker):
        worker.start("a learner")
        worker.run(until_end=True)
    log, config = open_log(), configured(*BAYES)
    rows = [(i, record.value) for i, record in enumerate(read_topic(log, "events"))]
    sides = lived(log, tmp_path, *BAYES, learner=PrequentialProcessor), PrequentialProcessor(config)
    for first in range(0, len(rows), 40):
        run_through(sides[1], history_of_rows(rows[first : first + 40], config))
    assert told(sides[0]) == told(sides[1]) == told(worker.learner)
    for one, other in zip(*(side.costs for side in sides), strict=True):
        assert (one == other).all()
    assert sides[0].costs.loss.mean() == pytest.approx(sides[0].validation.open_log_loss, rel=1e-12)
    assert sides[0].costs.right.mean() == pytest.approx(told(worker.learner).cumulative.accuracy, rel=1e-12)


@pytest.mark.thorough_for("kafka")
def test_what_retention_took_is_told_and_left_out(open_log, tmp_path, caplog):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(3), 90, 0, labelled=1.0).records)
    worker = new_worker(open_log(), tmp_path, *BAYES, pace=PACE)
    with closing(worker):
        worker.start("a learner")
        worker.run(until_end=True)
    log = open_log()
    trim(log, EVENTS, 40)
    taken = lived(log, tmp_path, *BAYES).consumed
    assert f"{90 - taken} records are left out: the log no longer has them" in caplog.text
    assert 43 <= taken <= 50
    trim(log, Partition("journal", 0), 9)
    assert lived(log, tmp_path, *BAYES).consumed < 50
    assert "and all before journal record" in caplog.text


def test_it_refuses_what_is_no_history_and_topics_that_are_not_read(open_log, tmp_path):
    log = open_log(**TOPICS)
    with pytest.raises(JournalError, match="the journal is empty"):
        lived(log, tmp_path)
    append(log, random_stream(random.Random(2), 20, 20).records)
    with closing(serving(open_log(), tmp_path, *BAYES)) as worker:
        worker.run(until_end=True)
    with pytest.raises(ConfigError, match=r"read topic 'labels', and .* --set topics.labels=labels"):
        lived(open_log(), tmp_path, *BAYES)


@pytest.mark.thorough_for("kafka")
def test_what_was_rolled_back_or_forgotten_is_no_part_of_it_and_withdrawals_are(open_log, tmp_path):
    log, sets = open_log(**TOPICS), [*LATE, *BAYES]
    records = random_stream(random.Random(5), 60, 90).records
    append(log, records[:100])
    withdrawal = json.dumps({"withdraw": True, "source": "default"}).encode()
    append(log, [Record(Partition("labels", 0), 0, None, withdrawal, 0.0)])
    config = configured(*sets)
    with closing(serving(open_log(), tmp_path, *BAYES)) as worker:
        worker.run(until_end=True)
    kept = lived(open_log(), tmp_path, *sets)
    assert told(kept) == told(worker.learner)
    append(open_log(), records[100:])
    with closing(serving(open_log(), tmp_path, *BAYES)) as worker:
        end = worker.checkpoint.n
        worker.run(until_end=True)
    assert lived(open_log(), tmp_path, *sets).consumed > kept.consumed
    with closing(open_log()) as log:
        log.acquire("who rolls back")
        identity = factories.identity(config)
        roll_back(log, standing(log, AtOnce(tmp_path, 100), identity), end, identity, 1e9)
    assert told(lived(open_log(), tmp_path, *sets)) == told(kept)
    with closing(serving(open_log(), tmp_path, *BAYES)) as worker:
        rebuilding = Retraining(source(open_log(), tmp_path, *BAYES), forgotten({"e3", "e4"}))
        worker.install_model(rebuilding.retrained())
    assert lived(open_log(), tmp_path, *sets).consumed == kept.consumed - rebuilding.forgotten < kept.consumed


def flags_of(folder):
    sets = [*LATE, f"log.url=sqlite:///{folder}/log.db", f"snapshots.folder={folder}"]
    return [part for one in sets for part in ("--set", one)]


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_the_command_says_which_is_better_and_the_command_that_it_gives_takes_it_up(
    open_log, tmp_path, capsys
):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(2), 60, 90).records)
    with closing(serving(log, tmp_path)) as worker:
        worker.run(until_end=True)

    def compared(*more):
        status = main(["compare", *flags_of(tmp_path), "--json", *more])
        said = capsys.readouterr()
        return status, json.loads(said.out) if said.out else said.err

    status, same = compared("--against", "predictions.top=3")
    names = ["as configured", "with predictions.top=3"]
    assert (status, same["leader"], same["tied"], same["equal"]) == (0, names[0], names[1:], [names])
    assert same["standings"][1]["to_leader"]["log_loss"]["mean"] == 0.0
    assert same["rebuild"] is None
    assert same["verdict"].startswith(
        "as configured and with predictions.top=3 predict every event equally\n"
    )
    status, other = compared("--against", "model.kind=naive_bayes")
    best, worse = other["standings"]
    assert (
        sum(row["events"] for row in worse["by_class"]) == other["events"] == worse["over_time"][-1]["events"]
    )
    assert not other["equal"]
    assert worse["over_time"][-1]["log_loss"] == worse["to_leader"]["log_loss"]
    assert (best["to_leader"], best["over_time"], best["by_class"]) == (None, [], [])
    assert main(["evaluate", *flags_of(tmp_path), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["cumulative"]
    configured = next(one for one in other["standings"] if one["name"] == "as configured")
    assert configured["log_loss"] == pytest.approx(scores["log_loss"], rel=1e-12)
    for key, says in (
        ("topics.events=other", "all read one history"),
        ("no.key=1", "--against: no.key"),
        ("events.label=$.other", "--against: events.label: all answer one question; give it by --set"),
        ("events.id=$.other", "--against: events.id: all answer"),
        ('classes.aliases={"x" = "y"}', "--against: classes.aliases: all answer"),
    ):
        status, said = compared("--against", key)
        assert (status, says in said) == (2, True)
    assert main(["evaluate", *flags_of(tmp_path), "--order", "x"]) == 2
    assert "--order: needs a file" in capsys.readouterr().err


def test_a_better_configuration_is_called_so_and_the_command_that_takes_it_up_is_told(tmp_path, capsys):
    """Labels that the words of a text decide, and a model that may not read them."""
    file, rng = tmp_path / "events.jsonl", random.Random(1)
    rows = [
        {"id": str(i), "label": label, "text": f"{label}word", "features": {"n": rng.choice("xyz")}}
        for i in range(4000)
        for label in [rng.choice("ab")]
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    blind = ["--set", "attributes=[{name='n', kind='nominal'}]", "--set", "model.kind=naive_bayes"]
    seeing = ["--against", "attributes=[{name='n', kind='nominal'}, {name='text', kind='text'}]"]
    assert main(["compare", str(file), *blind, *seeing]) == 0
    assert "\nby log loss: with attributes=" in capsys.readouterr().out
    log = f"sqlite:///{tmp_path}/log.db"
    assert main(["replay", str(file), "--log", log]) == 0
    flags = ["--log", log, *blind]
    assert main(["run", *flags, "--until-end", "--set", "http.listen="]) == 0
    capsys.readouterr()
    assert main(["compare", *flags, *seeing, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["leader"][:15], answer["tied"]) == ("with attributes", [])
    assert answer["standings"][1]["to_leader"]["log_loss"]["lower"] > 0

    assert main(shlex.split(answer["rebuild"])[1:]) == 0
    assert "4,000 of 4,000 events learned again" in capsys.readouterr().out


GOOD = '{"id": "1", "text": "a", "label": "x"}'


@pytest.mark.parametrize(
    ("line", "key", "says"),
    [
        *((line, "metrics.window=9", "") for line in ("", '{"id": "1", "text": "a"}', "nonsense")),
        (GOOD, "events.ts=$.text", "with events.ts=$.text: each of its records is a dead letter: wrong-type"),
        (GOOD, "events.max_bytes=20B", "with events.max_bytes=20B: each of its records is a dead letter: oversize"),
    ],
)  # fmt: skip
def test_where_nothing_is_scored_it_says_why_and_of_which(tmp_path, capsys, line, key, says):
    file = tmp_path / "events.jsonl"
    file.write_text(line)
    assert main(["compare", str(file), "--against", key, "--set", "model.kind=naive_bayes"]) == 1
    assert re.search(
        f"nothing was learned of {re.escape(str(file))}.*{re.escape(says)}", capsys.readouterr().err
    )
