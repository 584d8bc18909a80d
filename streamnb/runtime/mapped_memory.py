"""Memory in an unnamed file: the system may page it out, and it is freed with the process."""

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
