"""A Mondrian forest for single events: its arrays, and the event as it reads it."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.jit import kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import copy_to, fill
from streamnb.models.forest.forest_table import ForestTable
from streamnb.models.forest.mondrian_kernels import attributes_of, has_room, run_forest
from streamnb.models.forest.node_arrays import ForestArrays, ForestEvents
from streamnb.models.one_dependence.single_event_codes import CodeArrays, code_items
from streamnb.values.type_aliases import Codes, Singles

LARGEST = 1e37
"""Largest number that a forest reads: differences must not overflow 32 bits."""


@struct_type
class SingleForest(NamedTuple):
    """A forest that predicts a single event, and its scratch.

    Attributes:
        nodes: its trees.
        tables: from values to codes; of each attribute of the layout the column in `numbers` or `codes`.
        numbers: float32[1, A], of the event.
        codes: int32[1, B], of the event.
        missing: int64[B + 1, 3], the values without a code, see `code_one`.
        no_label: int64[1], -1.
        known: int64[K], weight of each class before the event, units.
    """

    nodes: ForestArrays
    tables: CodeArrays
    numbers: Singles
    codes: Codes
    missing: Ints
    no_label: Ints
    known: Ints

    @classmethod
    def none(cls, classes: int) -> SingleForest:
        """Return the arrays of a mixture without a forest, or whose forest is gated."""
        return cls.with_capacity(_no_nodes(), CodeArrays.none(), 0, 0, classes)

    @classmethod
    def with_capacity(
        cls, nodes: ForestArrays, tables: CodeArrays, numbers: int, codes: int, classes: int
    ) -> SingleForest:
        """Return a forest with scratch for this number of attributes and classes."""
        return cls(
            nodes,
            tables,
            np.empty((1, numbers), dtype=np.float32),
            np.empty((1, codes), dtype=np.int32),
            np.zeros((codes + 1, 3), dtype=np.int64),
            np.full(1, -1),
            np.zeros(classes, dtype=np.int64),
        )


@functools.cache
def _no_nodes() -> ForestArrays:
    return ForestTable(1, 0, 0).arrays


@kernel
def predict_single(forest: SingleForest, batch: Any, kinds: Any, classes: Any, adds: Any, joints: Any) -> Any:
    """Read the only event of a batch, and fill joints (1, K) with log P(class | event).

    Return False, before the prediction, if it needs a batch, more room, or codes; see `code_one` for these.
    `classes` int64[K] is the weight of each class, and `adds` whether the event is learned after that.
    """
    numbers, codes = forest.numbers, forest.codes
    fill(numbers[0], np.nan)
    is_read = code_items(batch, kinds, forest.tables, adds, forest.missing, codes)
    for v in range(batch.event_values[0], batch.event_values[1]):
        column = forest.tables.fields[batch.value_field[v]]
        is_read &= column >= 0 or not adds or forest.tables.is_full
        if column >= 0:
            numbers[0, column] = min(max(batch.value[v], -LARGEST), LARGEST)
    if not is_read:
        forest.missing[-1, 0] = 0
    if not is_read or forest.missing[-1, 0] > 0:
        return False
    A, B = attributes_of(numbers[0], codes[0])
    if adds and not has_room(forest.nodes, A, B, batch.label[0]):
        return False
    copy_to(forest.known, classes)
    events = ForestEvents(numbers, codes)
    run_forest(0, forest.nodes, events, forest.no_label, batch.weight, forest.known, joints, None)
    return True


@kernel
def learn_single(forest: SingleForest, batch: Any, joints: Any) -> None:
    """Learn the event that `predict_single` has read; `joints` has no rows."""
    events = ForestEvents(forest.numbers, forest.codes)
    run_forest(0, forest.nodes, events, batch.label, batch.weight, forest.known, joints, None)
