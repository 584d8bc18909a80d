"""Several files in one command, and the ids of events that have none."""

from __future__ import annotations

import json

from streamnb.event_logs.sqlite.sqlite_log import SqliteLog


def events():
    with SqliteLog("e.db") as log:
        return [json.loads(record.value) for record in log.read(log.partitions("events")[0], 0, 5000)]


def table(start, n=30, delimiter=",", point="."):
    rows = (f"{'ab'[i % 2]}{delimiter}{i}{point}5\n" for i in range(start, start + n))
    return f"label{delimiter}x\n{''.join(rows)}"


def test_files_that_are_read_alike_are_written_one_after_another(told, tmp_path):
    (tmp_path / "a.csv").write_text(table(0, 3))
    (tmp_path / "b.csv").write_text(table(9, 2))
    assert told("replay", "a.csv", "b.csv")[::2] == (0, "")
    found = events()
    assert [one["features"]["x"] for one in found] == [0.5, 1.5, 2.5, 9.5, 10.5]
    ids = [one["id"] for one in found]
    assert [one.rpartition(":")[0] for one in ids] == ["a.csv:0", "a.csv:1", "a.csv:2", "b.csv:0", "b.csv:1"]
    assert told("replay", "a.csv")[0] == 0
    assert [one["id"] for one in events()[5:]] == ids[:3]


def test_a_file_that_is_read_in_another_way_is_refused_by_name_before_any_is_written(told, tmp_path):
    (tmp_path / "a.csv").write_text(table(0))
    others = {
        "--delimiter ';', but a.csv with ','": table(0, delimiter=";").encode(),
        "--decimal ',', but a.csv with '.'": b"label,x\n" + b'a,"1,5"\nb,"7,25"\n' * 9,
        "--header False, but a.csv with True": b"a,1\nb,2\na,3\n",
        "--encoding 'cp1252', but a.csv with not needed": (table(0) + "\u00e4,5\n").encode("cp1252"),
        "--format 'jsonl', but a.csv with 'csv'": b'{"label": "a", "features": {"x": 1}}\n',
    }  # fmt: skip
    for said, content in others.items():
        (tmp_path / "b.csv").write_bytes(content)
        code, _, err = told("replay", "a.csv", "b.csv")
        assert (code, f"b.csv is read with {said}: give {said.split()[0]}" in err) == (2, True), err
        assert not (tmp_path / "e.db").exists()


def test_events_of_json_lines_without_ids_need_no_option(told, tmp_path):
    (tmp_path / "e.jsonl").write_text("".join(f'{{"text": "w{i}", "label": {i % 2}}}\n' for i in range(30)))
    assert told("evaluate", "e.jsonl", "--json")[::2] == (0, "")
    assert told("replay", "e.jsonl")[::2] == (0, "")
    assert len({one["id"] for one in events()}) == 30
    assert told("run", "--until-end")[1].count("30 events, 30 learned, 0 dead letters") == 1
    assert told("init", "e.jsonl")[0] == 0
    code, out, _ = told("predict", "e.jsonl", "--json")
    assert (code, [json.loads(line)["id"] for line in out.splitlines()]) == (0, [str(i) for i in range(30)])


def test_a_flat_array_of_json_is_read_by_every_command(told, tmp_path):
    rows = [{"n": i * i % 17, "sex": "mf"[i % 2], "label": bool(i % 2)} for i in range(40)]
    (tmp_path / "e.json").write_text(json.dumps(rows, indent=1))
    said = "streamnb: e.json: read with JSON that is not one object a line; flat objects, whose fields are features"
    for command in (["evaluate", "e.json"], ["replay", "e.json"]):
        code, _, err = told(*command)
        assert (code, err.startswith(said)) == (0, True), err
    assert events()[3]["features"] == {"n": 9, "sex": "f"}
    assert "40 events, 40 learned" in told("run", "--until-end")[1]
    assert told("predict", "e.json")[0] == 0


def test_dates_are_left_out_or_read_by_their_parts(told, tmp_path):
    rows = "".join(f"{'ab'[i % 7 > 4]},2026-01-{i % 28 + 1:02},{i * i % 9}\n" for i in range(200))
    (tmp_path / "e.csv").write_text("label,when,n\n" + rows)
    code, out, err = told("evaluate", "e.csv", "--json")
    assert (code, err.count("dates in when left out")) == (0, 1)
    declared = '[{name="when",kind="time",parts=["weekday"]}]'
    code, out, err = told("evaluate", "e.csv", "--json", "--set", f"attributes={declared}")
    assert (code, json.loads(out)["dead_letters"], "left out" in err) == (0, 0, False)
