"""Tables as programs and people write them: each is read as it was written, and what was sniffed is said."""

from __future__ import annotations

import csv
import io
import json
import random

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import ConfigError
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_csv import TableEvents
from streamnb.formats.event_files import open_counted, read_events
from streamnb.formats.table_dialect import DELIMITERS, GivenDialect, sniff_dialect
from tests.support.every_case import failures

WORDS = ["free cash", "at noon", "win, now", "see; you", "a|b", "it's", 'say "x"', "tab\there", "caf\u00e9", "two\nlines"]  # fmt: skip


def sniffed(text, **columns):
    """The events of a table, and the message of what was sniffed."""
    notes = []
    table = TableEvents(io.StringIO(text, newline=""), CsvColumns(**columns), notes.append)
    events = [json.loads(raw) for raw in table]
    return events, [note for note in notes if note.event == "reading-sniffed"], table.columns


def rows_of(seed, n=60):
    draw = random.Random(seed)
    return [
        {"id": f"e{i}", "label": draw.choice("ab"), "text": draw.choice(WORDS), "n": draw.randrange(1000), "x": draw.uniform(-9, 99)}
        for i in range(n)
    ]  # fmt: skip


def expected(rows):
    return [
        {"id": row["id"], "label": row["label"], "text": row["text"], "features": {"n": row["n"], "x": row["x"]}}
        for row in rows
    ]  # fmt: skip


def written(rows, decimal=".", **form):
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), **form)
    writer.writeheader()
    for row in rows:
        writer.writerow({**row, "x": repr(row["x"]).replace(".", decimal)})
    return out.getvalue()


DIALECTS = [
    {"delimiter": delimiter, "quoting": quoting, "quotechar": quote, "lineterminator": end}
    for delimiter in DELIMITERS
    for quote in "\"'"
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)
    for end in ("\r\n", "\n")
    if quote == '"' or quoting != csv.QUOTE_MINIMAL  # rarely quoted cells say nothing
]


@pytest.mark.parametrize("decimal", [".", ","])
def test_what_the_csv_module_wrote_in_any_dialect_is_read(decimal):
    def is_read(form):
        rows = rows_of(repr(form))
        events, _, columns = sniffed(written(rows, decimal, **form))
        assert (columns.delimiter, columns.decimal) == (form["delimiter"], decimal)
        assert events == expected(rows)

    assert failures(is_read, DIALECTS) == {}


@given(st.data())
def test_what_pandas_wrote_in_any_dialect_is_read(data):
    rows = rows_of(data.draw(st.integers(0, 10**6)))
    form = {
        "sep": data.draw(st.sampled_from(DELIMITERS)),
        "decimal": data.draw(st.sampled_from(".,")),
        "index": data.draw(st.booleans()),
        "na_rep": data.draw(st.sampled_from(["", "NA", "NaN", "?"])),
        "quoting": data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
    }
    frame = pd.DataFrame(rows)
    frame.loc[::7, "x"] = None
    encoding = data.draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]))
    text = frame.to_csv(**form)
    events, _, _ = sniffed(text)
    told = expected(rows)
    for event in told[::7]:
        del event["features"]["x"]
    assert events == told, (form, encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])  # fmt: skip
@pytest.mark.parametrize("name", ["e.csv", "e.dat"])
def test_a_table_is_read_in_its_encoding(tmp_path, encoding, name):
    rows = [{"id": f"e{i}", "label": "ab"[i % 2], "text": "caf\u00e9 gr\u00fcn"} for i in range(40)]
    path = tmp_path / name
    path.write_bytes(written([row | {"n": 1, "x": 0.5} for row in rows]).encode(encoding))
    assert [json.loads(raw)["text"] for raw in read_events(path)] == ["caf\u00e9 gr\u00fcn"] * 40


@pytest.mark.parametrize(
    "text", ["\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "\u65e5\u672c\u8a9e"]
)
def test_a_text_of_another_script_is_not_guessed(tmp_path, text):
    path = tmp_path / "e.csv"
    encoding = "cp1251" if text[0] == "\u043f" else "shift-jis"
    path.write_bytes(("id,text\n" + f"1,{text}\n" * 30).encode(encoding))
    notes = []
    with open_counted(path, note=notes.append) as events:
        assert all(b"\xff" in raw or not raw.isascii() for raw in events)
    assert [note.event for note in notes] == ["encoding-wrong"]


def test_one_damaged_byte_in_utf_8_makes_no_other_encoding(tmp_path):
    path = tmp_path / "e.csv"
    path.write_bytes("id,text\n1,caf\u00e9\n2,gr\u00fcn\n".encode() + b"3,caf\xe9\n")
    assert [json.loads(raw.decode(errors="replace"))["text"] for raw in read_events(path)][:2] == [
        "caf\u00e9",
        "gr\u00fcn",
    ]


HEADERS = [
    ("5.1,3.5,setosa\n4.9,3.0,setosa\n6.2,2.9,virginica\n", False),
    ("p,x,s,n\ne,x,s,y\np,x,y,w\n", False),
    ("ham\tgo until jurong\nham\tok lar\nspam\tfree entry\n", False),
    ("a,b,setosa\n4.9,3.0,setosa\n", True),
    ("country,2019,label\nDE,4,a\nFR,5,b\n", True),
    ("name,city\nann,rome\nbob,oslo\n", True),
    ("name,class\nann,class\nbob,y\n", False),
    ("a,b\n", True),
    ("id,2019,2020\nx,1,2\ny,3,4\n", True),
]


@pytest.mark.parametrize(("text", "has_header"), HEADERS)
def test_the_first_line_is_a_header_unless_it_looks_like_the_others(text, has_header):
    events, said, columns = sniffed(text)
    assert columns.has_header == has_header
    n = len(text.splitlines())
    assert len(events) == n - has_header
    assert ("no header, but columns c1 to c" in "".join(said)) == (not has_header)
    assert len(sniffed(text, has_header=True)[0]) == n - 1
    plain, _, _ = sniffed(text, has_header=False)
    assert len(plain) == n
    assert set(plain[0]["features"]) == {f"c{i + 1}" for i in range(len(plain[0]["features"]))}


ABOVE = [
    ("", 0),
    ("# made in May\n", 1),
    ("# made in May; by a sensor\n% and more\n", 2),
    ("Report of May\n\n", 1),
    ("Report;;;\n;;;\n", 2),
    ("sep=;\n", 0),
]


@pytest.mark.parametrize(("above", "n"), ABOVE)
def test_lines_above_the_table_are_skipped_and_counted(above, n):
    table = "id;label;n;x\n" + "".join(f"e{i};{'ab'[i % 2]};{i};{i}.5\n" for i in range(9))
    events, said, columns = sniffed(above + table)
    assert [event["id"] for event in events] == [f"e{i}" for i in range(9)]
    assert (f"{n} line{'s' * (n > 1)} skipped above the table (--skip)" in "".join(said)) == (n > 0)
    assert sniffed(above + table, skipped=columns.skipped, delimiter=";")[0] == events


def test_a_title_above_names_alone_is_skipped():
    events, _, columns = sniffed("Report of May\nname;city\nann;rome\nbob;oslo\ncid;bonn\n")
    assert (columns.skipped, events[0]["features"]) == (1, {"name": "ann", "city": "rome"})
    assert sniffed("text\nDear, Bob\nHi, Al\n")[2].skipped == 0, "too few lines"


def test_a_comment_before_the_header_or_among_the_rows_is_none_of_them():
    text = "##made\n#id,label,x\n1,a,2\n# a note\n2,b,3\n"
    events, said, _ = sniffed(text)
    assert [(event["id"], event["features"]) for event in events] == [("1", {"x": 2}), ("2", {"x": 3})]
    assert "lines skipped that begin with # (--comment)" in said[0]
    assert len(sniffed("id,text\n#1,a\n2,b\n", comment="#")[0]) == 1
    assert len(sniffed("id,text\n#1,a\n2,b\n")[0]) == 2, "a row that fits is a row"


def test_columns_in_line_are_read():
    lines = [
        "id    label     x   y",
        "e1    a       1.5   2",
        "e2    b      12.5  30",
        "e3    a       0.1   4",
    ]
    events, said, columns = sniffed("\n".join(lines) + "\n")
    assert events[1] == {"id": "e2", "label": "b", "features": {"x": 12.5, "y": 30}}
    assert (columns.delimiter, "delimiter blanks (--delimiter)" in said[0]) == (" ", True)
    assert "blanks" not in "".join(sniffed("text\nsee you\nat noon\nwin now free\n")[1])


def test_blanks_behind_each_delimiter_are_none_of_the_cells():
    events, said, columns = sniffed("39, State-gov, <=50K\n50, Self-emp, <=50K\n38, Private, >50K\n")
    assert events[0]["features"] == {"c1": 39, "c2": "State-gov", "c3": "<=50K"}
    assert (columns.delimiter, "delimiter ', ' (--delimiter)" in said[0]) == (", ", True)
    assert sniffed("id,x\n1, a\n", delimiter=",")[0][0]["features"] == {"x": " a"}
    assert sniffed("id,x\n1, a\n", delimiter=", ")[0][0]["features"] == {"x": "a"}


def test_two_delimiters_that_fit_equally_are_said():
    _, said, columns = sniffed("a,b;c\nx,y;z\np,q;r\n")
    assert (columns.delimiter, "delimiter ',', while ';' fits as well (--delimiter)" in said[0]) == (
        ",",
        True,
    )


def test_delimiters_inside_quotes_do_not_count():
    events, _, columns = sniffed("'id';'x,y,z'\n'1';'2,3,4'\n'5';'6,7,8'\n")
    assert (columns.delimiter, columns.quote) == (";", "'")
    assert events[0]["features"] == {"x,y,z": "2,3,4"}
    events, _, columns = sniffed('"id";"x,y,z"\n"1";"2,3,4"\n"5";"6,7,8"\n')
    assert (columns.delimiter, events[0]["features"]) == (";", {"x,y,z": "2,3,4"})


def test_a_plain_table_says_nothing():
    for text in ("", "id\n", "id,label,x\n1,a,2\n", 'id,"x"\n1,"a;b"\n2,c\n', "f\na\nb\n"):
        assert sniffed(text)[1] == []


@pytest.mark.parametrize("last", ["Summe;;74,5;", ";Total:;;", "grand total;1;2;"])
def test_a_row_of_totals_at_the_end_is_named(last):
    rows = "".join(f"k{n};{n};{n},5;{'ab'[n % 2]}\n" for n in range(20))
    for end, said in (
        (last, ["row 20, the last, looks like a row of totals, and is read as an event"]),
        ("k9;;;a", []),
    ):
        notes = []
        table = TableEvents(io.StringIO(f"name;n;x;label\n{rows}{end}\n"), CsvColumns(), notes.append)
        assert len([*table]) == 21
        assert [note for note in notes if note.event == "totals-row"] == said


def test_a_single_column_of_texts_is_no_table_of_words():
    events, notes, columns = sniffed("text\n" + "".join(f"hello {n}\n" for n in range(20)))
    assert ([event["text"] for event in events][:2], notes) == (["hello 0", "hello 1"], [])
    assert columns.has_header


def test_a_repeated_header_is_skipped_and_noted():
    notes = []
    lines = ["id,x\n", "1,2\n", "id,x\n", "3,4\n", "id,x\n"]
    events = [json.loads(raw) for raw in TableEvents(lines, CsvColumns(), notes.append)]
    assert [event["id"] for event in events] == ["1", "3"]
    assert [note.event for note in notes] == ["header-repeated"]
    events, _, columns = sniffed("name,city\nann,rome\nname,city\nbob,oslo\n")
    assert (columns.has_header, len(events)) == (True, 2), "no value of it occurs in another row"


@pytest.mark.parametrize("second", ["degC,,class", "degC,km/h,class", ",km/h,"])
def test_a_second_line_of_the_header_is_skipped_and_said(second):
    rows = "".join(f"{n}.5,{n},{'ab'[n % 2]}\n" for n in range(20))
    events, notes, _ = sniffed(f"t,v,label\n{second}\n{rows}")
    named = ", ".join(filter(None, second.split(",")))
    text = f"read with {named} skipped, a second line of the header (--header reads it as a row)"
    assert (len(events), notes) == (20, [text])
    assert {event["label"] for event in events} == {"a", "b"}
    events, notes, _ = sniffed(f"t,v,label\n{second}\n{rows}", has_header=True)
    assert (len(events), notes) == (21, [])


@pytest.mark.parametrize(
    "first",
    [
        "NA,1,a",  # a missing number
        "low,1,c",  # a word in one of two columns of numbers
        "low,fast,a",  # a label that occurs again
        "1,2,class",
    ],
)
def test_a_row_with_words_among_numbers_is_a_row(first):
    rows = "".join(f"{n}.5,{n},{'ab'[n % 2]}\n" for n in range(20))
    assert len(sniffed(f"t,v,label\n{first}\n{rows}")[0]) == 21


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 0.1"])
def test_the_index_of_a_frame_is_left_out_and_said(name):
    rows = "".join(f"{(7 * i) % 30},{'ab'[i % 2]},{i % 4}\n" for i in range(30))
    events, said, _ = sniffed(f"{name},label,x\n{rows}")
    assert all(set(event["features"]) == {"x"} for event in events)
    assert "left out, which numbers the rows (--id-column)" in said[0]
    assert sniffed(f"{name},label,x\n{rows}", id=name)[0][1]["id"] == "7"
    repeated = rows.replace("7,", "9,", 1)
    assert all(name in event["features"] for event in sniffed(f"{name},label,x\n{repeated}")[0])


def test_a_marker_below_the_rows_in_which_the_header_is_sniffed_is_missing():
    text = "id,x\n" + "".join(f"e{n},{'NA' if n == 400 else n + 0.5}\n" for n in range(500))
    events, notes, _ = sniffed(text)
    assert events[400]["features"] == {}
    assert "NA" in notes[0]


def test_a_marker_is_missing_only_among_numbers():
    rows = "".join(f"{i},{'none' if i % 3 else 'a'},{'none' if i % 5 == 0 else i}\n" for i in range(30))
    events, said, _ = sniffed("id,label,x\n" + rows)
    assert [event.get("label") for event in events][:3] == ["a", "none", "none"]
    assert [event["features"] for event in events][:2] == [{}, {"x": 1}]
    assert "none for missing numbers in x (--missing)" in said[0]
    assert sniffed("id,label,x\n" + rows, missing=("", "?"))[0][0]["features"] == {"x": "none"}


@given(st.text(alphabet=" ,;\t|\"'#%0123456789ab.\n\r\x00", max_size=300))
def test_any_text_has_a_dialect_by_which_it_can_be_read_again(text):
    lines = text.splitlines(keepends=True)
    dialect = sniff_dialect(lines, GivenDialect())
    assert dialect.skipped <= len(lines)
    again = GivenDialect(
        dialect.delimiter + " " * dialect.skips_blanks,
        dialect.quote,
        dialect.is_quoting,
        dialect.skipped,
        dialect.has_header,
        dialect.comment,
    )
    assert sniff_dialect(lines, again).form == dialect.form


def test_the_name_counts_before_content_that_only_may_be_of_another_format(tmp_path):
    for content in ("1 1:2 3:4\n-1 2:3 1:1\n", "__label__a,free\n__label__b,noon\n", "1 |a b c\n-1 |a d\n"):
        for name, expected in (("e.csv", "csv"), ("e.svm", "svmlight"), ("e.vw", "vw")):
            (tmp_path / name).write_text(content)
            with open_counted(tmp_path / name) as events:
                assert events.form.name == expected


def test_empty_columns_without_a_name_are_left_out():
    events, said, _ = sniffed("x,,label,,\n1,,a,,\n2,,b,,\n")
    assert [event["features"] for event in events] == [{"x": 1}, {"x": 2}]
    assert "3 empty columns without a name left out" in said[0]
    with pytest.raises(ConfigError, match="2 columns have no name, but cells: name each in the first line"):
        sniffed("x,,label,\n1,,a,\n2,7,b,\n")


def test_delimiters_at_the_end_of_rows_are_reported_with_the_command_that_removes_them():
    notes = []
    list(TableEvents(io.StringIO("x,label\n1,a,\n2,b,\n3,a,\n"), CsvColumns(), notes.append))
    assert any(one.endswith("have 3: remove the delimiter at the end of rows: sed 's/,$//'") for one in notes)
