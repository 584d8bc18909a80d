"""A shuffle holds positions, not rows; it is a permutation that the seed alone decides."""

from __future__ import annotations

import tracemalloc

import pytest

from streamnb.evaluation.row_shuffle import shuffled

pytestmark = pytest.mark.early(10)


def test_each_row_comes_once_with_its_number():
    rows = [b"x" * (i % 7) + str(i).encode() for i in range(1000)]
    made = [*shuffled(rows, 3)]
    assert sorted(made) == sorted(enumerate(rows))
    assert [number for number, _ in made] != sorted(number for number, _ in made)
    assert [*shuffled(iter(rows), 3)] == made
    assert [number for number, _ in shuffled(rows, 4)] != [number for number, _ in made]
    assert [*shuffled([], 1)] == []


def test_orders_are_uniform():
    counts = {}
    for seed in range(1200):
        order = tuple(number for number, _ in shuffled([b"a", b"b", b"c"], seed))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(abs(n - 200) < 5 * 200**0.5 for n in counts.values())


def test_the_order_of_a_seed_stays():
    assert [number for number, _ in shuffled([b""] * 8, 0)] == [0, 2, 1, 5, 4, 3, 6, 7]


def test_rows_are_not_held_in_memory():
    n, size = 20_000, 1000
    tracemalloc.start()
    total = sum(len(raw) for _, raw in shuffled((bytes(size) for _ in range(n)), 0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == n * size
    assert peak < 32 * n + (1 << 20)
