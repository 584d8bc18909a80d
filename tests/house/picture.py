"""The picture of docs/architecture.md, drawn from the imports (`make picture`)."""

from __future__ import annotations

import ast
import re
from itertools import groupby
from pathlib import Path

from tests.house.test_layering import FLOORS, imports, modules

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
TABLE = re.compile(r"(?<=^\| room \| what it is \|\n\| --- \| --- \|\n).*?(?=^$)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(?<=^```mermaid\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
OUTSIDE = ("errors", "events", "__init__", "__main__")
"""What everybody may import, and who imports by name: arrows to and from them would say nothing."""


def room_of(module):
    """``model.naive_bayes`` of a module's path below the package; a package without rooms is one."""
    top, *rest = module.removesuffix(".py").split("/")
    is_room = rest and (ROOT / "streamnb" / top / rest[0]).is_dir()
    return f"{top}.{rest[0]}" if is_room else top


def arrows():
    """(room, room that it imports), but for those that another way leads to."""
    found = {
        (room_of(name), room_of(imported.removeprefix("streamnb.").replace(".", "/")))
        for name, tree in modules()
        for imported in imports(tree)
        if imported.startswith("streamnb.")
    }
    # The files of a package use its rooms, and some rooms use other files of it: the former is not drawn.
    found = {(a, b) for a, b in found if a not in {b, b.partition(".")[0]} and not {a, b} & {*OUTSIDE}}
    below = {}
    for a, b in found:
        below.setdefault(a, set()).add(b)

    def reach(a):
        return {c for b in below.get(a, ()) for c in {b} | reach(b)}

    return sorted((a, b) for a, b in found if all(b not in reach(c) for c in below[a] - {b}))


def picture():
    """Mermaid: a box for each room, a frame for each package, an arrow for each import."""
    drawn = arrows()
    rooms = sorted({room for arrow in drawn for room in arrow})
    lines = ["flowchart TD"]
    for top, found in groupby(rooms, lambda room: room.partition(".")[0]):
        inside = list(found)
        if inside == [top]:
            lines.append(f"  {top}")
            continue
        lines += [f"  subgraph {top}_[{top}]"]
        lines += [f"    {room}[{room.partition('.')[2] or 'its files'}]" for room in inside]
        lines += ["  end"]
    lines += [f"  {a} --> {b}" for a, b in drawn]
    return "\n".join(lines) + "\n"


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
    text = BLOCK.sub(lambda _: picture(), PAGE.read_text())
    PAGE.write_text(TABLE.sub(lambda _: table(), text))
