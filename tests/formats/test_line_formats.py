"""svmlight, Vowpal Wabbit and fastText: what other programs write or read has the same values here."""

from __future__ import annotations

import ast
import io
import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_files import open_counted
from streamnb.values.json_conversion import name_text


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("lines")


def rows_of(path, content, notes=None, **columns):
    path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogateescape"))
    note = (lambda _: None) if notes is None else notes.append
    with open_counted(path, CsvColumns(**columns), note) as events:
        return [json.loads(raw) for raw in events]


numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
labels = st.integers(-3, 9).map(float) | st.floats(-1e6, 1e6, width=32)


@given(
    rows=st.lists(
        st.tuples(labels, st.dictionaries(st.integers(0, 40), numbers, max_size=6), st.integers(0, 5))
    ),
    is_zero_based=st.booleans(),
    has_queries=st.booleans(),
    comment=st.none() | st.text("ab \n", max_size=9),
)
def test_what_scikit_learn_writes_is_read_alike(place, rows, is_zero_based, has_queries, comment):
    x = np.zeros((len(rows), 41))
    for n, (_, cells, _) in enumerate(rows):
        for index, value in cells.items():
            x[n, index] = value
    y = [label for label, _, _ in rows]
    queries = [query for _, _, query in rows] if has_queries else None
    out = io.BytesIO()
    if not rows:
        return
    dump_svmlight_file(x, y, out, zero_based=is_zero_based, comment=comment, query_id=queries)
    matrix, targets, *ids = load_svmlight_file(
        io.BytesIO(out.getvalue()), n_features=42, zero_based=True, query_id=has_queries
    )
    events = rows_of(place / "e.svm", out.getvalue())
    assert len(events) == len(rows)
    for n, event in enumerate(events):
        found = dict(zip(*(part.tolist() for part in (matrix[n].indices, matrix[n].data)), strict=True))
        assert {int(k): v for k, v in event["features"].items()} == found
        assert event["label"] == name_text(float(targets[n]))
        assert event.get("qid") == (str(ids[0][n]) if has_queries else None)


tokens = st.sampled_from(["1", "+1", "-1", "0", "01", "1.0", ".5", "1.", "1e2", "-0", "3:1", "0:2", "01:2", "3:.5",
    "3:+1", "4:1e-3", "5:nan", "x:1", "2:1_0", "2:", ":1", "1,2", "qid:7", "#", "3:1:2", "9:1e999", "\t", "spam"])  # fmt: skip


@given(line=st.lists(tokens, min_size=1, max_size=5).map(" ".join), blanks=st.sampled_from([" ", "  ", "\t"]))
@example(line="1 3:1 4:1e-3", blanks="\t")
def test_a_line_is_read_as_scikit_learn_does_or_not_at_all(place, line, blanks):
    text = line.replace(" ", blanks)
    events = rows_of(place / "odd.svm", text + "\n")
    try:
        matrix, (target,), queries = load_svmlight_file(
            io.BytesIO(text.encode() + b"\n"), n_features=100, zero_based=True, query_id=True
        )
    except (ValueError, OverflowError):
        return  # scikit-learn refuses more: names of classes, lines without a label, unsorted indices
    found = matrix.tocoo()
    pairs = dict(zip(found.col.tolist(), found.data.tolist(), strict=True))
    pairs = {k: v for k, v in pairs.items() if not math.isnan(v)}
    if type(events[0]) is list:
        assert any(math.isinf(v) for v in pairs.values()) or "_" in line or ",2" in line
        return
    assert {int(k): v for k, v in events[0]["features"].items()} == pairs
    assert events[0].get("label") == name_text(float(target))
    assert events[0].get("qid") == (str(queries[0]) if "qid" in line else None)


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("1 3:0.5 7:2", {"features": {"3": 0.5, "7": 2}, "label": "1"}),
        ("+1 7:2 3:.5 # id 7", {"features": {"3": 0.5, "7": 2}, "label": "1"}),
        ("spam 3:1", {"features": {"3": 1}, "label": "spam"}),
        ("1\t3:0.5\t 7:2", {"features": {"3": 0.5, "7": 2}, "label": "1"}),
        ("spam\t3:0.5", {"features": {"3": 0.5}, "label": "spam"}),
        ("3:1", {"features": {"3": 1}}),
        ("-1", {"features": {}, "label": "-1"}),
        ("2 qid:4 1:1", {"features": {"1": 1}, "label": "2", "qid": "4"}),
        ("2 1:nan 2:1", {"features": {"2": 1}, "label": "2"}),
    ],
)
def test_notations_of_svmlight(place, line, event):
    assert rows_of(place / "e.libsvm", line) == [{"id": "0"} | event]


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        (["1:0.5 1:2", "0:2 3:1"], [("1", 0.5), ("0", 2)]),
        (["1:0.5\t3:2", "4:2  3:1"], [("1", 0.5), ("4", 2)]),
        (["+1:2 qid:4 3:2", "-1:0 3:1"], [("1", 2), ("-1", 0)]),
        (["1 3:2", "-1:0.5 3:1", "2:1 3:1"], [("1", None), ("-1", 0.5), (None, None)]),
    ],
)
def test_labels_with_weights_of_xgboost(place, lines, events):
    notes = []
    found = rows_of(place / "w.svm", "\n".join(lines), notes, has_weights=True)
    assert [(event.get("label"), event.get("weight")) for event in found] == events
    found = rows_of(place / "w.svm", "\n".join(lines), notes)
    assert [event.get("label") for event in found] == [label for label, _ in events]
    assert notes[-1].event == "weights-not-read"


def test_pairs_that_may_be_labels_with_weights_are_noted(place):
    notes = []
    (event,) = rows_of(place / "w.svm", "1:0.5 3:2\n", notes)
    assert event == {"id": "0", "features": {"1": 0.5, "3": 2}}
    assert "--set events.weight=$.weight reads the first field as LABEL:WEIGHT" in str(notes[0])
    (event,) = rows_of(place / "w.svm", "1:0.5 3:2\n", notes, has_weights=True)
    assert event == {"id": "0", "features": {"3": 2}, "label": "1", "weight": 0.5}


@pytest.mark.parametrize(
    ("name", "line", "why"),
    [
        ("svm", "1,2 3:1", "'1,2' is several labels"),
        ("svm", "1 2 3:1", "'2' is a second label"),
        ("svm", "1 3:1 3:2", "index 3 occurs twice"),
        ("svm", "1 3:1 03:2", "index 3 occurs twice"),
        ("svm", "1 a:1", "'a:1' is not INDEX:VALUE"),
        ("svm", "spam:0.5 x:1", "'x:1' is not INDEX:VALUE"),
        ("svm", "1 3:x", "'x' is not a finite number"),
        ("svm", "1 3:1e999", "'1e999' is not a finite number"),
        ("vw", "1,2 | a", "'1,2' is several labels"),
        ("vw", "1:0.5 2:0 | a", "a label with costs or of an action"),
        ("vw", "0:1.5:0.3 | a", "a label with costs or of an action"),
        ("vw", "shared | a", "'shared' begins an example of several lines"),
        ("vw", "1 a b", "no bar"),
        ("vw", "1 x | a", "'x' is not a finite number"),
        ("vw", "1 1 1 1 | a", "4 fields before the bar"),
        ("vw", "1 | a:x", "'x' is not a finite number"),
        ("vw", "1 | a:nan", "'nan' is not a finite number"),
        ("vw", "1 | :2", "':2' is a feature without a name"),
        ("vw", "1 | b:1 |b w", "'b' is a number and a namespace of words"),
        ("ft", "__label__a __label__b text", "several labels"),
        ("ft", "__label__a text __label__b", "several labels"),
        ("ft", "__label__ text", "the label has no name"),
    ],
)
def test_a_line_of_another_kind_is_a_dead_letter(place, name, line, why):
    first, second = rows_of(
        place / f"e.{name}", line + "\n" + {"svm": "1 1:1", "vw": "1 | a", "ft": "a"}[name]
    )
    assert why in next(iter(first[0].values()))
    assert first[1] == line
    assert second["id"] == "1"


def test_three_labels_with_zero_are_noted(place):
    notes = []
    rows_of(place / "e.svm", "1 1:1\n-1 1:1\n" * 2, notes)
    assert notes == []
    rows_of(place / "e.svm", "1 1:1\n-1 1:1\n0 1:1\n+0 1:1\n", notes)
    assert [note.event for note in notes] == ["label-zero"]


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("1 | a b a", {"id": "0", "text": "a b a", "label": "1"}),
        ("1 2.0 'm-7|n a:1 b:.5 |text x y", {"id": "m-7", "features": {"n^a": 1, "n^b": 0.5}, "text": "x y", "label": "1"}),
        ("spam 'm-7 |text x", {"id": "m-7", "text": "x", "label": "spam"}),
        ("1 m-7| x", {"id": "m-7", "text": "x", "label": "1"}),
        ("|n:2 a b:3", {"id": "0", "features": {"n^a": 2, "n^b": 6}}),
        ("-1 1 0.5 | a:1 a:2", {"id": "0", "features": {"a": 3}, "label": "-1"}),
        ("1 |title w1 w2 |body w3", {"id": "0", "features": {"title": "w1 w2", "body": "w3"}, "label": "1"}),
        ("1 |a|b x", {"id": "0", "features": {"b": "x"}, "label": "1"}),
        ("1 | ", {"id": "0", "features": {}, "label": "1"}),
        ("+1.0 | x", {"id": "0", "text": "x", "label": "1"}),
    ],
)  # fmt: skip
def test_notations_of_vowpal_wabbit(place, line, event):
    assert rows_of(place / "e.vw", "\n" + line + "\r\n\n") == [event]


def test_words_of_a_namespace_are_noted_or_the_text(place):
    notes = []
    line = "1 2 |title w1 w2 |text w3\n"
    rows_of(place / "e.vw", line * 2, notes)
    assert [note.event for note in notes] == ["weights-not-read", "text-as-value"]
    assert "--text-column title reads them as the text" in notes[1]
    notes.clear()
    (event,) = rows_of(place / "e.vw", line.replace(" 2", "").replace("w3", "w:1"), notes, text="title")
    assert (event["text"], event["features"], notes) == ("w1 w1 w2"[3:], {"text^w": 1}, [])
    rows_of(place / "e.vw", "1 |title w1 w2\n", notes, strings=frozenset({"title"}))
    assert notes == []


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"], exclude_characters="|:'^"), min_size=1, max_size=5)  # fmt: skip


@st.composite
def examples(draw):
    """Return a line of Vowpal Wabbit."""
    head = draw(st.sampled_from(["", "1 ", "-1 ", "1 0.5 ", "2 1 0.25 ", "1 'tag"]))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.just("") | names)
        scale = draw(st.just("") | st.sampled_from([":2", ":0.5"])) if name else ""
        features = draw(st.lists(st.tuples(names, st.none() | st.floats(0.125, 1e3, width=16))))
        parts.append(f"|{name}{scale} " + " ".join(f if v is None else f"{f}:{v}" for f, v in features))
    return head + draw(st.sampled_from([" ", ""])) + " ".join(parts)


@pytest.fixture(scope="module")
def vowpal():
    return pytest.importorskip("vowpalwabbit").Workspace("--quiet --noconstant --hash all -b 24")


@pytest.mark.thorough
@given(line=examples())
def test_vowpal_wabbit_reads_the_same_features(place, vowpal, line):
    example = vowpal.example(line)
    theirs, ours = Counter(), Counter()
    for index, value in example.iter_features():
        theirs[index] += value
    vowpal.finish_example(example)
    (event,) = rows_of(place / "p.vw", line + "\n")
    if type(event) is list:  # a feature and a namespace of words have one name
        name = ast.literal_eval(event[0]["vw"].removesuffix(" is a number and a namespace of words"))
        assert f"|{name}" in line
        assert f" {name}:" in line
        return

    def add(namespace, feature, value):
        space = vowpal.hash_space(namespace) if namespace else 0
        ours[vowpal.hash_feature(feature, space)] += value

    for name, value in event.get("features", {}).items():
        if type(value) is str:
            for word in value.split(" "):
                add(name, word, 1.0)
        else:
            namespace, _, feature = name.rpartition("^")
            add(namespace, feature, value)
    for word in event["text"].split(" ") if "text" in event else ():
        add("", word, 1.0)
    assert ours == pytest.approx(theirs, rel=1e-4)


@given(
    place_of_label=st.sampled_from(["{0} {1}", "{1} {0}", "{1}\t{0} ", "{0}\t{1}"]),
    rows=st.lists(
        st.tuples(
            st.none()
            | st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=5),
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=9)
            .map(lambda text: text.strip(" "))
            .filter(lambda text: "__label__" not in text and text),
        )
    ),
)
def test_fasttext_is_read_as_it_is_written(place, place_of_label, rows):
    content = "".join(
        (place_of_label.format(f"__label__{label}", text) if label else text) + "\n" for label, text in rows
    )
    events = rows_of(place / "e.ft", content)
    assert [(event.get("label"), event["text"]) for event in events] == rows


def test_a_label_of_fasttext_may_stand_between_words_but_not_in_one(place):
    events = rows_of(place / "e.ft", "see __label__b you\na x__label__b __label__c\nx__label__b\n")
    assert [(event.get("label"), event["text"]) for event in events] == [
        ("b", "see you"),
        ("c", "a x__label__b"),
        (None, "x__label__b"),
    ]


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("1 3:0.5 7:2\n", "1"),
        ("# made by a program\n-1 qid:3 1:2\n", "-1"),
        ("__label__spam free entry\n", "spam"),
        ("1 |text free entry\n", "1"),
        ("spam 1.5 'a|n x:1\n", "spam"),
    ],
)
def test_content_is_recognised_without_a_name(place, content, label):
    assert rows_of(place / "data", content)[0]["label"] == label


@pytest.mark.parametrize(
    ("name", "line"),
    [("svm", "1 1:2"), ("vw", "1 |x a:2"), ("ft", "__label__1 a b"), ("jsonl", '{"id":"a","label":1}')],
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_with_byte_order_marks_can_be_joined(place, name, line, encoding):
    n = 9_000  # more than one block
    events = rows_of(place / f"e.{name}", (line + "\n").encode(encoding) * n)
    assert len(events) == n
    assert {json.dumps(event | {"id": ""}) for event in events} == {json.dumps(events[0] | {"id": ""})}
    assert str(events[0]["label"]) == "1"


def test_a_header_behind_a_byte_order_mark_is_repeated(place):
    notes, table = [], "x,label\n1,a\n2,b\n".encode("utf-8-sig")
    events = rows_of(place / "e.csv", table * 2, notes)
    assert [event["label"] for event in events] == ["a", "b", "a", "b"]
    assert [note.event for note in notes] == ["header-repeated"]
