"""Arrays grow with their values kept and zeros behind them; large ones stay where they are."""

from __future__ import annotations

import copy
import mmap
import pickle
import resource

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.kernels import growable_arrays
from streamnb.kernels.growable_arrays import empty_slots, grown, ranking

STAYS, LARGE = 1 << 18, 2 << 20  # bytes


def counted(shape, dtype=np.int64):
    return (np.arange(np.prod(shape)) % 251).astype(dtype).reshape(shape)


def assert_grown(before, after, shape):
    assert after.shape == shape
    assert after.dtype == before.dtype
    assert after.flags.c_contiguous
    assert after.flags.writeable
    flat = after.reshape(-1)
    np.testing.assert_array_equal(flat[: before.size], before.reshape(-1))
    assert not flat[before.size :].any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 5_000, 400_000])
def test_values_stay_and_zeros_follow(dtype, rows):
    array = counted((rows, 3), dtype)
    for factor in (2, 3, 9):
        before = array.copy()
        array = grown(array, (rows * factor, 3))
        assert_grown(before, array, (rows * factor, 3))
        array[-1] = 7


@pytest.mark.parametrize("first", [STAYS // 8, LARGE // 8, LARGE // 4])
def test_an_array_that_is_not_small_does_not_move(first):
    array = grown(counted((first // 2,)), (first,))
    place = array.ctypes.data
    for size in (LARGE // 2, LARGE, 5 * LARGE):
        before = array.copy()
        array = grown(array, (size,))
        assert array.ctypes.data == place
        assert_grown(before, array, (size,))
    assert place % mmap.PAGESIZE == 0


def advice(monkeypatch):
    """What the system is asked of memory from now on."""
    asked = []

    class Asked(mmap.mmap):
        def madvise(self, *option):
            asked.append(option)
            return super().madvise(*option)

    monkeypatch.setattr(growable_arrays.mmap, "mmap", Asked)
    return asked


def test_large_pages_are_asked_for_once_one_would_be_filled(monkeypatch):
    """Of small arrays they would be a waste: two megabytes each."""
    asked = advice(monkeypatch)
    array = grown(counted((STAYS // 16,)), (STAYS // 8,))
    array = grown(array, (LARGE // 8 - 1,))
    assert not asked
    grown(array, (LARGE // 8,))
    assert asked == [(mmap.MADV_HUGEPAGE,)]
    empty_slots(LARGE // 8)
    assert asked == [(mmap.MADV_HUGEPAGE,)] * 2


def test_rows_may_be_widened_in_the_same_memory():
    array = grown(counted((LARGE // 16, 2)), (LARGE // 16, 3))
    assert_grown(counted((LARGE // 16, 2)), array, (LARGE // 16, 3))


def test_what_was_copied_or_unpickled_grows_too():
    array = grown(counted((LARGE // 8,)), (LARGE // 4,))
    for other in (copy.deepcopy(array), pickle.loads(pickle.dumps(array)), array.copy()):  # noqa: S301
        more = grown(other, (LARGE,))
        assert_grown(array, more, (LARGE,))
        more[0] = -1
    assert array[0] == 0, "each has memory of its own"


def refuse(*_, **__):
    raise OSError(12, "Cannot allocate memory")


@pytest.mark.parametrize("cause", ["no addresses", "too few"])
def test_without_addresses_it_is_moved(monkeypatch, cause):
    if cause == "no addresses":
        monkeypatch.setattr(growable_arrays.mmap, "mmap", refuse)
    else:
        monkeypatch.setattr(growable_arrays, "_RESERVED", 3 * LARGE)
    array = counted((LARGE // 8,))
    for size in (LARGE // 4, LARGE // 2, LARGE, 2 * LARGE):
        before = array.copy()
        array = grown(array, (size,))
        assert_grown(before, array, (size,))


def test_where_addresses_are_limited_none_are_reserved(monkeypatch):
    """Or all others would go without: half of the process's addresses for a table of megabytes."""
    monkeypatch.setattr(resource, "getrlimit", {resource.RLIMIT_AS: (1 << 37, 1 << 37)}.get)
    reserved = []
    monkeypatch.setattr(growable_arrays.mmap, "mmap", lambda *_, **__: reserved.append(1))
    array = counted((LARGE // 8,))
    for size in (LARGE // 4, LARGE // 2, LARGE):
        before = array.copy()
        array = grown(array, (size,))
        assert_grown(before, array, (size,))
    assert not reserved


@pytest.mark.parametrize("count", [64, LARGE])
def test_slots_are_free(monkeypatch, count):
    for _ in range(2):
        slots = empty_slots(count)
        assert slots.shape == (count,)
        assert slots.dtype == np.uint64
        assert not slots.any()
        slots[0] = 1
        monkeypatch.setattr(growable_arrays.mmap, "mmap", refuse)


@given(st.lists(st.integers(0, 5), max_size=30))
def test_a_ranking_begins_with_the_heaviest_and_of_equals_with_the_last(weights):
    ranked = sorted(range(len(weights)), key=lambda row: (weights[row], row))[::-1]
    assert ranking(np.array(weights, dtype=np.int64)).tolist() == ranked
