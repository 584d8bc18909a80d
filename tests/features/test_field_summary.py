"""Fields of any values are summarized."""

from __future__ import annotations

from streamnb.features.schema_inference import MOST_VALUES, FieldSummary


def test_a_list_after_more_values_than_are_kept_is_counted():
    summary = FieldSummary()
    for value in [*range(MOST_VALUES + 1), ["a", "list"]]:
        summary.add(value)
    assert summary.n == MOST_VALUES + 2
    assert summary.kind == "(a list)"
