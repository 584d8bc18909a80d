"""`streamnb init`: what it writes loads, and evaluates the file that it was made for."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamnb import config as configuration
from streamnb.cli import main
from streamnb.features.schema_inference import FieldSummary
from streamnb.formats.codec import decode_event
from streamnb.runtime import context, factories

CSV = "key,text,plan,minutes,stars,city,note,label\n" + "".join(
    f"k{i},I was charged {i} times,{'free pro'.split()[i % 2]},{i / 7},{i % 3},town {i},same,{'ab'[i % 2]}\n"
    for i in range(50)
)
NESTED = [
    {"_id": f"{i:x}", "user": {"age": 20.5 + i, "e mail": f"m{i}"}, "tags": ["x"], "message": "free entry win " * 2,
     "vip": bool(i % 2), "category": "ham spam".split()[i % 2], "created_at": "2026-01-02T03:04:05Z"}
    for i in range(30)
]  # fmt: skip


@pytest.fixture
def init(tmp_path, monkeypatch, capsys):
    """Run it on a file: its exit code, the configuration that it wrote, and what it said."""
    monkeypatch.chdir(tmp_path)

    def run(name, content, *flags, out="streamnb.toml"):
        content(tmp_path / name) if callable(content) else (tmp_path / name).write_text(content)
        code = main(["init", name, "--json", "--out", out, *flags])
        said = capsys.readouterr()
        made = configuration.load(tmp_path / out, {}, []) if code == 0 else None
        return code, made, json.loads(said.out) if code == 0 else said.err

    return run


def kinds(made):
    return {one.name: (one.kind, one.path) for one in made.attributes}


def test_a_csv_gets_its_columns(init, capsys):
    code, made, told = init("e.csv", CSV)
    assert (code, told["dead_letters"], told["events"]) == (0, 0, 50)
    assert kinds(made) == {
        "text": ("text", "$.text"),
        "plan": ("nominal", "$.features.plan"),
        "minutes": ("continuous", "$.features.minutes"),
        "stars": ("nominal", "$.features.stars"),
        "city": ("text", "$.features.city"),
    }
    text = Path("streamnb.toml").read_text()
    assert "# left out: $.features.key (nearly every event has another value)" in text
    assert told["left_out"] == [
        "$.features.key (nearly every event has another value)",
        "$.features.note (always the same)",
    ]
    assert main(["init", "e.csv", "--out", "again.toml"]) == 0
    expected = (
        "again.toml: 5 attributes, by 50 events; 0 dead letters under it\nleft out: $.features.key (nearly"
    )
    assert capsys.readouterr().out.startswith(expected)
    assert "# left out: $.features.note (always the same)" in text
    assert "streamnb evaluate e.csv --config streamnb.toml" in text
    assert main(["evaluate", "e.csv", "--config", "streamnb.toml"]) == 0
    assert main(["config", "lint", "--config", "streamnb.toml"]) == 0


def test_a_column_of_booleans_is_an_attribute_or_the_label(init):
    rows = "".join(f"{bool(i % 2)},{i / 3},{['no', 'yes'][i % 2]},{bool(i % 2)}\n" for i in range(30))
    code, made, told = init("e.csv", f"class,n,vip,on\n{rows}")
    assert (code, told["dead_letters"], made.events.label) == (0, 0, "$.features.class")
    assert kinds(made)["on"] == ("nominal", "$.features.on")
    assert "# 2 classes, in 30 events" in Path("streamnb.toml").read_text()
    Path("streamnb.toml").unlink()
    lines = "".join(
        f'{{"id":"{i}","features":{{"class":{str(i % 2 > 0).lower()},"n":{i}}}}}\n' for i in range(30)
    )
    code, made, told = init("e.jsonl", lines)
    assert (code, told["dead_letters"], made.events.label) == (0, 0, "$.features.class")


@pytest.mark.parametrize(
    ("values", "rises"),
    [(range(30), True), ([*range(5), *range(40)], False), ([*range(30), 5], False), ([i / 2 for i in range(30)], False), (range(3), False)],
)  # fmt: skip
def test_whole_numbers_that_only_rise_are_no_attribute(values, rises):
    one = FieldSummary()
    for value in values:
        one.add(value)
    assert one.kind.startswith("(whole numbers that only rise") == rises


def test_how_cells_are_written_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i};{'NA' if i % 7 == 3 else i * i % 37};{'yes no'.split()[i % 2]}" for i in range(50)]
    Path("e.csv").write_text("\n".join(["customer;n;churn", *rows, ""]), encoding="utf-8")
    for flags in ([], ["--missing", "NA"]):  # which it proposes by itself
        assert main(["init", "e.csv", "--label-column", "churn", "--out", f"{len(flags)}.toml", *flags]) == 0
        made = configuration.load(Path(f"{len(flags)}.toml"), {}, [])
        assert kinds(made)["n"] == ("continuous", "$.features.n")
        text = Path(f"{len(flags)}.toml").read_text(encoding="utf-8")
        assert f"streamnb evaluate e.csv --config {len(flags)}.toml '--delimiter=;' --missing=NA\n" in text
    assert "# left out: $.features.customer (whole numbers that only rise, as ids do)" in text


def test_objects_of_any_shape_get_paths(init):
    code, made, told = init("e.jsonl", "\n".join(map(json.dumps, NESTED)))
    assert (code, told["dead_letters"]) == (0, 0)
    assert (made.events.id, made.events.label, made.events.ts) == ("$._id", "$.category", "$.created_at")
    assert kinds(made) == {"user.age": ("continuous", "$.user.age"), "vip": ("nominal", "$.vip")}
    read = decode_event(json.dumps(NESTED[3]).encode(), context.schema(made))
    assert (read.id, read.label, read.x) == ("3", "spam", {"user.age": 23.5, "vip": "true"})


def test_what_it_cannot_know_it_asks_for(init, capsys):
    code, _, said = init("e.jsonl", '{"text": "a", "n": 1}\n{"text": "a", "n": 1}')
    assert (code, "no field is surely the label" in said) == (2, True)
    code, made, told = init("e.jsonl", '{"label": 1, "n": 1}\n{"label": 0, "n": 2}', out="numbers.toml")
    assert (code, told["dead_letters"], made.events.id, made.events.label) == (0, 0, "$.id", "$.label")
    assert '# id = "$.id"  # no field looks like it' in Path("numbers.toml").read_text()
    assert init("none.jsonl", "[1]\nno json\n")[0] == 2
    code, made, told = init(
        "e.jsonl", '{"no": "x1", "mood": "a"}\n{"no": "x2", "mood": "b"}', "--set", "events.label=$.mood"
    )
    assert (code, made.events.id, made.events.label, told["places"]["label"]) == (
        0,
        "$.no",
        "$.mood",
        "$.mood",
    )
    assert main(["init", "e.jsonl", "--set", "events.label=$.mood"]) == 2
    assert "streamnb.toml is there: remove it, or name another file with --out" in capsys.readouterr().err


def test_a_topic_is_looked_at_as_a_file_is(init, monkeypatch, capsys):
    lines = "\n".join(map(json.dumps, NESTED))
    _, of_file, told = init("e.jsonl", lines)
    monkeypatch.setenv("STREAMNB_LOG__URL", "sqlite:///log.db")
    assert main(["replay", "e.jsonl", "--topic", "events", "--config", "streamnb.toml"]) == 0
    capsys.readouterr()
    assert main(["init", "--out", "topic.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told | {"file": "topic.toml"}
    monkeypatch.delenv("STREAMNB_LOG__URL")
    of_topic = configuration.load(Path("topic.toml"), {}, [])
    assert (of_topic.attributes, of_topic.events) == (of_file.attributes, of_file.events)
    assert of_topic.log.url == "sqlite:///log.db"


def test_texts_that_are_taken_for_values_and_labels_that_cannot_be_are_told(init, capsys):
    """Of a CSV whose columns have names of their own; once it is configured there is nothing to tell."""
    rows = "".join(
        f"2026-01-{i % 28 + 1:02d} 10:00;{'good bad'.split()[i % 2]} thing number {i};{i % 2}\n"
        for i in range(40)
    )
    code, made, _ = init("e.csv", f"When;Message;target\n{rows}", "--label-column", "target")
    assert (code, made.events.label, kinds(made)) == (
        0,
        "$.features.target",
        {"Message": ("text", "$.features.Message")},
    )
    assert "# left out: $.features.When (a date or time)" in Path("streamnb.toml").read_text()
    text = Path("streamnb.toml").read_text()
    for line in ('name = "When"', 'kind = "time"', 'parts = ["hour", "weekday", "month", "age"]'):
        assert f"\n# {line}\n" in text
    capsys.readouterr()
    assert main(["init", "e.csv", "--out", "again.toml"]) == 0
    assert 'label = "$.features.target"' in Path("again.toml").read_text()
    said = "$.features.Message looks like a text, and each is taken for one value: --text-column Message"
    for flags, is_told in [
        ([], True),
        (["--text-column", "Message"], False),
        (["--config", "streamnb.toml"], False),
    ]:
        assert main(["evaluate", "e.csv", "--label-column", "target", *flags]) == 0
        assert (said in capsys.readouterr().err) == is_told, flags


def test_where_the_flag_of_a_text_is_forgotten_evaluate_names_it(init, capsys):
    rows = "".join(f"thing number {i} came,{'ab'[i % 2]}\n" for i in range(40))
    assert init("e.csv", f"text,label\n{rows}")[0] == 0
    Path("e.csv").write_text(f"What it says,label\n{rows}", encoding="utf-8")
    for flags, said in [
        ([], "did you mean $.features[\"What it says\"]? --text-column 'What it says' names its column"),
        (["--text-column", "What it says"], ""),
    ]:
        assert main(["evaluate", "e.csv", "--config", "streamnb.toml", *flags]) == 0
        told = capsys.readouterr().err
        assert said in told
        assert ("none of 40 events has $.text, which is declared" in told) == bool(said)


def test_what_flags_name_stays_in_the_file_that_is_written(init, capsys):
    """Numbers are texts, labels and ids there: what reads the file by it needs no flag, and minds none."""
    rows = "".join(f"{i};{i % 2};{i if i % 5 == 0 else f'thing number {i} came'};{i}\n" for i in range(40))
    flags = "--id-column no --label-column kind --text-column says --ts-column at --delimiter ;".split()
    code, made, told = init("e.csv", f"no;kind;says;at\n{rows}", *flags)
    assert (code, told["dead_letters"], kinds(made)) == (0, 0, {"says": ("text", "$.features.says")})
    events = made.events
    assert (events.id, events.label, events.ts) == ("$.features.no", "$.features.kind", "$.features.at")
    for more in ([], flags):
        assert main(["evaluate", "e.csv", "--config", "streamnb.toml", "--json", *more]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["dead_letters"], told["learned"], told["labels"]) == (0, 40, ["0", "1"])
        assert told["attributes"] == 43  # thing, number, came, and 40 numbers
    assert (
        init("e.csv", f"no;kind;says;at\n{rows}", "--text-column", "x")[2].count("--text-column x: no event")
        == 1
    )


def test_a_column_of_texts_is_one_though_some_of_them_are_numbers(init):
    rows = "".join(f"{'645' if i == 7 else f'thing number {i} came'},{'ab'[i % 2]}\n" for i in range(40))
    code, made, told = init("e.csv", f"says,label\n{rows}")
    assert (code, told["dead_letters"], kinds(made)) == (0, 0, {"says": ("text", "$.features.says")})


@pytest.mark.parametrize("odd", [["x"], [], "soon", {"at": "soon"}, True, -5])
def test_a_time_that_is_none_is_not_proposed_and_not_read(init, odd, capsys):
    rows = [{"id": f"e{i}", "label": "ab"[i % 2], "text": f"free {i} x", "ts": odd} for i in range(20)]
    if not isinstance(odd, dict):
        rows[3]["ts"] = 1.7e9
    code, made, told = init("e.jsonl", "\n".join(map(json.dumps, rows)))
    assert (code, told["dead_letters"], "ts" in told["places"]) == (0, 0, False)
    assert made.events.ts == ""
    assert main(["evaluate", "e.jsonl", "--config", "streamnb.toml"]) == 0
    assert "none of 20 events has" not in capsys.readouterr().err


def test_a_place_that_no_event_has_is_not_proposed(init):
    rows = [{"id": f"e{i}", "label": "ab"[i % 2], "text": f"free {i} x"} for i in range(20)]
    sets = ("--set", "events.ts=$.a", "--set", "events.id=$.b", "--set", "events.label=$.c")
    code, _, told = init("e.jsonl", "\n".join(map(json.dumps, rows)), *sets)
    assert (code, told["places"]) == (0, {"id": "$.id", "label": "$.label"})


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=2)
)
OBJECTS = st.dictionaries(st.text(), LEAVES | st.dictionaries(st.text(), LEAVES, max_size=3), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(objects=st.lists(OBJECTS, min_size=1, max_size=5), name=st.text(alphabet="a'\" \n#]=", min_size=1))
def test_whatever_the_fields_are_called_what_it_writes_loads(tmp_path, monkeypatch, capsys, objects, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "streamnb.toml").unlink(missing_ok=True)
    lines = [json.dumps(one | {"id": f"e{i}", name: i}) for i, one in enumerate(objects)]
    (tmp_path / "e.jsonl").write_text("\n".join(lines))
    flags = ["--set", "topics.labels=told"]  # for there need not be a field of labels
    assert main(["init", "e.jsonl", *flags]) == 0, capsys.readouterr().err
    made = configuration.load(tmp_path / "streamnb.toml", {}, [])
    factories.learner(made)
    assert tomllib.loads((tmp_path / "streamnb.toml").read_text())["events"]["id"]


def test_where_no_attribute_is_left_nothing_is_said_to_be_left_out(init, capsys):
    """For without a declared one, all features are learned, of any kind."""
    rows = "".join(f"{'ab'[i % 2]},2026-01-{i % 9 + 1:02d}\n" for i in range(40))
    code, made, told = init("e.csv", f"label,when\n{rows}")
    assert (code, kinds(made), told["left_out"]) == (0, {}, [])
    text = Path("streamnb.toml").read_text()
    assert "\n# not declared, so read as it is: $.features.when (a date or time)\n" in text
    assert "left out" not in text
    assert main(["init", "e.csv", "--out", "again.toml"]) == 0
    said = capsys.readouterr()
    assert "none is declared, and `features` and `text` are read as they are: $.features.when (a" in said.err
    assert "left out" not in said.out
    lines = [{"id": f"e{i}", "label": "ab"[i % 2], "when": f"2026-01-{i % 9 + 1:02d}"} for i in range(40)]
    code, _, told = init("e.jsonl", "\n".join(map(json.dumps, lines)), out="beside.toml")
    assert (code, told["left_out"]) == (0, ["$.when (a date or time)"])  # which nothing reads


def test_odd_labels_are_told_and_aliases_are_proposed_in_a_comment(init, capsys):
    names = ["offen", " offen", "Offen", "zu", "zu"]
    rows = "".join(f"{names[i % 5]},{i / 3}\n" for i in range(50))
    assert init("e.csv", f"label,n\n{rows}")[0] == 0
    text = Path("streamnb.toml").read_text()
    aliases = '# [classes]\n# aliases = { " offen" = "offen"'
    assert text.count(aliases) == 0
    assert main(["init", "e.csv", "--out", "again.toml"]) == 0
    assert "classes of their own: 'Offen', 'offen', ' offen'; --set" in capsys.readouterr().err
    bare = Path("again.toml").read_text().replace("# [classes]", "[classes]").replace("# aliases", "aliases")
    assert tomllib.loads(bare)["classes"]["aliases"] == {"offen": "Offen", " offen": "Offen"}
    for labels, expected, flags in [
        (["one"], "'one' is the only label", []),
        (["one"], "", ["--events", "30"]),  # others may follow
        (["a", "NA"], "'NA': classes, but named like labels that are missing", []),
        ([str(i) for i in range(40)], "the labels are 40 different numbers", ["--label-column", "label"]),
        (["a", "b"], "", []),
    ]:
        rows = "".join(f"{labels[i % len(labels)]},{i / 3}\n" for i in range(400))
        Path("e.csv").write_text(f"label,n\n{rows}")
        Path("next.toml").unlink(missing_ok=True)
        assert main(["init", "e.csv", "--out", "next.toml", *flags]) == 0
        err = capsys.readouterr().err
        assert (expected in err) if expected else not err, (labels, err)
        assert "[classes]" not in Path("next.toml").read_text()


@pytest.mark.parametrize("kind", ["decimal", "int64", "json"])
def test_long_whole_numbers_are_ids_or_names_and_no_rounded_numbers(init, kind):
    first = 10**19 if kind == "decimal" else 9 * 10**18
    rows = [
        {"customer": first + i * 7919 % 1009, "shop": first + i % 12, "n": i / 3, "label": "ab"[i % 2]}
        for i in range(60)
    ]
    name = "e.jsonl" if kind == "json" else "e.parquet"
    if kind == "json":
        content = "\n".join(json.dumps({"id": f"e{i}"} | row) for i, row in enumerate(rows))
        code, made, told = init(name, content)
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        whole = pa.decimal128(20, 0) if kind == "decimal" else pa.int64()
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        if kind == "decimal":
            columns |= {key: list(map(Decimal, columns[key])) for key in ("customer", "shop")}
        table = pa.table(
            {key: pa.array(v, whole if key in {"customer", "shop"} else None) for key, v in columns.items()}
        )
        code, made, told = init(name, lambda path: pq.write_table(table, path))
    assert code == 0, told
    assert {name: one for name, (one, _) in kinds(made).items()} == {"shop": "nominal", "n": "continuous"}
    assert [one.split(" ", 1)[1] for one in told["left_out"]] == [
        "(whole numbers beyond 2^53, of which nearly every event has another, as ids are)"
    ]


@pytest.mark.usefixtures("init")
def test_without_a_label_the_fields_of_the_fewest_values_are_candidates(capsys):
    fields = ["few", "two", "many", *"cdef"]
    rows = [
        [f"w{i % 5}", f"x{i % 2}", f"y{i * 7}", *(f"{name}{i % 7}" for name in "cdef")] for i in range(60)
    ]
    Path("e.csv").write_text("\n".join(",".join(row) for row in [fields, *rows]))
    lines = (json.dumps({"id": f"e{i}"} | dict(zip(fields, row, strict=True))) for i, row in enumerate(rows))
    Path("e.jsonl").write_text("\n".join(lines))
    for file, at, remedy in [
        ("e.csv", "$.features.", "--label-column NAME"),
        ("e.jsonl", "$.", "--set events.label=PATH"),
    ]:
        assert main(["init", file]) == 2
        few = ", ".join(at + name for name in ["two", "few", "c", "d", "e"])
        assert f"candidates, of few values, are {few}: name it with {remedy}" in (capsys.readouterr().err)


@pytest.mark.usefixtures("init")
def test_a_file_of_which_nothing_can_be_decoded_is_not_said_to_be_of_the_wrong_format(capsys):
    Path("e.csv").write_bytes("Straße,label\nGrün,ä\nBlö,ü\n".encode("latin-1"))
    assert main(["init", "e.csv", "--encoding", "utf-8"]) == 2
    err = capsys.readouterr().err
    assert "--encoding NAME sets the encoding of the file" in err
    assert "none of 2 events could be decoded; 2 invalid-utf8 at $, first row 0: " in err
    assert "; nothing was written" in err
    Path("e.csv").write_text("Account 7\n\na,b,label\n1,2,x\n3,4,y\n")
    assert main(["init", "e.csv", "--skip", "0"]) == 2
    assert "a row of CSV: 3 cells, the header has 1; nothing was written" in capsys.readouterr().err
    Path("e.csv").write_text("n,label\n")
    assert main(["init", "e.csv"]) == 2
    assert "holds no event" in capsys.readouterr().err


DATES = [
    "%d.%m.%Y", "%m/%d/%Y %H:%M", "%d %b %Y", "%a, %d %b %Y %H:%M:%S +0000", "%Y/%m/%d", "%B %d, %Y", "%d-%b-%y", "%Y%m%dT%H%M%S", "%Y-%m-%d %H:%M",
]  # fmt: skip


@pytest.mark.parametrize("form", DATES)
@pytest.mark.parametrize("step", [1, 30])
def test_dates_are_left_out_however_they_are_written(init, form, step):
    days = [datetime(2026, 1, 1, 8, 15, tzinfo=UTC) + timedelta(days=i // step) for i in range(60)]
    rows = "".join(f"{i * i % 37};{day.strftime(form)};{'ab'[i % 2]}\n" for i, day in enumerate(days))
    code, made, _ = init("e.csv", f"n;seen;label\n{rows}")
    assert (code, kinds(made)) == (0, {"n": ("continuous", "$.features.n")})
    assert "# left out: $.features.seen (a date or time)" in Path("streamnb.toml").read_text()


@pytest.mark.parametrize(
    "values",
    [["1.10.12", "1.9.3"], ["10.0.0.1", "10.0.0.12"], ["room 12", "room 13"], ["1/2", "3/4"], ["27.11.2026 10:15 the server stopped", "27.11.2026 10:16 it began"]],
)  # fmt: skip
def test_what_only_looks_a_little_like_a_date_is_none(init, values):
    rows = "".join(f"{i * i % 37},{values[i // 2 % 2]},{'ab'[i % 2]}\n" for i in range(60))
    code, made, _ = init("e.csv", f"n,seen,label\n{rows}")
    assert (code, sorted(kinds(made))) == (0, ["n", "seen"])


TIMES = [
    ("ts", "2026-03-04 05:06:{:02}", "$.ts is not read as the time: expected a number or an RFC 3339 date-time, found a date and time without its offset"),
    ("when", "04.03.2026 05:06:{:02}", "$.features.when is not read as the time: expected a number or an RFC 3339 date-time, found a string"),
    ("ts", "17000000000{:02}", "$.ts is not read as the time: expected seconds, of the years 1900 to 2099"),
    ("when", "2026-03-04T05:06:{:02}Z", "$.features.when can be read as the time: --set 'events.ts=$.features.when'"),
    ("when", "2026-03-04T05:06:{:02}Z --set events.ts=$.features.when", ""),
    ("ts", "2026-03-04T05:06:{:02}Z", ""),
]  # fmt: skip


@pytest.mark.usefixtures("init")
@pytest.mark.parametrize(("name", "value", "expected"), TIMES)
def test_a_time_that_is_not_read_is_told_with_what_it_lacks(name, value, expected, capsys):
    value, *flags = value.split(" --set ")
    sets = [word for flag in flags for word in ("--set", flag)]
    rows = "".join(f"{value.format(i)},{i * i % 37},{'ab'[i % 2]}\n" for i in range(60))
    Path("e.csv").write_text(f"{name},n,label\n{rows}")
    assert main(["init", "e.csv", *sets]) == 0
    err = capsys.readouterr().err
    if expected and name != "ts":
        text = Path("streamnb.toml").read_text()
        assert '\n# ts = "$.features.when"  # ' + expected in text
    assert err.count("the time") == bool(expected)
    assert expected in err
    assert main(["evaluate", "e.csv", "--config", "streamnb.toml", "--json"]) == 0
    said = capsys.readouterr()
    assert (json.loads(said.out)["dead_letters"], said.err) == (0, "")


def test_numbers_are_proposed_as_the_id_and_as_the_label(init):
    rows = [{"payload": {"text": f"free {i} x"}, "id": 17 + i, "label": i % 2} for i in range(20)]
    code, made, told = init("e.jsonl", "\n".join(map(json.dumps, rows)))
    assert (code, told["dead_letters"], made.events.id, made.events.label) == (0, 0, "$.id", "$.label")
    nameless = [{"number" if key == "id" else key: value for key, value in row.items()} for row in rows]
    for i, row in enumerate(nameless):
        row["payload"]["key"] = f"k{i}"
    code, made, told = init("e.jsonl", "\n".join(map(json.dumps, nameless)), out="keys.toml")
    assert (code, told["dead_letters"], made.events.id) == (0, 0, "$.payload.key")


MIXED = [  # the field, what is proposed for it, what is said, how many dead letters are left
    (lambda i: f"lunch number {i} came" if i % 4 else i, {}, "$.says is left out, for 15 of 60 events would be dead letters: expected a string", 0),
    (lambda i: "the cat sat on it" if i % 4 else 7, {"says": ("nominal", "$.says")}, "$.says is nominal, for 15 of 60", 0),
    (lambda i: i / 7 if i % 4 else {"at": i / 7}, {}, "$.says is left out, for 15 of 60", 0),
    (lambda i: i / 7 if i != 40 else {"at": i / 7}, {"says": ("continuous", "$.says")}, "$.says.at is left out, for 59 of 60", 1),
    (lambda i: {"at": i / 7} if i != 40 else i / 7, {"says.at": ("continuous", "$.says.at")}, "$.says is left out, for 59 of 60", 1),
]  # fmt: skip


@pytest.mark.usefixtures("init")
@pytest.mark.parametrize(("field", "expected", "message", "letters"), MIXED)
def test_a_proposal_is_tried_and_the_other_is_proposed_where_it_would_refuse_events(
    field, expected, message, letters, capsys
):
    rows = [{"id": f"e{i}", "n": i * i % 37, "says": field(i), "label": "ab"[i % 2]} for i in range(60)]
    Path("e.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["init", "e.jsonl"]) == 0
    said = capsys.readouterr()
    made = kinds(configuration.load(Path("streamnb.toml"), {}, []))
    assert made == expected | {"n": ("continuous", "$.n")}
    assert said.err.count(message) == 1
    assert f"; {letters} dead letter{'s' * (letters != 1)} under it" in said.out


def test_columns_that_flags_and_names_mean_are_found_behind_a_thousand_others(init):
    header = [*(f"c{i}" for i in range(1200)), "outcome", "churn"]
    rows = [[str(i % 7)] * 1200 + ["ab"[i % 2], "yes" if i % 3 else "no"] for i in range(30)]
    content = "\n".join(",".join(row) for row in [header, *rows])
    for flags, label in [([], "$.features.outcome"), (["--label-column", "churn"], "$.features.churn")]:
        code, made, told = init("e.csv", content, *flags, out=f"{len(flags)}.toml")
        assert (code, told["dead_letters"], made.events.label) == (0, 0, label)
    Path("e.csv").write_text(content.replace("churn", "label"))
    assert main(["evaluate", "e.csv", "--set", "model.kind=naive_bayes"]) == 0


def test_a_proposal_under_which_each_event_is_a_dead_letter_is_not_written(init):
    rows = [{"id": f"e{n}", "features": {"n": {"long": f"{n}x"}}, "label": "ab"[n % 2]} for n in range(40)]
    code, made, said = init("e.jsonl", "\n".join(map(json.dumps, rows)))
    assert (code, made) == (2, None)
    assert "none of 40 events could be decoded; 40 wrong-type at $.features.n" in said
    assert "nothing was written" in said


def test_days_are_not_proposed_as_times(init):
    """Excel counts days since 1900: read as seconds, they are of the first hours of 1970."""
    rows = [
        {"id": f"e{n}", "features": {"date": 45_000 + n % 9, "x": n / 3}, "label": "ab"[n % 2]}
        for n in range(40)
    ]
    code, made, _ = init("e.jsonl", "\n".join(map(json.dumps, rows)))
    assert (code, made.events.ts) == (0, "$.ts")
    assert "date" in {one.name for one in made.attributes}


def test_few_names_that_are_read_as_numbers_are_proposed_as_names(init):
    rows = "".join(f"{i},1.{i % 2}0,{i % 30:03},{i % 30},{'ab'[i % 2]}\n" for i in range(90))
    code, made, _ = init("e.csv", f"id,version,code,n,label\n{rows.replace(',1.10,', ',1.1,', 1)}")
    assert code == 0
    assert {name: kind for name, (kind, _) in kinds(made).items()} == {
        "version": "nominal",
        "code": "nominal",
        "n": "continuous",
    }
