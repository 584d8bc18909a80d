"""Where a measurement was made: what its figures depend on."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("streamnb", "kafka-python", "confluent-kafka", "msgspec", "numba", "numpy")
_CPU_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def environment() -> dict[str, Any]:
    """Versions, system and processors."""
    return {
        "python": platform.python_version(),
        **{package: version for package in _PACKAGES if (version := _version(package))},
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "processor": _processor(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The model's name, where the system tells it."""
    try:
        found = _CPU_MODEL.search(Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or "unknown"
