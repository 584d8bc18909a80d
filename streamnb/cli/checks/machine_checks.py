"""Checks of this machine: disk space and the version of SQLite."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from streamnb.cli.checks.diagnostics import Diagnosis, Severity

_MIB = 1 << 20
_AT_LEAST = 256 * _MIB  # bytes


class DiskSpace(NamedTuple):
    """Free space of a folder.

    Attributes:
        folder: the folder, or the nearest one above it that exists.
        free: bytes that an ordinary user may still write.
        is_writable: whether this user may write there.
    """

    folder: Path
    free: int
    is_writable: bool


def check_disk_space(what: str, space: DiskSpace, needed: int) -> Diagnosis:
    """Check that `needed` bytes fit on the disk several times."""
    check = f"disk of {what}"
    found = f"{space.free / _MIB:,.0f} MiB free at {space.folder}; {needed / _MIB:,.0f} MiB are written next"
    if not space.is_writable:
        found = f"{space.folder} cannot be written to"
        return Diagnosis(check, Severity.PROBLEM, found, "let this user write there")
    if space.free < needed:
        return Diagnosis(check, Severity.PROBLEM, found, "make room, or set another place")
    if space.free < max(4 * needed, _AT_LEAST):
        return Diagnosis(check, Severity.WARNING, found, "make room soon")
    return Diagnosis(check, Severity.OK, found)


def check_sqlite(*, has_bug: bool) -> Diagnosis:
    """Check that this version of SQLite cannot damage the file."""
    check = "sqlite"
    if not has_bug:
        return Diagnosis(check, Severity.OK, "a version without the WAL-reset bug")
    return Diagnosis(
        check,
        Severity.WARNING,
        "a version with the WAL-reset bug, which can damage a file that several processes write at once; "
        "only the learner checkpoints, which makes that most unlikely",
        "use a Python with SQLite 3.51.3 or later (or 3.50.7, 3.44.6)",
    )


def disk_space(path: Path) -> DiskSpace:
    """Return the disk space of a folder, or of the nearest existing parent."""
    folder = path.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return DiskSpace(folder, shutil.disk_usage(folder).free, os.access(folder, os.W_OK | os.X_OK))
