"""Hooks of MkDocs: pages of the repository's root are pages of the site, and links out of docs/ name files.

What lies beside docs/ is no page: a link to it becomes the file's name, since no address of the sources is known.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

import streamnb

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
NAV = (ROOT / "mkdocs.yml").read_text()
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config):
    """Every decision is a page, and what the navigation forgot stands before them."""
    numbered = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    decisions = ["adr/README.md"]
    decisions += [{path.stem[5:].replace("-", " ").capitalize(): f"adr/{path.name}"} for path in numbered]
    inside = config["nav"][-1]["Inside"]
    inside[-1]["Decisions"] = decisions
    inside[:0] = sorted(path.name for path in (ROOT / "docs").glob("*.md") if f": {path.name}" not in NAV)
    return config


def on_files(files, config):
    """Add the pages of the root, and the reference of everything that `streamnb` exports."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=moved((ROOT / name).read_text(), "", page)))
    classes = "\n\n".join(f"::: {home}.{name}" for name, home in sorted(exported().items()))
    told = "Everything that `import streamnb` gives. Formulas stand in the docstrings as text."
    files.append(File.generated(config, "api.md", content=f"# Python API\n\n{told}\n\n{classes}\n"))
    return files


def on_page_markdown(markdown, page, **_):
    """Links of a page of docs/ as the site has them."""
    uri = page.file.src_uri
    return markdown if uri in PAGES.values() else moved(markdown, f"docs/{posixpath.dirname(uri)}", uri)


def exported():
    """Public name -> the module that defines it."""
    found = {name: getattr(streamnb, name) for name in streamnb.__all__}
    return {
        name: one.__module__
        for name, one in found.items()
        if getattr(one, "__module__", "").startswith("streamnb.")
    }


def moved(markdown, folder, page):
    """The text of a page, whose links are relative to a folder of the repository, for its place on the site."""

    def link(found):
        text, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target:
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in PAGES:
            inside = PAGES[path]
        elif path.startswith("docs/") and (ROOT / path).is_file():
            inside = path.removeprefix("docs/")
        else:
            return text if text.strip("`") == path else f"{text} (`{path}`)"
        return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"

    text = LINK.sub(link, markdown)
    return text.replace("](docs/pictures/", "](pictures/") if not folder else text
