"""Memory in a file that has no name: what the system may write out, and what goes with the process."""

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
    """What makes arrays of so many words, all zero: larger ones than `n_bytes` in a file in `folder`.

    Where there is no such folder yet, in that of the system's temporary files. Nothing of it is found again
    by another process.

    The array raises StreamnbError as it is made where the disk has no room: a page that had none later would
    end the process.
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
                f"models of tenants that are put away take {8 * n:,} bytes, for which {where} has no room "
                f"({error.strerror}): free some, or let model.tenants be fewer in a new stream"
            ) from error

    return made
