"""The check before a release: it finds each fault that is planted, and passes a folder without any."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import zipfile

import pytest

from deploy import release

VERSION = "9.8.7"
PLATFORM = "manylinux_2_28_x86_64"
NAMES = (
    f"streamnb-{VERSION}.tar.gz",
    f"streamnb-{VERSION}-py3-none-any.whl",
    f"streamnb_client-{VERSION}.tar.gz",
    f"streamnb_client-{VERSION}-py3-none-any.whl",
    f"streamnb-{VERSION}-cp311-cp311-{PLATFORM}.whl",
)


def make(path, members=("LICENSE", "NOTICE")):
    inside = [f"streamnb-{VERSION}.dist-info/licenses/{name}" for name in members]
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w") as made:
            for name in inside:
                made.writestr(name, b"")
        return
    with tarfile.open(path, "w:gz") as made:
        for name in inside:
            made.addfile(tarfile.TarInfo(name), io.BytesIO())


@pytest.fixture
def dist(tmp_path):
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in NAMES:
        make(folder / name)
    return folder


def test_a_whole_folder_has_no_fault(dist):
    assert list(release.faults_of_files(dist, VERSION)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named(dist, name):
    (dist / name).unlink()
    [fault] = release.faults_of_files(dist, VERSION)
    assert "machine code" in fault if "cp311" in name else name in fault


@pytest.mark.parametrize("name", NAMES)
def test_a_distribution_without_its_licence_is_named(dist, name):
    make(dist / name, ("NOTICE",))
    assert list(release.faults_of_files(dist, VERSION)) == [f"{name} lacks LICENSE"]


def test_files_of_another_version_and_platforms_that_indexes_refuse_are_named(dist):
    make(dist / "streamnb-9.8.6.tar.gz")
    (dist / NAMES[-1]).rename(dist / NAMES[-1].replace(PLATFORM, "linux_x86_64"))
    faults = list(release.faults_of_files(dist, VERSION))
    assert len(faults) == 2
    assert "linux_x86_64" in faults[0]
    assert "streamnb-9.8.6.tar.gz is not a distribution of 9.8.7" in faults[1]


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} - 2026-12-31\n")
    (folder / "CITATION.cff").write_text(f"version: {VERSION}\n")
    git = [shutil.which("git"), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


def test_a_tree_in_order_has_no_fault(tree):
    assert list(release.faults_of_tree(tree, VERSION)) == []


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("CHANGELOG.md", f"## {VERSION} - Unreleased\n", "dates 9.8.7 as 'Unreleased'"),
        ("CHANGELOG.md", "## 9.8.6 - 2026-01-01\n", "has no section 9.8.7"),
        ("CITATION.cff", "version: 9.8.6\n", "another version"),
    ],
)
def test_what_a_tree_lacks_is_named(tree, file, content, expected):
    (tree / file).write_text(content)
    faults = list(release.faults_of_tree(tree, VERSION))
    assert any(expected in fault for fault in faults)
    assert any("uncommitted" in fault for fault in faults)


def test_a_version_is_released_once(tree):
    subprocess.run(["git", "tag", f"v{VERSION}"], cwd=tree, check=True)
    [fault] = release.faults_of_tree(tree, VERSION)
    assert f"tag v{VERSION}" in fault


def test_it_says_what_is_missing_and_ends_with_an_error(tmp_path, capsys):
    assert release.main([str(tmp_path)]) == 1
    assert "not ready: CHANGELOG.md dates" in capsys.readouterr().err
