"""Labels that differ only by case or by blanks at the ends."""

from __future__ import annotations

ALIKE = "labels that differ only by case or by blanks at the ends are classes of their own"


def folded(label: str) -> str:
    """Return what labels have in common that differ only by case or by blanks at the ends."""
    return label.strip().casefold()
