"""The logarithm of correctly rounded operations, and the blocks of the generator whose words it takes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.kernels.jit import kernel
from streamnb.statistics.counter_rng import fill_block, key_of, uniforms
from streamnb.statistics.portable_log import portable_log


@kernel
def log_of(x):
    """Return the logarithm, from Python."""
    return portable_log(x)


@given(st.floats(1e-300, 1e300))
def test_it_is_within_two_units_of_the_last_place(x):
    assert abs(log_of(x) - math.log(x)) <= 2.0 * math.ulp(math.log(x))


def test_its_bits_are_those_of_its_formula():
    """Exact quotients, rounded once for each operation: no contraction, no other order."""
    x = 0.3
    m, e = math.frexp(x)
    m, e = (2.0 * m, e - 1) if m < math.sqrt(0.5) else (m, e)
    z = float(Fraction(m - 1.0) / Fraction(m + 1.0))
    square, total = z * z, 0.0
    for i in range(10, 0, -1):
        total = square * (total + 1.0 / (2 * i + 1))
    assert log_of(x) == e * 0.6931471803691238 + (e * 1.9082149292705877e-10 + 2.0 * (z + z * total))


@pytest.mark.parametrize("seed", [0, 7, 2**64 + 3, 2**128 - 1])
@pytest.mark.parametrize("block", [0, 1, 12345, 2**45])
def test_a_block_has_the_words_of_the_generator(seed, block):
    words = np.zeros(4, dtype=np.uint64)
    fill_block(key_of(seed), block, words)
    numbers = np.ldexp((words >> np.uint64(11)).astype(np.float64), -53)
    assert numbers.tolist() == uniforms(seed, 4 * block, 4).tolist()
