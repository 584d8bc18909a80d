"""The pages of classes: scores against a recount, many classes, odd names, and links that lead to their events."""

from __future__ import annotations

import random
import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from streamnb.charts import Markup
from streamnb.serving.class_scores import class_colour, recent_scores
from streamnb.serving.class_views import ClassViews
from tests.serving.test_live_page import (  # noqa: F401
    EVIL,
    Reader,
    config,
    empty,
    full,
    prediction,
    record,
    report,
    views,
)

ODD = ["x" * 200, "\u05d0\u05d1\u05d2 \u202e", " blank ", "a&truth=b", "(none yet)", "50 %"]


class Words:
    """A model that is still loading."""

    def words_of(self, _):
        return Markup("<p>The model is loading.</p>")


def shown(watch, **asked):
    return ClassViews(watch, Words()).shown(
        {"class" if key == "label" else key: v for key, v in asked.items()}
    )


def filled(watch, pairs):
    for n, (truth, guess) in enumerate(pairs):
        one = prediction(n, f"e{n}", guess or "") | {"truth": truth, "probabilities": {"a": 1.0}}
        watch._add_prediction(record(one | {"label": guess}))


def test_scores_are_those_of_a_recount():
    dice = random.Random(3)
    for _ in range(30):
        labels = [f"c{n}" for n in range(dice.choice([1, 2, 5, 40]))]
        pairs = [
            (dice.choice(labels), dice.choice([*labels, None])) for _ in range(dice.choice([0, 1, 7, 300]))
        ]
        found = recent_scores(pairs)
        assert found.n_events == len(pairs)
        assert {one.label for one in found.classes} == {name for pair in pairs for name in pair} - {None}
        for one in found.classes:
            label = one.label
            assert one.events == sum(truth == label for truth, _ in pairs)
            assert one.predicted == sum(guess == label for _, guess in pairs)
            assert one.right == sum(pair == (label, label) for pair in pairs)
            halves = [pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]]
            parts = [recent_scores(half).classes for half in halves]
            f1 = [{each.label: each.f1 for each in part if each.events}.get(label) for part in parts]
            expected = None if None in f1 else f1[1] - f1[0]
            assert one.change == (None if expected is None else pytest.approx(expected))
        wrong = [pair for pair in pairs if pair[0] != pair[1]]
        assert sum(n for _, n in found.confusions) == len(wrong)


def test_each_class_keeps_its_colour_as_more_are_learned():
    labels, colours = [f"c{n}" for n in range(50)], [*range(1, 8), *range(9, 16)]
    for n, label in enumerate(labels):
        assert {class_colour(label, labels[:end]) for end in range(n + 1, 51)} == {colours[n % 14]}
    assert class_colour("unlisted", ()) == class_colour("unlisted", ())


@pytest.mark.parametrize("n", [2, 12, 13, 100, 300])
def test_a_confusion_that_one_can_read_for_any_number_of_classes(empty, n):  # noqa: F811
    names = [f"class {k}" for k in range(n)]
    dice = random.Random(n)
    pairs = [
        (name := dice.choice(names), name if dice.random() < 0.6 else dice.choice(names)) for _ in range(3000)
    ]
    filled(empty, pairs)
    more = {"classes": n, "labels": [], "confusion": [], "class_rates": []}
    if n <= 100:
        counts = [[sum(pair == (a, b) for pair in pairs) for b in names] + [0] for a in names]
        more |= {"labels": names, "confusion": counts}
    empty._add_metrics(record(report() | more))
    made = shown(empty)
    if n <= 12:
        assert made.count("<td") >= n * n
        assert "Most frequent confusions" not in made
    else:
        assert "Most frequent confusions" in made
        assert "all events" in made if n <= 100 else "labelled predictions" in made
    for title in ("Worst", "Best", "Most changed"):
        assert (title in made) == (n > 20)
    assert made.count("<tr") < 120
    assert len(made) < 300_000
    links = [value for key, value in Reader(made).attributes if key == "href" and "truth=" in value]
    assert links
    for link in links[:5]:
        query = dict(parse_qsl(urlsplit(link).query))
        rows = views(empty).live("events", query)
        expected = sum(pair == (query["truth"], query["predicted"]) for pair in pairs)
        assert rows.count("<li data-event") == min(25, expected) > 0


@pytest.mark.parametrize("name", ODD)
def test_a_class_of_any_name_has_a_page_and_links_lead_back(empty, name):  # noqa: F811
    filled(empty, [(name, name), (name, "plain"), ("plain", name), (name, None)])
    empty._add_metrics(record(report(name=name) | {"labels": [name, "plain"]}))
    made = shown(empty)
    links = [value for key, value in Reader(made).attributes if key == "href" and "class=" in value]
    assert name in {dict(parse_qsl(urlsplit(link).query))["class"] for link in links}
    page = shown(empty, label=name)
    assert "\u202e" not in page
    assert "No such class" not in page
    values = dict(re.findall(r'class="name">([^<]+)</span><span class="value" data-value="([^"]+)"', page))
    assert values == {"Recall": str(1 / 3), "Precision": "0.5", "Events": "3", "Predicted": "2"}


def test_the_label_in_force_counts_and_not_the_one_in_the_event(full):  # noqa: F811
    full._add_prediction(record(prediction(id_="m1", label="spam") | {"truth": "ham"}))
    assert (full.labelled_pairs(10)[-1]) == ("ham", "spam")
    full._add_label(record({"id": "m1", "label": "spam", "source": "me"}))
    assert (full.labelled_pairs(10)[-1]) == ("spam", "spam")
    page = shown(full, label="spam")
    assert "Sources of its labels" in page
    assert ">me<" in page


def test_one_event_none_and_an_unknown_class_have_a_page(empty):  # noqa: F811
    assert "No labelled prediction" in shown(empty)
    assert "No such class" in shown(empty, label=EVIL)
    assert "<script" not in shown(empty, label=EVIL)
    filled(empty, [("a", "a")])
    assert "No such class" not in shown(empty, label="a")
    empty._add_metrics(record(report()))
    assert "none above 100 classes" in shown(empty, label="ham")


def test_precision_and_recall_over_time_are_of_each_interval(empty):  # noqa: F811
    for n, confusion in enumerate([[[5, 0, 0], [0, 5, 0]], [[9, 1, 0], [0, 5, 0]], [[9, 1, 0], [5, 5, 0]]]):
        empty._add_metrics(
            record(report(10 * n + 10) | {"labels": ["a", "b"], "confusion": confusion, "ts": 1.79e9 + n})
        )
    made = shown(empty, label="a", range="all")
    assert "precision: first 100 %, last 0 %" in made
    assert "recall: first 80 %, last 80 %" in made  # no event of it in the last interval
    assert "rate: first 100 %, last 0 %" in made


def test_labels_that_were_corrected_give_no_share_above_one(empty):  # noqa: F811
    for n, confusion in enumerate([[[5, 5, 0], [0, 5, 0]], [[9, 0, 0], [0, 5, 0]], [[9, 0, 0], [0, 9, 0]]]):
        empty._add_metrics(
            record(report(10 * n + 10) | {"labels": ["a", "b"], "confusion": confusion, "ts": 1.79e9 + n})
        )
    made = shown(empty, label="a", range="all")
    assert "rate: first 0 %, last 0 %" in made
    assert "precision: first 100 %" in made
    assert "recall: first" not in made
    assert not re.search(r"\b(1[1-9]\d|[2-9]\d\d) %", made)
