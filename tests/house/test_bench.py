"""Who is timed predicts before it learns, and sees the same words."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from streamnb import BayesOptimalNB
from tests.benchmarks.measuring import contenders, growth
from tests.cli.test_commands import answer, rows_of, write_lines
from tests.cli.test_commands import streamnb as measure

pytestmark = pytest.mark.storm

ROWS = [{"id": f"{i}", "text": f"It's {w}: a|b\nc", "label": w} for i, w in enumerate(["free", "lunch"] * 40)]
TEXTS, LABELS = [row["text"] for row in ROWS], [row["label"] for row in ROWS]


def predicting():
    return {who: one for who, one in contenders.contenders().items() if not who.startswith("re ")}


@pytest.mark.parametrize("labels", [LABELS, ["free", "lunch", "dinner", "free"] * 20], ids=["two", "three"])
@pytest.mark.parametrize("who", predicting())
def test_everyone_predicts_each_text_before_it_is_learned(who, labels):
    """Each text is one word of its own and those that all share: at its first meeting nobody can know its label."""
    texts = [f"It's {label}: a|b\nc" for label in labels]
    predicted = predicting()[who](texts, labels)
    first = {label: labels.index(label) for label in labels}
    assert len(predicted) == len(labels)
    assert all(predicted[i] != label for label, i in first.items() if i)
    assert predicted[len(labels) // 2 :] == labels[len(labels) // 2 :]


def test_the_default_set_is_timed_as_it_is():
    draw = random.Random(3)
    texts = [" ".join(draw.choices("abcdefghij", k=3)) for _ in range(300)]
    labels = [draw.choice("xy" if "a" in text else "xxxy") for text in texts]
    found = contenders.contenders()["streamnb BayesOptimalNB, default set"](texts, labels)
    model = BayesOptimalNB({"text": "text"})
    assert found == model.predict_then_learn_many([{"text": text} for text in texts], labels).labels()
    assert found != contenders.contenders()["streamnb BayesOptimalNB, 12 naive hypotheses"](texts, labels)


def test_ratios_and_accuracy_are_told_of_everyone(tmp_path):
    told = answer("bench", write_lines(tmp_path / "e.jsonl", ROWS), "--rounds", 2)
    assert [row["contender"] for row in told["results"]] == list(contenders.contenders())
    ours, *_, tokenising = told["results"]
    assert ours["ratio"] == 1.0
    assert (
        ours["accuracy"]
        == sum(map(str.__eq__, LABELS, map(str, predicting()[contenders.OURS](TEXTS, LABELS)))) / 80
    )
    assert tokenising["accuracy"] is None
    assert told["missing"] == contenders.missing()
    assert ("vowpalwabbit" in told["environment"]) is not bool(told["missing"])


def test_bench_skips_what_has_no_text_or_label(tmp_path):
    rows = ['{"id"', {"id": "1", "label": "a"}, {"id": "2", "text": "x"}, *rows_of("a", "b")]
    told = answer("bench", write_lines(tmp_path / "e.jsonl", rows), "--rounds", 1)
    assert (told["events"], told["tokens"]) == (2, 2)
    done = measure("bench", write_lines(tmp_path / "e.jsonl", rows[:3]), check=False)
    assert done.returncode == 2
    assert "no row has both a text with words and a label" in done.stderr


def test_growth_is_told_of_every_size_and_number_of_classes():
    told = answer("bench", "--growth", 1000, "--rounds", 1)
    assert [(row["model"], row["attributes"], row["classes"]) for row in told["results"]] == [
        ("MultinomialNB", 1000, 2),
        ("BernoulliNB", 1000, 2),
        ("MultinomialNB", 1000, 2),
        ("MultinomialNB", 1000, 20),
        ("MultinomialNB", 1000, 200),
    ]
    assert all(row["nanoseconds_per_token"] > 0.0 for row in told["results"])
    assert all(row["bytes_per_attribute"] is None for row in told["results"])  # too few words to tell
    times = [row["nanoseconds_per_token"] for row in told["results"]]
    firsts = [times[0], times[1], times[2], times[2], times[2]]
    assert [row["times_first"] for row in told["results"]] == [
        a / b for a, b in zip(times, firsts, strict=True)
    ]
    multinomial = [row["times_multinomial"] for row in told["results"]]
    assert multinomial == [None, times[1] / times[0], None, None, None]
    assert told["start_up_seconds"].keys() == {"import", "first prediction"}


def test_growth_is_compared_round_by_round():
    """A machine that is slow for a whole round changes no ratio."""

    def turn(slow):
        kinds = [("MultinomialNB", size, 2, 10.0 * i) for i, size in enumerate((10, 20), 1)]
        kinds += [("BernoulliNB", size, 2, 30.0 * i) for i, size in enumerate((10, 20), 1)]
        kinds += [("MultinomialNB", 20, n, n * 5.0) for n in growth.CLASSES]
        return [growth.Growth(*kind, time_ * slow, None if slow == 2.0 else slow) for *kind, time_ in kinds]

    rows = growth._compared([turn(1.0), turn(7.0), turn(2.0)], 2)
    assert [row.nanoseconds_per_token for row in rows] == [20.0, 40.0, 60.0, 120.0, 20.0, 200.0, 2000.0]
    assert [row.times_first for row in rows] == [1.0, 2.0, 1.0, 2.0, 1.0, 10.0, 100.0]
    assert [row.times_multinomial for row in rows] == [None, None, 3.0, 3.0, None, None, None]
    assert {row.bytes_per_attribute for row in rows} == {4.0}


def test_words_are_as_many_as_said_and_drawn_by_zipfs_law(monkeypatch):
    monkeypatch.setattr(growth, "_peak", lambda: None)
    drawn, known = Counter(), []

    def learn(model, texts, labels):
        model.predict_then_learn_many(texts, labels[:1] * len(texts))
        drawn.update(" ".join(texts).split())
        known.append(model.n_attributes)
        return 1.0

    monkeypatch.setattr(growth, "_learn", learn)
    told = growth._measure("MultinomialNB", 1000, 2, 200_000)
    assert told.bytes_per_attribute is None
    assert known[-1] == len(drawn) == 1000
    ranked = [count for _, count in drawn.most_common()]
    assert ranked[0] == pytest.approx(200_000 * math.log(2) / math.log(1001), rel=0.03)
    assert sum(ranked[:100]) == pytest.approx(200_000 * math.log(101) / math.log(1001), rel=0.03)
