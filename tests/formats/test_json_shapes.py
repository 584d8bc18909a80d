"""JSON as programs write it: lines, arrays and indented values, flat objects, with and without ids."""

from __future__ import annotations

import io
import json
import tracemalloc

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import LogError
from streamnb.formats import json_shapes
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_files import open_counted, read_events
from streamnb.formats.json_shapes import arrays_of, json_values, sniff_shape
from tests.support.every_case import failures

FLAT = CsvColumns(
    makes_ids=True, flat=frozenset({"id", "label", "text", "ts", "features"}), leaves_out_dates=True
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4), min_size=1, max_size=9)


def read(path, content, columns=FLAT):
    """The events of a file, parsed, and its notes."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    notes = []
    with open_counted(path, columns, notes.append) as events:
        return [json.loads(raw) for raw in events], notes


@given(OBJECTS, st.sampled_from([None, 0, 2, "\t"]), st.integers(1, 9))
def test_values_are_read_whatever_is_between_them_and_wherever_text_is_cut(values, indent, size):
    array = json.dumps(values, indent=indent, ensure_ascii=False)
    joined = " \n".join(json.dumps(value, indent=indent) for value in values)
    for text in (array, joined, f"{array}\n{joined}"):
        source = io.StringIO(text)
        found = [json.loads(one) for one in json_values(lambda _, source=source: source.read(size), 1 << 20)]
        assert found == values * (1 + (text not in {array, joined}))


@given(OBJECTS, st.sampled_from(["", " ", "\t "]))
def test_objects_that_follow_each_other_in_one_line_are_events(tmp_path_factory, values, between):
    values = [{"n": 1, "s": "}{"}, *values]
    path = tmp_path_factory.getbasetemp() / "joined.json"
    found, notes = read(path, between.join(map(json.dumps, values)), CsvColumns())
    assert found == values
    assert len(notes) == (len(values) > 1)


@pytest.mark.parametrize("line", ['{"id":"a","s":"}{"}', '{"a":1}x{"b":2}', '{"a":1}}{"b":2}', '}{"a":1}'])
def test_braces_in_a_line_that_is_not_several_objects_change_nothing(tmp_path, line):
    path = tmp_path / "e.jsonl"
    path.write_text(line + "\n" + '{"id":"b"}\n')
    assert list(read_events(path)) == [line.encode(), b'{"id":"b"}']


@given(OBJECTS.filter(lambda values: all("\0" not in json.dumps(value) for value in values)))
def test_an_array_in_a_file_is_its_values(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "array.json"
    path.write_text(json.dumps(values, indent=1))
    assert [json.loads(raw) for raw in read_events(path)] == values
    assert all(b"\n" not in raw for raw in read_events(path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[{"a": 1}', "the JSON array ends too early"),
        ('[{"a": 1} {"a": 2}]', "expected a comma or the end of the array, found '{'"),
        ('[{"a": 1},\n{"a": }]', "is not JSON"),
        ("[" + '{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_an_array_that_is_damaged_is_read_up_to_the_damage(tmp_path, text, told):
    path = tmp_path / "e.json"
    path.write_text(text)
    found = []
    with pytest.raises(LogError, match=r"e.json: .*at or above line") as caught:  # noqa: PT012
        for raw in read_events(path):
            found.append(raw)  # noqa: PERF402  what was read before the error counts
    assert (told in str(caught.value), len(found)) == (True, text.count("1"))


def test_a_long_array_takes_the_memory_of_one_value(tmp_path):
    path = tmp_path / "e.json"
    path.write_text(
        "[" + ",\n".join(json.dumps({"id": f"{i}", "text": "word " * 100}) for i in range(40_000)) + "]"
    )
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_events(path)) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_value_without_end_takes_bounded_memory():
    with pytest.raises(LogError, match="longer than 1000 characters"):
        list(json_values(lambda n: '["' + "x" * n, 1000))


@pytest.mark.parametrize("form", [{"orient": "records"}, {"orient": "records", "lines": True}])
def test_what_pandas_wrote_is_flat_and_gets_ids(tmp_path, form):
    frame = pd.DataFrame({"age": [5, 7, None], "sex": ["m", "f", "m"], "label": [1, 0, 1]})
    events, notes = read(tmp_path / "e.json", frame.to_json(**form))
    assert events[0] == {"id": "0", "label": 1, "features": {"age": 5.0, "sex": "m"}}
    assert events[2] == {"id": "2", "label": 1, "features": {"age": None, "sex": "m"}}
    assert "flat objects, whose fields are features" in notes[0]


SHAPES = {
    "nested": '{"id": "1", "user": {"age": 5}, "label": "a"}',
    "with a text": '{"id": "1", "text": "a", "n": 3}',
    "with features": '{"id": "1", "features": {"n": 3}, "m": 3}',
    "a label": '{"id": "1", "label": "a", "source": "x", "weight": 0.5}',
    "null alone": '{"id": "1", "n": null}',
    "no object": "17",
}


def test_what_is_not_flat_stays_as_it_is(tmp_path):
    def stays(name):
        assert read(tmp_path / "e.jsonl", SHAPES[name] + "\n") == ([json.loads(SHAPES[name])], [])

    assert failures(stays, SHAPES) == {}


def test_lists_and_objects_of_flat_events_are_left_out_and_named(tmp_path):
    rows = [{"id": f"{i}", "n": i, "tags": ["a"]} for i in range(200)] + [{"id": "x", "n": 5, "at": {"x": 1}}]
    path = tmp_path / "e.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\nno\n[1]\n")
    notes = []
    with open_counted(path, FLAT, notes.append) as source:
        raws = list(source)
    assert [json.loads(raw)["features"] for raw in raws[:201]] == [{"n": row["n"]} for row in rows]
    assert raws[201:] == [b"no", b"[1]"]
    assert notes[-1].endswith("tags, at: not read, for a feature is not a list or an object")


def test_events_without_ids_get_them_unless_one_has_its_own(tmp_path):
    path = tmp_path / "e.jsonl"
    texts = '{"text": "a"}\n {} \n{ "text": "b"}\n'
    assert read(path, texts)[0] == [{"id": "0", "text": "a"}, {"id": "1"}, {"id": "2", "text": "b"}]
    assert read(path, texts + '{"text": "c", "id": "own"}\n')[0][3] == {"text": "c", "id": "own"}
    assert "id" not in read(path, '{"id": "own"}\n' + texts)[0][1], "a fault of the file, a dead letter"
    assert read(path, '{"text": "a"}\n', CsvColumns())[0] == [{"text": "a"}]
    late = '{"text": "a"}\n' * 3000 + '{"id": "own", "text": "b"}\n'
    assert [event["id"] for event in read(path, late)[0]][-2:] == ["2999", "own"]


def ids(path, content, columns=FLAT):
    return [event["id"] for event in read(path, content, columns)[0]]


@pytest.mark.parametrize("name", ["e.jsonl", "e.csv"])
def test_ids_by_content_are_shared_only_by_files_that_begin_alike(tmp_path, name):
    def content(texts):
        if name == "e.csv":
            return "text,label\n" + "".join(f"{text},a\n" for text in texts)
        return "".join(json.dumps({"text": text}) + "\n" for text in texts)

    by_content = CsvColumns(makes_ids=True, has_content_ids=True)
    first = ids(tmp_path / name, content("abc"), by_content)
    assert len(set(first)) == 3
    assert all(one.startswith(f"{name}:{row}:") for row, one in enumerate(first))
    assert ids(tmp_path / name, content("abcd"), by_content)[:3] == first, "a file that has grown"
    assert ids(tmp_path / name, content("axc"), by_content)[0] == first[0]
    assert set(ids(tmp_path / name, content("axc"), by_content)[1:]).isdisjoint(first)
    assert set(ids(tmp_path / f"other_{name}", content("abc"), by_content)).isdisjoint(first)
    assert (
        ids(tmp_path / name, content("aa"), by_content)[0]
        != ids(tmp_path / name, content("aa"), by_content)[1]
    )


DAYS = [f"2026-01-{day:02}" for day in range(1, 29)]


def test_dates_are_left_out_unless_they_are_few_and_said_once(tmp_path):
    shapes = {
        "inner": [{"id": "1", "features": {"when": day, "n": 1}} for day in DAYS],
        "flat": [{"id": "1", "when": day, "n": 1} for day in DAYS],
    }
    for rows in shapes.values():
        events, notes = read(tmp_path / "e.jsonl", "\n".join(map(json.dumps, rows)))
        assert all(event["features"] == {"n": 1} for event in events)
        assert (
            sum(
                "dates in when left out (`streamnb init` shows which parts can be read)" in note
                for note in notes
            )
            == 1
        )
        events, notes = read(tmp_path / "e.jsonl", "\n".join(map(json.dumps, rows[:9])))
        assert events[0]["features"]["when"] == DAYS[0]
    table = "id,when,n\n" + "".join(f"{i},{day},1\n" for i, day in enumerate(DAYS))
    events, notes = read(tmp_path / "e.csv", table)
    assert all(event["features"] == {"n": 1} for event in events)
    assert "dates in when left out" in notes[0]
    declared = CsvColumns(strings=frozenset({"when"}), leaves_out_dates=True)
    assert read(tmp_path / "e.csv", table, declared)[0][0]["features"]["when"] == DAYS[0]


def test_a_number_may_go_on_where_text_is_cut(monkeypatch):
    monkeypatch.setattr(json_shapes, "_READ", 1)
    assert list(json_values(io.StringIO("[12, 345]67").read, 99)) == ["12", "345", "67"]


ROWS = [{"x": 1, "label": "a"}, {"x": 2.5, "label": "b", "tags": "p"}]
OTHERS = {"meta": {"n": 2, "of": [1, "]"]}, "next": None, "links": []}


@given(
    names=st.permutations([*OTHERS, "rows"]),
    indent=st.none() | st.integers(0, 3),
    n=st.integers(1, 3),
    step=st.integers(1, 9),
)
def test_an_only_array_of_objects_in_an_object_is_the_events(names, indent, n, step):
    text = json.dumps({name: OTHERS.get(name, ROWS * n) for name in names}, indent=indent)
    assert arrays_of(text) == ["rows"]
    rest = io.StringIO(text + "\n" + text)
    values = json_values(lambda _: rest.read(step), 10_000, "rows")
    assert [json.loads(value) for value in values] == ROWS * n * 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": [{"x": 1}], "b": [{}]}', ["a", "b"]),
        ('{"a": [{"x": 1}]}\n{"a": [{"x": 1}]}', []),
        ('{"a": [1, {"x": 1}], "b": [[{}]], "c": "[{"}', []),
        ('{"features": {"x": 1}, "a": [{"x": 1}]}', []),
        ('{"a": [{"x": 1}, {"x', ["a"]),
        ('{"a": 1, "b', []),
        ("{}", []),
    ],
)
def test_arrays_of_objects_are_found(text, found):
    assert arrays_of(text) == found


@pytest.mark.parametrize("text", ['{"a": [{"x": 1}]} {"b": 2}', '{"a": [{"x": 1}]', '{"a": [{"x": 1} 2]}', '{"a" 1}', "{1: 2}"])  # fmt: skip
def test_an_object_that_lacks_the_array_or_is_cut_is_an_error(text):
    rest = io.StringIO(text)
    with pytest.raises(LogError):
        list(json_values(rest.read, 1000, "a"))


def test_a_response_of_an_api_is_read_with_a_finding(tmp_path):
    path = tmp_path / "e.json"
    events, notes = read(path, json.dumps(OTHERS | {"data": ROWS}))
    assert [event["label"] for event in events] == ["a", "b"]
    assert events[0]["features"] == {"x": 1}
    assert "the objects of the array 'data' as events" in str(notes[0])
    events, notes = read(path, json.dumps({"a": ROWS, "b": ROWS}))
    assert len(events) == 1
    assert "jq -c '.a[]' FILE" in str(notes[0])


@pytest.mark.parametrize("orient", ["split", "index", "columns", "values"])
def test_tables_that_are_not_written_by_rows_are_refused(tmp_path, orient):
    frame = pd.DataFrame({"x": [1.5, 2.5], "label": ["a", "b"]})
    path = tmp_path / "e.json"
    frame.to_json(path, orient=orient)
    with pytest.raises(LogError, match=rf"orient='{orient}': .* writes rows$"):
        list(read_events(path))
    frame.to_json(path, orient="records")
    assert len(list(read_events(path))) == 2
    path.write_text('{"features":{"0":1,"1":2},"label":"a"}')
    assert len(list(read_events(path))) == 1


@pytest.mark.parametrize("text", ["[]", " [ ]\n", "[\n]\n", "[]\n[]\n"])
def test_an_empty_array_holds_no_event(tmp_path, text):
    path = tmp_path / "e.json"
    path.write_text(text)
    assert list(read_events(path)) == []


@pytest.mark.parametrize("order", [1, -1])
def test_a_file_in_which_one_object_has_features_is_not_flat(order):
    lines = [b'{"id":"1","features":{"x":1}}', b'{"id":"2","x":2}'][::order]
    columns = CsvColumns(flat=frozenset({"id", "label"}))
    assert not sniff_shape(b"\n".join(lines), columns).is_flat
    assert sniff_shape(lines[order == 1], columns).is_flat
