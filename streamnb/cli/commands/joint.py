"""``streamnb joint``: questions to a joint probability table."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streamnb.errors import ConfigError, told_as
from streamnb.formats.terminal_text import printable
from streamnb.reports.text_columns import table
from streamnb.toolbox.bayesian_network.independence import Comparison, Independence
from streamnb.toolbox.bayesian_network.joint_query import (
    Excluded,
    JointQuery,
    QueryAnswer,
    QueryRow,
    answer,
    parse_query,
)
from streamnb.toolbox.bayesian_network.joint_table import JointTable
from streamnb.toolbox.bayesian_network.probability_csv import read_joint_table


def run(options: argparse.Namespace) -> int:
    """Read the table, answer each query, and print the answers."""
    queries = [_query(text) for text in options.query]
    asked = _table(options)
    answers = [
        _answered(asked, text, q, options.tolerance) for text, q in zip(options.query, queries, strict=True)
    ]
    described = [_as_json(text, one) for text, one in zip(options.query, answers, strict=True)]
    answer = {"variables": asked.variables, "answers": described}
    print(json.dumps(answer) if options.json else "\n\n".join(map(_as_text, queries, answers)))
    return 0


def _table(options: argparse.Namespace) -> JointTable:
    settings: dict[str, Any] = {"column": options.column, "delimiter": options.delimiter}
    settings["normalise"] = options.counts
    is_no_csv = told_as(ConfigError, "is not CSV", UnicodeDecodeError, csv.Error)
    with told_as(ConfigError, options.file, ConfigError), is_no_csv:
        if options.file == "-":
            whole = sys.stdin.buffer.read().decode("utf-8-sig")
            return read_joint_table(io.StringIO(whole, newline=""), **settings)
        with Path(options.file).open(encoding="utf-8-sig", newline="") as lines:
            return read_joint_table(lines, **settings)


def _query(text: str) -> JointQuery:
    try:
        return parse_query(text)
    except ValueError as error:
        raise ConfigError(f"query {error}") from error


def _answered(asked: JointTable, text: str, query: JointQuery, tolerance: float) -> QueryAnswer:
    try:
        return answer(asked, query, tolerance)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"query {text!r}: {error.args[0]}") from error


def _as_json(text: str, found: QueryAnswer) -> dict[str, Any]:
    if found.independence is None:
        return {"query": text, "rows": [_row_as_json(row) for row in found.rows]}
    one = found.independence
    return {
        "query": text,
        "independent": one.holds,
        "tolerance": one.tolerance,
        "largest_difference": one.largest.difference,
        **({} if found.log_bayes_factor is None else {"log_bayes_factor": found.log_bayes_factor}),
        "comparisons": [comparison._asdict() for comparison in one.comparisons],
    }


def _row_as_json(row: QueryRow) -> dict[str, Any]:
    """Return a row; a single alternative is an object, several are a list."""
    sides = [[_plain(values) for values in side] for side in (row.asked, row.given)]
    values, given = (side[0] if len(side) == 1 else side for side in sides)
    summands = {"sum": [one._asdict() for one in row.sum]} if row.sum else {}
    return {"values": values, "given": given, "probability": row.probability, **summands}


def _plain(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the values as JSON; an excluded value is {"not": value}."""
    return {
        name: {"not": value.value} if isinstance(value, Excluded) else value for name, value in values.items()
    }


def _as_text(query: JointQuery, found: QueryAnswer) -> str:
    if found.independence is not None:
        factor = found.log_bayes_factor
        way = "dependence" if factor and factor > 0.0 else "independence"
        evidence = (
            "" if factor is None else f"\n\nthe counts speak for {way}: log Bayes factor {factor:+.3g} nats"
        )
        return _independence(query, found.independence) + evidence
    if len(query.asked) + len(query.given) > 2 or not query.is_plain:
        return _alternatives(query, found)
    names = [str(name) for name in found.rows[0].asked[0]] if query.asked == ((),) else []
    names += query.names
    rows = [
        [*({**given[0], **asked[0]}.get(name, "") for name in names), "undefined" if p is None else p]
        for asked, given, p, _ in found.rows
    ]
    asked, given = (", ".join(name for name, _ in side[0]) for side in (query.asked, query.given))
    return table(rows, [*names, f"P({asked or 'all'} | {given})" if given else f"P({asked or 'all'})"])


def _alternatives(query: JointQuery, found: QueryAnswer) -> str:
    has_given = query.given != ((),)
    rows = []
    for row in found.rows:
        p: Any = "undefined" if row.probability is None else row.probability
        rows.append([_any_of(row.asked), *([_any_of(row.given)] if has_given else []), p])
        for sign, values, share in row.sum:
            cell = "a contradiction" if values is None else _all_of(values)
            rows.append([f"  {'+' if sign > 0 else '-'} {cell}", *([""] if has_given else []), share])
    return table(rows, ["asked", *(["given"] if has_given else []), "P"])


def _any_of(alternatives: Sequence[Mapping[Any, Any]]) -> str:
    return " or ".join(map(_all_of, alternatives))


def _all_of(values: Mapping[Any, Any]) -> str:
    return ", ".join(
        f"{name}!={value.value}" if isinstance(value, Excluded) else f"{name}={value}"
        for name, value in values.items()
    )


def _independence(query: JointQuery, found: Independence) -> str:
    a, b, given = (
        ", ".join(name for name, _ in side) for side in (query.asked[0], query.other, query.given[0])
    )
    bar = f" | {given}" if given else ""
    rows = [
        [*map(_values, (one.a, one.b, *([one.given] if given else []))), one.joint, one.product, _sign(one)]
        for one in found.comparisons
    ]
    names = [a, b, *([given] if given else [])]
    header = [*names, f"P({a}, {b}{bar})", f"P({a}{bar}) P({b}{bar})", "difference"]
    sentence = f"{a} and {b} are {'' if found else 'not '}independent" + (f" given {given}" if given else "")
    most = abs(found.largest.difference)
    by = "no difference is above" if found else f"the largest difference is {most:.3g},"
    by = f"{by} the tolerance, {found.tolerance:g}" if found else f"{by} the tolerance {found.tolerance:g}"
    return f"{printable(sentence)}: {by}\n\n{table(rows, header)}"


def _values(side: Mapping[Any, str]) -> str:
    return ", ".join(side.values())


def _sign(one: Comparison) -> str:
    shown = f"{one.difference:+.4f}"
    return "0.0000" if float(shown) == 0.0 else shown
