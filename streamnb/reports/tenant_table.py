"""Models of tenants, as `inspect` shows them: how many there are, and those with the most events."""

from __future__ import annotations

from typing import Any

from streamnb.formats.terminal_text import printable
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.reports.text_columns import table
from streamnb.values.parameter_checks import brief


def tenants(model: TenantModels, top: int) -> dict[str, Any]:
    """Return the number of models, and events, predictions and right predictions of the largest."""
    return {"models": model.n_tenants, "largest": [one._asdict() for one in model.top(top)]}


def print_tenants(described: dict[str, Any] | None) -> None:
    """Print the same as text, if there are tenants; the model of events without one is unnamed."""
    if described is None:
        return
    print(f"\n{described['models']:,} tenants have a model of their own; the models with the most events:")
    rows = []
    for one in described["largest"]:
        accuracy = f"{one['right'] / one['tested']:.4f}" if one["tested"] else ""
        rows.append((brief(printable(one["name"])) or "(none)", f"{one['events']:,}", accuracy))
    print(table(rows, ("tenant", "events", "accuracy")))
