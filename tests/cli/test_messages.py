"""What commands print of events, labels and files, where a reader could be misled."""

from __future__ import annotations

import io
import json

import pytest

from streamnb.cli import main
from streamnb.engine.ports import NewRecord
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

WORDS = "lunch at noon", "win free cash"


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Run a command in a folder of its own: its exit code, and what it said on both channels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STREAMNB_LOG__URL", "sqlite:///e.db")
    monkeypatch.setenv("STREAMNB_HTTP__LISTEN", "")

    def run(*arguments, given=None):
        if given is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        code = main(list(arguments))
        return code, *capsys.readouterr()

    return run


def lines(n=30, **fields):
    """Events of two classes, each field a value or a function of the event's number."""
    plain = {"id": lambda i: f"m{i}", "text": lambda i: WORDS[i % 2], "label": lambda i: "ab"[i % 2]}
    made = (
        {name: value(i) if callable(value) else value for name, value in (plain | fields).items()}
        for i in range(n)
    )
    return "".join(json.dumps({k: v for k, v in one.items() if v is not None}) + "\n" for one in made)


def test_dead_letters_of_an_evaluation_say_what_was_expected_and_found(told, tmp_path):
    (tmp_path / "e.jsonl").write_text(lines(10, id=lambda i: f"n{i}") + lines(20, label=lambda i: [i % 2]))
    detail = "expected a string, a boolean or a number, found an array"
    for more in ([], ["--holdout", "1/3"]):
        code, out, _ = told("evaluate", "e.jsonl", *more)
        assert (code, out.count(f"wrong-type  $.label     20         10  {detail}\n")) == (0, 1), out
    assert detail in told("replay", "e.jsonl")[2]
    found = json.loads(told("evaluate", "e.jsonl", "--json")[1])["dead_letter_reasons"]
    assert [(one["count"], one["detail"]) for one in found] == [(20, detail)]


def test_an_object_among_the_features_is_refused_with_the_command_that_declares_its_values(told, tmp_path):
    (tmp_path / "e.jsonl").write_text(lines(20, text=None, features=lambda i: {"user": {"age": i % 2}}))
    detail = "found an object; `streamnb init` declares its values"
    assert detail in told("evaluate", "e.jsonl")[1]
    assert told("init", "e.jsonl")[0] == 0
    code, out, _ = told("evaluate", "e.jsonl", "--config", "streamnb.toml", "--json")
    assert (code, json.loads(out)["learned"]) == (0, 20)


def test_a_detail_is_left_out_where_what_is_kept_of_a_record_shows_another_fault(told, tmp_path):
    (tmp_path / "e.jsonl").write_text(lines(20) + lines(1, text="x" * 3000))
    flags = ["--set", "events.max_bytes=2000B", "--set", "events.letter_bytes=1000B"]
    found = json.loads(told("evaluate", "e.jsonl", "--json", *flags)[1])["dead_letter_reasons"]
    assert [(one["reason"], one["detail"]) for one in found] == [("oversize", "")]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-03-04 05:06:07", "found a date and time without its offset from UTC, such as Z or +02:00"),
        ("2026-03-04T05:06", "found a date and time without its offset from UTC, such as Z or +02:00"),
        ("2026-03-04", "found a date without a time"),
        ("yesterday", "found a string"),
    ],
)
def test_a_time_that_cannot_be_read_says_what_it_lacks(told, tmp_path, time, expected):
    (tmp_path / "e.csv").write_text("ts,text,label\n" + f"{time},at noon,a\n{time},win,b\n" * 20)
    code, out, _ = told("evaluate", "e.csv")
    assert (code, out.count(f"expected a number or an RFC 3339 date-time, {expected}\n")) == (1, 1)


def test_delays_in_time_are_refused_where_no_event_has_a_time(told, tmp_path):
    (tmp_path / "e.jsonl").write_text(lines())
    (tmp_path / "t.jsonl").write_text(lines(ts=lambda i: 1.7e9 + i))
    (tmp_path / "no.jsonl").write_text(lines(id={}))
    code, out, err = told("evaluate", "e.jsonl", "--delay", "2h")
    assert (code, out) == (2, "")
    assert "none of 30 events has a time at $.ts: --set events.ts=PATH" in err
    assert told("evaluate", "t.jsonl", "--delay", "2h")[0] == 0
    assert told("evaluate", "e.jsonl", "--delay", "5")[0] == 0
    code, _, err = told("evaluate", "no.jsonl", "--delay", "2h")
    assert (code, "each of its records is a dead letter" in err) == (1, True)
    code, _, err = told("evaluate", "t.jsonl", "--delay", "2h", "--set", "events.ts=")
    assert (code, "none of 30 events has a time: --set events.ts=PATH" in err) == (2, True)


def test_no_time_is_read_where_its_path_is_empty(told, tmp_path):
    (tmp_path / "e.jsonl").write_text(lines(ts="in the evening"))
    assert json.loads(told("evaluate", "e.jsonl", "--json")[1])["dead_letters"] == 30
    code, out, err = told("evaluate", "e.jsonl", "--json", "--set", "events.ts=")
    assert (code, json.loads(out)["dead_letters"], json.loads(out)["learned"], err) == (0, 0, 30, "")
    assert 'ts = ""\n' in told("config", "show", "--set", "events.ts=")[1]


REFUSED = [
    lines(1500, text=5),
    lines(3, text=5),
    lines(30, label=None, Label=lambda i: "ab"[i % 2]),
    lines(1, label=None, Label="a"),
]
WRITTEN = [
    lines(3, text=5) + lines(1),
    lines(3, text=5) + lines(1, text="long " * 20_000),
    lines(1, label=None) + lines(3, label=None, Label="a"),
    lines(1),
]


@pytest.mark.parametrize("given", REFUSED)
def test_what_comes_on_standard_input_is_not_written_where_a_file_of_it_would_not_be(told, tmp_path, given):
    (tmp_path / "f.jsonl").write_text(given)
    for name in ("f.jsonl", "-"):
        code, out, err = told("replay", name, given=given)
        assert (code, out, err.count("so nothing was written")) == (2, "", 1)
    with SqliteLog("e.db") as log:
        assert not log.read(log.partitions("events")[0], 0, 1)


@pytest.mark.parametrize("given", WRITTEN)
def test_all_of_standard_input_is_written_in_its_order_where_some_of_it_can_be_read(told, given):
    assert told("replay", "-", given=given)[0] == 0
    with SqliteLog("e.db") as log:
        records = log.read(log.partitions("events")[0], 0, 5000)
    assert [record.value for record in records] == given.encode().splitlines()


def test_a_few_events_without_a_label_may_get_theirs_later(told):
    assert told("replay", "-", given=lines(1, label=None))[::2] == (0, "")
    code, _, err = told("replay", "-", given=lines(30, label=None))
    assert (code, "if labels arrive separately, --set topics.labels=TOPIC names their topic" in err) == (
        0,
        True,
    )
    assert told("replay", "-", "--set", "topics.labels=labels", given=lines(30, label=None))[2] == ""


def test_a_class_may_be_called_as_what_is_predicted_of_an_empty_model(told, tmp_path):
    (tmp_path / "e.jsonl").write_text(lines(label=lambda i: ("none", "(none)")[i % 2]))
    (tmp_path / "f.jsonl").write_text(lines())
    header = next(line for line in told("evaluate", "e.jsonl")[1].splitlines() if "predicted" in line)
    assert header.split()[-3:] == ["(none)", "none", "((none))"]
    header = next(line for line in told("evaluate", "f.jsonl")[1].splitlines() if "predicted" in line)
    assert header.split()[-3:] == ["a", "b", "none"]


def test_one_of_a_thing_is_not_several(told):
    assert told("replay", "-", given=lines(1))[0] == 0
    assert told("run", "--until-end")[0] == 0
    out = told("inspect")[1]
    assert "1 event learned, 1 class, " in out
    assert "\na: 1 event, prior 1.0000" in out


def test_a_dead_letter_without_a_key_says_so(told):
    with SqliteLog("e.db") as log:
        log.create_topic("events", 1)
        log.append([NewRecord("events", None, b"{"), NewRecord("events", b"None", b"{")])
    assert told("run", "--until-end")[0] == 0
    assert "\nkey     (no key)\n" in told("dlq", "show", "0/0")[1]
    assert "\nkey     None\n" in told("dlq", "show", "0/1")[1]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("[[attributes]]\nm = 1.0", "attributes[0].name and attributes[0].kind are missing; expected a string that is not empty, and "),
        ("[[monitors]]\naction = 'renew'", "monitors[0].name and monitors[0].kind are missing; expected a table such as "),
        ("[[monitors]]\nname = 'a'\nkind = 'class-rate'", "monitors[0].tolerated and monitors[0].alarming and monitors[0].label are missing, which kind"),
        ("[[monitors]]\nkind = 'no-events'", 'monitors[0].name is missing; expected a table such as { name = "silent", kind = "no-events", after = "10m" }; monitors[0].after is missing'),
    ],
)  # fmt: skip
def test_all_keys_that_a_table_lacks_are_named_at_once(told, tmp_path, table, expected):
    (tmp_path / "c.toml").write_text(table)
    for action in ("check", "lint"):
        code, _, err = told("config", action, "--config", "c.toml")
        assert (code, expected in err) == (2, True), err
