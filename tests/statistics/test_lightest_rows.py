"""Which rows are dropped: the lightest, and of equals the first, however many rows and columns there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.statistics.lightest_rows import drop_lightest
from streamnb.values.example_weights import UNIT


@pytest.mark.parametrize(("rows", "columns"), [(50, 1), (50, 40), (1200, 3), (1200, 40)])
@given(st.integers(0, 2**32 - 1))
def test_the_lightest_go_and_of_equals_the_first(rows, columns, seed):
    rng = np.random.default_rng(seed)
    size = rng.choice([1, 3, 2**20, 2**60 // rows])
    table = rng.integers(0, size + 1, (rows + 7, columns)) * rng.integers(0, 2, (rows + 7, columns))
    table[rng.random(rows + 7) < 0.2] = UNIT if size > UNIT else 1
    groups = rng.integers(-1, 3, rows + 7).astype(np.int32)
    stays = rng.random(rows) < 0.9
    most = int(rng.integers(0, rows + 2))

    weights = table.sum(axis=1)[:rows].tolist()
    counted = [row for row in range(rows) if groups[row] >= 0]
    may = [row for row in counted if stays[row] and weights[row]]
    kept = sorted(may, key=lambda row: (weights[row], row))[max(0, len(may) - most) :]
    after = [row in kept or bool(groups[row] < 0 and stays[row]) for row in range(rows)]

    gone = drop_lightest(table, groups, stays, most)

    assert stays.tolist() == after
    assert gone == sum(weights[row] for row in counted if row not in kept)
