"""``evaluate --map-labels``: labels in groups, as a reader's like and dislike."""

from __future__ import annotations

import gzip
import json

import pytest

from streamnb.cli import main

GROUPS = {"a": "like", "b": "dislike", "c": None}


def events(labels):
    return [{"id": str(i), "text": f"word{label} x", "label": label} for i, label in enumerate(labels)]


def evaluated(tmp_path, rows, groups, *more):
    (tmp_path / "events.jsonl").write_bytes(
        b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows)
    )
    arguments = [] if groups is None else ["--map-labels", str(tmp_path / "groups.json")]
    (tmp_path / "groups.json").write_text(json.dumps(groups))
    return main(
        [
            "evaluate",
            str(tmp_path / "events.jsonl"),
            "--json",
            "--set",
            "model.kind=naive_bayes",
            *arguments,
            *more,
        ]
    )


def test_it_is_as_if_the_file_had_these_labels(tmp_path, capsys):
    """Those that are named become their group, null hides, others stay; what is no event stays one less."""
    rows = events("abcabcadabc" * 5)
    odd = [b"{]\n", b'["label"]\n', b'{"label": {}}\n', b'{"label": "\xff"}\n', b"[" * 200_000 + b"\n"]
    assert evaluated(tmp_path, [*rows, *odd], GROUPS) == 0
    mapped = json.loads(capsys.readouterr().out)
    named = [{**row, "label": GROUPS.get(row["label"], row["label"])} for row in rows]
    assert evaluated(tmp_path, [*named, *odd], None) == 0
    expected = json.loads(capsys.readouterr().out)
    for report in (mapped, expected):
        for changing in ("ts", "seconds"):
            report.pop(changing, None)
    assert mapped == expected
    assert mapped["learned"] == sum(label != "c" for label in "abcabcadabc" * 5)


def test_a_label_may_lie_deeper(tmp_path, capsys):
    rows = [{"id": str(i), "text": "x y", "at": {"is": "ab"[i % 2]}} for i in range(10)]
    assert evaluated(tmp_path, rows, {"a": "b"}, "--set", "events.label=$.at.is") == 0
    assert json.loads(capsys.readouterr().out)["cumulative"]["accuracy"] == pytest.approx(
        0.9
    )  # but for the first


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (b"[]", "expected an object such as"),
        (b'{"a": 1}', "expected an object"),
        (None, "No such file"),
        (b'{"\xff": "a"}', "expected an object such as"),
        (b'{"a": ' + b"[" * 200_000, "expected an object such as"),
    ],
)
def test_what_is_no_file_of_groups_is_refused(groups, said, tmp_path, capsys):
    (tmp_path / "events.jsonl").write_text("{}")
    if groups is not None:
        (tmp_path / "groups.json").write_bytes(groups)
    assert (
        main(["evaluate", str(tmp_path / "events.jsonl"), "--map-labels", str(tmp_path / "groups.json")]) == 2
    )
    error = capsys.readouterr().err
    assert said in error
    assert "groups.json" in error


def test_row_23_a_reader_who_rates_learns_faster_than_all_groups(streams, tmp_path, capsys):
    """NewsWeeder: like against dislike of the first 2,000 articles is a question of two answers."""
    liked, disliked = ("sci.", "comp."), ("rec.", "talk.")
    with gzip.open(streams / "20news_bydate.jsonl.gz", "rt") as lines:
        rows = [json.loads(next(lines)) for _ in range(2000)]
    names = {row["label"] for row in rows}
    groups = {
        name: "like" if name.startswith(liked) else "dislike" if name.startswith(disliked) else None
        for name in names
    }
    assert evaluated(tmp_path, rows, groups) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["learned"] == sum(groups[row["label"]] is not None for row in rows)
    assert report["cumulative"]["accuracy"] > 0.8
    assert (
        report["window"]["accuracy"] > report["cumulative"]["accuracy"]
    )  # the last ratings are foreseen better
