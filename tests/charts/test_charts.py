"""Pictures are whole HTML whatever they show, stand within their frame, and say in words what they are."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from streamnb import charts
from streamnb.charts import Bar, Series

EVIL = "</title><script>alert('1')</script>\"'&\u202e\x00"
BIN = SimpleNamespace(confidence=0.9, accuracy=0.8, events=12)


def drawn_with(name):
    xs = [0.0, 10.0, 20.0]
    lines = [Series(name, [0.1, None, 0.9], [0.0, None, 0.8], [0.3, None, 1.0]), Series("b", [0.9, 0.5, 0.1])]
    return [
        charts.line(name, xs, lines, marks=[charts.Mark(10.0, name)], within=(0, 1), y=charts.percent),
        charts.stacked(name, xs, lines),
        charts.bars(name, [Bar(name, 0.5, 0.4, 0.6, name), Bar("b", -2.0)]),
        charts.curves(
            name, [charts.ShareCurve(name, [0.0, 1.0], [0.0, 1.0], name)], x=name, y=name, guess=0.3
        ),
        charts.calibration(name, [BIN]),
        charts.heat_map(name, [name, "b"], [name, "b"], [[3, 1], [0, 0]]),
        charts.table([name, "n"], [[name, 1234.0]], name),
        charts.tag("p", name, class_=name),
    ]


@pytest.mark.parametrize("made", drawn_with(EVIL), ids=lambda made: made[1:4])
def test_nothing_that_is_shown_becomes_markup(made):
    tree = ET.fromstring(made)  # noqa: S314  it is well-formed
    assert not tree.findall(".//script")
    assert "<script" not in made
    assert "style=" not in made
    assert not re.search(r"[\x00\u202e]", made)
    assert any(r"\u202e" in text for text in tree.itertext()) or r"\u202e" in tree.get("class", "")


@pytest.mark.parametrize("made", drawn_with("name")[:5], ids=lambda made: made[8:20])
def test_a_picture_has_a_title_a_story_and_stands_within_its_frame(made):
    picture = ET.fromstring(made).find("svg")  # noqa: S314
    assert picture.get("role") == "img"
    assert picture.find("title").text == "name"
    assert picture.find("desc").text
    for element in picture.iter():
        for name in ("x", "x1", "x2", "cx", "width"):
            share = element.get(name, "0").removesuffix("%")
            is_of_axis = element.get("x") == "-6"  # values of a vertical axis stand next to the picture
            assert 0 <= float(share) <= 1000 or is_of_axis
        for pair in element.get("points", "").split():
            assert all(-0.1 <= float(number) <= 1000.1 for number in pair.split(","))


def test_without_data_and_with_one_point_there_is_a_picture_too():
    assert "no data" in charts.line("Accuracy", [], [Series("a", [])])
    assert "no data" in charts.stacked("Posterior", [], [])
    assert "no data" in charts.bars("Evidence", [])
    assert "no data" in charts.calibration("Calibration", [])
    assert "no data" in charts.curves("ROC", [], x="x", y="y")
    assert "polyline" in charts.line("Accuracy", [7.0], [Series("a", [0.5])])
    assert "polyline" in charts.line("Constant", [1.0, 2.0], [Series("a", [0.0, 0.0])])


def test_many_points_are_thinned_to_few_and_the_last_one_stays():
    n = 100_001
    made = charts.line("Loss", range(n), [Series("a", [0.0] * (n - 1) + [5.0])])
    assert len(made) < 30_000
    assert "last 5," in made


def test_the_axis_goes_by_what_follows_the_beginning():
    made = charts.line("Loss", range(100), [Series("a", [50.0] + [0.1 + n / 1000 for n in range(99)])])
    assert ">0.2<" in made
    assert "most 50." in made
    assert ">50<" not in made


@pytest.mark.parametrize(
    ("value", "number", "count", "percent"),
    [(0.12345, "0.123", "0.123", "12.3 %"), (1234.0, "1,234", "1.23k", "123400 %"), (1.0, "1", "1", "100 %")],
)
def test_numbers_read_well(value, number, count, percent):
    assert (charts.number(value), charts.count(value), charts.percent(value)) == (number, count, percent)
    assert charts.number(math.nan) == charts.percent(None) == "-"


def test_the_stylesheet_comes_with_the_package_and_knows_every_class():
    css = charts.stylesheet()
    assert "light-dark(" in css
    classes = {
        name
        for made in drawn_with("b")
        for one in re.findall(r'class="([^"]+)"', made)
        for name in one.split()
    }
    assert {name for name in classes - {"b"} if f".{name}" not in css} == set()
    assert charts.whole(charts.table(["a"], [])).startswith("<div><style>")


def test_the_whole_beginning_is_shown_if_it_matters():
    series = [Series("a", [50.0] + [0.1 + n / 1000 for n in range(99)], note="least 0.1")]
    made = charts.line("Loss", range(100), series, is_whole=True, axis=charts.Axis(ticks=[10, 50, 200]))
    assert ">50<" in made
    assert "least 0.1" in made
    assert re.findall(r'y="195"[^>]*>([^<]*)<', made) == ["10", "50"]


def test_a_heat_map_has_its_numbers_and_full_names():
    names = [f"comp.sys.{i}" for i in range(20)]
    cells = [[100 * (m == n) + (m + 1 == n) for n in range(20)] for m in range(20)]
    made = str(charts.heat_map("Confusion", names, names, cells))
    head, *rows = re.findall(r"<tr>(.*?)</tr>", made)
    assert re.findall(r'class="up"><span>([^<]*)', head) == names
    assert [re.search(r'scope="row">([^<]*)', row)[1] for row in rows] == names
    shown = [[int(cell or 0) for cell in re.findall(r"<td[^>]*>([^<]*)", row)] for row in rows]
    assert shown == cells
    assert rows[0].count('"right h5"') == rows[0].count('"wrong h1"') == 1
    assert "up" not in str(charts.heat_map("Confusion", ["ham", "spam"], ["ham", "spam"], [[1, 2], [3, 4]]))


def test_a_long_name_of_a_heat_map_is_cut_and_stays_readable():
    made = str(charts.heat_map("Confusion", ["x" * 200], ["x" * 200], [[1]]))
    assert made.count(f">{'x' * 33}…<") == 2
    assert made.count(f'title="{"x" * 200}"') == 2


def test_an_axis_of_time_has_few_round_ticks_with_their_seconds():
    first = 1.79e9
    for span in (0.5, 3, 59, 900, 3600, 86_400, 604_800, 3.2e7, 3e9):
        axis = charts.time_axis(first, first + span)
        assert 1 <= len(axis.ticks) <= 7 or span < 1
        assert all(first <= at <= first + span for at in axis.ticks)
        made = charts.line("Loss", [first, first + span], [Series("a", [1.0, 2.0])], axis=axis)
        assert all(f'data-seconds="{at}"' in made for at in axis.ticks)
    assert charts.time_axis(first, first + 900).text(1790000100) == "14:15"
    assert charts.time_axis(first, first + 900).text(1790000101) == "2026-09-21 14:15:01"


def test_labels_of_marks_that_would_collide_are_left_to_the_tooltip():
    marks = [charts.Mark(10.0 + n, f"drift: number {n}", kind="alarm") for n in range(50)]
    made = charts.line("Loss", range(1000), [Series("a", [0.5] * 1000)], marks=marks)
    assert made.count("<title>drift: number ") == 50
    assert 1 <= len(re.findall(r'<text[^>]*class="mark alarm[^"]*"[^>]*>drift<', made)) < 10


def test_a_line_that_leaves_the_picture_is_not_cut_without_a_word():
    made = charts.line("Loss", range(100), [Series("a", [50.0] + [0.1 + n / 1000 for n in range(99)])])
    assert "not drawn: up to 50" in made
    assert "not drawn" not in charts.line(
        "Loss", range(100), [Series("a", [0.1 + n / 1000 for n in range(100)])]
    )


def test_a_series_keeps_its_colour_in_every_order():
    lines = [Series("a", [0.5, 0.5], colour=3), Series("b", [0.5, 0.5], colour=5)]
    for made in (charts.line("L", [1, 2], lines[::-1]), charts.stacked("S", [1, 2], lines[::-1])):
        for name, colour in (("a", 3), ("b", 5)):
            assert re.search(rf'area c{colour}"></rect></svg>{name}: ', made)


def test_small_columns_are_cut_above_and_coloured_from_the_line_on():
    made = charts.spark([0.0, 0.5, 1.0, 900.0], "1 & 2 of 4")
    assert re.findall(r'height="([\d.]+)" class="area c(\d)"', made) == [
        ("1.0", "8"),
        ("6.0", "8"),
        ("12.0", "3"),
        ("24.0", "3"),
    ]
    assert 'aria-label="1 &amp; 2 of 4"' in made
