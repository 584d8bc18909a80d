"""A cache of machine code across starts, addressed by its inputs instead of by time or path.

A file's name is a digest of all that its code depends on, so code that does not fit is never found: the
kernel's arguments, its module and everything of streamnb that it imports, the processor, Python and numba.
Code comes with a wheel, compiled for a level of processors, or was compiled here at an earlier start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

__all__ = ["LEVELS", "SHIPPED", "KernelCache", "is_ready", "note_ready", "own_folder"]

_PACKAGE = Path(__file__).parents[1]
SHIPPED = _PACKAGE / "kernels" / "machine_code" / "kernels"
"""Folder of the machine code in a wheel; made with `NUMBA_CACHE_DIR` one folder above."""
LEVELS = {"x86-64-v3": {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}, "generic": set()}
"""Processors that a wheel has code for, and their required features; the best first."""

_IMPORTS = re.compile(rb"^(?:from|import) +(streamnb[\w.]*)(?: +import +(\([^)]*\)|[^\n]*))?", re.MULTILINE)
_STALE_SECONDS = 30 * 86400.0
_DIGEST = hashlib.sha256().digest_size


def own_folder() -> Path | None:
    """Return the folder of locally compiled kernels: the first writable candidate, or None."""
    if numba.config.CACHE_DIR:
        return _writable(Path(numba.config.CACHE_DIR) / "kernels")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    beside = _writable(_PACKAGE / "kernels" / "__pycache__" / "kernels")
    return beside or _writable(Path(cache) / "streamnb" / "kernels")


@cache
def _writable(folder: Path) -> Path | None:
    """Return the folder, created if missing; None if it cannot be written."""
    with contextlib.suppress(OSError, RuntimeError):  # the latter if the user has no home folder
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


class KernelCache(NullCache):  # type: ignore[misc]
    """Cache of the machine code of one kernel, with numba's interface."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str | None:
        """The folder for new code; None without one."""
        folder = own_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for arguments of these types; None if it is missing or damaged."""
        target_context.refresh()
        for folder, target in places(target_context.codegen().magic_tuple()):
            with contextlib.suppress(OSError):
                kept = (folder / self._file(sig, target)).read_bytes()
                digest, code = kept[:_DIGEST], kept[_DIGEST:]
                if digest == hashlib.sha256(code).digest():
                    return CompileResult._rebuild(target_context, *pickle.loads(code))  # noqa: S301, SLF001
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save code.

        Failures, as on a full disk, are ignored: the code is compiled again at the next start.
        """
        folder = own_folder()
        if folder is None or data.library.has_dynamic_globals:
            return
        (name, kind, (code, _)), *rest = data._reduce()  # noqa: SLF001
        reduced = dumps(((name, kind, (code, _symbols(data.fndesc))), *rest))
        path = folder / self._file(sig, data.codegen.magic_tuple())
        written = path.with_name(f"{path.name}.{uuid4().hex}")
        with contextlib.suppress(OSError):
            for old in folder.glob(f"{path.name.rpartition('-')[0]}-*"):
                if old.stat().st_mtime < time.time() - _STALE_SECONDS:
                    old.unlink(missing_ok=True)
            written.write_bytes(hashlib.sha256(reduced).digest() + reduced)
            written.replace(path)

    def _file(self, sig: Any, target: Any) -> str:
        """Return the file name of code for one processor and arguments of these types."""
        code = self._function.__code__
        of = _brief(made_by(target), str(sig))
        stands = _brief(sources(code.co_filename), str(code.co_firstlineno))
        return f"{self._function.__module__}.{self._function.__qualname__}-{of}-{stands}"


def _symbols(function: Any) -> Any:
    """Return LLVM bitcode with the names that the machine code defines.

    numba would save the bitcode of the whole kernel, too, to link it into other kernels: twice the bytes.
    Here only kernels without optimisation are linked into others.
    """
    names = function.llvm_func_name, function.llvm_cpython_wrapper_name
    return llvm.parse_assembly("\n".join(f'define void @"{n}"() {{ ret void }}' for n in names)).as_bitcode()


def made_by(target: Any) -> str:
    """Return the version of the compiler, and the target processor."""
    return f"{sys.implementation.cache_tag} {numba.__version__} {llvmlite.__version__} {target}"


def targets(host: Any) -> Iterator[Any]:
    """Yield the targets whose machine code runs on this processor; a wheel's levels first.

    Args:
        host: the triple, the name and the features of this processor, as numba gives them.
    """
    if numba.config.CPU_NAME is None:
        able = {name for name, can in llvm.get_host_cpu_features().items() if can}
        yield from ((host[0], level, "") for level, needs in LEVELS.items() if needs <= able)
    yield host


def places(host: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the folders and targets to search, best first."""
    own = own_folder()
    for target in dict.fromkeys(targets(host)):
        yield from ((folder, target) for folder in (SHIPPED, own) if folder is not None)


def is_ready(what: str) -> bool:
    """Return whether all kernels for `what` were compiled before, from the current sources."""
    return any((folder / _ready(what, target)).exists() for folder, target in places(_host()))


def note_ready(what: str) -> None:
    """Record that all kernels for `what` are compiled."""
    if (folder := own_folder()) is not None and not is_ready(what):
        with contextlib.suppress(OSError):
            (folder / _ready(what, _host())).touch()


def _ready(what: str, target: Any) -> str:
    warmup = sources(str(_PACKAGE / "runtime" / "kernel_warmup.py"))
    return f"ready-{_brief(made_by(target), what)}-{warmup[:16]}"


def _host() -> Any:
    context = cpu_target.target_context
    context.refresh()
    return context.codegen().magic_tuple()


@cache
def sources(file: str) -> str:
    """Return a digest of a source file and of all modules of streamnb that it imports."""
    digests = sorted(hashlib.sha256(path.read_bytes()).digest() for path in files(Path(file)))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def files(file: Path) -> set[Path]:
    """Return a source file, and all files of streamnb that it imports, directly or not."""
    if not file.is_file():
        raise FileNotFoundError(file)
    found, left = set(), [file]
    while left:
        path = left.pop()
        if path not in found and path.is_file():
            found.add(path)
            left += _imported(path)
    return found


@cache
def _imported(file: Path) -> list[Path]:
    """Return the files of streamnb that a file may import."""
    found = []
    for match in _IMPORTS.finditer(file.read_bytes()):
        module = _PACKAGE.parent.joinpath(*match[1].decode().split("."))
        names = re.findall(r"\w+", (match[2] or b"").decode())
        found += [module.with_suffix(".py"), *(module / f"{name}.py" for name in names)]
    return found


def _brief(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
