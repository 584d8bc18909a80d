"""A kernel within another: typed and translated once, optimised and made machine code with its caller.

numba compiles a function that another compiled one calls as if Python called it, too: it optimises it, makes
machine code and a wrapper for Python of it, and then links and optimises it again with its caller, and with
the caller's caller. Here only what Python calls is optimised: half of all the time, and a third of the bytes.
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

from streamnb.compiler.bundles import BundleLowering

__all__ = ["NestedCompiler", "OuterCompiler"]


class _NestedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The translation of a kernel, to be linked into others; not optimised, and never run by itself."""

    def finalize(self) -> None:
        """Nothing more: what it calls is added once, to the kernel that Python calls."""
        self._raise_if_finalized()
        self._finalized = True

    def note_all(self, found: dict[Any, None]) -> None:
        """Note it, and those that it calls, directly or not."""
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


class _OuterLower(BundleLowering):
    def lower(self) -> None:
        """See its base class."""
        super().lower()
        self.library._linking_libraries = list(_note_all(self.library._linking_libraries, {}))  # noqa: SLF001


@register_pass(mutates_CFG=True, analysis_only=False)
class _OuterLowering(NativeLowering):  # type: ignore[misc]
    """Translates a kernel that Python calls."""

    _name = "outer_lowering"

    @property
    def lowering_class(self) -> Any:
        """What translates it."""
        return _OuterLower


@register_pass(mutates_CFG=True, analysis_only=False)
class _NestedLowering(_OuterLowering):
    """Translates a kernel for its callers alone."""

    _name = "nested_lowering"
    lowering_class: Any = BundleLowering

    def run_pass(self, state: Any) -> bool:
        """See its base class."""
        state.library = _NestedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        state.library.finalize()
        known_by = object()  # in place of the address that a kernel of its own has
        state.targetctx.insert_user_function(known_by, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=known_by)
        return True


class _SharedFlags(Flags):  # type: ignore[misc]
    """One object for all kernels with the same flags, by which numba looks up what it has.

    It would compare copies option by option, each with those of all others: a tenth of all the time.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def copy(self) -> Any:
        """One that may be changed."""
        return Flags(self)


_shared: dict[str, Any] = {}


class _KernelFlags(Flags):  # type: ignore[misc]
    __slots__ = ()

    def copy(self) -> Any:
        """What numba looks at while it compiles the kernel."""
        return _shared.setdefault(self.summary(), _SharedFlags(self))


class _Typing:
    """numba's typing context; what it once found of an operator on numbers and arrays is not searched anew.

    It tries one rule after the other, and makes a message of each that does not fit: a tenth of all the time.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        """The signature of a call."""
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
"""Steps for functions within functions, and for expressions of whole arrays, which no kernel has."""


class OuterCompiler(CompilerBase):  # type: ignore[misc]
    """numba's own steps, but for those that do nothing, and the last."""

    lowering: Any = _OuterLowering

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.typingctx = _Typing(self.state.typingctx)
        self.state.flags = _KernelFlags(self.changed(self.state.flags))

    def changed(self, flags: Any) -> Any:
        """With a wrapper for Python alone."""
        flags.no_cfunc_wrapper = True
        return flags

    def define_pipelines(self) -> list[Any]:
        """The steps."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (self.lowering if step is NativeLowering else step, name)
            for step, name in pipeline.passes
            if step not in _IDLE
        ]
        pipeline._ENFORCING = False  # noqa: SLF001  each step leaves the function as the next one needs it
        pipeline.finalize()
        return [pipeline]


class NestedCompiler(OuterCompiler):
    """The same for a kernel within another."""

    lowering = _NestedLowering

    def changed(self, flags: Any) -> Any:
        """Without what only Python needs."""
        flags.no_compile = flags.no_cpython_wrapper = True
        return super().changed(flags)
