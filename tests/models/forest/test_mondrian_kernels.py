"""A Mondrian tree against all its prunings one by one, and against its definition."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.models.forest.forest_table import ForestTable
from streamnb.models.forest.mondrian_kernels import _power
from streamnb.models.forest.node_arrays import (
    ATTRIBUTE,
    CLASSES,
    COUNTS,
    DROPPED,
    FREE,
    LEFT,
    NODES,
    NUMBERS,
    PARENT,
    RATIO,
    RIGHT,
    THRESHOLD,
    TIME,
    TOTAL,
    ForestEvents,
)
from streamnb.values.example_weights import UNIT


def drawn_events(seed, n, numbers=2, nominals=1, classes=3):
    """Return n events whose labels depend on two attributes."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, numbers)).astype(np.float32)
    codes = rng.integers(0, 4, size=(n, nominals)).astype(np.int32)
    labels = (np.arange(n) % classes if n < classes else rng.integers(0, classes, n)).astype(np.int64)
    labels = np.where(values[:, 0] > 0.3, codes[:, 0] % classes, labels)
    return ForestEvents(values, codes), labels


def learned(events, labels, weights=None, trees=1, memory=1 << 20, cuts=(), seed=5):
    """Return a forest that predicted and learned the events, in batches that end at `cuts`, and log P."""
    forest, K = ForestTable(trees, memory, seed), int(labels.max(initial=0)) + 1
    known, joints = np.zeros(K, dtype=np.int64), np.zeros((labels.size, K))
    weights = np.full(labels.size, UNIT) if weights is None else weights
    for begin, end in zip((0, *cuts), (*cuts, labels.size), strict=True):
        part = ForestEvents(*(array[begin:end] for array in events))
        forest.run(part, labels[begin:end], weights[begin:end], known, joints[begin:end])
    return forest, joints


def cell_of(arrays, node, numbers, codes):
    """Return the leaf of an event below a node, as a path of nodes."""
    path = [node]
    while (a := int(arrays.links[node, ATTRIBUTE])) >= 0:
        threshold = arrays.floats[node, THRESHOLD]
        is_left = codes[a // 2] != threshold if a % 2 else numbers[a // 2] <= threshold
        node = int(arrays.links[node, LEFT if is_left else RIGHT])
        path.append(node)
    return path


def prunings(arrays, node):
    """Return (prior probability, set of leaves) of every pruning of the tree below a node."""
    if arrays.links[node, ATTRIBUTE] < 0:
        return [(Fraction(1), frozenset([node]))]
    left, right = (prunings(arrays, int(arrays.links[node, side])) for side in (LEFT, RIGHT))
    both = [(p * q / 2, a | b) for (p, a), (q, b) in product(left, right)]
    return [(Fraction(1, 2), frozenset([node])), *both]


def probability(counts, label, classes):
    """Return the estimate of a node, exactly."""
    return (counts.get(label, 0) + Fraction(1, classes)) / (sum(counts.values()) + 1)


@pytest.mark.parametrize("seed", range(8))
def test_a_prediction_is_the_posterior_mean_over_all_prunings(seed):
    n = 14
    events, labels = drawn_events(seed, n + 1)
    forest, _ = learned(ForestEvents(*(a[:n] for a in events)), labels[:n], seed=seed)
    arrays = forest.arrays
    root = int(arrays.roots[0])
    paths = [cell_of(arrays, root, events.numbers[e], events.codes[e]) for e in range(n + 1)]
    counts, met = {}, set()
    evidence = {}
    for e in range(n):
        label = int(labels[e])
        for node in paths[e]:
            own = counts.setdefault(node, {})
            if label in met and len(met) > 1:
                evidence[node] = evidence.get(node, Fraction(1)) * probability(own, label, len(met))
            own[label] = own.get(label, 0) + 1
        met.add(label)
    K = int(labels[:n].max()) + 1
    total, mean = Fraction(0), [Fraction(0)] * K
    trees = prunings(arrays, root)
    assert sum(prior for prior, _ in trees) == 1
    assert len(trees) > 3
    for prior, leaves in trees:
        weight = prior
        for leaf in leaves:
            weight *= evidence.get(leaf, Fraction(1))
        (leaf,) = leaves.intersection(paths[n])
        total += weight
        for k in met:
            mean[k] += weight * probability(counts.get(leaf, {}), k, len(met))
    known, joints = np.bincount(labels[:n], minlength=K) * UNIT, np.zeros((1, K))
    last = ForestEvents(*(a[n:].copy() for a in events))
    forest.run(last, np.full(1, -1), np.full(1, UNIT), known, joints)
    expected = [float(p / total) for p in mean]
    np.testing.assert_allclose(np.exp(joints[0]), expected, rtol=1e-12, atol=0)


def test_boxes_hold_their_events_and_times_rise():
    events, labels = drawn_events(3, 250)
    forest, _ = learned(events, labels, trees=3)
    arrays, A = forest.arrays, events.numbers.shape[1]
    first = COUNTS + arrays.size[CLASSES]
    held = {}
    for root in arrays.roots:
        for e in range(labels.size):
            for node in cell_of(arrays, int(root), events.numbers[e], events.codes[e]):
                held.setdefault(node, []).append(e)
    assert len(held) == arrays.size[NODES] > 100
    for node, own in held.items():
        values = events.numbers[own]
        bounds = arrays.bounds[node, 2 * first : 2 * (first + A)]
        np.testing.assert_array_equal(bounds, np.concatenate((values.min(axis=0), values.max(axis=0))))
        assert arrays.words[node, first + A] == np.bitwise_or.reduce(1 << np.unique(events.codes[own, 0]))
        counts = np.bincount(labels[own], minlength=arrays.size[CLASSES])
        np.testing.assert_array_equal(arrays.floats[node, COUNTS : COUNTS + arrays.size[CLASSES]], counts)
        for side in (LEFT, RIGHT):
            if (child := arrays.links[node, side]) >= 0:
                assert arrays.floats[child, TIME] > arrays.floats[node, TIME]


def test_the_worst_tree_starts_again_in_rows_of_dropped_ones():
    """The labels turn round at 1,500 of 3,000 events, so that whatever is older than that is worse."""
    events, labels = drawn_events(8, 3000, classes=2)
    labels[1500:] = 1 - labels[1500:]
    forest, _ = learned(events, labels, trees=3)
    ages = [forest.arrays.floats[root, TOTAL] for root in forest.arrays.roots]
    assert max(ages) <= 1500
    assert all(age % 250 == 0 for age in ages)
    held = [len(below(forest.arrays, int(root))) for root in forest.arrays.roots]
    assert held == forest.arrays.held.tolist()
    assert sum(held) == forest.arrays.size[NODES] - forest.arrays.size[FREE]
    static, _ = learned(*drawn_events(8, 3000, classes=2), trees=3)
    assert max(static.arrays.floats[root, TOTAL] for root in static.arrays.roots) >= 2500


def below(arrays, node):
    """Return a node and all below it."""
    if arrays.links[node, ATTRIBUTE] < 0:
        return [node]
    sides = (below(arrays, int(arrays.links[node, side])) for side in (LEFT, RIGHT))
    return [node, *(one for side in sides for one in side)]


def test_the_worst_tree_is_that_of_the_greatest_log_loss():
    """Of a tree as it is with the event: counts and ratios before it follow from those after it."""
    events, labels = drawn_events(7, 251, classes=2)
    labels[:2], loss, known = (0, 1), 0.0, np.zeros(2, dtype=np.int64)
    one = ForestTable(1, 1 << 20, 5)
    for e in range(250):
        part = ForestEvents(*(a[e : e + 1] for a in events))
        one.run(part, labels[e : e + 1], np.full(1, UNIT), known, np.zeros((0, 2)))
        arrays, q = one.arrays, 0.0
        for node in reversed(cell_of(arrays, int(arrays.roots[0]), events.numbers[e], events.codes[e])):
            count, total = arrays.floats[node, COUNTS + labels[e]], arrays.floats[node, TOTAL]
            p = (count - 0.5) / total
            ratio = arrays.floats[node, RATIO] * p / q if q else 0.0
            q = (p + ratio * q) / (1.0 + ratio)
        loss -= math.log(q) if e >= 2 else 0.0
    assert one.arrays.losses[0] == pytest.approx(loss * UNIT, rel=1e-12)
    three, _ = learned(ForestEvents(*(a[:250] for a in events)), labels[:250], trees=3)
    worst = int(np.argmax(three.arrays.losses))
    assert len({*three.arrays.losses.tolist()}) == 3
    last = ForestEvents(*(a[250:] for a in events))
    three.run(last, labels[250:], np.full(1, UNIT), np.bincount(labels[:250]) * UNIT, np.zeros((0, 2)))
    ages = [three.arrays.floats[root, TOTAL] for root in three.arrays.roots]
    assert ages == [1.0 if t == worst else 251.0 for t in range(3)]
    assert max(three.arrays.losses) < 40 * UNIT, "of the event since then"


def test_a_row_of_a_dropped_tree_is_free_once():
    events, labels = drawn_events(5, 2000)
    seen_free = 0
    for end in range(240, 2000, 30):
        forest, _ = learned(ForestEvents(*(a[:end] for a in events)), labels[:end], trees=2)
        arrays, free, node = forest.arrays, [], int(forest.arrays.size[DROPPED])
        while node >= 0:
            free += below(arrays, node)
            node = int(arrays.links[node, PARENT])
        used = [one for root in arrays.roots for one in below(arrays, int(root))]
        assert sorted(free + used) == list(range(arrays.size[NODES]))
        assert len(free) == arrays.size[FREE]
        seen_free += len(free) > 0
    assert seen_free > 10


@given(st.integers(0, 50), st.lists(st.integers(0, 40), max_size=4))
def test_the_cut_into_batches_changes_nothing(seed, cuts):
    events, labels = drawn_events(seed, 40, classes=5)
    labels[::7] = -1
    events.numbers[::5, 1] = np.nan
    events.codes[::3, 0] = -1
    whole = learned(events, labels, trees=2)
    parts = learned(events, labels, trees=2, cuts=sorted(cuts))
    np.testing.assert_array_equal(whole[1], parts[1])
    assert_equal_states(whole[0], parts[0])


def assert_equal_states(one, other):
    one, other = state_of(one), state_of(other)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


def state_of(forest):
    """Return the state of a forest."""
    return forest.copying(lambda parts: np.concatenate([*parts]))()


def test_attributes_and_classes_may_come_at_any_time():
    events, labels = drawn_events(9, 120, numbers=3, nominals=2, classes=6)
    late = ForestEvents(events.numbers.copy(), events.codes.copy())
    late.numbers[:40, 2], late.codes[:60, 1], labels[:80] = np.nan, -1, labels[:80] % 2
    forest, joints = learned(late, labels, trees=4)
    assert list(forest.arrays.size[NUMBERS : CLASSES + 1]) == [3, 2, 6]
    one_by_one, again = learned(late, labels, trees=4, cuts=range(1, 120))
    np.testing.assert_array_equal(joints, again)
    assert_equal_states(forest, one_by_one)
    np.testing.assert_allclose(np.exp(joints[1:]).sum(axis=1), 1.0, rtol=1e-12)


def test_a_full_forest_stays_within_its_memory_and_still_counts():
    events, labels = drawn_events(4, 2000)
    forest, joints = learned(events, labels, trees=2, memory=1 << 14)
    assert forest.n_bytes <= 1 << 14
    assert forest.events == 2000
    assert np.isfinite(joints[100:]).all()
    more = forest.arrays.size[NODES]
    wide, _ = drawn_events(4, 1, numbers=200)
    known = np.full(3, UNIT)
    forest.run(wide, np.zeros(1, dtype=np.int64), np.full(1, UNIT), known, np.zeros((1, 3)))
    assert forest.arrays.size[NODES] == 2 < more  # too wide: the trees started again
    assert forest.n_bytes <= 1 << 14


@pytest.mark.parametrize("most", range(24, 124, 3))
def test_a_full_forest_goes_on_within_its_rows(most):
    """Restored in rows for its nodes alone; a dropped tree makes room for more splits than it had nodes."""
    events, labels = drawn_events(4, 1600)
    events.numbers[::250] = 1e6  # far from all others, so that it splits all trees
    width = 8 * (COUNTS + 3 + 2 + 1)
    first = ForestEvents(*(a[:240] for a in events))
    forest, _ = learned(first, labels[:240], trees=8, memory=most * width)
    tables = forest, restored(forest)
    for table in tables:
        known = np.bincount(labels[:240]) * UNIT
        for e in range(240, 1600):
            part = ForestEvents(*(a[e : e + 1] for a in events))
            table.run(part, labels[e : e + 1], np.full(1, UNIT), known, np.zeros((0, 3)))
            assert table.arrays.size[NODES] <= len(table.arrays.words) <= most
    assert_equal_states(*tables)


def restored(forest):
    """Return a forest with the state of another, and its memory."""
    again = ForestTable(forest.trees, forest.memory, forest.seed)
    again.load(state_of(forest), *forest.arrays.size[NUMBERS : CLASSES + 1].tolist())
    return again


@given(st.floats(1e-6, 1e6), st.integers(1, 20 * UNIT))
def test_a_power_is_made_of_products_and_roots(r, units):
    assert float(_power(r, units)) == pytest.approx(r ** (units / UNIT), rel=1e-11)


def test_whole_weights_count_like_repetitions_in_the_counts():
    events, labels = drawn_events(6, 60)
    weights = np.full(60, 3 * UNIT)
    forest, _ = learned(events, labels, weights)
    repeated = ForestEvents(*(np.repeat(a, 3, axis=0) for a in events))
    again, _ = learned(repeated, np.repeat(labels, 3))
    roots = [(f.arrays.floats[f.arrays.roots[0], TOTAL : COUNTS + 3]).tolist() for f in (forest, again)]
    assert roots[0] == roots[1]


def test_draws_do_not_depend_on_what_was_only_predicted():
    events, labels = drawn_events(2, 80)
    is_learned = np.arange(80) % 3 > 0
    labels_of_some = np.where(is_learned, labels, -1)
    some, _ = learned(events, labels_of_some, trees=2)
    others, _ = learned(ForestEvents(*(a[is_learned] for a in events)), labels[is_learned], trees=2)
    assert_equal_states(some, others)


def test_the_scale_of_numbers_close_together_is_one_that_a_state_may_have():
    """Each number counts in mean deviations; so small a mean is one of a constant."""
    for spread in (1e-32, 1e-31, 1e-30, 1e-29, 1e-28):
        numbers = np.random.default_rng(3).uniform(0.0, spread, size=(400, 1)).astype(np.float32)
        events = ForestEvents(numbers, np.zeros((400, 0), dtype=np.int32))
        forest, _ = learned(events, np.arange(400) % 2)
        again = ForestTable(1, forest.memory, forest.seed)
        again.load(state_of(forest), 1, 0, 2)
        assert_equal_states(forest, again)
        assert (forest.arrays.size[NODES] > 1) == (spread > 1e-30)
