"""What is odd about the fields of events is said once, by name, on every way by which events come in."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from streamnb import NaiveBayes
from streamnb.engine.ports import NewRecord
from streamnb.evaluation.data_quality import LOOKED_AT, DataQuality, InputOrigin
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.codec import decode_event
from streamnb.formats.event_files import read_events, read_rows_order
from streamnb.formats.event_schema import AttributeSpec, EventSchema

WORDS = "I was charged twice for the plan"
TABLE, LINES = InputOrigin("my file.csv", is_table=True), InputOrigin("e.jsonl")
PLAIN = EventSchema()
DECLARED = EventSchema(
    (AttributeSpec("size", "continuous", "$.size"), AttributeSpec("says", "text", "$.text"))
)
DAYS = EventSchema(
    (AttributeSpec("Betrag", "continuous", "$.Betrag"), AttributeSpec("Tage", "continuous", "$.in.Tage"))
)


def events(n=40, **fields):
    """Events of which each field is what a function of its number says; None is left out."""
    made = (
        {name: value(i) if callable(value) else value for name, value in fields.items()} for i in range(n)
    )
    return [{"id": f"e{i}"} | {k: v for k, v in one.items() if v is not None} for i, one in enumerate(made)]


def label(i):
    return "ab"[i % 2]


def said(events, schema=PLAIN, origin=LINES, **more):
    odd = DataQuality(schema, origin, **{"expects_label": True, "counts_refusals": True} | more)
    for event in events:
        odd.look(json.dumps(event).encode())
    return odd.news(is_over=True)


SILENT = [
    events(text=WORDS, label=label, features=lambda i: {"plan": "pro", "n": i / 7}),
    events(text=WORDS, label=label, features={"city": "New York City, State of New York"}),
    events(label=label, features=lambda i: {"text": f"{WORDS} {i}", "zip": "0123"[i % 4]}),
    events(label=label, text="a", ts=lambda i: 1.7e9 + i),
    events(label=label, text="a", ts="2026-01-02T03:04:05Z", features=None),
    [],
]
ODD = [  # events, how they are read, where they come from, what is said
    (events(label=label, features=lambda i: {"n": f"{1 + i % 9},{100 + i}"}), PLAIN, LINES,
     ["$.features.n: looks like numbers with commas between thousands, or decimal ones"]),
    (events(label=label, features=lambda i: {"Body": f"{WORDS} {i}"}), PLAIN, LINES,
     ["$.features.Body looks like a text, and each is taken for one value: `streamnb init e.jsonl` declares"]),
    (events(3, label=label, features=lambda i: {"Body": f"{WORDS} {i}"}), PLAIN, TABLE,
     ["--text-column Body or `streamnb init 'my file.csv'` declares it as a text"]),
    (events(text="a b", plan="pro", minutes=3, label=label), PLAIN, LINES,
     ['$.plan, $.minutes: not read, for attributes stand inside "features"']),
    (events(text="a b", Label=label), PLAIN, LINES,
     ["$.Label: not read", "has a label at $.label, to be learned by; did you mean $.Label? --set events.label='$.Label'"]),
    (events(features=lambda i: {"Label": label(i), "TEXT": "a"}), PLAIN, TABLE,
     ["did you mean $.features.Label? --label-column Label", "has $.text; did you mean $.features.TEXT? --text-column"]),
    (events(features={"x": "y"}), PLAIN, TABLE, ["none of 40 events has a label at $.label, to be learned by: --label-column NAME"]),
    (events(label=label, text=WORDS, size=lambda i: i / 2 if i % 4 else "?"), DECLARED, TABLE,
     ["10 dead letters of 40 events"]),
    (events(label=label, size=str, text=WORDS), DECLARED, LINES,
     ["40 dead letters of 40 events: wrong-type at $.size: expected a number, found a string"]),
    (events(label=label, Size=3, text=WORDS), DECLARED, LINES, ["has $.size, which is declared; did you mean $.Size?"]),
    (events(label=label, Tage=3), DAYS, LINES, ["$.in.Tage, which is declared; did you mean $.Tage?", "has $.Betrag, which is declared"]),
    (events(label=label, measured={"siez": 3}, text=WORDS), DECLARED, LINES,
     ["has $.size, which is declared; did you mean $.measured.siez?"]),
    (events(label=label, size=3, body=lambda i: f"{WORDS} {i}"), DECLARED, LINES,
     ["has $.text, which is declared; did you mean $.body? `streamnb init e.jsonl` declares where texts are"]),
    ([{"ID": "e", "text": "a", "label": "b"}] * 30, PLAIN, LINES,
     ["$.ID: not read", "has $.id; did you mean $.ID?", "30 dead letters of 30 events: missing at $.id"]),
    (events(label=label, features=lambda i: {"x": f"word{'abcdefgh'[i // 9]}" if i % 9 == 0 else f"{i},5"}), PLAIN, InputOrigin("e.csv", True, True),
     ["with a decimal comma, and each is taken for one value: --decimal , reads them",
      'numbers, but for 5 cells such as "worda", "wordb", "wordc", each taken for one value']),
    (events(label=label, features=lambda i: {"x": f"{i + 1}_010"}), PLAIN, InputOrigin("e.csv", True, True),
     ["with underscores between thousands, and each is taken for one value: --thousands _ reads them"]),
    (events(label=label, text="a", ts="soon"), PLAIN, LINES, ["40 dead letters of 40 events: wrong-type at $.ts"]),
    (events(label=label, text="a", TS=1.7e9), PLAIN, LINES, ["$.TS: not read", "has $.ts; did you mean $.TS?"]),
    (events(label=label, text="a"), EventSchema(ts_path="$.when"), LINES, ["has $.when: --set events.ts=PATH"]),
]  # fmt: skip


@pytest.mark.parametrize("given", SILENT)
def test_nothing_is_said_of_what_is_meant(given):
    assert said(given) == []
    assert said(given, expects_label=False, origin=TABLE) == []


@pytest.mark.parametrize(("given", "schema", "origin", "expected"), ODD)
def test_what_is_odd_is_named(given, schema, origin, expected):
    found = said(given, schema, origin)
    assert len(found) == len(expected)
    for words in expected:
        assert sum(words in line for line in found) == 1, (words, found)


def test_a_field_that_is_nearer_to_another_attribute_is_not_suggested():
    assert sum("did you mean" in line for line in said(events(label=label, Tage=3), DAYS)) == 1
    given = events(label=label, Tage=3) + events(label=label, **{"in": {"Tage": 3}})
    assert not any("did you mean" in line for line in said(given, DAYS))
    assert any("$.Betrag, which is declared; did you mean" in line for line in said(events(betrag=3), DAYS))


def labelled(*labels, n=40):
    return events(n, text="a", label=lambda i: labels[i % len(labels)])


LABELS = [
    (labelled("sun", "SUN", "sun", "rain"),
     """labels that differ only by case, blanks, leading zeros or Unicode form are classes of their own: 'sun', 'SUN'; --set 'classes.aliases={ "SUN" = "sun" }' reads"""),
    (labelled("sun ", "a", "sun", "sun"), """'sun', 'sun '; --set 'classes.aliases={ "sun " = "sun" }'"""),
    (labelled("\u00c9TE", "\u00e9te", "\u00e9te", "x"), "'\u00e9te', '\u00c9TE'"),
    (labelled("e\u0301te", "\u00e9te", "\u00e9te", "x"), "'\u00e9te', 'e\u0301te'"),
    (labelled("not  spam", "not spam", "not spam", "x"), "'not spam', 'not  spam'"),
    (labelled("1", "01", "1", "10"), """'1', '01'; --set 'classes.aliases={ "01" = "1" }'"""),
    (labelled("a", "b", "  "), "'  ': classes, but named like labels that are missing; of CSV and Parquet, --missing='  ' takes"),
    (labelled("a", "b", "\u200b"), "classes, but named like labels that are missing"),
    (labelled(*(f"w{i}{j}" for i in range(5) for j in "aA")), "'w2A', 'w2a', and 2 more groups"),
    (labelled(*map(str, range(17, 57)), n=80), "the labels are 40 different numbers, and each is a class of its own"),
    (labelled(*(f"{i}.5" for i in range(12)), "7"), "the labels are 13 different numbers"),
    (labelled("a"), "'a' is the only label: with one class there is nothing to distinguish"),
    (labelled("a", "b") + events(1, text="a", label="a"), "1 event of 41 has the id of an earlier event, such as 'e0'"),
    (labelled("a", "b") * 2, "40 events of 80 have the id of an earlier event"),
]  # fmt: skip
UNSUSPECTED = [
    labelled("sun", "suns", "s un", "rain"),
    labelled(*map(str, range(20))),
    labelled(*map(str, range(35)), "other", n=80),
    labelled("0.5", "1.5"),
    labelled("0", "00x", "0x", "10", "100"),
    labelled("a", n=5),
    labelled(*"abc", n=3),
]


def test_a_third_spelling_of_a_label_is_named_in_a_file():
    odd = DataQuality(PLAIN, expects_label=True)
    told = []
    for n, name in enumerate(["sun", "rain", "Sun", "sun"] * 5 + ["SUN", "sUn", "SuN"] * 5):
        odd.look(json.dumps({"id": f"e{n}", "text": "a", "label": name}).encode())
        told += odd.news()
    told += odd.news(is_over=True)
    assert len(told) == 2
    assert "'sun', 'Sun'; --set" in told[0]
    assert "'sun', 'Sun', 'SUN'; --set" in told[1]


@pytest.mark.parametrize(("given", "expected"), LABELS)
def test_labels_and_ids_that_cannot_be_meant_are_named_once(given, expected):
    (line,) = said(given)
    assert expected in line
    odd = DataQuality(PLAIN, expects_label=True)
    told = []
    for _ in range(4):
        for event in given:
            odd.look(json.dumps(event).encode())
            told += odd.news()
    told += odd.news(is_over=True)
    assert len(told) == (1 if "id of an earlier" in line else 2)  # here all come again


@pytest.mark.parametrize("given", UNSUSPECTED)
def test_nothing_is_said_of_labels_and_ids_that_are_meant(given):
    assert said(given) == []


def test_labels_that_are_read_as_one_and_ids_that_may_come_again_are_meant():
    schema = EventSchema(aliases={"SUN": "sun", "odd": ""})
    assert said(labelled("sun", "SUN", "rain", "odd"), schema) == []
    assert said(labelled("a", "b") * 2, repeats=True) == []


def test_what_was_learned_counts_where_more_was_learned_than_looked_at():
    weights = {"sun": 900.0, "Sun": 40.0, "SUN": 0.0}
    (line,) = said(labelled("sun", n=40), learned=lambda: weights)
    assert "'sun', 'Sun'; --set" in line, "a label that was taken back is none"
    (line,) = said(labelled("a", "b"), learned=lambda: {"a": 30.0})
    assert "'a' is the only label" in line
    odd = DataQuality(PLAIN)
    assert (
        len(
            list(
                odd.watched(
                    enumerate([b'{"id": "%d", "label": "a", "text": "b"}' % i for i in range(LOOKED_AT + 1)])
                )
            )
        )
        > LOOKED_AT
    )
    assert odd.news(is_over=True) == [], "what came later may have another label"


def test_every_way_in_says_what_is_odd_about_labels_and_ids_once(told, tmp_path):
    (tmp_path / "l.jsonl").write_text(
        "\n".join(map(json.dumps, labelled("sun", "SUN", "rain") + labelled("rain", n=1)))
    )
    for way in (["evaluate", "l.jsonl"], ["compare", "l.jsonl", "--against", "model.kind=naive_bayes"], ["replay", "l.jsonl"], ["run", "--until-end"]):  # fmt: skip
        code, _, err = told(*way)
        assert (code, err.count("differ only by case"), err.count("1 event of 41 has the id")) == (0, 1, 1), (
            err
        )


def lines_of(file):
    with gzip.open(file) as content:
        return content.read().splitlines()


def test_the_labels_and_ids_of_real_streams_are_meant(streams):
    for file in sorted(streams.glob("*.jsonl.gz")):
        rows, order = lines_of(file), file.with_name(file.name.replace("jsonl", "shuffle7.txt"))
        if order.exists():
            rows = [rows[int(row)] for row in lines_of(order)]
        odd = DataQuality(PLAIN, LINES, expects_label=True, counts_refusals=True)
        for raw in rows[:LOOKED_AT]:
            odd.look(raw)
        told = [text for text in odd.news(is_over=True) if ": not read, for attributes stand" not in text]
        assert told == [], file.name


def test_it_is_said_once_and_what_it_holds_is_bounded():
    odd, told = DataQuality(PLAIN), []
    for i in range(5000):
        features = {f"f{i}": f"{WORDS} {i} " * 50}
        odd.look(json.dumps({"id": f"e{i}", "text": "a", "plan": "pro", "features": features}).encode())
        told += odd.news()
    assert len(told) == 1
    assert NOT_READ in told[0]
    assert odd.news(is_over=True) == []
    assert len(odd.seen) <= 1000
    assert sum(len(str(value)) for one in odd.seen.values() for value in one.values) < 200_000
    odd.look(b'{"huge": "%s"}' % (b"x" * 100_000))
    assert odd.n == 5000


FLAT = [
    {"text": f"{word} now", "plan": "pro", "label": label(i)} for i, word in enumerate(["win", "noon"] * 15)
]
FLAT = [{"id": f"e{i}"} | one for i, one in enumerate(FLAT)]
NOT_READ = '$.plan: not read, for attributes stand inside "features"'


@pytest.fixture
def told(told, tmp_path):
    """Run a command where `flat.jsonl` is: its exit code, and what it printed on both channels."""
    (tmp_path / "flat.jsonl").write_text("\n".join(map(json.dumps, FLAT)))
    return told


def test_every_way_in_says_it_once_and_not_in_its_output(told, monkeypatch):
    ways = [("replay", "flat.jsonl"), ("run", "--dry-run", "50"), ("run", "--until-end"), ("predict", "flat.jsonl"), ("predict", json.dumps(FLAT[0])),
            ("evaluate", "flat.jsonl"), ("replay", "-")]  # fmt: skip
    for way in ways:
        monkeypatch.setattr(
            "sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(map(json.dumps, FLAT)).encode()))
        )
        code, out, err = told(*way)
        assert (code, err.count(NOT_READ), out.count("$.plan")) == (0, 1, 0), (way, err)
    assert NOT_READ not in told("replay", "flat.jsonl", "--key", "$.plan")[2]  # it is read as the key


def test_classes_that_came_by_labels_alone_are_told_when_they_come():
    classes = {"sun": 9.0}
    odd = DataQuality(PLAIN, learned=lambda: classes)
    assert odd.news() == []
    classes["Sun"] = 1.0
    (told,) = odd.news()
    assert "classes of their own: 'sun', 'Sun'; --set" in told
    classes["rain"] = 3.0
    assert odd.news() == []
    classes["rain "] = 1.0
    (told,) = odd.news()
    assert "'sun', 'Sun'; 'rain', 'rain '; --set" in told
    assert odd.news() == []


@pytest.mark.thorough
def test_a_long_stream_is_told_of_what_turns_up_late(told):
    """The first thousand are looked at, then one of each commit."""
    late = [{"id": "l", "text": "a", "label": "a", "plan": "pro"}] * 2 * LOOKED_AT
    with SqliteLog("e.db") as log:
        log.create_topic("events", 1)
        plain = [{"id": f"e{i}", "text": "a", "label": label(i)} for i in range(LOOKED_AT)]
        log.append([NewRecord("events", None, json.dumps(one).encode()) for one in plain + late])
    err = told("run", "--until-end", "--set", "commit.events=1")[2]
    assert err.count(NOT_READ) == 1


def test_run_warns_once_of_another_type_than_it_has_learned_and_again_after_a_restart(told):
    """An event of the same commit that taught the number does not count: it was learned together with it."""

    def write(*events):
        with SqliteLog("e.db") as log:
            if "events" not in log.topics():
                log.create_topic("events", 1)
            log.append([NewRecord("events", None, json.dumps(one).encode()) for one in events])

    learned = [{"id": f"e{i}", "features": {"amount": i, "vip": i > 2}, "label": label(i)} for i in range(6)]
    asked = [{"id": f"q{i}", "features": {"amount": "905", "vip": "true"}} for i in range(3)]
    write(*learned, {**asked[0], "id": "q"})
    run = ("run", "--until-end", "--set", "commit.events=2")
    assert "warning" not in told(*run, "--set", "commit.events=100")[2]
    write(*asked)
    err = told(*run)[2]
    assert err.count("warning type-changed events/0 offset 7: event") == 1
    assert "warning type-changes of 3 events looked at, another type than was learned has amount in 3" in err
    assert (
        'warning type-changed events/0 offset 7: event q0: amount is a string ("905"), and was learned as a number: send the number 905'
        in err
    )
    write(*asked)
    assert told(*run)[2].count(": event q0: amount") == 1
    write(*learned)
    assert "warning" not in told(*run)[2]


@pytest.mark.parametrize("name", ["elec2", "adult", "sms_spam", "weka_vote", "river_solarflare", "nsl_kdd"])
def test_no_value_of_a_real_stream_has_another_type_than_was_learned(streams, name):
    """Nor is any event without a value that is known, after the first tenth; most sets are all alike."""
    rows = list(read_events(streams / f"{name}.jsonl.gz"))
    order = read_rows_order(streams / f"{name}.shuffle7.txt.gz")[:3000]
    events = [decode_event(rows[i], PLAIN) for i in order]
    model, first = NaiveBayes(), len(events) // 10
    model.learn_many([e.x for e in events[:first]], [e.label for e in events[:first]])
    learned = model.learned_types
    model.learn_many([e.x for e in events[first:]], [e.label for e in events[first:]])
    assert learned.groups or learned.fields
    assert [one for e in events for one in model.lookup.other_types(e.x, learned)] == []


def test_a_label_that_is_written_otherwise_stops_a_replay_before_it_writes(told, tmp_path):
    (tmp_path / "e.csv").write_text("text,Label\n" + "win now,a\nat noon,b\n" * 20)
    code, _, err = told("replay", "e.csv")
    assert (code, (tmp_path / "e.db").exists()) == (2, False)
    assert "did you mean $.features.Label? --label-column Label" in err
    assert "so nothing was written" in err
    assert told("replay", "e.csv", "--label-column", "Label")[::2] == (0, "")
    code, _, err = told("replay", "e.csv", "--set", "topics.labels=labels")  # where labels come apart
    assert code == 0
    assert "did you mean $.features.Label? --label-column Label" in err


def test_a_table_without_labels_is_reported_even_if_labels_may_arrive_separately(told, tmp_path):
    """A column of labels that is not named would be learned by as an attribute, if at all."""
    late = ("--set", "topics.labels=late")
    (tmp_path / "e.csv").write_text("text,kind\n" + "win now,a\nat noon,b\n" * 20)
    code, _, err = told("replay", "e.csv", *late)
    assert (code, err.count("\n")) == (0, 1)
    assert "none of 40 events has a label at $.label" in err
    assert "--label-column NAME names its column; none is needed for labels that arrive in topic late" in err
    assert told("replay", "e.csv", "--label-column", "kind", *late)[::2] == (0, "")
    (tmp_path / "e.jsonl").write_text("".join(f'{{"id": "{i}", "text": "a"}}\n' for i in range(40)))
    assert told("replay", "e.jsonl", *late)[::2] == (0, "")


def test_an_event_is_returned_as_it_was_read_and_none_if_it_is_refused():
    odd = DataQuality(PLAIN, counts_refusals=True)
    large = json.dumps({"id": "e", "text": "word " * 20_000}).encode()
    assert odd.look(b'{"id": "e", "text": "a"}') == decode_event(b'{"id": "e", "text": "a"}', PLAIN)
    assert odd.look(large) == decode_event(large, PLAIN)  # though it is too long to be looked at
    assert (odd.n, odd.look(b'{"id": [7]}')) == (1, None)
    assert "1 dead letter of 2 events" in "".join(odd.news(is_over=True))


def test_a_file_of_nothing_but_dead_letters_stops_a_replay_before_it_writes(told, tmp_path):
    for name, content in (("e.jsonl", '{"text": 5}\nno json\n'), ("p.csv", "id,text\n,a\n")):
        (tmp_path / name).write_text(content)
        code, _, err = told("replay", name, "--set", "topics.labels=labels")
        assert (code, "so nothing was written" in err, (tmp_path / "e.db").exists()) == (2, True, False), err
    (tmp_path / "e.jsonl").write_text('{"text": 5}\n{"id": "e", "text": "a", "label": "a"}\n')
    assert told("replay", "e.jsonl")[0] == 0


def test_that_nothing_was_predicted_yet_is_told(told):
    assert told("replay", "flat.jsonl")[0] == 0
    empty = "streamnb: predictions has no record yet: does `streamnb run` run?\n"
    assert told("read", "predictions") == (0, "", empty)
    assert told("read", "predictions", "--from", "7") == (0, "", "")
    assert told("read", "events", "--limit", "1")[2] == ""


def test_what_was_left_out_is_told_at_the_end(told, tmp_path):
    rows = [{"id": f"e{i}", "text": "win now" if i % 2 else "at noon", "label": label(i)} for i in range(9)]
    rows += [{"id": "without", "text": "a"}, {"text": "no id"}]
    (tmp_path / "l.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ["--set", "model.kind=naive_bayes"]
    assert told("replay", "l.jsonl", *flags)[0] == 0
    code, out, _ = told("verify", *flags)
    assert (code, "nothing was verified: no journal record was found" in out) == (1, True)
    assert told("run", "--until-end", *flags)[0] == 0
    refused, unlabelled = "left out: 1 event refused as dead letters", "left out: 1 event without a label"
    assert refused in told("verify", *flags)[1].splitlines()
    out = told("compare", *flags, "--against", "model.alpha=2")[1].splitlines()
    assert (out.count(refused), out.count(unlabelled)) == (1, 1)
    assert told("rebuild", *flags)[1].splitlines()[-1] == f"{unlabelled} that counts"


def test_a_model_that_was_learned_anew_is_verified_where_that_is_asked_for(told):
    flags = ["--set", "model.kind=naive_bayes"]
    assert told("replay", "flat.jsonl", *flags)[0] == 0
    assert told("run", "--until-end", *flags)[0] == 0
    flags += ["--set", 'classes.aliases={ b = "a" }']
    assert told("rebuild", *flags)[0] == 0
    assert told("run", "--until-end", *flags)[0] == 0
    whats = "not checked: --rebuilt retrains it", "retrained: the same"
    for more, said in zip(([], ["--rebuilt"]), whats, strict=True):
        code, out, _ = told("verify", *more, *flags)
        end = f"the model of its record 2 was {said}, and no event was counted after it"
        assert (code, out.splitlines()[-1]) == (0, f"verified: the journal; {end}")


def test_a_configuration_in_the_folder_that_is_not_read_is_told(told, tmp_path):
    (tmp_path / "streamnb.toml").write_text("[model]\nkind = 'naive_bayes'\n")
    code, out, err = told("config", "show")
    assert (code, 'kind = "naive_bayes"' in out) == (0, False)
    assert err == "streamnb: streamnb.toml in this folder is not read: add --config streamnb.toml\n"
    code, out, err = told("config", "show", "--config", "streamnb.toml")
    assert (code, 'kind = "naive_bayes"' in out, err) == (0, True, "")
    assert "is not read: add" not in told("init", "flat.jsonl", "--out", "other.toml")[2]


def test_a_field_of_a_question_that_is_near_to_one_that_is_read(told, tmp_path):
    (tmp_path / "c.toml").write_text(
        "[[attributes]]\nname = 'message'\nkind = 'text'\npath = '$.message'\n"
        "[[attributes]]\nname = 'plan'\nkind = 'nominal'\npath = '$.plan'\n"
    )
    rows = [{**one, "message": one["text"]} for one in FLAT]
    (tmp_path / "e.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ["--config", "c.toml"]
    assert told("replay", "e.jsonl", *flags)[0] == 0
    assert told("run", "--until-end", *flags)[0] == 0
    hint = "has $.message, which is declared; did you mean $.Message?"
    for command in ("predict", "explain"):
        for question, is_told, code in [
            ({"Message": "win", "plan": "pro"}, True, 0),
            ({"message": "win"}, False, 0),
            ({"message": "win", "Message": "noon"}, False, 0),
            ({"Message": "win"}, True, 2),
        ]:
            found, _, err = told(command, json.dumps(question), *flags)
            assert (found, hint in err) == (code, is_told), (command, question, err)
            assert ("give one of these, as JSON, at $.message, $.plan\n" in err) == (code == 2)


def test_what_is_odd_in_a_file_is_told_where_two_configurations_are_compared_too(told):
    code, out, err = told("compare", "flat.jsonl", "--against", "model.kind=naive_bayes")
    assert (code, err.count(NOT_READ), out.count("$.plan")) == (0, 1, 0)


TWICE = [
    ("evaluate e.csv --label-column a --text-column a", "--label-column and --text-column both name 'a'"),
    ("evaluate e.csv --text-column label", "--label-column and --text-column both name 'label'"),
    ("evaluate e.csv --label-column Labl", "no column 'Labl' for label; there are a, text, label; did you mean label?"),
    ("init e.csv --text-column A", "--text-column A: no event has a value there; there are a, id, label, text; did you mean a?"),
    ("evaluate flat.jsonl --label-column kind", "flat.jsonl has no columns, but is read as JSON lines; --set events.label='$.kind'"),
    ("replay flat.jsonl --text-column says", "flat.jsonl has no columns, but is read as JSON lines; `streamnb init FILE`"),
    ("evaluate flat.jsonl --delimiter ;", "--delimiter: flat.jsonl has no cells, but is read as JSON lines"),
    ("evalute e.csv", "; did you mean evaluate?"),
    ("snapshot lists", "; did you mean list?"),
    ("read prediction", "topic 'prediction' does not exist, nor does the configuration name it; did you mean predictions?; it names events,"),
    ("evaluate e.csv --model streamnb:NaiveBays", "expected a name in streamnb; did you mean NaiveBayes?"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "expected"), TWICE)
def test_a_name_that_is_wrong_is_refused_with_what_may_have_been_meant(
    told, tmp_path, capsys, command, expected
):
    (tmp_path / "e.csv").write_text("a,text,label\n" + "x,win now,s\ny,noon,h\n" * 5)
    SqliteLog("e.db").close()
    try:
        code, _, err = told(*command.split())
    except SystemExit as ended:  # of argparse
        code, err = ended.code, capsys.readouterr().err
    assert code in {1, 2}
    assert expected in err


def test_a_column_that_has_the_usual_name_of_another_role_is_what_it_is_said_to_be(told, tmp_path):
    (tmp_path / "e.csv").write_text("body,text\n" + "win now,s\nat noon,h\n" * 20)
    for more in ([], ["--text-column", "body"]):
        code, out, _ = told("evaluate", "e.csv", "--label-column", "text", *more, "--json")
        assert (code, sorted(json.loads(out)["labels"])) == (0, ["h", "s"])
    (tmp_path / "t.csv").write_text("ts,label\n" + "".join(f"1{i},s\n" for i in range(20)))
    code, out, _ = told("evaluate", "t.csv", "--id-column", "ts", "--json")
    assert (code, json.loads(out)["learned"]) == (0, 20)


def test_refusals_are_counted_once_and_told_apart():
    fields = DataQuality(EventSchema(), counts_refusals=True)
    for raw in (rows := [b"{", b'{"text": "a"}', b'{"id": "1", "text": "a", "label": "x"}']):
        fields.look(raw)
    (told,) = [text for text in fields.news(is_over=True) if "dead letter" in text]
    assert told.startswith("2 dead letters of 3 events: 1 invalid-json at $: ")
    assert "; 1 missing at $.id: " in told
    fields = DataQuality(EventSchema(), counts_refusals=True)
    for raw in (*rows, b"[" * 3, b'{"text": "b"}'):
        fields.look(raw)
    (told,) = [text for text in fields.news(is_over=True) if "dead letter" in text]
    assert "2 invalid-json at $, such as: " in told, "two that differ"
    assert "; 2 missing at $.id: " in told, "two that are alike"
