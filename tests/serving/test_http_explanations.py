"""The rule by which a published prediction was decided."""

from __future__ import annotations

import pytest

from streamnb.events import ModelInfo, Prediction
from streamnb.serving.http_explanations import decided

PROBABILITIES = {"ham": 0.3, "spam": 0.6, "other": 0.1}


@pytest.mark.parametrize(
    ("fields", "rule", "outcome"),
    [
        ({}, "probability", "spam"),
        ({"decision": "ham", "expected_cost": 0.5}, "cost", "ham"),
        ({"decision": None, "expected_cost": 0.2, "rejected": "cost"}, "cost", None),
        ({"decision": None, "expected_cost": 0.2, "rejected": "novel", "novelty": 0.01}, "novelty", None),
        ({"label": None, "probability": None, "probabilities": {}}, "nothing-known", None),
    ],
)
def test_the_rule_follows_from_the_published_fields(fields, rule, outcome):
    given = {"label": "spam", "probability": 0.6, "probabilities": PROBABILITIES} | fields
    one = Prediction(id="e", status="ready", model=ModelInfo("m", 0), ts=1.0, **given)
    found = decided(one)
    assert (found["rule"], found["outcome"]) == (rule, outcome)
    assert found.get("expected_cost") == fields.get("expected_cost")
    assert found.get("novelty") == fields.get("novelty")
    known = bool(given["probabilities"])
    assert (found["runner_up"], found["runner_up_probability"]) == (("ham", 0.3) if known else (None, None))
