"""Named tuples of arrays that kernels pass by address.

numba passes a tuple item by item, each array as seven words, and keeps as many variables wherever a tuple
occurs: hundreds in each function that takes the tables of a model, which slows compiling and calls. A bundle
is written to memory once, when Python calls, and then is one word. Kernels cannot change it. A nested bundle
is stored inside its parent's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.core.lowering import Lower
from numba.core.pythonapi import NativeValue
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    register_model,
    typeof_impl,
    unbox,
)

C = TypeVar("C")

_BYTE = ir.IntType(8)
_WORD = ir.IntType(64)


class Struct(types.Type):  # type: ignore[misc]
    """Type of a bundle: a class of named tuples, and the type of each field."""

    def __init__(self, named: type, fields: tuple[Any, ...]) -> None:
        self.named = named
        self.fields = dict(zip(named._fields, fields, strict=True))  # type: ignore[attr-defined]
        super().__init__(f"{named.__module__}.{named.__qualname__}({', '.join(map(str, fields))})")


def struct_type(named: type[C]) -> type[C]:
    """Let kernels take named tuples of this class as bundles."""

    def typed(value: Any, context: Any) -> Any:
        return Struct(named, tuple(typeof_impl(field, context) for field in value))

    typeof_impl.register(named)(typed)
    return named


@register_model(Struct)
class _StructModel(models.PrimitiveModel):  # type: ignore[misc]
    """Data model of a bundle: its address."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _BYTE.as_pointer())


@cache
def _offsets(context: Any, kind: Any) -> dict[str, int]:
    """Return the offset of each field in bytes, and, under an empty name, the size of the bundle."""
    offsets, end = {}, 0
    for name, field in kind.fields.items():
        offsets[name] = end
        if isinstance(field, Struct):
            end += _size(context, field)
        else:
            end += -(-context.get_abi_sizeof(context.get_value_type(field)) // 8) * 8
    return {**offsets, "": end}


def _size(context: Any, kind: Any) -> int:
    return _offsets(context, kind)[""]


def _place(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    """Return the address of a field: of a nested bundle, or of a value."""
    place = builder.gep(address, [_WORD(_offsets(context, kind)[name])], inbounds=True)
    within = kind.fields[name]
    wanted = _BYTE if isinstance(within, Struct) else context.get_value_type(within)
    return builder.bitcast(place, wanted.as_pointer())


@infer_getattr
class _StructFields(AttributeTemplate):  # type: ignore[misc]
    key = Struct

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.fields.get(name)


@lower_getattr_generic(Struct)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    place, within = _place(context, builder, kind, address, name), kind.fields[name]
    if isinstance(within, Struct):
        return place
    return impl_ret_borrowed(context, builder, within, builder.load(place))


def _memory(context: Any, builder: Any, kind: Any) -> Any:
    """Allocate memory for a bundle for the duration of the function."""
    words = ir.ArrayType(_WORD, max(_size(context, kind) // 8, 1))
    return builder.bitcast(cgutils.alloca_once(builder, words), _BYTE.as_pointer())


@unbox(Struct)  # type: ignore[untyped-decorator]
def _unbox(kind: Any, of: Any, c: Any) -> Any:
    address = _memory(c.context, c.builder, kind)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    held = list(_unbox_fields(kind, of, address, failed, c))

    def clean() -> None:
        for field, native in reversed(held):
            if native.cleanup is not None:
                native.cleanup()
            if c.context.enable_nrt:
                c.context.nrt.decref(c.builder, field, native.value)

    return NativeValue(address, cleanup=clean, is_error=c.builder.load(failed))


def _unbox_fields(kind: Any, of: Any, address: Any, failed: Any, c: Any) -> Iterator[tuple[Any, Any]]:
    """Write each field; yield the type and the value of fields other than bundles."""
    for i, (name, field) in enumerate(kind.fields.items()):
        place, value = _place(c.context, c.builder, kind, address, name), c.pyapi.tuple_getitem(of, i)
        if isinstance(field, Struct):
            yield from _unbox_fields(field, value, place, failed, c)
            continue
        native = c.unbox(field, value)
        c.builder.store(native.value, place)
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
        yield field, native


@intrinsic  # type: ignore[untyped-decorator]
def struct_of(_context: Any, of: Any) -> Any:
    """Return the bundle of a named tuple made in a kernel; the kernel must not return it."""
    kind = _bundle_of(of)

    def code(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        address = _memory(context, builder, kind)
        _write(context, builder, kind, address, arguments[0])
        return address

    return kind(of), code


def _bundle_of(of: Any) -> Any:
    if isinstance(of, types.BaseNamedTuple):
        return Struct(of.instance_class, tuple(_bundle_of(field) for field in of))
    return of


def _write(context: Any, builder: Any, kind: Any, address: Any, value: Any) -> None:
    for i, (name, field) in enumerate(kind.fields.items()):
        place, item = _place(context, builder, kind, address, name), builder.extract_value(value, i)
        if isinstance(field, Struct):
            _write(context, builder, field, place, item)
        else:
            builder.store(item, place)


class StructLowering(Lower):  # type: ignore[misc]
    """Lowering that marks bundles as immutable, so that LLVM hoists their reads out of loops."""

    def setup_function(self, fndesc: Any) -> None:
        """See its base class."""
        super().setup_function(fndesc)
        of = [kind for argument in fndesc.argtypes for kind in _leaves(self.context, argument)]
        for kind, argument in zip(of, self.call_conv.get_arguments(self.function), strict=True):
            if isinstance(kind, Struct):
                argument.add_attribute("noalias")
                argument.add_attribute("nonnull")
                argument.attributes.dereferenceable = _size(self.context, kind)
                argument.attributes.align = 8


def _leaves(context: Any, kind: Any) -> Iterator[Any]:
    """Yield the types of the words that pass an argument; None for words that do not pass a bundle."""
    if isinstance(kind, types.BaseTuple):
        for within in kind:
            yield from _leaves(context, within)
    elif isinstance(kind, Struct):
        yield kind
    else:
        yield from (None for _ in context.get_arg_packer([kind]).argument_types)
