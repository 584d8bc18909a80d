"""Size of the available memory: the machine's, or the container's limit if it is smaller."""

from __future__ import annotations

import os
from pathlib import Path

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
