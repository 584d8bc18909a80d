"""What the documents say is there: links lead somewhere, and commands are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

from streamnb import config as configuration
from streamnb.cli import build_parser
from tests.house.rooms import PAGE, TABLE, table
from tests.support.every_case import failures

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)


def pages(pattern, text=Path.read_text):
    """(page, what is found there)."""
    return [(page, found) for page in PAGES for found in re.findall(pattern, text(page), re.MULTILINE)]


def shell(page):
    """What a page shows as typed into a shell."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE))


def test_links_lead_somewhere():
    links = pages(r"\]\(([^)#\s]+)[^)]*\)")
    assert links
    astray = [
        (page, to) for page, to in links if not (to.startswith("https://") or (page.parent / to).exists())
    ]
    assert astray == []


def headings(page):
    """The anchors of a page, as the site has them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {slugify(re.sub(r"\[(.*?)\]\(.*?\)|[`*]", r"\1", heading), "-") for heading in found}


def test_links_lead_to_headings():
    links = pages(r"\]\(((?!https://)[^)#\s]*)#([^)\s]+)\)")
    there = {page.resolve(): headings(page) for page in PAGES}
    assert links
    assert [
        (page, *to)
        for page, to in links
        if to[1] not in there[(page.parent / to[0]).resolve() if to[0] else page.resolve()]
    ] == []


def test_commands_are_commands(capsys):
    def is_command(case):
        page, command = case
        try:
            options = build_parser().parse_args(shlex.split(command, comments=True)[1:])
        except SystemExit:
            pytest.fail(capsys.readouterr().err)
        config = getattr(options, "config", None)
        assert (
            config in {None, "streamnb.toml", "tickets.toml"}
            or (ROOT / config).exists()
            or page.name == "configuration.md"
        )

    assert failures(is_command, pages(r"^(?:\$ )?(streamnb .*)$", shell)) == {}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```toml\n" in page.read_text()], ids=lambda p: p.name
)
def test_configurations_are_configurations(page, tmp_path):
    blocks = re.findall(r"^```toml\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    for block in blocks:
        (tmp_path / "c.toml").write_text(block)
        assert configuration.load(tmp_path / "c.toml", {}, []) != configuration.Config()


@pytest.mark.parametrize(
    ("page", "code"),
    pages(r"^```python\n((?!>>>)(?:.|\n)*?)^```$"),
    ids=lambda found: getattr(found, "name", "code"),
)
def test_python_runs(page, code):
    assert page
    exec(compile(code, page.name, "exec"), {})  # noqa: S102  our own


def test_make_targets_are_there():
    told = {target: page for page, target in pages(r"`make ([a-z-]+)`")}
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert told
    assert {target: page for target, page in told.items() if target not in there} == {}


def test_every_page_speaks_of_the_project_alone():
    """No path of anybody's machine, and no registry's host."""
    for page in [*PAGES, ROOT / "Makefile", ROOT / "pyproject.toml", *(ROOT / "streamnb").rglob("*.py")]:
        assert not re.search(r"/home/|/root/|/work/|pypi\.org|pythonhosted|maven\.org", page.read_text()), (
            page
        )


def test_the_table_has_the_rooms_that_there_are():
    assert TABLE.search(PAGE.read_text()).group() == table(), "make rooms"
