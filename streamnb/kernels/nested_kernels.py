"""Nested kernels: typed and translated once, then optimised and compiled with their caller.

For a compiled function called by compiled code, numba also generates code for calls from Python: it optimises
it, makes machine code and a Python wrapper, and then links and optimises it again with its caller, and with
the caller's caller. Here only kernels called from Python are optimised: half of the time, and a third of the
bytes.
"""

from __future__ import annotations

import operator
from types import BuiltinFunctionType
from typing import Any

from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

from streamnb.kernels.structs import StructLowering

__all__ = ["NestedCompiler", "OuterCompiler"]


class _NestedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Translated kernel for linking into others; it is neither optimised nor run by itself."""

    def finalize(self) -> None:
        """Mark as final; its callees are linked once, into the kernel that Python calls."""
        self._raise_if_finalized()
        self._finalized = True

    def note_all(self, found: dict[Any, None]) -> None:
        """Collect this library and the libraries that it calls, directly or not."""
        if self not in found:
            found[self] = None
            _note_all(self._linking_libraries, found)


def _note_all(libraries: Any, found: dict[Any, None]) -> dict[Any, None]:
    for library in libraries:
        if isinstance(library, _NestedLibrary):
            library.note_all(found)
        else:
            found[library] = None
    return found


class _OuterLower(StructLowering):
    def lower(self) -> None:
        """See its base class."""
        super().lower()
        self.library._linking_libraries = list(_note_all(self.library._linking_libraries, {}))  # noqa: SLF001


@register_pass(mutates_CFG=True, analysis_only=False)
class _OuterLowering(NativeLowering):  # type: ignore[misc]
    """Lowering of a kernel that Python calls."""

    _name = "outer_lowering"

    @property
    def lowering_class(self) -> Any:
        return _OuterLower


@register_pass(mutates_CFG=True, analysis_only=False)
class _NestedLowering(_OuterLowering):
    """Lowering of a kernel for its callers alone."""

    _name = "nested_lowering"
    lowering_class: Any = StructLowering

    def run_pass(self, state: Any) -> bool:
        """See its base class."""
        state.library = _NestedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        state.library.finalize()
        known_by = object()  # in place of the address of a separate kernel
        state.targetctx.insert_user_function(known_by, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=known_by)
        return True


class _SharedFlags(Flags):  # type: ignore[misc]
    """Flags shared by all kernels with equal flags, which numba uses as a key.

    numba would compare copies option by option, with all other copies: a tenth of the compile time.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def copy(self) -> Any:
        """Return a mutable copy."""
        return Flags(self)


_shared: dict[str, Any] = {}


class _KernelFlags(Flags):  # type: ignore[misc]
    __slots__ = ()

    def copy(self) -> Any:
        """Return the shared flags that numba uses while it compiles the kernel."""
        return _shared.setdefault(self.summary(), _SharedFlags(self))


class _Typing:
    """numba's typing context with a cache of the operators on numbers and arrays.

    numba tries one rule after the other, and formats a message for each mismatch: a tenth of the compile
    time.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        if kws or getattr(function, "typing_key", None) not in _OPERATORS or not all(map(_is_plain, args)):
            return self._context.resolve_function_type(function, args, kws)
        found = _found.get((function, args))
        if found is None:
            found = _found[function, args] = self._context.resolve_function_type(function, args, kws)
        return found


def _is_plain(kind: Any) -> bool:
    return isinstance(kind, (types.Number, types.Boolean, types.Literal, types.Array, types.BaseTuple))


_OPERATORS = {value for value in vars(operator).values() if isinstance(value, BuiltinFunctionType)}
_found: dict[Any, Any] = {}

_IDLE = {InlineClosureLikes, NopythonRewrites}
"""Passes for nested functions and for expressions of whole arrays, which no kernel has."""


class OuterCompiler(CompilerBase):  # type: ignore[misc]
    """numba's passes without the idle ones, and with another lowering."""

    lowering: Any = _OuterLowering

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.typingctx = _Typing(self.state.typingctx)
        self.state.flags = _KernelFlags(self.changed(self.state.flags))

    def changed(self, flags: Any) -> Any:
        """Disable the C wrapper: only Python calls the kernel."""
        flags.no_cfunc_wrapper = True
        return flags

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (self.lowering if step is NativeLowering else step, name)
            for step, name in pipeline.passes
            if step not in _IDLE
        ]
        pipeline._ENFORCING = False  # noqa: SLF001  each pass preserves the invariants of the next
        pipeline.finalize()
        return [pipeline]


class NestedCompiler(OuterCompiler):
    """Compiler of a kernel that other kernels call."""

    lowering = _NestedLowering

    def changed(self, flags: Any) -> Any:
        """Disable everything that only Python needs."""
        flags.no_compile = flags.no_cpython_wrapper = True
        return super().changed(flags)
