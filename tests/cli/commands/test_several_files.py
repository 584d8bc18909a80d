"""Several files in one command: `evaluate`, `predict`, `init` and `compare` read them as `replay` does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamnb.evaluation.input_files import sample_of
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

COMMANDS = ("evaluate", "predict", "init", "compare", "replay")


def table(start, n=30, *, delimiter=",", point=".", columns=("label", "x")):
    rows = (f"{'ab'[i % 2]}{delimiter}{i % 7}{point}5\n" for i in range(start, start + n))
    return delimiter.join(columns) + "\n" + "".join(rows)


def command(name, *files):
    more = {"init": ["--out", "made.toml"], "compare": ["--against", "classes.max=50"]}
    return [name, *files, *more.get(name, [])]


@pytest.fixture
def _learned(told, tmp_path):
    (tmp_path / "a.csv").write_text(table(0))
    assert told("replay", "a.csv")[0] == 0
    assert told("run", "--until-end")[0] == 0


def written():
    with SqliteLog("e.db") as log:
        return len(list(log.read(log.partitions("events")[0], 0, 5000)))


@pytest.mark.usefixtures("_learned")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_file_that_is_read_in_another_way_is_refused_by_name(told, tmp_path, name):
    others = {
        "--delimiter ';', but a.csv with ','": table(0, delimiter=";"),
        "--decimal ',', but a.csv with '.'": "label,x\n" + 'a,"1,5"\nb,"7,25"\n' * 9,
        "--format 'jsonl', but a.csv with 'csv'": '{"label": "a", "features": {"x": 1}}\n',
    }
    before = written()
    for said, content in others.items():
        (tmp_path / "b.csv").write_text(content)
        code, out, err = told(*command(name, "a.csv", "b.csv"))
        assert (code, out) == (2, ""), err
        assert f"b.csv is read with {said}: give {said.split()[0]}" in err
    assert written() == before
    assert not (tmp_path / "made.toml").exists()


@pytest.mark.usefixtures("_learned")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_is_given_twice_is_refused(told, tmp_path, name):
    (tmp_path / "link.csv").symlink_to("a.csv")
    for again in ("a.csv", "./a.csv", "link.csv"):
        code, _, err = told(*command(name, "a.csv", again))
        assert (code, f"{again} is given twice" in err) == (2, True), err


def test_rows_of_several_files_are_evaluated_as_of_one(told, tmp_path):
    (tmp_path / "a.csv").write_text(table(0))
    (tmp_path / "b.csv").write_text(table(30))
    (tmp_path / "both.csv").write_text(table(0, 60))
    code, out, err = told("evaluate", "a.csv", "b.csv", "--json", "--predictions", "p.jsonl")
    assert (code, err) == (0, "")
    whole = told("evaluate", "both.csv", "--json")[1]
    assert [json.loads(one)["cumulative"] for one in (out, whole)] == [json.loads(out)["cumulative"]] * 2
    ids = [json.loads(line)["id"] for line in Path("p.jsonl").read_text().splitlines()]
    assert [one.rpartition(":")[0] for one in (ids[0], ids[29], ids[30])] == [
        "a.csv:0",
        "a.csv:29",
        "b.csv:0",
    ]
    (tmp_path / "order.txt").write_text("".join(f"{n}\n" for n in reversed(range(60))))
    code, out, _ = told("evaluate", "a.csv", "b.csv", "--order", "order.txt", "--json")
    assert (code, json.loads(out)["events"]) == (0, 60)
    code, out, _ = told("evaluate", "a.csv", "b.csv", "--holdout", "1/2", "--json")
    assert (code, json.loads(out)["learned"]) == (0, 30)
    code, out, _ = told(*command("compare", "a.csv", "b.csv"), "--json")
    assert (code, json.loads(out)["events"]) == (0, 60)


@pytest.mark.usefixtures("_learned")
def test_events_of_several_files_are_predicted(told, tmp_path):
    (tmp_path / "b.csv").write_text(table(3, 5))
    code, out, err = told("predict", "a.csv", "b.csv", "--json")
    ids = [json.loads(line)["id"] for line in out.splitlines()]
    assert (code, len(ids), ids[30].rpartition(":")[0]) == (0, 35, "b.csv:0"), err
    code, _, err = told("predict", "free", "entry", "now")
    assert (code, "free: no such file; a text of several words is one argument" in err) == (1, True), err


def test_init_looks_at_each_file(told, tmp_path):
    (tmp_path / "a.csv").write_text(table(0, 200))
    (tmp_path / "b.csv").write_text(table(0, 50).replace("b,", "c,"))
    code, _, err = told("init", "a.csv", "b.csv", "--events", "100")
    assert (code, err) == (0, "")
    made = Path("streamnb.toml").read_text()
    assert "#   streamnb evaluate a.csv b.csv --config streamnb.toml" in made
    assert "# 3 classes, in 100 events" in made
    assert [line for line in made.splitlines() if line.startswith("name")] == ['name = "x"']


def test_a_sample_is_an_equal_share_of_each_file_as_far_as_it_goes():
    for sizes, n in (((9, 2, 9), 9), ((1, 1), 9), ((50,), 7), ((0, 5, 0), 3), ((2, 90, 3), 30)):
        files = [iter([b"%d" % place] * size) for place, size in enumerate(sizes)]
        found = sample_of(files, n)
        assert len(found) == min(n, sum(sizes))
        for place, size in enumerate(sizes):
            assert found.count(b"%d" % place) >= min(size, n // len(sizes))


def test_columns_that_one_of_two_files_lacks_are_named(told, tmp_path):
    (tmp_path / "a.csv").write_text(table(0))
    (tmp_path / "b.csv").write_text(table(0, columns=("label", "X")))
    code, _, err = told("evaluate", "a.csv", "b.csv", "--json")
    assert (code, "b.csv has no column x, which a.csv has, and X, which a.csv has not" in err) == (0, True), (
        err
    )


def test_a_column_of_dates_in_one_of_two_files_is_refused(told, tmp_path):
    dates = "".join(f"{'ab'[i % 2]},2026-01-{i + 1:02}\n" for i in range(20))
    (tmp_path / "a.csv").write_text("label,when\n" + dates)
    (tmp_path / "b.csv").write_text("label,when\n" + "a,soon\nb,later\n" * 9)
    code, out, err = told("evaluate", "a.csv", "b.csv", "--json")
    assert (code, out) == (2, "")
    assert "b.csv: column 'when' is read in this file, other than in a.csv" in err


def test_tables_of_another_width_without_a_header_are_refused(told, tmp_path):
    (tmp_path / "a.csv").write_text("1,2,a\n3,4,b\n" * 9)
    (tmp_path / "b.csv").write_text("1,2,3,a\n3,4,5,b\n" * 9)
    code, _, err = told("evaluate", "a.csv", "b.csv", "--label-column", "c3")
    assert (code, "b.csv has 4 columns without a header, but a.csv has 3" in err) == (2, True), err


def test_a_file_without_events_or_labels_is_named(told, tmp_path):
    (tmp_path / "a.csv").write_text(table(0))
    for content, said in (
        ("", "b.csv holds no event"),
        ("label,x\n", "b.csv holds no event"),
        ("label,x\n,1\n,2\n", "b.csv: no event has a label: column 'label' is empty in all 2 rows"),
    ):
        (tmp_path / "b.csv").write_text(content)
        for files in (["a.csv", "b.csv"], ["b.csv", "a.csv"]):
            code, out, err = told("evaluate", *files, "--json")
            assert (code, json.loads(out)["learned"], err.count(said)) == (0, 30, 1), err


def test_more_files_than_may_be_open_at_once(told, tmp_path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    names = [f"e{n}.csv" for n in range(80)]
    for n, name in enumerate(names):
        (tmp_path / name).write_text(table(n, 2))
    used = {int(one.name) for one in Path("/proc/self/fd").iterdir()}
    limit = next(n for n in range(soft) if n - sum(fd < n for fd in used) == 40)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        code, out, _ = told("evaluate", *names, "--json")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (code, json.loads(out)["events"]) == (0, 160)
