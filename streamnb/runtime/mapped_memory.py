"""Memory of the machine: its size, and memory in an unnamed file, which the system may page out.

The file is freed with the process.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamnb.errors import StreamnbError


def mapped_beyond(n_bytes: int, folder: Path) -> Callable[[int], npt.NDArray[np.int64]]:
    """Return a function that makes zeroed int64 arrays, in a file in `folder` if larger than `n_bytes`.

    If the folder does not exist yet, the file is in the system's temporary folder. Other processes cannot
    find it.

    The function raises StreamnbError if the disk is full: a page without disk space would later end the
    process.
    """

    def made(n: int) -> npt.NDArray[np.int64]:
        if 8 * n <= n_bytes:
            return np.zeros(n, dtype=np.int64)
        where = folder if folder.is_dir() else Path(tempfile.gettempdir())
        try:
            with tempfile.TemporaryFile(dir=where) as file:
                os.posix_fallocate(file.fileno(), 0, 8 * n)
                return np.frombuffer(mmap.mmap(file.fileno(), 8 * n), dtype=np.int64)
        except OSError as error:
            raise StreamnbError(
                f"idle models of tenants take {8 * n:,} bytes, for which {where} has no room "
                f"({error.strerror}): free some, or let model.tenants be fewer in a new stream"
            ) from error

    return made


_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNKNOWN = 4 << 30  # bytes


def machine_memory() -> int:
    """Return the memory size in bytes; 4 GiB if the system does not report it."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        whole = _UNKNOWN
    return min([whole, *filter(None, map(_limit, _LIMITS))])


def _limit(path: str) -> int:
    try:
        said = Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return 0
    return int(said) if said.isdecimal() else 0
