"""`streamnb dlq`: what was refused is listed, shown, and sent once more, exactly once, on both logs."""

from __future__ import annotations

import json
from contextlib import closing
from zlib import crc32

import pytest
from kafka import errors

from streamnb import config as configuration
from streamnb.cli import main
from streamnb.cli.commands.dlq import Selection, send_again
from streamnb.engine.ports import NewRecord, Partition
from streamnb.errors import ConfigError, Fenced, LogError
from streamnb.event_logs.kafka.kafka_python_client import _KafkaPythonTransactionalProducer
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.event_logs.sqlite.sqlite_store import SqliteStore
from streamnb.runtime import context
from streamnb.runtime.stored_dead_letters import DeadLetterReplay, letter_at, settle_letters
from tests.support.program import Program

pytestmark = pytest.mark.early(49)

LARGE = json.dumps({"id": "large", "text": "word " * 60, "label": "a"})
FINE = json.dumps({"id": "fine", "text": "word", "label": "a"})
LINES = [
    FINE,
    "{no json",
    LARGE,
    json.dumps({"id": [7], "text": "x"}),
    json.dumps({"id": "fine", "text": "w", "label": "b"}),
]


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def ask(request, tmp_path, monkeypatch, capsys):
    """Run a command in this process: its exit code, what it says as JSON, and its complaints."""
    monkeypatch.chdir(tmp_path)
    kafka = request.param == "kafka"
    address = request.getfixturevalue("broker").address if kafka else "sqlite:///log.db"
    soon = {"transaction_timeout": "5s"}  # so long does what was left open hold up who reads behind it
    program = Program(tmp_path, address, events={"max_bytes": "200B"}, kafka=soon)
    (tmp_path / "events.jsonl").write_text("\n".join(LINES) + "\n")
    program.run("topics", "create")
    program.run("replay", "events.jsonl")
    program.run("run", "--until-end")

    def asked(*arguments):
        code = main([*arguments, "--config", str(program.file)])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out.startswith("{") else out, err

    asked.program = program
    yield asked
    program.close()


def allow_large(ask):
    ask.program.file.write_text(ask.program.file.read_text().replace('"200B"', '"2000B"'))


def predicted(ask):
    ask.program.run("run", "--until-end")
    return sorted(ask.program.ids("predictions"))


def test_letters_are_listed_and_shown_with_what_would_come_of_them_now(ask):
    code, told, _ = ask("dlq", "list", "--json")
    assert code == 0
    assert {reason: found["letters"] for reason, found in told["reasons"].items()} == {
        "invalid-json": 1, "oversize": 1, "wrong-type": 1,
    }  # fmt: skip
    assert (told["not_replayed"], len(told["last"])) == (2, 3)
    large = next(letter for letter in told["last"] if letter["reason"] == "oversize")
    assert large["value"] == LARGE[:200]
    assert large["from"].startswith(f"{ask.program.topics['events']}/")
    assert "it still fails under this configuration (oversize)" in ask("dlq", "show", large["place"])[1]
    allow_large(ask)
    _, shown, _ = ask("dlq", "show", large["place"], "--json")
    assert shown == large | {"now": "it can be read"}
    assert "{no json" in ask("dlq", "list")[1]
    for place in ("0/99", f"0/{10**25}", f"{10**25}/0", "7/0"):
        code, _, err = ask("dlq", "show", place)
        assert (code, "Traceback" in err) == (1, False)
    code, _, err = ask("dlq", "show", "last")
    assert code == 2
    assert "expected PARTITION/OFFSET" in err


def test_what_can_be_read_now_is_sent_and_learned_once_and_the_rest_stays(ask):
    """However often: nothing is sent that would come back, and what waits is sent once it can be read."""
    first = ask("dlq", "replay", "--json")[1]
    assert (first["sent"], sum(first["not_sent"].values())) == (0, 3)
    allow_large(ask)
    before = ask("dlq", "replay", "--dry-run", "--json")[1]
    assert before == ask("dlq", "replay", "--dry-run", "--json")[1]
    code, told, said = ask("dlq", "replay", "--json")
    assert code == 0
    assert told == before | {"dry_run": False}
    assert (told["sent"], told["not_sent"]) == (
        1,
        {
            "no configuration can read its bytes (invalid-json)": 1,
            "it still fails under this configuration (wrong-type)": 1,
        },
    )
    assert said.count("not sent: it still fails") == 1
    assert ask("dlq", "replay", "--json")[1]["sent"] == 0
    assert predicted(ask) == ["fine", "fine", "large"]
    told = ask("dlq", "list", "--json")[1]
    assert told["not_replayed"] == 1
    assert sum(one["letters"] for one in told["reasons"].values()) == 3
    ask.program.file.write_text(ask.program.file.read_text().replace("[events]", '[events]\nid = "$.text"'))
    assert ask("dlq", "replay", "--json")[1]["sent"] == 1
    assert ask("dlq", "replay", "--json")[1]["sent"] == 0
    assert ask("dlq", "list", "--json")[1]["not_replayed"] == 0


def test_one_letter_is_corrected_and_one_skipped_once(ask):
    config = configuration.load(ask.program.file, {}, [])
    places = {one["reason"]: one["place"] for one in ask("dlq", "list", "--json")[1]["last"]}
    with closing(context.existing_log(config)) as log:
        broken, odd = (letter_at(log, config, places[reason]) for reason in ("invalid-json", "wrong-type"))
        value = b'{"id": "corrected", "text": "word"}'
        record, id_ = DeadLetterReplay(config, log).corrected(broken, value, None)
        settle_letters(log, config, [broken], record)
        settle_letters(log, config, [odd], None)
        for letter in (broken, odd):
            with pytest.raises(ConfigError, match="corrected or skipped before"):
                settle_letters(log, config, [letter], record)
    assert id_ == "corrected"
    assert predicted(ask) == ["corrected", "fine", "fine"]
    allow_large(ask)
    assert ask("dlq", "replay", "--json")[1]["sent"] == 1
    assert predicted(ask) == ["corrected", "fine", "fine", "large"]


def test_letters_are_skipped_by_place_or_reason_once_and_all_or_none(ask):
    places = {one["reason"]: one["place"] for one in ask("dlq", "list", "--json")[1]["last"]}
    code, _, complaint = ask("dlq", "skip")
    assert code != 0
    assert "--reason" in complaint
    assert ask("dlq", "skip", "--reason", "oversize", "--dry-run", "--json")[1]["skipped"] == 1
    assert ask("dlq", "skip", places["wrong-type"], "--json")[1]["skipped"] == 1
    code, _, complaint = ask("dlq", "skip", places["invalid-json"], places["wrong-type"])
    assert code != 0
    assert "skipped before" in complaint
    found = ask(
        "dlq", "skip", places["invalid-json"], "--reason", "oversize", "--reason", "invalid-json", "--json"
    )
    assert found[1]["skipped"] == 2
    assert ask("dlq", "skip", "--reason", "oversize", "--json")[1]["skipped"] == 0
    allow_large(ask)
    assert ask("dlq", "replay", "--json")[1]["sent"] == 0
    assert predicted(ask) == ["fine", "fine"]


def test_letters_can_be_selected_by_place_and_by_reason(ask):
    allow_large(ask)
    letters = {one["reason"]: one["place"] for one in ask("dlq", "list", "--json")[1]["last"]}
    assert ask("dlq", "replay", "--reason", "wrong-type", "--json")[1]["sent"] == 0
    code, told, _ = ask("dlq", "replay", letters["invalid-json"], "0/999", "--json")
    assert (code, told["sent"]) == (0, 0)
    assert set(told["not_sent"]) == {
        "no configuration can read its bytes (invalid-json)",
        "it was sent again, corrected or skipped before, or there is no such letter",
    }
    assert ask("dlq", "replay", letters["oversize"], "--json")[1]["sent"] == 1
    again = ask("dlq", "replay", letters["oversize"], "--json")[1]
    assert (again["sent"], list(again["not_sent"])) == (
        0,
        ["it was sent again, corrected or skipped before, or there is no such letter"],
    )
    assert predicted(ask) == ["fine", "fine", "large"]


def test_a_letter_that_came_back_is_sent_only_by_name(tmp_path, monkeypatch, capsys):
    """What refused it is in the learner, such as a limit of classes: to send it each time would multiply it."""
    monkeypatch.chdir(tmp_path)
    text = json.dumps({"id": "a", "text": "x", "label": "third"}).encode()
    new = (("reason", b"too-many-classes"), ("topic", b"events"))
    with SqliteLog("log.db") as log:
        log.create_topic("dead-letters", 1)
        log.create_topic("events", 1)
        log.append([NewRecord("dead-letters", None, text, new)])
        log.append([NewRecord("dead-letters", None, text, (*new, ("original.dead-letter", b"0/0")))])

    def sent(*arguments):
        assert main(["dlq", "replay", *arguments, "--log", "sqlite:///log.db", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        return found["sent"], list(found["not_sent"])

    came_back = "its record was sent again before, and was refused again"
    assert sent() == (1, [came_back])
    assert sent() == (0, [came_back])
    assert sent("0/1") == (1, [])
    assert sent("0/1") == (0, ["it was sent again, corrected or skipped before, or there is no such letter"])
    assert sent() == (0, [])
    with SqliteLog("log.db") as log:
        headers = [dict(one.headers) for one in log.read(Partition("events", 0), 0, 9)]
    assert headers == [{"dead-letter": b"0/0"}, {"dead-letter": b"0/1"}]


def test_a_label_of_a_source_too_many_is_not_sent_again_and_replay_says_why(tmp_path, monkeypatch, capsys):
    """The learner would refuse it again, even if it is named."""
    monkeypatch.chdir(tmp_path)
    common = ("--log", "sqlite:///log.db", "--set", "topics.labels=labels")
    label = [{"id": "e", "label": "x", "source": source} for source in "abcde"]
    (tmp_path / "labels.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in label))
    (tmp_path / "events.jsonl").write_text('{"id": "e", "text": "w"}\n')
    assert main(["replay", "events.jsonl", *common]) == 0
    assert main(["label", "--file", "labels.jsonl", *common]) == 0
    learned = ("run", "--until-end", "--set", "http.listen=", "--set", "model.kind=naive_bayes")
    assert main([*learned, *common, "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["verdicts"]["outcomes"] == {"first": 1, "outranked": 3, "too_many_sources": 1}
    for places in ((), ("0/0",), ("--reason", "too-many-sources")):
        assert main(["dlq", "replay", *places, *common, "--json"]) == 0
        told, said = capsys.readouterr()
        found = json.loads(told)
        assert (found["sent"], list(found["not_sent"].values())) == (0, [1])
        assert "the learner would refuse it again" in said
    assert main(["dlq", "list", *common, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_replayed"] == 0


def test_two_that_send_at_once_send_each_letter_once(tmp_path, monkeypatch):
    """The one that comes second is refused, and sends nothing."""
    monkeypatch.chdir(tmp_path)
    config = configuration.load(None, {}, ["log.url=sqlite:///log.db"])
    whence = (("reason", b"missing"), ("topic", b"events"))
    with SqliteLog("log.db") as log, SqliteLog("log.db") as other:
        log.create_topic("dead-letters", 1)
        log.create_topic("events", 1)
        log.append([NewRecord("dead-letters", None, b"{", whence)])
        rows = [b'{"id": "%d", "text": "x"}' % i for i in range(3)]
        log.append([NewRecord("dead-letters", None, row, whence) for row in rows])
        hand_on = SqliteLog.forward

        def overtaken(self, *given):
            monkeypatch.setattr(SqliteLog, "forward", hand_on)
            assert send_again(config, other, Selection(frozenset({"0/2"}))).sent == 1
            hand_on(self, *given)

        monkeypatch.setattr(SqliteLog, "forward", overtaken)
        with pytest.raises(Fenced):
            send_again(config, log, Selection())
        assert send_again(config, log, Selection()).sent == 2
        sent = [one.value for one in log.read(Partition("events", 0), 0, 9)]
    assert sorted(sent) == sorted(rows)


@pytest.mark.thorough_for("kafka-False")
@pytest.mark.parametrize("is_committed", [False, True])
def test_one_whose_outcome_is_unknown_is_started_again(ask, monkeypatch, is_committed):
    """Nothing is lost where the commit did not come to pass, nothing is sent twice where it did."""
    allow_large(ask)
    commit, note = _KafkaPythonTransactionalProducer.commit_transaction, SqliteStore.note_forwarded

    def uncertain(producer):
        if is_committed:
            commit(producer)
        raise errors.KafkaTimeoutError("no answer")

    def fails(store, positions, by):
        note(store, positions, by)
        if is_committed:
            store.db.execute("COMMIT")
            store.db.execute("BEGIN")
        raise LogError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(_KafkaPythonTransactionalProducer, "commit_transaction", uncertain)
        patched.setattr(SqliteStore, "note_forwarded", fails)
        code, _, err = ask("dlq", "replay")
        assert code == 1
        assert "no answer" in err
    assert ask("dlq", "replay", "--json")[1]["sent"] == (0 if is_committed else 1)
    assert predicted(ask) == ["fine", "fine", "large"]


def test_strange_records_among_the_letters_stop_nothing(tmp_path, monkeypatch, capsys):
    """Whoever may write there may write anything; many large ones are sent in parts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("streamnb.cli.commands.dlq._MOST_BYTES", 1000)
    log = SqliteLog("log.db")
    log.create_topic("dead-letters", 2)
    log.create_topic("events", 1)
    whence = (("reason", b"oversize"), ("topic", b"events"), ("truncated", b"9"))
    strange = [
        (),
        (("topic", b"journal"),),
        whence,
        (*whence, ("partition", b"x")),
        (*whence, ("partition", b"7"), ("offset", b"3")),
        (*whence, ("partition", b"9" * 25), ("offset", b"0")),
        (*whence, ("partition", b"0"), ("offset", b"9" * 25)),
    ]
    sound = (
        ("reason", b"missing"),
        ("topic", b"events"),
        ("\x1b[2J", b"\xff"),
        ("original.trace", b"t"),
        ("original.dead-letter", b"0/1"),
    )
    log.append([NewRecord("dead-letters", b"k", b'{"text": "\x1b[31m"}', headers) for headers in strange])
    log.append(
        [
            NewRecord("dead-letters", b"%d" % i, b'{"id": "%d", "text": "%b"}' % (i, b"w" * 300), sound)
            for i in range(30)
        ]
    )
    done = [(("reason", reason), ("topic", b"events")) for reason in (b"prediction-oversize", b"repeated")]
    log.append([NewRecord("dead-letters", b"done", b"{}", headers) for headers in done])
    hand_on, sizes = SqliteLog.forward, []
    last = next(key for key in (b"a", b"b", b"c", b"d") if crc32(key) % 2)

    def spied(self, records, since, until):
        sizes.append(sum(len(record.value) for record in records))
        hand_on(self, records, since, until)
        again = [record._replace(topic="dead-letters", key=last, headers=sound) for record in records]
        log.append(again)  # by a learner that is quick, where it is read next

    monkeypatch.setattr(SqliteLog, "forward", spied)
    outs = []
    for command in (
        ["list"],
        ["show", "0/0"],
        ["replay", "--dry-run"],
        ["replay", "--reason", "missing"],
        ["replay"],
    ):
        assert main(["dlq", *command, "--log", "sqlite:///log.db"]) == 0
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err
        outs.append(out)
    assert outs[2].startswith(
        "0 dead letters of dead-letters would be sent again; 30 not sent: its record was "
    )
    for why in (
        "5 not sent: the letter is not whole",
        "2 not sent: this configuration reads no topic",
        "1 not sent: its event was learned",
    ):
        assert why in outs[2]
    assert outs[3] == "30 dead letters of dead-letters sent again\n"
    assert outs[4].startswith("0 dead letters of dead-letters sent again; 30 not sent: its record was sent")
    assert max(sizes) < 1000 + 2 * 400
    sent = log.read(Partition("events", 0), 0, 100)
    assert sorted(record.key for record in sent) == sorted(b"%d" % i for i in range(30))
    assert {tuple(name for name, _ in record.headers) for record in sent} == {("trace", "dead-letter")}
    assert len({dict(record.headers)["dead-letter"] for record in sent}) == 30
    log.close()


def test_what_is_counted_of_letters_adds_up_or_is_named(tmp_path, monkeypatch, capsys):
    """Of 18 letters 4 are sent, one of bytes that nothing reads lies below them, and 13 go on waiting."""
    monkeypatch.chdir(tmp_path)
    fails, sound = b'{"id": [7], "text": "x"}', b'{"id": "a", "text": "x"}'
    letters = [(b"invalid-json", b"{")] + [(b"wrong-type", fails)] * 13 + [(b"missing", sound)] * 4
    with SqliteLog("log.db") as log:
        log.create_topic("dead-letters", 1)
        log.create_topic("events", 1)
        log.append(
            [
                NewRecord("dead-letters", None, value, (("reason", why), ("topic", b"events")))
                for why, value in letters
            ]
        )

    def told(*arguments):
        assert main(["dlq", *arguments, "--log", "sqlite:///log.db"]) == 0
        return capsys.readouterr().out

    settled = "; those settled before are not counted here, `streamnb dlq list` counts all\n"
    assert "\n0 were sent again or given up, 1 can never be sent, 17 wait: " in told("list")
    before = told("replay", "--dry-run")
    assert before.startswith(
        "4 dead letters of dead-letters would be sent again; 13 not sent: it still fails"
    )
    assert "; 1 not sent: no configuration can read its bytes" in before
    assert settled not in before
    told("replay", "0/14", "0/15", "0/16", "0/17")
    assert "\n4 were sent again or given up, 1 can never be sent, 13 wait: " in told("list")
    after = told("replay", "--dry-run")
    assert after.startswith("0 dead letters of dead-letters would be sent again; 13 not sent: it still fails")
    assert after.endswith(settled)


def test_the_last_letters_of_each_partition_are_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log = SqliteLog("log.db")
    log.create_topic("dead-letters", 3)
    log.append([NewRecord("dead-letters", b"%d" % i, b"{}", ()) for i in range(40)])
    ends = {place: end for place in log.partitions("dead-letters") for end in log.offsets(place)[1:]}
    log.close()
    assert main(["dlq", "list", "--limit", "2", "--json", "--log", "sqlite:///log.db"]) == 0
    told = [letter["place"] for letter in json.loads(capsys.readouterr().out)["last"]]
    assert told == [f"{place.number}/{end - k}" for place, end in sorted(ends.items()) for k in (2, 1)]
