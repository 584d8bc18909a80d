"""What a package index is given: the same bytes each time, whole, readable there, and enough by itself."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml

from streamnb.kernels import kernel_cache
from tests.house.interpreters import claimed

pytestmark = pytest.mark.early(46)

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
    if (ROOT / "streamnb/kernels/machine_code").exists():
        pytest.skip("this tree has machine code in it, for a wheel of one platform")
    return build(ROOT, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def metadata(built):
    with zipfile.ZipFile(built[1]) as wheel:
        return email.message_from_bytes(wheel.read(f"{BASE}.dist-info/METADATA"))


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_twine_accepts_what_is_built(built):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *built],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_the_readme_needs_no_file_beside_it(metadata):
    text = metadata.get_payload()
    assert "# streamnb" in text
    assert not [link for link in re.findall(r"\]\(([^)\s]+)", text) if not link.startswith("https://")]
    assert "`docs/guarantees.md`" in text


@pytest.mark.thorough
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


@pytest.fixture(scope="module")
def clean(built, tmp_path_factory):
    """The programs of an environment with the wheel in it, and nothing of this repository; libraries are borrowed."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "--python",
        folder / "bin/python",
    ]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", built[1]], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    libraries = sorted(
        {str(Path(distribution("numpy").locate_file("")).resolve()), sysconfig.get_path("purelib")}
    )
    (site / "borrowed.pth").write_text("\n".join(libraries))
    return folder / "bin"


@pytest.mark.thorough
def test_the_quick_start_is_pasted_where_only_the_wheel_is(clean, tmp_path):
    """Its commands, as they stand, in one shell that ends at the first that fails."""
    environ = {
        "PATH": f"{clean}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "NUMBA_CACHE_DIR": str(
            kernel_cache.own_folder().parent
        ),  # the same sources: nothing is compiled again
        "STREAMNB_HTTP__LISTEN": "127.0.0.1:0",
    }
    where = subprocess.run(
        [clean / "python", "-c", "import streamnb; print(streamnb.__file__)"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Path(where.strip()).is_relative_to(clean.parent)
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (ROOT / "docs/quickstart.md").read_text(), re.DOTALL | re.MULTILINE
    )
    done = subprocess.run(
        ["sh", "-ec", "\n".join(blocks)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1,000 made-up support tickets" in done.stdout
    assert "1,000 learned" in done.stdout
    assert "for billing, against" in done.stdout
    assert "verified: 1,000 events and 1 label" in done.stdout


def test_the_client_alone_needs_nothing_of_streamnb(tmp_path):
    """The second distribution: its wheel is imported where streamnb, numba and numpy cannot be."""
    source = tmp_path / "source"
    subprocess.run([sys.executable, "deploy/client_package.py", source], cwd=ROOT, check=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "out", source]
    subprocess.run(command, check=True, capture_output=True)
    made = [*(tmp_path / "out").iterdir()]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *made], check=True)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    program = f"""
import sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {{"streamnb", "numba", "numpy", "river", "kafka"}}:
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, {str(wheel)!r})
from streamnb_client import AsyncClient, Client
assert AsyncClient.__module__ == Client.__module__ == "streamnb_client"
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    again = tmp_path / "again"
    subprocess.run([sys.executable, "deploy/client_package.py", again], cwd=ROOT, check=True)
    refused = [sys.executable, "deploy/client_package.py", again]
    done = subprocess.run(refused, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode
    assert "is not empty" in done.stderr
