"""A block of words (see `eviction_kernels`) as the state of a `NaiveBayes` and back, and its validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Ints
from streamnb.models.tenants.eviction_kernels import (
    BYTES,
    CLASSES,
    EVENTS,
    FIELDS,
    GROUPS,
    HEADER,
    ROWS,
    WORDS,
    checked,
    parts_of,
    sealed,
    words_of,
)
from streamnb.values.state_validation import plain, plain_attribute
from streamnb.values.type_aliases import Array, State


def state_of(
    words: Ints, at: int, classes: Sequence[Any], groups: Sequence[tuple[int, Any]], fields: Sequence[Any]
) -> State:
    """Return the state of a `NaiveBayes` from the block at `at`, whose numbers are indices of these lists."""
    size = words[at : at + HEADER]
    K, G, F, R, A = size[[CLASSES, GROUPS, FIELDS, ROWS, BYTES]].tolist()
    owned, totals, named, table, rows, cells, arena, end = (at + part for part in parts_of(K, G, F, R, A))
    moments = words[named + F : table].reshape(3, F, K)
    meta = {
        "type": "NaiveBayes",
        "events": int(size[EVENTS]),
        "classes": [plain(classes[k]) for k in words[at + HEADER : at + HEADER + K]],
        "groups": [[groups[g][0], plain_attribute(groups[g][1])] for g in words[owned : owned + G]],
        "fields": [plain_attribute(fields[f]) for f in words[named : named + F]],
    }
    return meta, {
        "class_weights": words[at + HEADER + K : owned].copy(),
        "totals": words[totals : totals + G * K].reshape(G, K).copy(),
        "n": moments[0].copy(),
        "mean": moments[1].view(np.float64).copy(),
        "M2": moments[2].view(np.float64).copy(),
        "table": words[table:rows].reshape(R, K).copy(),
        "groups": words[rows:cells].view(np.int32)[:R].copy(),
        "cells": words[cells:arena].view(np.uint8).copy(),
        "arena": words[arena:end].view(np.uint8)[:A].copy(),
    }


def run_of(
    meta: Mapping[str, Any],
    arrays: Mapping[str, Array],
    classes: Mapping[Any, int],
    groups: Sequence[tuple[int, Any]],
    fields: Sequence[Any],
    counted: Sequence[int],
) -> Ints:
    """Return the block of a `NaiveBayes` state, the inverse of `state_of`; `counted` is (tested, right)."""
    (R, K), (G, _), (F, _) = arrays["table"].shape, arrays["totals"].shape, arrays["n"].shape
    A = arrays["arena"].size
    parts = parts_of(K, G, F, R, A)
    run = np.zeros(parts[-1], dtype=np.int64)
    run[WORDS:HEADER] = parts[-1], meta["events"], *counted, K, G, F, R, A
    alive = np.bincount(arrays["groups"][arrays["table"].any(axis=1)], minlength=G)
    owned = [groups.index((kind, name)) for kind, name in meta["groups"]]
    pieces = (
        np.array([classes[label] for label in meta["classes"]], dtype=np.int64),
        arrays["class_weights"],
        np.array(owned, dtype=np.int64),
        arrays["totals"],
        alive,
        np.array([fields.index(name) for name in meta["fields"]], dtype=np.int64),
        *(arrays[name].reshape(-1).view(np.int64) for name in ("n", "mean", "M2")),
        arrays["table"],
    )
    run[HEADER : parts[4]] = np.concatenate([piece.reshape(-1) for piece in pieces])
    run[parts[4] : parts[5]].view(np.int32)[:R] = arrays["groups"]
    run[parts[5] : parts[6]].view(np.uint8)[:] = arrays["cells"]
    run[parts[6] :].view(np.uint8)[:A] = arrays["arena"]
    sealed(words_of(run))
    return run


def check_runs(
    runs: Ints, ends: Ints, tenants: Sequence[str], classes: int, groups: int, fields: int
) -> tuple[int, Ints]:
    """Return the events and class weights of blocks; raise SnapshotError if invalid: kernels do not check."""
    n = len(tenants)
    if runs.dtype != np.int64 or runs.ndim != 1 or ends.dtype != np.int64 or ends.shape != (n + 1,):
        raise SnapshotError(f"{n} tenants, but {ends.size - 1} ends of models")
    if ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != runs.size:
        raise SnapshotError("the models of tenants do not fill their array")
    weights = np.zeros(classes, dtype=np.int64)
    words = words_of(np.ascontiguousarray(runs))
    events, damaged = checked(words, ends, groups, fields, weights)
    if damaged >= 0:
        raise SnapshotError(f"the model of tenant number {damaged} of {n} is damaged")
    return events, weights
