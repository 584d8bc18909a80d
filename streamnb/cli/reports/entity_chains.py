"""Chains of entities, as `inspect` shows them: which class began sequences, and which followed which."""

from __future__ import annotations

from typing import Any

from streamnb.cli.reports.text_tables import table
from streamnb.model.attributes.weights import UNIT
from streamnb.model.hidden_markov.hidden_markov_nb import HiddenMarkovNB
from streamnb.model.interface.stream_model import StreamModel

_MOST_SHOWN = 20
"""Classes of which the transitions are shown: there is a column for each."""


def chains(model: StreamModel) -> dict[str, Any] | None:
    """Entities kept, weights of first classes and of transitions, in examples; None where there are none."""
    if not isinstance(model, HiddenMarkovNB):
        return None
    labels = [str(label) for label in model.classes]
    first, counts = (model.transitions.first / UNIT).tolist(), (model.transitions.table / UNIT).tolist()
    return {
        "entities": model.n_entities,
        "first": dict(zip(labels, first, strict=True)),
        "transitions": {
            label: dict(zip(labels, row, strict=True)) for label, row in zip(labels, counts, strict=True)
        },
    }


def print_chains(described: dict[str, Any]) -> None:
    """The same as text."""
    labels = list(described["first"])
    print(f"\n{described['entities']:,} entities are kept; which class followed which in one, in events")
    if len(labels) > _MOST_SHOWN:
        print(f"(of {len(labels)} classes: see --json)")
        return
    rows = [("(begins)", *(f"{weight:,.0f}" for weight in described["first"].values()))]
    rows += [
        (label, *(f"{weight:,.0f}" for weight in row.values()))
        for label, row in described["transitions"].items()
    ]
    print(table(rows, ("from", *labels)))
