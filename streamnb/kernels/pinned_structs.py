"""Memory that a kernel receives as one address: bundles between two calls, and scratch.

numba takes a microsecond to pass forty arrays, one by one or as a bundle. Here their addresses are written
once into one array.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from streamnb.kernels.structs import _size

PINNED_WORDS = 2048
_BYTE = ir.IntType(8)
_WORD = ir.IntType(64)


def pinning(example: Any) -> tuple[Any, Any]:
    """Return `pin(words, bundle)` and `pinned(words)` for kernels without reference counts.

    Here `words` is int64[`PINNED_WORDS`]. `pin` writes a bundle like the example there, and `pinned` returns
    the bundle that was written. It keeps no references: the caller must hold the arrays while the bundle is
    in use, and it becomes invalid when one of them moves. numba refuses to compile `pin` for a bundle of
    another type.
    """
    kind = typeof(example)

    @intrinsic  # type: ignore[untyped-decorator]
    def pin(_context: Any, words: Any, bundle: Any) -> Any:
        if bundle != kind:
            raise TypeError(f"{bundle} is not {kind}")

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            n_bytes = _size(context, kind)
            if n_bytes > 8 * PINNED_WORDS:
                raise TypeError(f"{kind} takes more than {PINNED_WORDS} words")
            cgutils.raw_memcpy(
                builder, _data(context, builder, signature, arguments), arguments[1], _WORD(n_bytes), 1
            )
            return context.get_dummy_value()

        return types.void(words, kind), code

    @intrinsic  # type: ignore[untyped-decorator]
    def pinned(_context: Any, words: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(_data(context, builder, signature, arguments), _BYTE.as_pointer())

        return kind(words), code

    return pin, pinned


def _data(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of the first argument's data."""
    return context.make_array(signature.args[0])(context, builder, arguments[0]).data


@intrinsic  # type: ignore[untyped-decorator]
def carve(_context: Any, words: Any, at: Any, shape: Any, dtype: Any) -> Any:  # noqa: ARG001  see `load8`
    """Return an array at word `at` of scratch memory, and the index of the word after it.

    It checks no bounds, and is for kernels without reference counts. numba takes ten times as long to compile
    ``words[at : at + n].view(dtype)``.
    """
    kind = types.Array(dtype.dtype, len(shape), "C")

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        item, axes = context.get_data_type(kind.dtype), cgutils.unpack_tuple(builder, arguments[2])
        strides = [_WORD(context.get_abi_sizeof(item))]
        for axis in reversed(axes):
            strides.insert(0, builder.mul(strides[0], axis))
        first = builder.gep(_data(context, builder, signature, arguments), [arguments[1]])
        array = context.make_array(kind)(context, builder)
        data = builder.bitcast(first, item.as_pointer())
        populate_array(array, data, axes, strides[1:], strides[-1], None)
        words = builder.lshr(builder.add(strides[0], _WORD(7)), _WORD(3))
        end = builder.add(arguments[1], words)
        return context.make_tuple(builder, signature.return_type, (array._getvalue(), end))  # noqa: SLF001

    at_and_shape = types.int64, types.UniTuple(types.int64, len(shape))
    return types.Tuple((kind, types.int64))(words, *at_and_shape, dtype), code
