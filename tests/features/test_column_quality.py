"""Data frames whose columns or labels look unintended: Python warns of each once, with what changes it."""

from __future__ import annotations

import warnings

import pytest

pd = pytest.importorskip("pandas")

from streamnb import BayesOptimalNB, BernoulliNB, NaiveBayes  # noqa: E402
from streamnb.errors import OddValuesWarning  # noqa: E402

LABELS = ["a", "b"] * 15


def warned(learn, *given, **more):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learn(*given, **more)
    return [str(one.message) for one in caught if one.category is OddValuesWarning]


def frame(values):
    return pd.DataFrame({"x": values, "kind": ["red", "blue"] * (len(values) // 2)})


ODD = [
    ([f"{n},5" for n in range(30)], "column 'x': looks like numbers with a decimal comma, and each is taken for one value: pandas.read_csv(..., decimal=',') reads them"),
    ([f"1.{n + 100},5" for n in range(30)], "pandas.read_csv(..., decimal=',', thousands='.') reads them"),
    ([f"1,{n + 100}.5" for n in range(30)], "pandas.read_csv(..., thousands=',') reads them"),
    ([f"{n}.5" for n in range(30)], "looks like numbers in strings, and each is taken for one value: X['x'].astype(float)"),
    ([f"\u2212{n}.5" for n in range(30)], 'write -0.5 for "\u22120.5"'),
    ([f"{n}_000" for n in range(1, 31)], "with underscores between thousands"),
    ([f"{n}.4\u00d710^5" for n in range(30)], 'write 0.4e5 for "0.4\u00d710^5"'),
    ([f"($1,{n + 100}.50)" if n % 2 else f"${n}.00" for n in range(30)], 'numbers with a unit ("$")'),
    ([f"{n}.4D+05" for n in range(30)], 'write 0.4e+05 for "0.4D+05"'),
    ([f"{n}x{n % 7}" for n in range(30)], None),
    ([f"{n}:{59 - n}.5" for n in range(30)], 'write 59.5 for "0:59.5"'),
    ([f"{n}:00" for n in range(8, 18)] * 3, None),
    ([*(f"{n},5" for n in range(24)), *"pqrstu"], "with a decimal comma"),
    ([*(f"{n},5" for n in range(12)), *"abcdefghijklmnopqr"], None),
    ([f"{n} mmHg" for n in range(30)], 'looks like numbers with a unit ("mmHg")'),
    ([*(n / 2 for n in range(28)), "k.A.", "?"], 'numbers, but for 2 values such as "k.A.", "?", each taken for one value: replace these by NaN'),
    ([*"xyz"] * 10, None),
    ([f"{n},5" for n in range(4)], None),
    ([n / 2 for n in range(30)], None),
    ([f"a{n}" for n in range(30)], None),
]  # fmt: skip


@pytest.mark.parametrize(("values", "expected"), ODD)
def test_a_column_is_warned_of_once(values, expected):
    model, labels = NaiveBayes(), LABELS[: len(values)]
    found = warned(model.learn_many, frame(values), labels)
    assert len(found) == (expected is not None)
    assert all(expected in text for text in found)
    assert warned(model.learn_many, frame(values), labels) == []
    assert warned(NaiveBayes({"x": "nominal"}).learn_many, frame(values), labels) == []
    if expected:
        categories = frame(values).astype({"x": "category"})
        assert len(warned(NaiveBayes().learn_many, categories, labels)) == 1


def test_labels_that_are_similar_are_warned_of_once_for_each_group():
    model, values = NaiveBayes(), frame([1.0] * 30)
    (text,) = warned(model.learn_many, values, [" offen", "Offen", "zu"] * 10)
    assert "classes of their own: ' offen', 'Offen'; y.str.strip().str.casefold() makes" in text
    (text,) = warned(model.learn_many, values, ["offen", "zu", "auf"] * 10)
    assert "classes of their own: ' offen', 'Offen', 'offen'; y.str" in text, "a third spelling is news"
    assert warned(model.learn_many, values, ["offen", "zu", "auf"] * 10) == []
    many = [f"{'o' * i}{'O' * (5 - i)}" for i in range(5)]
    found = [text for label in many for text in warned(model.learn_many, values[:2], [label, label])]
    assert len(found) == 3, "of two, of three, and of four"
    (text,) = warned(model.learn_many, values, ["ZU"] * 30)
    assert "'zu', 'ZU'" in text
    assert warned(NaiveBayes().learn_many, values, [1, 2, True] * 10) == []


@pytest.mark.parametrize("kind", [NaiveBayes, BayesOptimalNB])
def test_predicting_and_learning_a_frame_warns_as_learning_does(kind):
    model, values = kind(), frame([f"{n},5" for n in range(30)])
    labels = ["a", "A"] * 15
    column, label = warned(model.predict_then_learn_many, values, labels)
    assert "with a decimal comma" in column
    assert "classes of their own: 'a', 'A'" in label
    assert warned(model.predict_then_learn_many, values, labels) == []
    assert warned(kind().predict_then_learn_many, values, [None] * 30) == [column]


def test_an_estimator_warns_once_of_columns_and_labels():
    pytest.importorskip("sklearn")
    from scipy.sparse import csr_array

    from streamnb.sklearn import StreamClassifier

    commas = frame([f"{n},5" for n in range(30)])
    y = pd.Series([" offen", "Offen", "zu"] * 10)
    for model in (None, BayesOptimalNB()):
        estimator = StreamClassifier(model)
        found = warned(estimator.fit, commas, y)
        assert [text.split(":")[0] for text in sorted(found)] == [
            "column 'x'", "labels that differ only by case, blanks, leading zeros or Unicode form are classes of their own"
        ]  # fmt: skip
        assert warned(estimator.partial_fit, commas, y) == []
        assert len(warned(estimator.fit, commas, y)) == 2, "it forgot what it had learned"
    words = StreamClassifier(BernoulliNB())
    assert len(warned(words.fit, csr_array([[1, 0], [0, 1], [1, 1]] * 10), y)) == 1
    assert warned(StreamClassifier(NaiveBayes({"x": "nominal"})).fit, commas, y.str.strip().str.lower()) == []
