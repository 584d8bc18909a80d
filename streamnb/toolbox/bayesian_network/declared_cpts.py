"""Conversion of declared conditional probability tables to arrays, with the values that they declare."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.toolbox.bayesian_network.dag import Dag
from streamnb.values.nominal_values import declared_texts, value_text

_SUM = 1e-9


def given_tables(
    dag: Dag, values: Mapping[Hashable, Sequence[Any]], tables: Mapping[Hashable, Any]
) -> tuple[dict[int, list[str]], dict[int, Floats]]:
    """Return the declared values and the tables as arrays, with an axis for each parent and the variable.

    Raises ValueError, naming the row, for an unknown variable, a missing or extra row, undeclared values, or
    probabilities that do not sum to 1 within 1e-9.
    """
    for name in (*values, *tables):
        if name not in dag.number:
            known = ", ".join(map(repr, dag.names))
            raise ValueError(f"{name!r} is not a variable of this network; the variables are {known}")
    declared = {dag.number[name]: declared_texts(own) for name, own in values.items()}
    read = {dag.number[name]: _rows(dag, dag.number[name], table) for name, table in tables.items()}
    for v, rows in read.items():
        declared.setdefault(v, list(next(iter(rows.values()), {})))
    return declared, {v: _array(dag, v, rows, declared) for v, rows in read.items()}


def _rows(dag: Dag, v: int, table: Any) -> dict[tuple[str, ...], dict[str, float]]:
    count = len(dag.parents[v])
    if not isinstance(table, Mapping):
        raise ValueError(f"the table of {dag.names[v]!r}: expected a mapping, got {table!r}")  # noqa: TRY004
    rows = {}
    for key, row in table.items() if count else [((), table)]:
        parents = key if isinstance(key, tuple) else (key,)
        if len(parents) != count or not isinstance(row, Mapping):
            raise ValueError(
                f"the table of {dag.names[v]!r}: expected the values of its {count} parents and a "
                f"distribution, got {key!r}: {row!r}"
            )
        rows[tuple(map(value_text, parents))] = {value_text(value): float(p) for value, p in row.items()}
    return rows


def _array(
    dag: Dag, v: int, rows: Mapping[tuple[str, ...], Mapping[str, float]], declared: Mapping[int, list[str]]
) -> Floats:
    name, parents = dag.names[v], dag.parents[v]
    for u in parents:
        if u not in declared:
            raise ValueError(
                f"{name!r} has a table, but its parent {dag.names[u]!r} has no table and no values"
            )
    wanted = list(product(*(declared[u] for u in parents)))
    for key in (*wanted, *rows):
        if key not in rows or key not in wanted:
            found = "is missing" if key not in rows else "has a value that its parents do not have"
            raise ValueError(f"the table of {name!r}: the row {key!r} {found}")
        row = rows[key]
        if set(row) != set(declared[v]):
            raise ValueError(f"the table of {name!r}, row {key!r}: expected {declared[v]}, got {list(row)}")
        if not all(0.0 <= p <= 1.0 for p in row.values()) or abs(math.fsum(row.values()) - 1.0) > _SUM:
            raise ValueError(
                f"the table of {name!r}, row {key!r}: {dict(row)} must be probabilities that sum to 1"
            )
    table = np.array([[rows[key][value] for value in declared[v]] for key in wanted])
    return table.reshape([len(declared[u]) for u in (*parents, v)])
