"""Memory budgets: what is allowed fits and one more does not, and eviction begins where the limits that are shown end."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnb.statistics.memory_budget import MemoryBudget, of_features, of_rows, of_runs

MIB = 1 << 20
BYTES = st.one_of(st.integers(1 << 12, 1 << 18), st.integers(1 << 12, 1 << 36))
CLASSES = st.one_of(st.integers(0, 9), st.integers(0, 5000))
BUDGETS = st.builds(MemoryBudget, BYTES, BYTES, st.integers(1, 4))
OF_ATTRIBUTE, TOTALS = 128 << 10, 8 * 40  # bytes of the whole: of an attribute, and of each class of it


@given(BUDGETS, CLASSES)
@example(MemoryBudget(1 << 12, 1 << 12), 5000)
def test_rows_and_long_words_fit_and_one_more_row_does_not(budget, classes):
    rows, row = budget.rows(classes), budget.row_bytes(classes)
    assert (budget.long_bytes, row) == (budget.n_bytes // 8, 36 + 12 * budget.tables * (classes + 1))
    assert rows == 1 or rows * row + budget.long_bytes <= budget.n_bytes
    assert (rows + 1) * row + budget.long_bytes > budget.n_bytes


@given(BUDGETS, CLASSES)
@example(MemoryBudget(1 << 12, 1 << 12), 0)
@example(MemoryBudget(1 << 30, 1 << 30), 5000)
def test_attributes_and_classes_fit_and_one_more_does_not(budget, n):
    def fits(attributes, classes):
        return attributes * max(OF_ATTRIBUTE, classes * TOTALS) <= budget.whole

    attributes, classes = budget.attributes(n), budget.classes(n)
    assert attributes == 1 or fits(attributes, n)
    assert not fits(attributes + 1, n)
    assert classes == 2 or classes * (n + 1) * TOTALS <= budget.whole
    assert (classes + 1) * (n + 1) * TOTALS > budget.whole
    assert budget.is_free(n) == (attributes == budget.attributes(1))


@given(BUDGETS, CLASSES)
@example(MemoryBudget(3072, 3072), 0)  # seven eighths are whole numbers of both
def test_eviction_begins_beyond_seven_eighths_of_either(budget, classes):
    rows, long_bytes = 7 * budget.rows(classes) // 8, 7 * budget.long_bytes // 8
    for used, is_short in [((rows, long_bytes), False), ((rows + 1, 0), True), ((0, long_bytes + 1), True)]:
        parts = budget.taken(*used, classes)
        assert budget.is_short(*used, classes) == is_short == any(p.taken > p.most for p in parts.values())
        assert [p.taken for p in parts.values()] == [used[0] * budget.row_bytes(classes), used[1]]


@pytest.mark.parametrize(
    ("n", "rows", "features"),
    [(16, 1, 5), (96, 6, 30), (128, 10, 32), (384, 42, 64)],
    ids=lambda n: f"{n}MiB",
)
def test_what_rows_features_and_byte_runs_have_of_a_budget(n, rows, features):
    assert (of_rows(n * MIB), of_features(n * MIB)) == (rows * MIB, features * MIB)
    assert of_runs(n * MIB) == (7 * n * MIB // 16, True)
    assert of_rows(n * MIB) + of_features(n * MIB) + of_runs(n * MIB).n_bytes <= n * MIB
