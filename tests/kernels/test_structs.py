"""Tables reach kernels by their address, with every field and all nested ones where they belong."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from numba import typeof

from streamnb.kernels.jit import allocating, kernel
from streamnb.kernels.structs import Struct, struct_of, struct_type


@struct_type
class Inner(NamedTuple):
    """Stands in an outer one."""

    flag: bool
    many: npt.NDArray[np.float64]


@struct_type
class Outer(NamedTuple):
    """Fields of all sizes, some behind those of an inner one."""

    table: npt.NDArray[np.int64]
    flag: bool
    inner: Inner
    size: int
    last: npt.NDArray[np.uint8]


def outer():
    inner = Inner(True, np.array([0.5, 0.25]))
    return Outer(np.arange(6).reshape(2, 3), False, inner, 7, np.array([9], dtype=np.uint8))


def _told(of):
    return of.table[1, 2], of.flag, of.inner.flag, of.inner.many[1], of.inner.many.size, of.size, of.last[0]


told = kernel(_told)


@kernel
def within(pair, row):
    """Of one in a tuple, through another kernel; `row` is written to."""
    first, second = pair
    row[0] = 5
    return told(first), told(second)


@kernel
def made(of):
    """Of one that the kernel makes, with all that is nested."""
    own = struct_of(Outer(of.table, True, Inner(False, of.inner.many[1:]), 3, of.last))
    return told(own), told(of)


@allocating
def held(of):
    """An array of one outlives it."""
    return of.inner.many, np.full(2, of.size)


EXPECTED = (5, False, True, 0.25, 2, 7, 9)


def test_every_field_is_found():
    assert told(outer()) == _told(outer()) == EXPECTED


def test_a_tuple_of_bundles_and_another_kernel():
    first = outer()
    second = first._replace(size=8)
    assert within((first, second), first.table[1, 2:]) == (EXPECTED, (5, False, True, 0.25, 2, 8, 9))


def test_one_that_a_kernel_makes():
    of = outer()
    of = of._replace(inner=of.inner._replace(many=np.array([1.0, 2.0, 4.0])))
    assert made(of) == ((5, True, False, 4.0, 2, 3, 9), (5, False, True, 2.0, 3, 7, 9))


def test_arrays_outlive_the_bundle():
    of = outer()
    many, sizes = held(of)
    del of
    np.testing.assert_array_equal(many, [0.5, 0.25])
    np.testing.assert_array_equal(sizes, [7, 7])


def test_a_bundle_is_typed_by_its_fields():
    of = outer()
    other = of._replace(last=np.zeros(1))
    assert isinstance(typeof(of), Struct)
    assert typeof(of) == typeof(outer())
    assert typeof(of) != typeof(other)
    assert str(typeof(of)) != str(typeof(other))


def test_what_is_no_field_is_refused():
    def nothing(of):
        return of.nothing

    with pytest.raises(Exception, match="nothing"):
        kernel(nothing)(outer())
