"""What a package index is given: the same bytes each time, whole, readable there, and enough by itself."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from interpreters import claimed

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = f"{PROJECT['name']}-{PROJECT['version']}"


def build(tree, out):
    """The source distribution of a tree, and the wheel of that; nothing is fetched."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / f"{BASE}.tar.gz", out / f"{BASE}-py3-none-any.whl"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if (ROOT / "streamnb/compiler/machine_code").exists():
        pytest.skip("this tree has machine code in it, for a wheel of one platform")
    return build(ROOT, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def metadata(built):
    with zipfile.ZipFile(built[1]) as wheel:
        return email.message_from_bytes(wheel.read(f"{BASE}.dist-info/METADATA"))


def test_what_is_built_makes_the_same_bytes_again(built, tmp_path):
    """From its own source distribution, elsewhere, with other times and modes of files."""
    with tarfile.open(built[0]) as source:
        source.extractall(tmp_path, filter="data")
    for path in (tmp_path / BASE).rglob("*"):
        os.utime(path, (1_234_567_890, 1_234_567_890))
        if path.is_file():
            path.chmod(path.stat().st_mode & 0o700)
    for first, second in zip(built, build(tmp_path / BASE, tmp_path / "again"), strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_twine_accepts_what_is_built(built):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *built],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_needs_no_file_beside_it(metadata):
    text = metadata.get_payload()
    assert "# streamnb" in text
    assert not [link for link in re.findall(r"\]\(([^)\s]+)", text) if not link.startswith("https://")]
    assert "`docs/guarantees.md`" in text


def test_the_wheel_holds_the_program_and_its_licence_alone(built, metadata):
    with zipfile.ZipFile(built[1]) as wheel:
        assert {name.split("/")[0] for name in wheel.namelist()} == {"streamnb", f"{BASE}.dist-info"}
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert metadata["Author"] == "the streamnb authors"


def test_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert f"\n## {PROJECT['version']} " in (ROOT / "CHANGELOG.md").read_text()
    assert f">={claimed()[0]}" == PROJECT["requires-python"]
    assert PROJECT["version"].rsplit(".", 1)[0] in (ROOT / "SECURITY.md").read_text()
