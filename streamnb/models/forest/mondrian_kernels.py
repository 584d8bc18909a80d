"""Kernels of Mondrian trees: predict an event by all trees, then learn it, strictly in order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamnb.kernels.intrinsics import prefetch
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import count_positive, fill
from streamnb.models.forest.node_arrays import (
    ATTRIBUTE,
    CLASSES,
    COUNTS,
    DEVIATION,
    DROPPED,
    EVENTS,
    FREE,
    LEFT,
    MEAN,
    MET,
    MOST,
    NODES,
    NOMINALS,
    NONE,
    NUMBERS,
    PARENT,
    RATIO,
    RIGHT,
    THRESHOLD,
    TIME,
    TOTAL,
    child_of,
)
from streamnb.models.forest.path_attribution import keep_paths
from streamnb.models.naive_bayes.joint_log_likelihood import score_priors
from streamnb.statistics.class_priors import LEARNED
from streamnb.statistics.counter_rng import fill_block
from streamnb.statistics.portable_log import portable_log
from streamnb.values.example_weights import UNIT

LEAST_RATIO, MOST_RATIO = 1e-30, 1e30
SPREAD = 4.0  # mean deviations of a continuous attribute that count like another value of a nominal one
LEAST_DEVIATION = 1e-30  # a smaller mean deviation is one of a constant
_EVENTS_A_TREE = 250  # after so many, the worst tree starts again
_HALVINGS = UNIT.bit_length() - 1
_LINE = 8  # words


@inlined
def _box(forest: Any, node: Any) -> Any:
    """Return the lowest and the highest values, and the codes as bits, that a node holds."""
    A, B = forest.size[NUMBERS], forest.size[NOMINALS]
    first = COUNTS + forest.size[CLASSES]
    bounds = forest.bounds[node, 2 * first : 2 * (first + A)]
    return bounds[:A], bounds[A:], forest.words[node, first + A : first + A + B]


@inlined
def _is_new(held: Any, code: Any) -> Any:
    """Return True if a nominal attribute of a box has other codes, but not this one."""
    return code >= 0 and held != np.uint64(0) and (held >> np.uint64(code)) & np.uint64(1) == np.uint64(0)


@inlined
def _extension(forest: Any, node: Any, numbers: Any, codes: Any) -> float:
    """Fill `beyond` with the extension of a node's box by each number; return the sum of all extensions."""
    low, high, held = _box(forest, node)
    beyond, scales = forest.beyond, forest.scales
    for a in range(numbers.size):
        value, zero = numbers[a], np.float32(0.0)
        above = value - high[a] if value > high[a] else zero
        below = low[a] - value if value < low[a] else zero
        beyond[a] = (above + below) * scales[a] if low[a] <= high[a] else zero
    total = 0.0
    for a in range(numbers.size):
        total += beyond[a]
    for b in range(codes.size):
        total += 1.0 if _is_new(held[b], codes[b]) else 0.0
    return total


@inlined
def _widen(forest: Any, node: Any, numbers: Any, codes: Any) -> None:
    """Extend the box of a node to an event."""
    low, high, held = _box(forest, node)
    for a in range(numbers.size):
        value = numbers[a]
        low[a] = min(low[a], value)
        high[a] = max(high[a], value)
    for b in range(codes.size):
        if codes[b] >= 0:
            held[b] |= np.uint64(1) << np.uint64(codes[b])


@inlined
def _new_leaf(forest: Any, t: Any, parent: Any, time: float) -> Any:
    """Add a leaf without examples to tree t, in a free row if there is one; return its index."""
    size, links, floats = forest.size, forest.links, forest.floats
    node = size[DROPPED]
    if node < 0:
        node = size[NODES]
        size[NODES] = node + 1
    else:
        size[FREE] -= 1
        following = np.int64(links[node, PARENT])
        if links[node, ATTRIBUTE] >= 0:
            left, right = links[node, LEFT], links[node, RIGHT]
            links[left, PARENT], links[right, PARENT] = right, following
            following = np.int64(left)
        size[DROPPED] = following
    forest.held[t] += 1
    links[node, PARENT], links[node, ATTRIBUTE] = parent, NONE
    links[node, LEFT], links[node, RIGHT] = NONE, NONE
    fill(floats[node, THRESHOLD:], 0.0)
    floats[node, TIME], floats[node, RATIO] = time, 1.0
    low, high, _ = _box(forest, node)
    fill(low, np.inf)
    fill(high, -np.inf)
    return node


@inlined
def _uniform(word: Any) -> float:
    """Return a number in [0, 1) from a random word, as `counter_rng.uniforms`."""
    return float(word >> np.uint64(11)) * 2.0**-53


@inlined
def _drawn_split(forest: Any, node: Any, numbers: Any, codes: Any, total: float) -> Any:
    """Draw a split between the box of a node and an event, whose extensions are in `beyond`.

    Returns the attribute as in `links`, the threshold, and True if the event lies to its right.
    """
    low, high, held = _box(forest, node)
    draws, reached = forest.block, 0.0
    target = _uniform(draws[1]) * total
    number: Any = np.int64(-1)
    for a in range(numbers.size):
        if reached <= target and forest.beyond[a] > 0.0:
            number = a
            reached += forest.beyond[a]
    nominal: Any = np.int64(-1)
    for b in range(codes.size):
        if reached <= target and _is_new(held[b], codes[b]):
            nominal = b
            reached += 1.0
    if nominal >= 0:
        return 2 * nominal + 1, float(codes[nominal]), True
    value, lowest, highest = float(numbers[number]), float(low[number]), float(high[number])
    is_above = value > highest
    begin, end = (highest, value) if is_above else (value, lowest)
    threshold = begin + _uniform(draws[2]) * (end - begin)
    return 2 * number, threshold if threshold < end else begin, is_above


@inlined
def _pass_up(forest: Any, node: Any, factor: float) -> None:
    """Update the ratios from a node up to the root, as the mean over the prunings of its child changed."""
    while node >= 0:
        before = forest.floats[node, RATIO]
        ratio = min(max(before * factor, LEAST_RATIO), MOST_RATIO)
        forest.floats[node, RATIO] = ratio
        factor = (1.0 + ratio) / (1.0 + before)
        node = np.int64(forest.links[node, PARENT])


@kernel
def split_above(forest: Any, t: Any, node: Any, time: float, numbers: Any, codes: Any, total: float) -> int:
    """Put an inner node above `node` that separates an event from its box; return the inner node.

    The inner node has learned what `node` has, and the event's new leaf nothing. A subtree below it has one
    more pruning, so that the mean over its prunings is another.
    """
    links, floats = forest.links, forest.floats
    attribute, threshold, goes_right = _drawn_split(forest, node, numbers, codes, total)
    parent = np.int64(links[node, PARENT])
    inner = _new_leaf(forest, t, parent, floats[node, TIME])
    leaf = _new_leaf(forest, t, inner, time)
    for w in range(TOTAL, forest.words.shape[1]):
        forest.words[inner, w] = forest.words[node, w]
    links[inner, ATTRIBUTE], floats[inner, THRESHOLD] = attribute, threshold
    links[inner, LEFT], links[inner, RIGHT] = (node, leaf) if goes_right else (leaf, node)
    if links[node, ATTRIBUTE] >= 0:
        floats[inner, RATIO] = (1.0 + floats[node, RATIO]) / 2.0
        _pass_up(forest, parent, (1.0 + floats[inner, RATIO]) / (1.0 + floats[node, RATIO]))
    links[node, PARENT], floats[node, TIME] = inner, time
    if parent < 0:
        forest.roots[t] = inner
    elif links[parent, LEFT] == node:
        links[parent, LEFT] = inner
    else:
        links[parent, RIGHT] = inner
    return int(inner)


@inlined
def _grow(forest: Any, t: Any, numbers: Any, codes: Any, label: Any, can_split: Any) -> Any:
    """Extend the boxes along the path of an event, split at most once; return the leaf."""
    links, floats = forest.links, forest.floats
    node, need = np.int64(forest.roots[t]), -1.0
    while True:
        if can_split and floats[node, COUNTS + label] != floats[node, TOTAL]:
            total = _extension(forest, node, numbers, codes)
            if total > 0.0:
                if need < 0.0:
                    fill_block(forest.key, forest.size[EVENTS] * forest.roots.size + t, forest.block)
                    need = -portable_log(1.0 - _uniform(forest.block[0]))
                time = floats[node, TIME]
                lasts = np.inf
                if links[node, ATTRIBUTE] >= 0:
                    lasts = floats[links[node, LEFT], TIME] - time
                if need < total * lasts:
                    node = np.int64(split_above(forest, t, node, time + need / total, numbers, codes, total))
                    can_split = False
                else:
                    need -= total * lasts
        _widen(forest, node, numbers, codes)
        if links[node, ATTRIBUTE] < 0:
            return node
        node = child_of(forest, node, numbers, codes)


@inlined
def _power(r: float, units: Any) -> float:
    """Return r^(units / 1024), by products and square roots: the same bits on every processor."""
    whole, power, root = units // UNIT, 1.0, r
    rest = units % UNIT
    if rest > 0:
        for _ in range(_HALVINGS):
            root = math.sqrt(root)
    while rest > 0:
        if rest & 1:
            power *= root
        root *= root
        rest >>= 1
    root = r
    while whole > 0:
        if whole & 1:
            power *= root
        root *= root
        whole >>= 1
    return power


@inlined
def _weigh(forest: Any, leaf: Any, label: Any, units: Any, classes: float, weighs: Any) -> float:
    """Update ratios and counts from a leaf up to the root; return the tree's probability of the label."""
    floats, links, column = forest.floats, forest.links, COUNTS + label
    node, q, weight = leaf, 0.0, units / UNIT
    while node >= 0:
        p = (floats[node, column] + 1.0 / classes) / (floats[node, TOTAL] + 1.0)
        if node == leaf:
            q = p
        else:
            ratio = floats[node, RATIO]
            mixed = (p + ratio * q) / (1.0 + ratio)
            if weighs:
                gain = q / p
                ratio *= gain if units == UNIT else _power(gain, units)
                floats[node, RATIO] = min(max(ratio, LEAST_RATIO), MOST_RATIO)
            q = mixed
        floats[node, column] += weight
        floats[node, TOTAL] += weight
        node = np.int64(links[node, PARENT])
    return q


@inlined
def _predict(forest: Any, numbers: Any, codes: Any, known: Any, classes: float, joint: Any) -> None:
    """Fill joint (K,) with the mean of the predictions of all trees, which descend together."""
    floats, nodes, rests = forest.floats, forest.nodes, forest.rests
    T, W, own = nodes.size, floats.shape[1], min(forest.size[CLASSES], joint.size)
    fill(joint, 0.0)
    for t in range(T):
        nodes[t], rests[t] = forest.roots[t], 1.0 / T
    left, all_shares = T, 0.0
    while left > 0:
        left = 0
        for t in range(T):
            node = nodes[t]
            if node < 0:
                continue
            share = rests[t]
            nodes[t] = NONE
            if forest.links[node, ATTRIBUTE] >= 0:
                ratio = floats[node, RATIO]
                share /= 1.0 + ratio
                rests[t] = share * ratio
                child = child_of(forest, node, numbers, codes)
                for w in range(0, W, _LINE):
                    prefetch(floats, child * W + w)
                nodes[t] = child
                left += 1
            share /= floats[node, TOTAL] + 1.0
            all_shares += share
            for k in range(own):
                joint[k] += share * floats[node, COUNTS + k]
    for k in range(joint.size):
        joint[k] = joint[k] + all_shares / classes if known[k] > 0 else 0.0


@inlined
def _note_values(forest: Any, numbers: Any) -> None:
    """Update the scales of continuous attributes: SPREAD times the mean deviation from the running mean."""
    spread = forest.spread
    for a in range(numbers.size):
        if numbers[a] == numbers[a]:
            away = float(numbers[a]) - spread[a, MEAN]
            if spread[a, MET] > 0.0:
                spread[a, DEVIATION] += abs(away)
            spread[a, MET] += 1.0
            spread[a, MEAN] += away / spread[a, MET]
            if spread[a, DEVIATION] > LEAST_DEVIATION * spread[a, MET]:
                forest.scales[a] = spread[a, MET] / (SPREAD * spread[a, DEVIATION])


@inlined
def attributes_of(numbers: Any, codes: Any) -> Any:
    """Return one more than the last continuous, and nominal, attribute that an event has."""
    A, B = numbers.size, codes.size
    while A > 0 and numbers[A - 1] != numbers[A - 1]:
        A -= 1
    while B > 0 and codes[B - 1] < 0:
        B -= 1
    return A, B


@inlined
def _has_met(forest: Any, numbers: Any, codes: Any) -> bool:
    """Return True if an event has a value of an attribute that was learned."""
    low, high, held = _box(forest, np.int64(forest.roots[0]))
    found = False
    for a in range(numbers.size):
        found |= low[a] <= high[a] and numbers[a] == numbers[a]
    for b in range(codes.size):
        found |= codes[b] >= 0 and held[b] != np.uint64(0)
    return found


@inlined
def _answer(forest: Any, numbers: Any, codes: Any, known: Any, classes: Any, joint: Any) -> None:
    """Fill joint (K,) with log P(class | event)."""
    _predict(forest, numbers, codes, known, classes, joint)
    for k in range(joint.size):
        joint[k] = math.log(joint[k]) if joint[k] > 0.0 else -np.inf


@inlined
def _can_split(forest: Any) -> Any:
    """Return True if there may be the nodes of a split of each tree."""
    size = forest.size
    return size[NODES] - size[FREE] + 2 * forest.roots.size <= size[MOST]


@inlined
def _drop_worst(forest: Any) -> None:
    """Drop the tree of the greatest log loss since one was dropped; its nodes are free from now on."""
    size, worst = forest.size, 0
    for t in range(forest.roots.size):
        if forest.losses[t] > forest.losses[worst]:
            worst = t
    fill(forest.losses, 0.0)
    root = forest.roots[worst]
    forest.links[root, PARENT] = size[DROPPED]
    size[DROPPED] = root
    size[FREE] += forest.held[worst]
    forest.held[worst], forest.roots[worst] = 0, NONE


@inlined
def _learn(forest: Any, numbers: Any, codes: Any, label: Any, units: Any, known: Any) -> None:
    """Learn one event in all trees."""
    size, T, classes = forest.size, forest.roots.size, count_positive(known)
    if size[EVENTS] % _EVENTS_A_TREE == 0 and forest.roots[0] >= 0:
        _drop_worst(forest)
    can_split, weighs = _can_split(forest), known[label] > 0 and classes > 1
    _note_values(forest, numbers)
    for t in range(T):
        if forest.roots[t] < 0:
            forest.roots[t] = _new_leaf(forest, t, NONE, 0.0)
        leaf = _grow(forest, t, numbers, codes, label, can_split)
        probability = _weigh(forest, leaf, label, units, max(classes, 1), weighs)
        if weighs:
            forest.losses[t] -= units * portable_log(probability)
    size[EVENTS] += 1


@inlined
def has_room(forest: Any, A: Any, B: Any, label: Any) -> Any:
    """Return True if the nodes have these attributes and this class, and the table has rows for an event."""
    size, more = forest.size, 2 * forest.roots.size
    fits = size[NUMBERS] >= A and size[NOMINALS] >= B and label < size[CLASSES]
    return fits and min(size[NODES] - size[FREE] + more, size[MOST]) <= forest.words.shape[0]


@kernel
def run_forest(
    first: int,
    forest: Any,
    events: Any,
    labels: Any,
    weights: Any,
    known: Any,
    joints: Any,
    kept: Any,
) -> int:
    """Predict each event from `first` on if `joints` has rows, then learn it if it has a label.

    Args:
        first: the first event.
        forest: `ForestArrays`.
        events: `ForestEvents`.
        labels: int64[n], -1: predict only.
        weights: int64[n], units.
        known: int64[K], weight learned of each class (units), including the events before; is updated.
        joints: float64[n, K], filled with log P(class | event).
        kept: float64[n, 2 M + 2, K], filled for each event with what the splits add, see `path_attribution`;
            None keeps nothing.

    Returns n, or the event before which nodes, attributes or classes need more room.
    """
    size = forest.size
    for e in range(first, labels.size):
        numbers, codes = events.numbers[e], events.codes[e]
        A, B = attributes_of(numbers, codes)
        learns = labels[e] >= 0 and A + B > 0
        if learns and not has_room(forest, A, B, labels[e]):
            return e
        numbers, codes = numbers[: size[NUMBERS]], codes[: size[NOMINALS]]
        if joints.shape[0]:
            classes = count_positive(known)
            if forest.roots[0] >= 0 and classes > 0 and _has_met(forest, numbers, codes):
                _answer(forest, numbers, codes, known, classes, joints[e])
                if kept is not None:
                    keep_paths(forest, numbers, codes, known, classes, kept[e])
            else:
                score_priors(known, known, LEARNED, joints[e], joints[e])
        if learns:
            _learn(forest, numbers, codes, labels[e], weights[e], known)
        if labels[e] >= 0:
            known[labels[e]] += weights[e]
    return int(labels.size)
