"""``python deploy/release.py dist``: check that a folder of distributions is ready to upload, and list it.

It changes nothing and uploads nothing. `make release` builds the folder first.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
LICENCES = {"LICENSE", "NOTICE"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each fault, or the files with their digests; return 1 or 0."""
    parser = argparse.ArgumentParser("python deploy/release.py", description=__doc__)
    parser.add_argument("dist", type=Path, help="folder of the distributions")
    options = parser.parse_args(arguments)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    faults = [*faults_of_tree(ROOT, version), *faults_of_files(options.dist, version)]
    for fault in faults:
        print(f"not ready: {fault}", file=sys.stderr)
    if faults:
        return 1
    print(f"streamnb {version} is ready. Tag it v{version}, and upload with `twine upload {options.dist}/*`:")
    for path in sorted(options.dist.iterdir()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{digest}  {path.stat().st_size:>12,}  {path.name}")
    return 0


def faults_of_tree(root: Path, version: str) -> Iterator[str]:
    """Yield what the repository lacks for a release of `version`."""
    changes = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    if changes:
        yield f"the tree has {len(changes.splitlines())} uncommitted changes: commit or remove them"
    heading = re.search(
        rf"^## {re.escape(version)} - (.*)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    if heading is None:
        yield f"CHANGELOG.md has no section {version}"
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", heading[1]):
        yield f"CHANGELOG.md dates {version} as {heading[1]!r}: write the day of the release, as 2026-12-31"
    if f"version: {version}\n" not in (root / "CITATION.cff").read_text():
        yield f"CITATION.cff has another version than {version}"
    tagged = subprocess.run(
        ["git", "rev-parse", "--quiet", "--verify", f"refs/tags/v{version}"],
        cwd=root,
        capture_output=True,
        check=False,
    )
    if tagged.returncode == 0:
        yield f"there is a tag v{version} already: raise the version in pyproject.toml"


def faults_of_files(dist: Path, version: str) -> Iterator[str]:
    """Yield what a folder of distributions lacks, or has too many."""
    names = {path.name: path for path in sorted(dist.glob("*"))}
    expected = {
        f"streamnb-{version}.tar.gz": "the source distribution: `make dist`",
        f"streamnb-{version}-py3-none-any.whl": "the wheel for any platform: `make dist`",
        f"streamnb_client-{version}.tar.gz": "the source distribution of the client: `make dist`",
        f"streamnb_client-{version}-py3-none-any.whl": "the wheel of the client: `make dist`",
    }
    for name, what in expected.items():
        if name not in names:
            yield f"{dist}/{name} is missing, {what}"
    native = re.compile(rf"streamnb-{re.escape(version)}-cp3\d+-cp3\d+-(.+)\.whl")
    built = {name: found[1] for name in names if (found := native.fullmatch(name))}
    if not built:
        yield f"{dist} has no wheel with machine code: `make wheel`, once for each Python"
    for name, platform in built.items():
        if platform.startswith("linux_"):
            yield f"{name}: indexes refuse {platform}; retag it by `python -m wheel tags --platform-tag`"
    for name in sorted(names.keys() - expected.keys() - built.keys()):
        yield f"{dist}/{name} is not a distribution of {version}: remove it"
    for name in sorted(names.keys() & (expected.keys() | built.keys())):
        missing = LICENCES - {PurePosixPath(member).name for member in members(names[name])}
        if missing:
            yield f"{name} lacks {' and '.join(sorted(missing))}"


def members(path: Path) -> Sequence[str]:
    """Return the names of the files in a distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as source:
        return source.getnames()


if __name__ == "__main__":
    sys.exit(main())
