"""Parameters of a model, as JSON-able values and as text: for ``streamnb inspect --details``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from streamnb.formats.terminal_text import printable
from streamnb.reports.text_columns import table
from streamnb.values.parameter_checks import pluralize

_CLASS = "class"


def described_parameters(model: Any, top: int) -> dict[str, Any] | None:
    """Return the parameters, with at most `top` values or rows of each table; None if the model has none."""
    model = getattr(model, "classifier", model)
    if not hasattr(model, "parameters"):
        return None
    found = model.parameters()
    if isinstance(found, dict):  # a mixture has an entry for each hypothesis
        hypotheses = {name: _described(own, top) for name, own in found.items()}
        return {"n_parameters": model.n_parameters, "hypotheses": hypotheses} if hypotheses else None
    return _described(found, top)


def _described(found: Any, top: int) -> dict[str, Any]:
    n_free = {_CLASS if name is None else _name(name): n for name, n in found.n_free.items()}
    described: dict[str, Any] = {"n_parameters": sum(n_free.values()), "n_free": n_free}
    if hasattr(found, "transition"):
        described |= {"initial": _row(found.initial), "transition": _rows(found.transition)}
        found = found.emission
    if hasattr(found, "tables"):
        tables = [(name, [*found.parents[name]], rows) for name, rows in found.tables.items()]
        return described | {"tables": [_network_table(*of_variable, top) for of_variable in tables]}
    described["discrete"] = [_discrete_table(name, own, top) for name, own in found.discrete.items()]
    described["continuous"] = {
        str(name): {str(label): own._asdict() for label, own in of_class.items()}
        for name, of_class in getattr(found, "continuous", {}).items()
    }
    return described


def _name(name: Any) -> str:
    return " and ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _row(row: Mapping[Any, float]) -> dict[str, float]:
    return {str(name): p for name, p in row.items()}


def _rows(rows: Mapping[Any, Mapping[Any, float]]) -> dict[str, dict[str, float]]:
    return {str(name): _row(row) for name, row in rows.items()}


def _network_table(
    name: Any, parents: list[Any], rows: Mapping[Any, Mapping[Any, float]], top: int
) -> dict[str, Any]:
    shown = [{"given": list(map(str, at)), "p": _row(row)} for at, row in islice(rows.items(), top)]
    return {"variable": str(name), "parents": list(map(str, parents)), "rows": len(rows), "table": shown}


def _discrete_table(name: Any, own: Any, top: int) -> dict[str, Any]:
    rows = getattr(own, "table", own)
    likeliest = {value: max(row[value] for row in rows.values()) for value in next(iter(rows.values()), {})}
    chosen = sorted(likeliest, key=lambda value: -likeliest[value])[:top]
    told = {"attribute": _name(name), "kind": "one_dependence"}
    if rows is not own:
        smoothing = f"(n_c + {own.added:g}) / (n + {own.added_total:g})"
        told |= {"kind": own.kind, "smoothing": smoothing}
    shown = {value: {str(label): row[value] for label, row in rows.items()} for value in chosen}
    return {**told, "values": len(likeliest), "table": shown}


def print_parameters(found: dict[str, Any] | None) -> None:
    """Print what `described_parameters` returned."""
    if found is None:
        print("\nparameters: this model has no class-conditional tables")
        return
    if "hypotheses" in found:
        print(f"\nall hypotheses with tables: {pluralize(found['n_parameters'], 'free parameter')}")
    for name, own in found.get("hypotheses", {"": found}).items():
        if name:
            print(f"\n{printable(name)}")
        _print_tables(own)


def _print_tables(found: dict[str, Any]) -> None:
    n_free = found["n_free"]
    each = ", ".join(f"{printable(name)} {n:,}" for name, n in n_free.items())
    print(f"\n{pluralize(found['n_parameters'], 'free parameter')}: {each}")
    if "transition" in found:
        print("\nP(next state | state); the first row is for a new entity")
        rows = [("", *found["initial"].values())]
        rows += [(state, *row.values()) for state, row in found["transition"].items()]
        print(table(rows, ("state", *found["initial"])))
    for own in found.get("tables", []):
        _print_network_table(own)
    for own in found.get("discrete", []):
        how = ", ".join([own["kind"], *([own["smoothing"]] if "smoothing" in own else [])])
        print(f"\nP({printable(own['attribute'])} | class), {how}{_shown(own, own['values'], 'values')}")
        labels = list(next(iter(own["table"].values()), {}))
        print(table([(value, *row.values()) for value, row in own["table"].items()], ("value", *labels)))
    for name, of_class in found.get("continuous", {}).items():
        print(f"\n{printable(name)}, as predictions use it")
        rows = [(label, *own.values()) for label, own in of_class.items()]
        print(table(rows, ("class", "mean", "variance")))


def _print_network_table(own: dict[str, Any]) -> None:
    given = f" | {', '.join(map(printable, own['parents']))}" if own["parents"] else ""
    print(f"\nP({printable(own['variable'])}{given}){_shown(own, own['rows'], 'rows')}")
    rows = [(*row["given"], *row["p"].values()) for row in own["table"]]
    values = list(own["table"][0]["p"]) if own["table"] else []
    print(table(rows, (*own["parents"], *values)))


def _shown(own: dict[str, Any], n: int, noun: str) -> str:
    return f", {len(own['table'])} of {n:,} {noun}" if n > len(own["table"]) else ""
