"""``streamnb joint``: questions to a joint probability table."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamnb.cli.printable import printable
from streamnb.cli.reports.text_tables import table
from streamnb.errors import ConfigError
from streamnb.model.bayesian_network.independence import Comparison, Independence
from streamnb.model.bayesian_network.joint_query import Answer, Query, answer, parse_query
from streamnb.model.bayesian_network.joint_table import JointTable
from streamnb.wire.probability_csv import read_joint_table


def run(options: argparse.Namespace) -> int:
    """Read the table, ask it each question in turn, and print what it says."""
    queries = [_query(text) for text in options.query]
    asked = _table(options)
    answers = [
        _answer(asked, text, q, options.tolerance) for text, q in zip(options.query, queries, strict=True)
    ]
    if options.json:
        told = [_as_json(text, one) for text, one in zip(options.query, answers, strict=True)]
        print(json.dumps({"variables": asked.variables, "answers": told}))
    else:
        told_as_text = [_as_text(query, one) for query, one in zip(queries, answers, strict=True)]
        print("\n\n".join(told_as_text))
    return 0


def _table(options: argparse.Namespace) -> JointTable:
    settings: dict[str, Any] = {
        "column": options.column,
        "delimiter": options.delimiter,
        "normalise": options.counts,
    }
    try:
        if options.file == "-":
            whole = sys.stdin.buffer.read().decode("utf-8-sig")
            return read_joint_table(io.StringIO(whole, newline=""), **settings)
        with Path(options.file).open(encoding="utf-8-sig", newline="") as lines:
            return read_joint_table(lines, **settings)
    except ConfigError as error:
        raise ConfigError(f"{options.file}: {error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{options.file}: is not CSV: {error}") from error


def _query(text: str) -> Query:
    try:
        return parse_query(text)
    except ValueError as error:
        raise ConfigError(f"query {error}") from error


def _answer(asked: JointTable, text: str, query: Query, tolerance: float) -> Answer:
    try:
        return answer(asked, query, tolerance)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"query {text!r}: {error.args[0]}") from error


def _as_json(text: str, found: Answer) -> dict[str, Any]:
    if found.independence is None:
        rows = [{"values": values, "given": given, "probability": p} for values, given, p in found.rows]
        return {"query": text, "rows": rows}
    one = found.independence
    return {
        "query": text,
        "independent": one.holds,
        "tolerance": one.tolerance,
        "largest_difference": one.largest.difference,
        "comparisons": [comparison._asdict() for comparison in one.comparisons],
    }


def _as_text(query: Query, found: Answer) -> str:
    if found.independence is not None:
        return _independence(query, found.independence)
    names = [name for name, _ in (*query.asked, *query.given)]
    if query.kind == "most probable" and not names:
        names = [str(name) for name in found.rows[0][0]]
    rows = [
        [*({**given, **values}.get(name, "") for name in names), "undefined" if p is None else p]
        for values, given, p in found.rows
    ]
    return table(rows, [*names, _heading(query)])


def _heading(query: Query) -> str:
    asked = ", ".join(name for name, _ in query.asked) or "all"
    given = ", ".join(name for name, _ in query.given)
    return f"P({asked} | {given})" if given else f"P({asked})"


def _independence(query: Query, found: Independence) -> str:
    a, b, given = (", ".join(name for name, _ in side) for side in (query.asked, query.other, query.given))
    bar = f" | {given}" if given else ""
    rows = [
        [
            _values(one.a),
            _values(one.b),
            *([_values(one.given)] if given else []),
            one.joint,
            one.product,
            _sign(one),
        ]
        for one in found.comparisons
    ]
    header = [
        a,
        b,
        *([given] if given else []),
        f"P({a}, {b}{bar})",
        f"P({a}{bar}) P({b}{bar})",
        "difference",
    ]
    sentence = f"{a} and {b} are {'' if found else 'not '}independent" + (f" given {given}" if given else "")
    most = abs(found.largest.difference)
    by = (
        f"no difference is above the tolerance, {found.tolerance:g}"
        if found
        else f"the largest difference is {most:.3g}, the tolerance {found.tolerance:g}"
    )
    return f"{printable(sentence)}: {by}\n\n{table(rows, header)}"


def _values(side: Mapping[Any, str]) -> str:
    return ", ".join(side.values())


def _sign(one: Comparison) -> str:
    shown = f"{one.difference:+.4f}"
    return "0.0000" if float(shown) == 0.0 else shown
