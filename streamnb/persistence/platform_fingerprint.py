"""Fingerprint of the environment on which the bits of derived floats depend: versions, C library and CPU.

Counts and moments are the same everywhere. State derived through log and exp is bit-identical only under one
fingerprint: numba compiles for the local CPU, the C library selects log and exp by its features, and BLAS
selects the order of sums.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import unicodedata
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# The levels of the x86-64 psABI, named as /proc/cpuinfo names their features (pni = SSE3, abm = LZCNT).
_X86_LEVELS = (
    ("x86-64-v2", {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}),
    ("x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
)


def fingerprint() -> dict[str, str]:
    """Return the fingerprint of this process.

    All keys are present; missing values are "unknown" or "absent".
    """
    cpuinfo = _cpuinfo()
    return {
        "streamnb": _version("streamnb"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "unicode": unicodedata.unidata_version,
        **{name: _version(name) for name in ("numpy", "msgspec", "river", "scipy", "numba", "llvmlite")},
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
        "system": platform.system() or "unknown",
        "cpu": platform.machine() or "unknown",
        "cpu_model": cpu_model(cpuinfo) or platform.processor() or "unknown",
        "cpu_level": cpu_level(cpuinfo) or "unknown",
        "blas": blas_core() or "unknown",
    }


def blas_core() -> str:
    """Return the processor for which numpy's OpenBLAS computes, or "" for another library.

    It differs from the processor if OPENBLAS_CORETYPE is set, and sums then differ in their last bits.
    """
    found = importlib.util.find_spec("numpy")  # without importing it
    folder = Path(found.origin).parents[1] / "numpy.libs" if found and found.origin else Path()
    for path in sorted(folder.glob("libscipy_openblas*")):
        with suppress(OSError, AttributeError):
            name = ctypes.CDLL(str(path)).scipy_openblas_get_corename64_
            name.restype = ctypes.c_char_p
            return bytes(name()).decode()
    return ""


def cpu_model(cpuinfo: str) -> str:
    """Return the CPU's name from the text of /proc/cpuinfo: its model, or an ARM core's numbers, or ""."""
    fields = _first_cpu(cpuinfo)
    arm = [fields[key] for key in ("CPU implementer", "CPU part", "CPU variant") if key in fields]
    return fields.get("model name") or " ".join(arm)


def cpu_level(cpuinfo: str) -> str:
    """Return the x86-64 level in the text of /proc/cpuinfo, an ARM core's features, or ""."""
    fields = _first_cpu(cpuinfo)
    if "flags" not in fields:
        return fields.get("Features", "")
    flags = set(fields["flags"].split())
    level = "x86-64-v1"
    for name, features in _X86_LEVELS:
        if not features <= flags:
            break
        level = name
    return level


def _first_cpu(cpuinfo: str) -> dict[str, str]:
    lines = cpuinfo.strip().split("\n\n")[0].splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
