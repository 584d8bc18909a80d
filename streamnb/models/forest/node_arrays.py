"""The nodes of Mondrian trees as rows of one table, and the events that they hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.jit import inlined
from streamnb.kernels.structs import struct_type
from streamnb.values.type_aliases import Codes, Singles

NODES, EVENTS, FREE, DROPPED, NUMBERS, NOMINALS, CLASSES, MOST = range(8)  # indices of `size`
PARENT, LEFT, RIGHT, ATTRIBUTE = range(4)  # int32 of a node
THRESHOLD, TIME, RATIO, TOTAL, COUNTS = range(2, 7)  # words of a node
MET, MEAN, DEVIATION = range(3)  # indices of `spread`
NONE = -1


@struct_type
class ForestArrays(NamedTuple):
    """T trees over A continuous and B nominal attributes and C classes: nodes of one table, and its views.

    A node has W = 6 + C + A + B words: two of links, THRESHOLD, TIME, RATIO, TOTAL, C counts, and its box: A
    lowest and A highest values of 32 bits, and for each nominal attribute the codes that it holds as bits.

    Attributes:
        size: int64[8]: NODES in use, EVENTS learned, nodes of them that are FREE, the root of the first
            DROPPED subtree or NONE, NUMBERS (A), NOMINALS (B), CLASSES (C), and the MOST nodes.
        key: uint64[2], of the draws.
        roots: int32[T], or NONE.
        held: int64[T], number of nodes of each tree.
        losses: float64[T], of each tree since one was dropped.
        words: uint64[N, W].
        floats: float64[N, W], a view of `words`.
        links: int32[N, 2 W], the same: PARENT, LEFT, RIGHT, and ATTRIBUTE of the split: 2 a of a continuous
            one, 2 b + 1 of a nominal one, NONE of a leaf.
        bounds: float32[N, 2 W], the same.
        spread: float64[A, 3]: number MET, MEAN, and sum of DEVIATIONs.
        scales: float32[A], factors of the extensions.
        beyond: float32[A], nodes: int64[T], rests: float64[T], block: uint64[4], scratch.
    """

    size: Ints
    key: Hashes
    roots: Codes
    held: Ints
    losses: Floats
    words: Hashes
    floats: Floats
    links: Codes
    bounds: Singles
    spread: Floats
    scales: Singles
    beyond: Singles
    nodes: Ints
    rests: Floats
    block: Hashes


class ForestEvents(NamedTuple):
    """Events: numbers float32[n, A], NaN without a value, and codes int32[n, B] from 0 to 63, or below 0."""

    numbers: Singles
    codes: Codes


@inlined
def child_of(forest: Any, node: Any, numbers: Any, codes: Any) -> Any:
    """Return the child of an inner node to which an event belongs; without a value, the heavier one."""
    links, floats = forest.links, forest.floats
    a = np.int64(links[node, ATTRIBUTE])
    left, right = np.int64(links[node, LEFT]), np.int64(links[node, RIGHT])
    threshold = floats[node, THRESHOLD]
    goes_left = False
    if a & 1:
        code = codes[a >> 1]
        goes_left = code != threshold if code >= 0 else floats[left, TOTAL] >= floats[right, TOTAL]
    else:
        value: Any = np.float64(numbers[a >> 1])
        goes_left = floats[left, TOTAL] >= floats[right, TOTAL] if np.isnan(value) else value <= threshold
    return left if goes_left else right
