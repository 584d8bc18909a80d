"""Machine code from one start to the next: found by what it was made from, not by when or where that was.

A file's name says what its code depends on, so code that does not fit is never found: the kernel's arguments,
its module and all of streamnb that this imports, the processor, Python and numba. Code comes with a wheel,
made for a level of processors rather than for one, or was compiled here at an earlier start.
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

__all__ = ["LEVELS", "SHIPPED", "KeptCode", "is_ready", "note_ready", "own_folder"]

_PACKAGE = Path(__file__).parents[1]
SHIPPED = _PACKAGE / "compiler" / "machine_code" / "kernels"
"""Where a wheel brings machine code; made with `NUMBA_CACHE_DIR` one folder above."""
LEVELS = {"x86-64-v3": {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}, "generic": set()}
"""Processors that a wheel has code for, and what they must be able to do; the best first."""

_IMPORTS = re.compile(rb"^(?:from|import) +(streamnb[\w.]*)(?: +import +(\([^)]*\)|[^\n]*))?", re.MULTILINE)
_STALE_SECONDS = 30 * 86400.0
_DIGEST = hashlib.sha256().digest_size


def own_folder() -> Path | None:
    """Where kernels are kept that were compiled here: the first of these that can be written, if one can."""
    if numba.config.CACHE_DIR:
        return _writable(Path(numba.config.CACHE_DIR) / "kernels")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    beside = _writable(_PACKAGE / "compiler" / "__pycache__" / "kernels")
    return beside or _writable(Path(cache) / "streamnb" / "kernels")


@cache
def _writable(folder: Path) -> Path | None:
    """The folder, made where it is not there; None where that is not to be."""
    with contextlib.suppress(OSError, RuntimeError):  # the latter where nobody knows the user's home
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


class KeptCode(NullCache):  # type: ignore[misc]
    """The machine code of one kernel, as numba asks for it and hands it over."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str | None:
        """The folder that is written to; None where there is none."""
        folder = own_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for arguments of these types; None where none is kept, or what is kept is damaged."""
        target_context.refresh()
        for folder, target in places(target_context.codegen().magic_tuple()):
            with contextlib.suppress(OSError):
                kept = (folder / self._file(sig, target)).read_bytes()
                digest, code = kept[:_DIGEST], kept[_DIGEST:]
                if digest == hashlib.sha256(code).digest():
                    return CompileResult._rebuild(target_context, *pickle.loads(code))  # noqa: S301, SLF001
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code; where that fails, as on a full disk, it is compiled again at the next start."""
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
        """Of code for one processor, and arguments of these types."""
        code = self._function.__code__
        of = _brief(made_by(target), str(sig))
        stands = _brief(sources(code.co_filename), str(code.co_firstlineno))
        return f"{self._function.__module__}.{self._function.__qualname__}-{of}-{stands}"


def _symbols(function: Any) -> Any:
    """LLVM's bitcode that names what the machine code has to offer.

    numba would keep the whole kernel as bitcode, too, to link it into others: twice the bytes. Into others
    go kernels that were not optimised.
    """
    names = function.llvm_func_name, function.llvm_cpython_wrapper_name
    return llvm.parse_assembly("\n".join(f'define void @"{n}"() {{ ret void }}' for n in names)).as_bitcode()


def made_by(target: Any) -> str:
    """The compiler, and the processor that it compiles for."""
    return f"{sys.implementation.cache_tag} {numba.__version__} {llvmlite.__version__} {target}"


def targets(host: Any) -> Iterator[Any]:
    """Whose machine code runs on this processor; what a wheel may have before what is compiled here.

    Args:
        host: the triple, the name and the features of this processor, as numba gives them.
    """
    if numba.config.CPU_NAME is None:
        able = {name for name, can in llvm.get_host_cpu_features().items() if can}
        yield from ((host[0], level, "") for level, needs in LEVELS.items() if needs <= able)
    yield host


def places(host: Any) -> Iterator[tuple[Path, Any]]:
    """Where to look for what, best first."""
    own = own_folder()
    for target in dict.fromkeys(targets(host)):
        yield from ((folder, target) for folder in (SHIPPED, own) if folder is not None)


def is_ready(what: str) -> bool:
    """Whether all kernels were once compiled that this needs, as the sources are now."""
    return any((folder / _ready(what, target)).exists() for folder, target in places(_host()))


def note_ready(what: str) -> None:
    """They are."""
    if (folder := own_folder()) is not None and not is_ready(what):
        with contextlib.suppress(OSError):
            (folder / _ready(what, _host())).touch()


def _ready(what: str, target: Any) -> str:
    return f"ready-{_brief(made_by(target), what)}-{sources(str(_PACKAGE / 'model' / 'warm.py'))[:16]}"


def _host() -> Any:
    context = cpu_target.target_context
    context.refresh()
    return context.codegen().magic_tuple()


@cache
def sources(file: str) -> str:
    """A digest of a source file and of all of streamnb that it imports, wherever they lie."""
    digests = sorted(hashlib.sha256(path.read_bytes()).digest() for path in files(Path(file)))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def files(file: Path) -> set[Path]:
    """A source file, and all of streamnb that it imports, directly or not."""
    found, left = set(), [file]
    while left:
        path = left.pop()
        if path not in found and path.is_file():
            found.add(path)
            left += _imported(path)
    return found


@cache
def _imported(file: Path) -> list[Path]:
    """Which files of streamnb one may import."""
    found = []
    for match in _IMPORTS.finditer(file.read_bytes()):
        module = _PACKAGE.parent.joinpath(*match[1].decode().split("."))
        names = re.findall(r"\w+", (match[2] or b"").decode())
        found += [module.with_suffix(".py"), *(module / f"{name}.py" for name in names)]
    return found


def _brief(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
