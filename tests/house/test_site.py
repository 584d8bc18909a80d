"""The site of the documentation builds without a warning, is whole, and loads nothing from anywhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamnb

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built with proxies that lead nowhere."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | nowhere | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_every_page_is_there(site):
    for page in [*(ROOT / "docs").rglob("*.md")]:
        place = page.relative_to(ROOT / "docs").with_suffix("")
        assert (site / (place.parent if place.name == "README" else place) / "index.html").is_file(), page
    for name in ("changelog", "contributing", "security"):
        assert (site / name / "index.html").is_file()


def test_everything_exported_is_in_the_reference(site):
    text = (site / "api/index.html").read_text()
    for name in streamnb.__all__:
        if getattr(getattr(streamnb, name), "__module__", "").startswith("streamnb."):
            assert re.search(rf'id="streamnb\.[\w.]+\.{name}"', text), name


def test_nothing_is_loaded_from_another_host(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]+)", page.read_text()
        )
        assert loaded == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", sheet.read_text()), sheet
