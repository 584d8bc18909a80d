"""The table of rooms in docs/architecture.md, from their docstrings (`make rooms`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.test_layering import FLOORS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
TABLE = re.compile(r"(?<=^\| room \| what it is \|\n\|---\|---\|\n).*?(?=^$)", re.DOTALL | re.MULTILINE)


def floors_of(path):
    """Return the place of a package's rooms in import order, from the top folder down."""
    parts = path.parent.relative_to(ROOT / "streamnb").parts
    order = {folder: floors.replace(";", " ").split() for folder, floors in FLOORS.items()}
    found = [(order.get(".".join(parts[:n]), []), part) for n, part in enumerate(parts)]
    return [(names.index(part) if part in names else len(names), part) for names, part in found]


def table():
    """A row for each room: its folder, and the first sentence that it says of itself."""
    package = ROOT / "streamnb"
    rows = []
    for path in sorted(package.rglob("__init__.py"), key=floors_of):
        room = path.parent.relative_to(package).as_posix()
        said = " ".join(ast.get_docstring(ast.parse(path.read_text())).split("\n\n")[0].split())
        rows.append(f"| `{room}/` | {said} |\n" if room != "." else "")
    return "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
