"""A text table of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamnb.formats.terminal_text import printable


def table(rows: Iterable[Sequence[object]], header: Sequence[str]) -> str:
    """Return a table of minimal width, with numbers right-aligned."""
    cells = [[printable(name) for name in header], *([_text(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        line = (
            cell.rjust(width) if _is_number(cell) else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        lines.append("  ".join(line).rstrip())
    return "\n".join(lines)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else printable(value)


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "").replace("-", "").replace("+", "").isdigit()
