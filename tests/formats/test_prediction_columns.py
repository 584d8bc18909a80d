"""Predictions encoded from columns: the same bytes as encoded one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.events import Attribution, ModelInfo, Prediction
from streamnb.formats.codec import encode_predictions
from streamnb.formats.prediction_columns import PredictionColumns, encode_prediction_columns

NAMES = st.text(st.sampled_from('ab",:\\é😀{}\n\x1f'), min_size=1, max_size=4) | st.sampled_from(
    ['a",', '",', "\\\\", '","']
)
NUMBERS = st.floats(0, 1, width=64) | st.sampled_from([1e-7, 1e-300, 5e-324, 0.1, 1.0, 1e16])

ITEMS = st.lists(st.builds(Attribution, NAMES, NAMES | NUMBERS | st.booleans(), NUMBERS), max_size=3).map(
    tuple
)


@st.composite
def columns(draw):
    n, classes = draw(st.integers(0, 5)), draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    hypotheses = draw(st.lists(NAMES, max_size=3, unique=True))

    def matrix(width):
        rows = st.lists(NUMBERS, min_size=width, max_size=width)
        return np.array(draw(st.lists(rows, min_size=n, max_size=n))).reshape(n, width)

    known = [draw(st.integers(1, len(classes))) for _ in range(n)]
    return PredictionColumns(
        priors=draw(st.none() | st.lists(st.none() | NUMBERS.map(lambda x: -x), min_size=n, max_size=n)),
        ids=draw(st.lists(NAMES, min_size=n, max_size=n)),
        classes=classes,
        best=np.array([draw(st.integers(0, most - 1)) for most in known], dtype=np.int64),
        probabilities=matrix(len(classes)),
        known=np.array(known, dtype=np.int64),
        unseen=draw(st.just(None) | st.just(matrix(1)[:, 0])),
        truths=draw(st.lists(st.none() | NAMES, min_size=n, max_size=n)),
        evidence=draw(st.none() | st.lists(ITEMS, min_size=n, max_size=n)),
        hypotheses=hypotheses,
        weights=matrix(len(hypotheses)),
        name=draw(NAMES | st.just('x"events":0')),
        ages=draw(st.lists(st.integers(0, 2**53), min_size=n, max_size=n)),
        journal=draw(st.none() | st.integers(0, 9)),
        ts=draw(NUMBERS),
    )


def as_predictions(found):
    """One object for each prediction, as readers of the topic have it."""
    for i, event_id in enumerate(found.ids):
        shown = found.known[i]
        probabilities = dict(zip(found.classes[:shown], found.probabilities[i].tolist(), strict=False))
        label, weights = found.classes[found.best[i]], found.weights[i].tolist()
        yield Prediction(
            id=event_id,
            label=label,
            probability=probabilities[label],
            probabilities=probabilities,
            status="ready",
            unseen=None if found.unseen is None else found.unseen[i].item(),
            truth=found.truths[i],
            evidence=None if found.evidence is None else found.evidence[i],
            prior=None if found.priors is None else found.priors[i],
            hypotheses=dict(zip(found.hypotheses, weights, strict=True)) if found.hypotheses else None,
            model=ModelInfo(found.name, found.ages[i], found.journal),
            ts=found.ts,
        )


@given(columns())
def test_columns_give_the_bytes_of_the_predictions(found):
    assert encode_prediction_columns(found) == encode_predictions([*as_predictions(found)])


@pytest.mark.parametrize("place", ["probabilities", "unseen", "weights", "ts"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_record_has_a_number_that_is_not_finite(place, value):
    one = np.ones((1, 1))
    usual = PredictionColumns(
        ["m"], ["a"], np.array([0]), one, np.array([1]), one[0], ["a"], None, None, ["h"], one, "default", [1], None,
        1.0,
    )  # fmt: skip
    assert len(encode_prediction_columns(usual)) == 1
    bad = value if place == "ts" else getattr(usual, place) * value
    with pytest.raises(ValueError, match="not finite"):
        encode_prediction_columns(usual._replace(**{place: bad}))
