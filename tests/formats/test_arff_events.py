"""ARFF: what other programs write and read has the same rows, labels and values here."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import arff

from streamnb.errors import LogError
from tests.support.read_events import read

WEKA = Path(os.environ.get("WEKA_EXAMPLES", "/usr/share/doc/weka/examples"))  # the Debian package weka


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("arff") / "e.arff"


def rows_of(place, text, notes=None, **columns):
    place.write_text(text, encoding="utf-8")
    return read(place, notes, **columns)


def quoted(text):
    escapes = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "%": "\\%"}
    return "'" + "".join(escapes.get(character, character) for character in text) + "'"


names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=9
)
values = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=9)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw):
    """Return (attributes, rows): a kind or the list of its values by name, and cells."""
    kinds = st.one_of(
        st.just("numeric"), st.just("string"), st.lists(values, min_size=1, max_size=5, unique=True)
    )
    reserved = {"id", "label", "text", "ts", "class"}
    keys = draw(
        st.lists(
            names.map(str.strip).filter(lambda name: name and name.lower() not in reserved),
            min_size=1, max_size=6, unique=True,
        )
    )  # fmt: skip
    attributes = {key: draw(kinds) for key in keys} | {
        "label": draw(kinds.filter(lambda kind: type(kind) is list))
    }
    cell = {"numeric": numbers, "string": values}
    one = st.fixed_dictionaries(
        {k: st.none() | (st.sampled_from(a) if type(a) is list else cell[a]) for k, a in attributes.items()}
    )
    return attributes, draw(st.lists(one, max_size=8))


def written(attributes, rows, *, is_sparse):
    out = ["% a comment", "@RELATION 'a b'", ""]
    for name, kind in attributes.items():
        shown = f"{{{', '.join(map(quoted, kind))}}}" if type(kind) is list else kind
        out.append(f"@Attribute {quoted(name)} {shown}")
    out.append("@DATA")
    for row in ({name: row[name] for name in attributes} for row in rows):
        cells = ["?" if v is None else quoted(v) if type(v) is str else repr(v) for v in row.values()]
        if is_sparse:
            defaults = [
                a[0] if type(a) is list else 0.0 if a == "numeric" else None for a in attributes.values()
            ]
            kept = [
                f"{n} {cell}"
                for n, (cell, value, default) in enumerate(zip(cells, row.values(), defaults, strict=True))
                if value != default or (value is None and default is not None)
            ]
            out.append(f"{{{', '.join(kept)}}}")
        else:
            out.append(",".join(cells))
    return "\n".join(out) + "\n"


def expected(row):
    found = {"features": {k: v for k, v in row.items() if v is not None and k != "label"}}
    return found if row["label"] in {None, ""} else found | {"label": row["label"]}


@pytest.mark.parametrize("is_sparse", [False, True])
@given(table=tables())
def test_each_cell_is_read_as_it_was_written(place, table, is_sparse):
    attributes, rows = table
    events = rows_of(place, written(attributes, rows, is_sparse=is_sparse))
    assert len(events) == len(rows)
    for number, (event, row) in enumerate(zip(events, rows, strict=True)):
        assert event.pop("id") == str(number)
        assert {"features": {}} | event == expected(row)


plain = st.text("abcXYZ019_.-", min_size=1, max_size=6)


@given(data=st.data())
def test_scipy_reads_the_same_rows(place, data):
    nominal = st.lists(plain, min_size=1, max_size=4, unique=True)
    kinds = data.draw(st.lists(st.just("real") | nominal, min_size=1, max_size=5))
    kinds.append(data.draw(nominal))
    attributes = {f"a{n}": kind for n, kind in enumerate(kinds)}
    row = st.tuples(*(numbers | st.none() if kind == "real" else st.sampled_from(kind) for kind in kinds))
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    head = [f"@attribute {k} {v if v == 'real' else '{' + ','.join(v) + '}'}" for k, v in attributes.items()]
    body = [",".join("?" if cell is None else str(cell) for cell in row) for row in rows]
    text = "\n".join(["@relation r", *head, "@data", *body]) + "\n"
    events = rows_of(place, text)
    found, _ = arff.loadarff(io.StringIO(text))
    assert len(found) == len(events) == len(rows)
    last = f"a{len(kinds) - 1}"
    for theirs, ours in zip(found, events, strict=True):
        cells = {
            k: v.decode() if isinstance(v, bytes) else float(v)
            for k, v in zip(attributes, theirs, strict=True)
        }
        cells = {k: v for k, v in cells.items() if not (type(v) is float and math.isnan(v))}
        assert cells.pop(last) == ours["label"]
        assert cells == ours["features"]


HEAD = "@relation r\n@attribute x numeric\n@attribute day date 'yyyy-MM-dd HH:mm'\n@attribute play {no, 'y s'}\n@data\n"


@pytest.mark.parametrize(
    ("row", "features", "label"),
    [
        ("1,?,no", {"x": 1}, "no"),
        (" 1 ,\t'2026-01-02 03:04', 'y s'", {"x": 1, "day": "2026-01-02T03:04:00+00:00"}, "y s"),
        ("1 ? no", {"x": 1}, "no"),
        ("1\t?\t'y s'", {"x": 1}, "y s"),
        ("1,?,no % remark", {"x": 1}, "no"),
        ("NaN,?,?", {}, None),
        (",?,no", {}, "no"),
        ("1e2,?,no,{3}", {"x": 100}, "no"),
        ("{0 5}", {"x": 5, "day": "1970-01-01T00:00:00+00:00"}, "no"),
        ("{ 1 ?, 2 'y s' } , {2}", {"x": 0}, "y s"),
        ("{}", {"x": 0, "day": "1970-01-01T00:00:00+00:00"}, "no"),
    ],
)
def test_notations_of_a_row(place, row, features, label):
    (event,) = rows_of(place, HEAD + row)
    assert event.get("features", {}) == features
    assert event.get("label") == label


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("1,?", "2 values, the header has 3"),
        ("1,?,no,no", "4 values"),
        ("1,?,maybe", "attribute 'play': 'maybe' is not a declared value"),
        ("a,?,no", "attribute 'x': 'a' is not a finite number"),
        ("1_0,?,no", "is not a finite number"),
        ("1e999,?,no", "is not a finite number"),
        ("1,noon,no", "is not a date of the pattern yyyy-MM-dd HH:mm"),
        ("1,'2026,no", "a quote is not closed"),
        ("{3 1}", "index '3', expected an index below 3"),
        ("{0 1, 0 2}", "index '0'"),
        ("{0 1", "the brace of a sparse row is not closed"),
        ("{0 1} 2", "stands after the sparse row"),
    ],
)
def test_a_row_that_the_header_excludes_is_a_dead_letter(place, row, why):
    first, second = rows_of(place, f"{HEAD}{row}\n2,?,no\n")
    assert why in first[0]["arff"]
    assert first[1] == row
    assert second["label"] == "no"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@relation r\n@attribute x numeric\n", "no line @data"),
        ("@relation r\nx,y\n1,2\n", "line 2 is not a declaration"),
        ("@relation r\n@attribute b relational\n@data\n", "attribute 'b' is relational"),
        ("@relation r\n@attribute b blob\n@data\n", "attribute 'b' is blob; expected numeric"),
        ("@relation r\n@attribute b {a, b\n@data\n", "are not a list in braces"),
        ("@relation r\n@attribute b {}\n@data\n", "are not a list in braces"),
        ("@relation r\n@attribute d date 'MM-MM'\n@data\n", "the date pattern of 'd' has a field twice"),
        ("@relation r\n@attribute d date 'yyyy-ww'\n@data\n", "the date pattern of 'd' has 'ww'"),
    ],
)
def test_a_header_that_is_not_arff_is_refused(place, text, why):
    with pytest.raises(LogError) as caught:
        rows_of(place, text)
    assert why in str(caught.value)


def test_the_label_and_weights_are_noted_once(place):
    notes = []
    events = rows_of(place, HEAD + "1,?,no,{0.5}\n2,?,no,{0.5}\n", notes)
    assert [event["label"] for event in events] == ["no", "no"]
    assert [note.event for note in notes] == ["label-chosen", "weights-not-read"]
    assert "the label is the attribute 'play'; --label-column NAME selects another" in notes[0]
    notes.clear()
    text = HEAD.replace("play", "Class").replace("day date 'yyyy-MM-dd HH:mm'", "day {0,1}") + "1,1,no\n"
    (event,) = rows_of(place, text, notes)
    assert (event["label"], event["features"]) == ("no", {"x": 1, "day": "1"})
    assert notes[1].fields["attributes"] == {"x": ("continuous", ()), "day": ("nominal", ("0", "1"))}
    (event,) = rows_of(place, text, label="day")
    assert (event["label"], event["features"]) == ("1", {"x": 1, "Class": "no"})
    (event,) = rows_of(place, text, finds_label=False)
    assert event["features"]["Class"] == "no"


def test_content_is_recognised_without_a_name(tmp_path):
    path = tmp_path / "data"
    path.write_text("% of a study\n\n" + HEAD + "1,?,no\n")
    assert read(path)[0]["label"] == "no"


@pytest.mark.skipif(not WEKA.is_dir(), reason="needs Weka's example files, the Debian package weka")
@pytest.mark.parametrize("path", sorted(WEKA.glob("*.arff")), ids=lambda path: path.stem)
def test_files_of_weka_have_no_faulty_row(path):
    events = read(path)
    assert len(events) > 10
    assert all(type(event) is dict for event in events)
    assert not any(math.isnan(v) for e in events for v in e.get("features", {}).values() if type(v) is float)


def test_a_quoted_question_mark_is_a_value(place):
    head = "@relation r\n@attribute x {'?', a}\n@attribute label {p}\n@data\n"
    events = rows_of(place, head + "'?',p\n?,p\n{0 '?'}\n{0 ?}\n")
    assert [event.get("features", {}).get("x") for event in events] == ["?", None, "?", None]
