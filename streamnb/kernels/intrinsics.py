"""Four processor instructions that numpy does not offer.

Little-endian, as every machine that numba supports.

None of them checks bounds: the caller ensures that all eight bytes are inside the array.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE = ir.IntType(8)
_WORD = ir.IntType(64)
_FLAG = ir.IntType(32)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Return the address of element `index` of a contiguous array, counted over all its axes."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


@intrinsic  # type: ignore[untyped-decorator]
def load8(_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001  numba looks at the names
    """Return eight bytes of a uint8 array from `index`, the first one lowest, as uint64."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature.args[0], *arguments)
        word = builder.load(builder.bitcast(place, _WORD.as_pointer()))
        word.align = 1
        return word

    return types.uint64(array, types.int64), code


@intrinsic  # type: ignore[untyped-decorator]
def store8(_context: Any, array: Any, index: Any, word: Any) -> Any:  # noqa: ARG001  the same
    """Write the eight bytes of a uint64 at `index`, the lowest first."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature.args[0], *arguments[:2])
        written = builder.store(arguments[2], builder.bitcast(place, _WORD.as_pointer()))
        written.align = 1
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), code


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001  the same
    """Fetch the cache line of element `index` (over all axes), without waiting for it. Changes nothing."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature.args[0], *arguments)
        pointer = _BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _FLAG, _FLAG, _FLAG])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, every_cache, data = _FLAG(0), _FLAG(3), _FLAG(1)
        builder.call(fetch, [builder.bitcast(place, pointer), read, every_cache, data])
        return context.get_dummy_value()

    return types.void(array, types.int64), code


@intrinsic  # type: ignore[untyped-decorator]
def trailing_zeros(_context: Any, word: Any) -> Any:  # noqa: ARG001  the same
    """Return the number of trailing zero bits of a nonzero uint64."""

    def code(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), code
