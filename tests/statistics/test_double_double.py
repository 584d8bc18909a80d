"""Arithmetic of 106 bits against fractions, where terms cancel too."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb.statistics.double_double import add, divide, multiply, two_product

law = settings(deadline=None, max_examples=300)
doubles = st.floats(2.0**-200, 2.0**200) | st.floats(-(2.0**200), -(2.0**-200))
rests = st.integers(-(2**53), 2**53).map(lambda i: i * 2.0**-107)


def number(high, rest):
    """A number of 106 bits near `high`, as two doubles."""
    exact = Fraction(high) * (1 + Fraction(rest))
    first = float(exact)
    return first, float(exact - Fraction(first))


def value(pair):
    return Fraction(pair[0]) + Fraction(pair[1])


def is_near(found, exact, bits):
    assert found[0] == float(value(found)), "the first double is the number rounded"
    return abs(value(found) - exact) <= abs(exact) * Fraction(2) ** -bits


pairs = st.builds(number, doubles, rests)


@law
@given(doubles, doubles)
def test_a_product_of_doubles_is_exact(a, b):
    assert value(two_product(a, b)) == Fraction(a) * Fraction(b)


@law
@given(pairs, pairs)
@example((1.0, 2.0**-54), (-1.0, 2.0**-107))
@example((1.0, 2.0**-55 + 2.0**-107), (-1.0 + 2.0**-53, 2.0**-60))
def test_sum(a, b):
    assert is_near(add(*a, *b), value(a) + value(b), 103)


@law
@given(pairs, st.integers(-60, 60), rests)
def test_a_difference_of_near_numbers(a, ulps, rest):
    """What is left of numbers that cancel is known as well as any sum."""
    b = number(-a[0] * (1.0 + ulps * 2.0**-52), rest)
    assert is_near(add(*a, *b), value(a) + value(b), 103)


@law
@given(pairs, pairs)
def test_product(a, b):
    assert is_near(multiply(*a, *b), value(a) * value(b), 101)


@law
@given(pairs, pairs)
def test_quotient(a, b):
    assert is_near(divide(*a, *b), value(a) / value(b), 100)
