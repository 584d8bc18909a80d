"""Write the source of `streamnb-client`: the module `streamnb.client` alone, as `streamnb_client`.

    python deploy/client_package.py FOLDER && python -m build FOLDER

It has the version of streamnb, and needs httpx alone.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYPROJECT = """[build-system]
requires = ["hatchling>=1.27,<2"]
build-backend = "hatchling.build"

[project]
name = "streamnb-client"
version = "{version}"
description = "Client of streamnb serve: send events, follow predictions, correct labels"
readme = "README.md"
requires-python = "{python}"
license = "{license}"
dependencies = ["{httpx}"]

[tool.hatch.build.targets.wheel]
packages = ["streamnb_client"]
"""


def write(folder: Path) -> None:
    """Write the project into a new or empty folder. Raises FileExistsError if it has files."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = folder / "streamnb_client"
    package.mkdir()
    source = (ROOT / "streamnb" / "client.py").read_text(encoding="utf-8")
    source = source.replace("streamnb.client", "streamnb_client")
    (package / "__init__.py").write_text(source, encoding="utf-8")
    about = ast.get_docstring(ast.parse(source))
    (folder / "README.md").write_text(f"# streamnb-client\n\n{about}\n", encoding="utf-8")
    (package / "py.typed").touch()
    (folder / "LICENSE").write_bytes((ROOT / "LICENSE").read_bytes())
    (httpx,) = project["optional-dependencies"]["client"]
    text = PYPROJECT.format(
        version=project["version"], python=project["requires-python"], license=project["license"], httpx=httpx
    )
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
