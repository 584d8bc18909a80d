"""Text files in the notation of their owner: what is read, and what is said of what is not."""

from __future__ import annotations

import json
import random

import pytest

from streamnb.evaluation.data_quality import DataQuality, InputOrigin
from streamnb.evaluation.event_input import missing_cells
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_csv import rows_to_events
from streamnb.formats.event_files import read_events, read_rows_order
from streamnb.formats.event_schema import AttributeSpec, EventSchema

CELLS, LINES = InputOrigin("e.csv", is_table=True, has_cells=True), InputOrigin("e.jsonl")
PARQUET = InputOrigin("e.parquet", is_table=True)
PLAIN = EventSchema()


def odd(values, origin=CELLS, schema=PLAIN, **more):
    """What is said of a column of cells, or of values of JSON, that is named x."""
    fields = DataQuality(schema, origin, counts_refusals=False, **more)
    if origin is CELLS:
        lines = ["id|label|x\n", *(f"{n}|{'ab'[n % 2]}|{cell}\n" for n, cell in enumerate(values))]
        raws = rows_to_events(lines, CsvColumns(delimiter="|", decimal=".", missing=("", "\0")))
    else:
        raws = (
            json.dumps({"id": f"{n}", "label": "ab"[n % 2], "features": {"x": value}}).encode()
            for n, value in enumerate(values)
        )
    for raw in raws:
        fields.look(raw)
    found = fields.news(is_over=True)
    assert fields.news(is_over=True) == []
    return found


def amounts(form, n=40):
    draw = random.Random(3)
    return [form.format(draw.uniform(2, 9), draw.randrange(100, 1000)) for _ in range(n)]


WRITTEN = [
    (amounts("{0:.2f}").copy(), None),
    ([f"{n},5" for n in range(30)], "numbers with a decimal comma, and each is taken for one value: --decimal , reads them"),
    (["1,5", "2,5", "12"], "with a decimal comma"),
    (["1,5", "NA", "2,75", "12"], "with a decimal comma"),
    (["9,012.30", "1,000", "512"], "with commas between thousands, and each is taken for one value: --thousands , reads them"),
    (["1,100", "2,250"], "with commas between thousands, or decimal ones, and each is taken for one value: --thousands , or --decimal , reads"),
    (["1,100", "0,250"], "with a decimal comma, and"),
    (["1.010,44", "2,5", "1.5"], "with a decimal comma and points between thousands, and each is taken for one value: --decimal , --thousands . reads"),
    (["1 010,44", "2 500,00", "12,1"], "--decimal , --thousands ' ' reads"),
    (["1\u202f010.44", "2\u202f500.00"], "--thousands ' ' reads"),
    (["1'010.44", "2'500.00"], "--thousands ''\"'\"'' reads"),
    (["1.5", "NaN", "-inf", "1e400"], "numbers, but for -inf, 1e400, NaN, each taken for one value: --missing=-inf,1e400,NaN takes them as missing"),
    ([*map(str, range(1500)), "n/a"], "--missing=n/a takes"),
    (["1234567890123456789", "1234567890123456790", "5"], "whole numbers beyond 2^53 are taken for names"),
    (["1,2,3", "1,2", "3", "1,3,4"], None),
    (["01.02.2024", "11.12.2023"], None),
    (["192.168.100.101", "192.168.100.102"], None),
    (["030 123 456", "040 111 222"], None),
    (["2", "3", "J", "NA"], None),
    (["NA", "?", "red"], None),
    (["A,1", "B,2"], None),
    (["1,5"], None),
    ([*["1,5", "2,5"] * 10, *"abcdefghijklmnopqrst"], None),
    ([*amounts("{0:.2f}"), *["k.A."] * 20], 'numbers, but for 20 cells such as "k.A.", each taken for one value: --missing=k.A. takes them as missing'),
    ([*amounts("{0:.2f}"), "NA", "k.A."], 'numbers, but for 2 cells such as "NA", "k.A.", each taken for one value: --missing=NA,k.A. takes them'),
    ([*map(str, range(40)), "(51.35)", "44.41-", "A0", "B0"], 'numbers, but for 4 cells such as "(51.35)", "44.41-", "A0", each taken for one value'),
    ([*amounts("{0:.2f}"), "\u221297.60", "#DIV/0!"], 'numbers, but for 2 cells such as "\u221297.60", "#DIV/0!", each taken for one value'),
    ([*["1,5", "2,5"] * 20, *["k.A."] * 10], "with a decimal comma, and each is taken for one value: --decimal , reads them"),
    (amounts("\u20ac{0:.2f}"), 'looks like numbers with a unit ("\u20ac"), and each is taken for one value: write the numbers alone'),
    (amounts("{0:.2f}%"), 'with a unit ("%")'),
    (amounts("{1}kg"), 'with a unit ("kg")'),
    ([one.replace(".", ",") for one in amounts("{0:.2f} \u20ac")], 'with a unit ("\u20ac")'),
    ([f"{n}\u202f{n},50" for n in range(100, 130)], "--decimal , --thousands ' ' reads"),
    ([f"{n}\u00a0{n},50" for n in range(100, 130)], "--decimal , --thousands ' ' reads"),
    (["1", "2", "3", "A", "B"] * 20, None),
    (["\u22125.2", "\u22123.1", "2.0"], 'with other signs, digits or quotes, and each is taken for one value: write -5.2 for "\u22125.2"'),
    (["\u22125,2", "3,1"] * 20, 'write -5,2 for "\u22125,2"'),
    ([f"\u2212{n % 9}" for n in range(40)], 'write -0 for "\u22120"'),
    ([f"\u2013{n}.5" for n in range(40)], 'write -0.5 for "\u20130.5"'),
    (["\u0661\u066b\u0665", "\u0662\u0663"], 'write 1.5 for "\u0661\u066b\u0665"'),
    (["\uff11\uff0e\uff15", "\uff12"], 'write 1.5 for "\uff11\uff0e\uff15"'),
    (amounts("({0:.2f})"), 'write -3.67 for "(3.67)"'),
    (amounts("{0:.2f}-"), 'write -3.67 for "3.67-"'),
    (amounts("'{0:.2f}"), """write 3.67 for "'3.67\""""),
    (amounts("\u201e{0:.2f}\u201c"), 'write 3.67 for "\u201e3.67\u201c"'),
    (["(1)", "(2)", "(3)"] * 20, None),
    (["1-5", "6-10", "11\u201315"] * 20, None),
    ([f"0{n},5" for n in range(40)], "--decimal , reads them"),
    ([",5", ",75", "1,25"], "--decimal , reads them"),
    ([f"{n % 9 + 1},123E+05" for n in range(40)], "with a decimal comma, and each is taken for one value: --decimal , reads"),
    (amounts("{0:.2f}\u00a0"), None),
    (amounts("\t{0:.2f}"), None),
    (amounts("{0:.2f} mmHg"), 'with a unit ("mmHg")'),
    (amounts("{1} Personen"), 'with a unit ("Personen")'),
    (amounts("{0:.2f} l/100km"), 'with a unit ("l/100km")'),
    (amounts("{0:.2f} Mio. \u20ac"), 'with a unit ("Mio. \u20ac")'),
    (amounts("{0:.2f} m\u00b2"), 'with a unit ("m\u00b2")'),
    (amounts('{1}"'), 'with a unit (""")'),
    (amounts("Euro {0:.2f}"), 'with a unit ("Euro")'),
    (amounts("\u2212{0:.2f} \u00b0C"), 'with a unit ("\u00b0C")'),
    ([*amounts("{0:.2f} kg", 30), *amounts("{1} g", 20)], 'with units ("kg", "g")'),
    ([*amounts("{1} kg", 30), *amounts("{1}"), *amounts("{1}k", 9)], "numbers, but for 39 cells such as"),
    ([f"Zimmer {n % 9}" for n in range(40)], None),
    ([f"{n % 9} {'AB'[n % 2]}" for n in range(40)], None),
    ([f"{n:02} Jan 2026" for n in range(1, 29)], "looks like dates or times, and each is taken for one value: write what matters"),
    ([f"{n}.1.2024" for n in range(1, 29)], "looks like dates or times, and each is taken for one value"),
    ([f"1/{n}/2024" for n in range(1, 29)], "the weekday, as attributes; a time of the event is RFC 3339, and --ts-column x names its column"),
    ([f"2024-01-{n:02}" for n in range(1, 29)] * 9, "looks like dates or times, and each is taken for one value"),
    ([f"202401{n:02}" for n in range(1, 29)], "looks like dates or times, and each is taken for a number"),
    ([f"{n}.1.2024" for n in range(1, 11)] * 9, None),
    ([f"202401{n:02}" for n in range(45, 10, -1)], None),
    ([str(100_000 + n) for n in range(30)], None),
    ([str(100_000 + 3 * n) for n in range(30)], "whole numbers that only rise, as ids do, are taken for an amount: --id-column x names its column"),
    ([str(100_000 + n * 7 % 30) for n in range(30)], None),
    ([str(n) for n in range(19)], None),
    ([f"{n}/37" for n in range(30)], 'looks like numbers written as fractions, and each is taken for one value: write 0 for "0/37", or two attributes of one number each'),
    (["1/2", "1/4", "3/4"] * 20, None),
    (["5", "1 1/2", *(f"-{n} 1/4" for n in range(9))] * 20, 'write 1.5 for "1 1/2"'),
    (["n/a", "a/b", "c/d"] * 20, None),
    ([f"777/{n}/37" for n in range(30)], None),
    ([f"A{n}" for n in range(90)], None),
    (["1a", "1b", "2a", "2b"] * 20, None),
    (["true", "false", "0", "True"] * 20, "some values are numbers and others booleans, of which a model uses one type"),
    (["true", "false", "yes", "True"] * 20, None),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "expected"), WRITTEN)
def test_a_column_of_numbers_in_another_notation_is_named_with_the_option_that_reads_it(cells, expected):
    found = [text for text in odd(cells) if "none of" not in text]
    assert sum((expected or "nothing") in text for text in found) == (expected is not None)
    assert all(text.startswith("$.features.x: ") for text in found)
    with_missing = "1,5" in cells and bool({"NA", "k.A."} & set(cells))
    assert len(found) == (expected is not None) + with_missing


def test_dates_are_named_with_the_path_of_the_time_unless_there_is_one():
    days = [f"2024-01-{n:02}" for n in range(1, 29)]
    assert "and --set events.ts='$.features.x' sets its path" in odd(days, LINES)[0]
    (told,) = odd(days, LINES, EventSchema(ts_path="$.id"))
    assert told.endswith("such as the weekday, as attributes")
    assert odd(days, learns=False) == []
    assert odd(days, schema=EventSchema((AttributeSpec("x", "nominal", "$.features.x"),))) == []


def test_values_of_json_are_named_with_what_to_write():
    for origin, written, remedy in (
        (LINES, "in quotes", "write JSON numbers, such as 1010.44"),
        (PARQUET, "in strings", "write a column of numbers, not of strings"),
    ):
        taken = f"and each is taken for one value: {remedy}"
        quoted = odd(amounts("{0:.2f}"), origin)
        assert quoted == [f"$.features.x: looks like numbers {written}, {taken}"]
        (comma,) = odd(["1,5", "2,5"], origin)
        assert comma.endswith(f"with a decimal comma, {taken}")
        (marked,) = odd([1.5, "NaN", 2], origin)
        assert marked.endswith(
            "numbers, but for NaN, each taken for one value: leave these out, or write null"
        )
        (words,) = odd([1.5, "k.A.", 2], origin)
        assert 'but for 1 value such as "k.A.", each taken for one value: leave these out' in words
        (unit,) = odd([f"{n},50 \u20ac" for n in range(40)], origin)
        assert 'numbers with a unit ("\u20ac"), and each is taken for one value: write the numbers' in unit
        (rounded,) = odd([2**53 + 1, 5], origin)
        assert "whole numbers beyond 2^53 are rounded" in rounded
        assert odd(["01", "02"] * 20, origin) == odd([2**53, 5], origin) == odd(["7", "8"] * 20, origin) == []


TIMES = [("45000", True), ("20260101", True), ("1790000000", False), ("2026-01-02T03:04:05Z", False)]


@pytest.mark.parametrize(("time", "is_said"), TIMES)
def test_times_that_are_all_in_1970_are_said_once(told, tmp_path, time, is_said):
    rows = "".join(f"{time},{'ab'[n % 2]},word{n}\n" for n in range(30))
    (tmp_path / "e.csv").write_text("ts,label,text\n" + rows)
    said = "$.ts: times are in 1970: seconds since 1970 are expected; write these, or --ts-column NAME"
    assert told("evaluate", "e.csv")[2].count(said) == is_said
    (tmp_path / "e.csv").write_text("ts,label,text\n" + rows + "1790000000,a,x\n")
    err = told("evaluate", "e.csv")[2]
    assert err.count("$.ts: 30 times in 1970, and none in the 9 years after: leave out a time") == is_said
    assert said not in err
    (tmp_path / "e.csv").write_text("ts,label,text\n" + rows + "1790000000,a,x\n90000000,a,x\n")
    assert "1970" not in told("evaluate", "e.csv")[2], "a stream since 1970"


@pytest.mark.parametrize("unknown", ["0", "-1", "1970-01-01T00:00:00Z"])
def test_unknown_times_that_are_written_as_1970_are_named(told, tmp_path, unknown):
    rows = "".join(f"{unknown if n % 3 else 1790000000 + n},{'ab'[n % 2]},word{n}\n" for n in range(30))
    (tmp_path / "e.csv").write_text("ts,label,text\n" + rows)
    assert told("evaluate", "e.csv")[2].count("$.ts: 20 times in 1970, and none in the 9 years after") == 1


@pytest.mark.parametrize("ahead", ["4000000000", "2099-01-02T03:04:05Z"])
def test_times_ahead_are_counted_in_files_as_run_counts_them(told, tmp_path, ahead):
    rows = "".join(f"{ahead if n < 7 else 1700000000 + n},{'ab'[n % 2]},word{n}\n" for n in range(30))
    (tmp_path / "e.csv").write_text("ts,label,text\n" + rows)
    said = "$.ts: 7 times more than a day ahead of the clock of this machine: `run` refuses such events"
    assert told("evaluate", "e.csv")[2].count(said) == 1
    assert said not in told("evaluate", "e.csv", "--set", "events.clock=event")[2]
    assert "streamnb: 7 dead letters of 30 events: out-of-range at $.ts" in told("replay", "e.csv")[2]
    assert "30 events, 23 learned, 7 dead letters" in told("run", "--until-end")[1]


def test_a_code_that_is_declared_as_nominal_keeps_its_zeros(told, tmp_path):
    rows = "".join(f"{'ab'[n % 2]},{'00501' if n % 2 else '501'}\n" for n in range(60))
    (tmp_path / "e.csv").write_text("label,zip\n" + rows)
    assert told("evaluate", "e.csv")[2].count("$.features.zip: 00501 is read as the number 501; kind =") == 1
    declared = ["--set", 'attributes=[{name="zip",kind="nominal",path="$.features.zip"}]', "--json"]
    code, out, err = told("evaluate", "e.csv", *declared)
    assert (code, json.loads(out)["cumulative"]["accuracy"] > 0.9) == (0, True)
    assert [line for line in err.splitlines() if "the label follows from zip alone" not in line] == []


def test_names_of_columns_with_blanks_are_those_that_options_and_roles_name(told, tmp_path):
    rows = "".join(f"{'ab'[n % 2]},1790000000,word{n}\n" for n in range(30))
    (tmp_path / "e.csv").write_text(" label, ts,text\n" + rows)
    read = "streamnb: e.csv: read with blanks around names and cells left out\n"
    for label in ("label", " label"):
        code, out, err = told("evaluate", "e.csv", "--label-column", label, "--json")
        assert (code, json.loads(out)["learned"], err) == (0, 30, read)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32"])
def test_encodings_of_several_bytes_a_character_can_be_named(told, tmp_path, encoding):
    (tmp_path / "e.csv").write_bytes("label,text\na,x\nb,y\n".encode(encoding))
    code, out, err = told("evaluate", "e.csv", "--encoding", encoding, "--json")
    assert (code, json.loads(out)["learned"], err) == (0, 2, "")


def test_what_was_declared_is_taken_as_it_was_declared():
    declared = {
        kind: EventSchema((AttributeSpec("x", kind, "$.features.x"),)) for kind in ("nominal", "continuous")
    }
    assert odd(["1,5", "2,5"], schema=declared["nominal"]) == []
    (refused,) = odd(["1,5", "2,5"], schema=declared["continuous"])
    assert refused.endswith("with a decimal comma, and each is refused: --decimal , reads them")
    assert odd(DIGITS := ["1234567890123456789"] * 2, schema=declared["nominal"]) == []
    assert odd(list(map(int, DIGITS)), LINES, declared["nominal"]) == []


def test_each_column_is_named_once_together_with_others_of_its_kind():
    fields = DataQuality(PLAIN, CELLS)
    table = ["id,a,b\n", *(f'{n},"{n},5",{n}\n' for n in range(30))]
    plain = CsvColumns(decimal=".")
    for raw in rows_to_events(table, plain):
        fields.look(raw)
    assert len([text for text in fields.news() if "decimal" in text]) == 1
    for raw in rows_to_events(["id,a,c,d\n", *(f'{n},"{n},5","{n},5","1,{n}"\n' for n in range(90))], plain):
        fields.look(raw)
    (more,) = [text for text in fields.news(is_over=True) if "decimal" in text]
    assert more.startswith("$.features.c, $.features.d: looks like numbers with a decimal comma")


NAMES = ["adult", "elec2", "nsl_kdd", "river_phishing", "river_solarflare", "satellite", "sms_spam", "weka_iris", "weka_vote"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_real_streams_give_no_note_of_numbers(streams, name):
    raws = list(read_events(streams / f"{name}.jsonl.gz"))
    order = read_rows_order(streams / f"{name}.shuffle7.txt.gz")[:1000]
    for origin in (LINES, CELLS):
        fields = DataQuality(PLAIN, origin)
        for row in order:
            fields.look(raws[row])
        assert all("not read" in text for text in fields.news(is_over=True))


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("name", ["adult", "sms_spam", "weka_iris"])
def test_real_streams_as_tables_are_read_as_they_were_without_a_note(streams, tmp_path, name, delimiter):
    import csv

    rows = [json.loads(raw) for raw in read_events(streams / f"{name}.jsonl.gz")]
    order = read_rows_order(streams / f"{name}.shuffle7.txt.gz")[:2000]
    flat = [
        {key: rows[row][key] for key in ("id", "label", "text") if key in rows[row]}
        | rows[row].get("features", {})
        for row in order
    ]
    path = tmp_path / "e.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(
            out, list(dict.fromkeys(key for one in flat for key in one)), delimiter=delimiter
        )
        writer.writeheader()
        writer.writerows(flat)
    from streamnb.formats.event_files import open_counted

    notes, fields, read = [], DataQuality(PLAIN, CELLS, counts_refusals=True), []
    with open_counted(path, note=notes.append) as events:
        for raw in events:
            fields.look(raw)
            read.append(json.loads(raw))
    assert [text for text in notes if "is not" in text or "is read as" in text] == []
    assert [text for text in fields.news(is_over=True) if "numbers" in text or "dead" in text] == []
    for one, expected in zip(read, flat, strict=True):
        assert one.get("text", "") == expected.get("text", "")
        assert {**one.get("features", {})} == {
            k: v for k, v in expected.items() if k not in {"id", "label", "text"}
        }


COMMAS = "id;amount;label\n" + "".join(
    f"e{n};{amount};{'fraud' if n % 2 else 'ok'}\n"
    for n, amount in enumerate(f"{9000 * (n % 2) + n % 7},{n % 90 + 10}" for n in range(300))
)


def test_a_decimal_comma_is_said_and_read(told, tmp_path):
    (tmp_path / "e.csv").write_text(COMMAS)
    flags = ["--set", "model.kind=naive_bayes", "--json"]
    code, out, err = told("evaluate", "e.csv", "--decimal", ".", *flags)
    assert (code, json.loads(out)["cumulative"]["accuracy"] < 0.9) == (0, True)
    assert err.count("--decimal , reads them") == 1
    code, out, err = told("evaluate", "e.csv", *flags)
    assert (code, json.loads(out)["cumulative"]["accuracy"] > 0.98) == (0, True)
    said = "read with delimiter ';' (--delimiter); numbers with a decimal comma in amount (--decimal ,)\n"
    assert err.count(said) == 1
    code, out, err = told("evaluate", "e.csv", "--decimal", ",", *flags)
    assert (code, json.loads(out)["cumulative"]["accuracy"] > 0.98) == (0, True)
    others = [line for line in err.splitlines() if "the label follows from amount alone" not in line]
    assert others == ["streamnb: e.csv: read with delimiter ';' (--delimiter)"]


def test_init_proposes_the_options_and_reads_by_them(told, tmp_path):
    (tmp_path / "e.csv").write_text(COMMAS.replace("e7;9000", "e7;NA;").replace("NA;,17", "NA"))
    code, _, err = told("init", "e.csv")
    text = (tmp_path / "streamnb.toml").read_text()
    assert code == 0
    assert "streamnb evaluate e.csv --config streamnb.toml '--delimiter=;' --missing=NA --decimal=,\n" in text
    assert text.count('kind = "continuous"') == 1
    said = (
        "numbers with a decimal comma in amount (--decimal ,); NA for missing numbers in amount (--missing)"
    )
    assert err.count(said) == 1
    flags = "--config streamnb.toml --delimiter=; --missing=NA --decimal=, --json".split()
    code, out, err = told("evaluate", "e.csv", *flags)
    assert (code, json.loads(out)["dead_letters"], err) == (0, 0, "")
    assert said in told("evaluate", "e.csv", "--config", "streamnb.toml")[2]


@pytest.mark.parametrize("n", [1111, 1112, 4000])
def test_init_proposes_the_options_for_a_column_of_many_values(told, tmp_path, n):
    (tmp_path / "e.csv").write_text(
        "x;label\n" + "".join(f"{i},{i % 89 + 10};{'ab'[i % 2]}\n" for i in range(n))
    )
    assert told("init", "e.csv")[0] == 0
    text = (tmp_path / "streamnb.toml").read_text()
    assert "--decimal=," in text
    assert 'kind = "continuous"\npath = "$.features.x"' in text
    assert "numbers with a decimal comma in x (--decimal ,)" in told("evaluate", "e.csv")[2]


def test_options_that_would_spoil_another_column_are_not_proposed(told, tmp_path):
    rows = [f"{'ab'[i % 2]};{i + 1}.210,50;0.{100 + 7 * i}\n" for i in range(60)]
    (tmp_path / "e.csv").write_text("label;umsatz;rate\n" + "".join(rows))
    fault = "no options fit both these and $.features.rate, whose decimal separator is '.'"
    code, _, err = told("init", "e.csv")
    assert (
        code,
        err.count(f"$.features.umsatz: numbers with a decimal comma and points between thousands: {fault}"),
    ) == (0, 1)
    text = (tmp_path / "streamnb.toml").read_text()
    assert "--decimal" not in text
    assert 'kind = "continuous"\npath = "$.features.rate"' in text
    err = told("evaluate", "e.csv")[2]
    assert (err.count(fault), err.count("reads them")) == (1, 0)


def test_floats_that_were_read_by_the_given_separator_are_not_spoilt():
    fields = DataQuality(PLAIN, InputOrigin("e.csv", is_table=True, has_cells=True, decimal=","))
    table = ["id;a;b\n", *(f"{n};{n},5;{n + 1}.250\n" for n in range(30))]
    for raw in rows_to_events(table, CsvColumns(delimiter=";", decimal=",")):
        fields.look(raw)
    assert "--decimal , --thousands . reads them" in "".join(fields.news(is_over=True))


def test_init_proposes_words_among_numbers_as_missing_and_no_text_of_units(told, tmp_path):
    rows = [f"{'ab'[i % 2]};{'k.A.' if i % 5 == 0 else f'{i},5'};{i},25 \u20ac\n" for i in range(60)]
    (tmp_path / "e.csv").write_text("label;x;preis\n" + "".join(rows))
    code, _, err = told("init", "e.csv")
    text = (tmp_path / "streamnb.toml").read_text()
    assert (code, err.count("--missing=k.A.")) == (0, 1)
    assert "--missing=k.A. --decimal=," in text
    assert "left out: $.features.preis (numbers with a unit: write the numbers alone)" in text
    assert text.count("[[attributes]]") == 1


def whole(n):
    return f"{n:,}".replace(",", ".")


@pytest.mark.parametrize("people", [[whole(n * 437 % 2221) for n in range(60)], ["767", "6.040", "127"] * 20])
def test_points_between_thousands_go_with_decimal_commas_elsewhere(told, tmp_path, people):
    rows = [f"{'ab'[i % 2]};{cell};{i},40\n" for i, cell in enumerate(people)]
    (tmp_path / "e.csv").write_text("label;einwohner;preis\n" + "".join(rows))
    err = told("evaluate", "e.csv")[2]
    assert err.count("numbers with a decimal comma and points between thousands in preis, einwohner") == 1
    assert err.count("(--decimal , --thousands .)") == 1
    assert told("init", "e.csv")[0] == 0
    text = (tmp_path / "streamnb.toml").read_text()
    assert "--decimal=, --thousands=." in text
    assert text.count("[[attributes]]") == 2
    flags = "--config streamnb.toml --delimiter=; --decimal=, --thousands=.".split()
    assert told("evaluate", "e.csv", *flags)[2] == ""


@pytest.mark.parametrize(
    "fractions", [["1.5", "12", "7.25"], ["6.125", "0.5", "3"], ["1.125", "2.350", "3.500"]]
)
def test_fractions_are_no_thousands(told, tmp_path, fractions):
    rows = [f"{'ab'[i % 2]};{cell};{i},40\n" for i, cell in enumerate(fractions * 20)]
    (tmp_path / "e.csv").write_text("label;rate;preis\n" + "".join(rows))
    for command in ("init", "evaluate"):
        code, _, err = told(command, "e.csv")
        assert (code, "--thousands" in err, "--decimal" in err) == (0, False, False)
        assert err.count("no options fit both these and $.features.rate") == 1


AMBIGUOUS = [
    (["767", "6.040", "127"], True),
    (["6.040", "7.125"], False),
    (["767", "6.040", "1270"], False),
    (["767", "6.040", "12.5"], False),
    (["767", "6.040", "0.125"], False),
    (["1", "2.5", "3.25"], False),
]


@pytest.mark.parametrize(("cells", "is_said"), AMBIGUOUS)
def test_a_point_that_may_separate_thousands_is_said_once(cells, is_said):
    for n in (1, 700):
        notes = []
        lines = ["id;label;x\n", *(f"{i};a;{cell}\n" for i, cell in enumerate(cells * n))]
        columns = CsvColumns(missing=("", "NA"), delimiter=";")
        assert len(list(rows_to_events(lines, columns, notes.append))) == len(cells) * n
        said = "column x: 6.040 is read as 6.04; --decimal , --thousands . reads 6040"
        assert notes == [said] * is_said
        beside = ["id;label;x;y\n", *(f"{i};a;{cell};0.5\n" for i, cell in enumerate(cells * n))]
        list(rows_to_events(beside, columns, notes.append))
        given = CsvColumns(decimal=",", thousands=".", delimiter=";")
        list(rows_to_events(lines, given, notes.append))
        assert notes == [said] * is_said


def test_a_row_that_does_not_fit_says_so_where_it_is_a_dead_letter(told, tmp_path):
    (tmp_path / "e.csv").write_text("label,text\na,x\nb,y,z\n" * 1)
    assert "of a row of CSV: 3 cells, the header has 2" in told("evaluate", "e.csv")[1]
    assert "of a row of CSV: 3 cells, the header has 2" in told("replay", "e.csv")[2]


def test_what_cannot_be_decoded_is_said_and_read_by_its_encoding(told, tmp_path):
    (tmp_path / "e.csv").write_bytes("label,text\na,caf\u00e9\nb,noon\n".encode("cp1252"))
    code, _, err = told("evaluate", "e.csv", "--encoding", "utf-8")
    assert (code, err.count("row 0 is not utf-8, and becomes a dead letter: --encoding NAME")) == (0, 1)
    assert told("evaluate", "e.csv")[::2] == (0, "streamnb: e.csv: read with encoding cp1252 (--encoding)\n")
    code, out, err = told("evaluate", "e.csv", "--encoding", "cp1252", "--json")
    assert (code, json.loads(out)["learned"], err) == (0, 2, "")
    (tmp_path / "e.csv").write_bytes("label,caf\u00e9\na,x\nb,y\n".encode("cp1252"))  # so that no row is
    _, _, err = told("evaluate", "e.csv", "--encoding", "utf-8")
    assert ("row 0 is not utf-8" in err, "none of" in err) == (True, False)


QUOTED = [
    ("id,label,x\n1,'a','p, q'\n2,'b','it''s'\n3,c,'r'\n", (), [("a", "p, q"), ("b", "it's"), ("c", "r")]),
    ("'id','label','x'\n1,a,p\n2,b,q\n", (), [("a", "p"), ("b", "q")]),
    ("id;label;x\n1;'a';p\n2;b;q\n", (), [("'a'", "p"), ("b", "q")]),
    ("id;label;x\n1;'a';p\n2;b;q\n", ("--quote", "'"), [("a", "p"), ("b", "q")]),
    ("id,label,x\n1,'a','p'\n2,'b','q'\n", ("--quote", '"'), [("'a'", "'p'"), ("'b'", "'q'")]),
    ("id,label,x\n1,'a','p'\n2,'b','q'\n", ("--no-quoting",), [("'a'", "'p'"), ("'b'", "'q'")]),
    ("id,label,x\n1,'a',\"p\"\n2,'b',\"q\"\n", (), [("'a'", "p"), ("'b'", "q")]),
    ("id,label,x\n1,~a~,~p, q~\n", ("--quote", "~"), [("a", "p, q")]),
    ("id\tlabel\tx\n1\t'a'\t'p\tq'\n2\t'b'\t'r'\n", (), [("a", "p\tq"), ("b", "r")]),
]


@pytest.mark.parametrize(("table", "options", "expected"), QUOTED)
def test_the_quote_of_cells_is_detected_or_given(told, tmp_path, table, options, expected):
    (tmp_path / "e.csv").write_text(table)
    code, _, err = told("evaluate", "e.csv", *options, "--predictions", "p.jsonl", "--json")
    assert code == 0, err
    written = (tmp_path / "p.jsonl").read_text().splitlines()
    assert [json.loads(line)["truth"] for line in written] == [label for label, _ in expected]
    quoting = False if "--no-quoting" in options else None
    quote = options[1] if "--quote" in options else ""
    rows = rows_to_events(table.splitlines(keepends=True), CsvColumns(quoting=quoting, quote=quote))
    assert [json.loads(row)["features"]["x"] for row in rows] == [x for _, x in expected]


@pytest.mark.parametrize(
    "above", ["# made by a sensor; in May\n", '"Konto";"DE12"\n"Zeitraum";"Januar"\n\n', "label;x\n"]
)
def test_what_stands_above_the_header_or_lacks_a_name_is_reported(told, tmp_path, above):
    names = "" if above.startswith("label") else "id;label;x\n"
    (tmp_path / "e.csv").write_text(above + names + "".join(f"{n};{'ab'[n % 2]};{n}\n" for n in range(30)))
    said = "and most of the first rows have 3: the first line must name each column; --skip N skips lines"
    skipped = f"{len(above.split())} line{'s' * (len(above.split()) > 1)} skipped above the table (--skip)"
    skipped = skipped if names and above.startswith('"') else "1 line skipped above the table (--skip)"
    for command in ("evaluate", "init"):
        err = told(command, "e.csv")[2]
        assert (err.count(said), err.count(skipped)) == ((0, 1) if names else (1, 0))
    (tmp_path / "e.csv").write_text("id;label;x\n" + "".join(f"{n};{'ab'[n % 2]};{n}\n" for n in range(30)))
    assert said not in told("evaluate", "e.csv")[2]


@pytest.mark.parametrize("name", ["e.txt", "e.data", "e.dat", "e"])
def test_a_table_under_another_name_is_read_by_its_content(told, tmp_path, name):
    (tmp_path / name).write_text("id,label,x\n1,a,2\n2,b,3\n")
    for command in ("evaluate", "replay", "init"):
        code, _, err = told(command, name)
        assert (code, err.count(f"{name}: read with format csv by its content (--format)")) == (0, 1)
    (tmp_path / name).write_text(
        '{"id": "1", "text": "u,v", "label": "a"}\n{"id": "2", "text": "v,w", "label": "b"}\n'
    )
    assert told("evaluate", name)[0] == 0
    (tmp_path / "e.jsonl").write_text("label,b\nc,d\n")
    code, _, err = told("evaluate", "e.jsonl")
    assert (code, err.splitlines()[1:]) == (
        0,
        ["streamnb: e.jsonl: read with format csv by its content (--format)"],
    )


def test_no_row_of_a_table_of_tabs_vanishes(told, tmp_path):
    texts = [f"free cash {n}" for n in range(200)]
    texts[3:180:15] = [f'"{text}' for text in texts[3:180:15]]
    texts[5:182:15] = [f'{text}"' for text in texts[5:182:15]]
    rows = "".join(f"{n}\t{'ab'[n % 2]}\t{text}\n" for n, text in enumerate(texts))
    (tmp_path / "e.tsv").write_text("id\tlabel\ttext\n" + rows)
    code, out, err = told("evaluate", "e.tsv", "--json")
    assert (code, json.loads(out)["learned"]) == (0, 200)
    assert err == "streamnb: e.tsv: read with quotes as ordinary characters (--quoting)\n"
    _, out, err = told("evaluate", "e.tsv", "--quoting", "--json")
    assert json.loads(out)["learned"] < 200
    assert err.count("which a quote makes one; --no-quoting reads quotes as ordinary characters") == 1


def test_missing_cells_of_labels_texts_and_times(told, tmp_path):
    (tmp_path / "e.csv").write_text(
        "id,ts,text,x,label\n1,1790000000,free,1,s\n2,NA,noon,2,h\n3,5,NA,NA,s\n4,6,win,3,NA\n"
    )
    code, out, _ = told("evaluate", "e.csv", "--missing", "NA", "--json")
    report = json.loads(out)
    assert (code, report["learned"], report["dead_letters"], sorted(report["labels"])) == (
        0,
        3,
        0,
        ["h", "s"],
    )


def test_missing_labels_that_became_classes_are_named(told, tmp_path):
    (tmp_path / "e.csv").write_text("text,label\n" + "free,a\nwin,b\nnoon,NaN\n" * 9)
    said = "'NaN': classes, but named like labels that are missing; of CSV and Parquet, --missing=NaN takes them so"
    assert told("evaluate", "e.csv")[2] == f"streamnb: {said}\n"
    assert told("evaluate", "e.csv", "--missing", "NaN")[2] == ""


def test_what_is_odd_behind_the_first_events_is_said_too():
    rows = [
        "id,label,x\n",
        *(f"{n},{'ab'[n % 2]},{'NaN' if n > 2000 and n % 3 else n % 50}\n" for n in range(9000)),
    ]
    fields = DataQuality(PLAIN, CELLS)
    for _ in fields.watched(enumerate(rows_to_events(rows, CsvColumns()))):
        pass
    assert fields.n < 1100
    (said,) = fields.news(is_over=True)
    assert (
        said
        == "$.features.x: numbers, but for NaN, each taken for one value: --missing=NaN takes them as missing"
    )


REFUSED = [
    ("evaluate e.jsonl --decimal ,", "--decimal: e.jsonl has no cells, but is read as JSON lines"),
    ("evaluate e.jsonl --quote '", "--quote: e.jsonl has no cells"),
    ("evaluate e.csv --quote ' --no-quoting", "--quote ' and --no-quoting contradict each other"),
    ("evaluate e.csv --quote | --delimiter |", "--quote | and --delimiter contradict each other"),
    ("evaluate e.csv --quote ab", "expected one character that is in no word"),
    ("evaluate e.jsonl --no-quoting", "--no-quoting: e.jsonl has no cells"),
    ("evaluate e.parquet --thousands ,", "--thousands: e.parquet has no cells of text, but is Parquet"),
    ("evaluate e.parquet --encoding cp1252", "--encoding: e.parquet has no cells of text"),
    ("evaluate e.csv --decimal , --thousands ,", "--decimal and --thousands are both ','"),
    ("evaluate e.csv --decimal 5", "expected one character that is in no number"),
    ("evaluate e.csv --encoding utf-88", "expected an encoding that Python knows, such as cp1252"),
    ("evaluate e.csv --encoding base64", "expected an encoding that Python knows"),
    ("evaluate array.json", "array.json: read with JSON that is not one object a line"),
]


@pytest.mark.parametrize(("command", "expected"), REFUSED)
def test_options_that_say_nothing_of_a_file_are_refused(told, tmp_path, capsys, command, expected):
    (tmp_path / "e.csv").write_text("label,text\na,x\n")
    (tmp_path / "e.jsonl").write_text('{"id": "1", "label": "a"}\n')
    (tmp_path / "array.json").write_text('[{"id": "1", "label": "a"}]\n')
    (tmp_path / "e.parquet").write_bytes(b"")
    try:
        code, _, err = told(*command.split())
    except SystemExit as ended:  # of argparse
        code, err = ended.code, capsys.readouterr().err
    assert code in {1, 2}
    assert expected in err


def test_standard_input_that_is_closed_is_an_error(told, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert told("evaluate", "-")[::2] == (1, "streamnb: -: standard input is closed\n")


SENTINELS = {
    "-999": ("-999", [n % 30 for n in range(90)]),
    "-999.00": ("-999", [n % 30 + 0.25 for n in range(90)]),
    "9999": ("9999", [n % 30 for n in range(90)]),
    "99": ("99", [n % 20 for n in range(90)]),
    "-1e30": ("-1e+30", [n * 1.5 for n in range(90)]),
    "65535": ("65535", [n % 900 for n in range(90)]),
}


@pytest.mark.parametrize("cell", SENTINELS)
def test_a_number_that_stands_for_a_missing_one_is_named(cell):
    name, values = SENTINELS[cell]
    cells = [cell if n % 9 == 4 else value for n, value in enumerate(values)]
    told = odd(cells)
    remedy = f"--missing={name} takes them as missing"
    assert told == [
        f"$.features.x: 10 numbers far from all others, {name}, as is written for a missing value: {remedy}"
    ]
    values = [float(cell) if n % 9 == 4 else value for n, value in enumerate(values)]
    assert len(odd(values, LINES)) == 1
    assert "leave these out" in odd(values, LINES)[0]


@pytest.mark.parametrize(
    "values",
    [
        [n % 120 for n in range(240)],  # 99 is one of them
        [-999 if n == 7 else n % 30 for n in range(90)],  # once
        [-9 if n % 5 == 0 else n for n in range(90)],  # near the others
        [999 if n % 2 else 0 for n in range(90)],  # a code
        [2 ** (n % 20) if n % 9 else 99_999 for n in range(180)],  # among them
    ],
)
def test_a_number_that_may_be_one_is_not_taken_for_a_missing_one(values):
    assert not [text for text in odd(values) if "far from all others" in text]


def test_whole_numbers_that_look_like_ids_are_named():
    draw = random.Random(4)
    for cells, n in (
        ([draw.randrange(10**9, 10**10) for _ in range(60)], 1),
        ([draw.randrange(10**10) for _ in range(60)], 0),  # of several lengths, as amounts have
        ([draw.randrange(10**6, 10**7) for _ in range(60)], 0),
        ([10**9 + draw.randrange(9) for _ in range(60)], 0),  # codes
    ):
        assert sum("as ids have" in text for text in odd(cells)) == n


def test_numbers_in_two_notations_have_no_option():
    lines = ["id;label;x\n", *(f"{n};{'ab'[n % 2]};{n % 9}{',.'[n % 2]}5\n" for n in range(60))]
    fields = DataQuality(PLAIN, InputOrigin("e.csv", is_table=True, has_cells=True, decimal=","))
    for raw in rows_to_events(lines, CsvColumns()):
        fields.look(raw)
    (text,) = fields.news(is_over=True)
    assert "others have ',' as decimal separator; write all in one notation" in text
    assert "--decimal" not in text


def test_a_whole_number_that_is_missing_is_missing_with_zeros_behind_it():
    missing = ("", *missing_cells("-999,NA"))
    lines = ["id,x\n", "1,-999\n", "2,-999.00\n", "3,NA\n", "4,-999.5\n", '5,"-999,0"\n']
    events = [json.loads(raw) for raw in rows_to_events(lines, CsvColumns(missing=missing, decimal="."))]
    assert [event.get("features", {}).get("x") for event in events] == [None, None, None, -999.5, None]


def test_missing_cells_of_a_repeated_option_add_up(told, tmp_path):
    cells = [*range(40), "none given", "ask"]
    (tmp_path / "e.csv").write_text(
        "x,label\n" + "".join(f"{cell},{'ab'[n % 2]}\n" for n, cell in enumerate(cells))
    )
    given = ["--missing", "ask", "--missing=none given"]
    assert told("evaluate", "e.csv", "--json", *given)[::2] == (0, "")
    assert "none given" in told("evaluate", "e.csv", "--json", *given[:2])[2]


@pytest.mark.parametrize("cell", ["9" * 200_000, "9" * 200_000 + "x", "1" + "," * 100_000, "." * 100_000])
def test_a_long_cell_takes_linear_time(cell):
    """Patterns that take quadratic time would need minutes."""
    lines = ["id,x,label\n", *(f"{n},{cell if n == 3 else n},a\n" for n in range(9))]
    assert len([*rows_to_events(lines, CsvColumns())]) == 9
