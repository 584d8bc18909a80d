"""Numbers of 106 bits, as the unevaluated sum of two doubles: for sums of products that must not lose.

    two_sum(a, b) = (s, e) with s + e = a + b exactly        (Knuth)
    two_product(a, b) = (p, e) with p + e = a b exactly      (Dekker, by halves of 26 bits)

Exact unless a product underflows (below about 1e-290); operands must stay below 1e300.

References: Dekker (1971), Numerische Mathematik 18; Hida, Li and Bailey (2001), quad-double arithmetic.
"""

from __future__ import annotations

from typing import Any

from streamnb.kernels.jit import inlined

_SPLIT = 2.0**27 + 1.0


@inlined
def _two_sum(a: float, b: float) -> Any:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@inlined
def two_product(a: float, b: float) -> Any:
    """Return the product of two doubles as a double-double."""
    p = a * b
    c, d = _SPLIT * a, _SPLIT * b
    a_high, b_high = c - (c - a), d - (d - b)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@inlined
def add(a: float, a_low: float, b: float, b_low: float) -> Any:
    """Return (a + a_low) + (b + b_low)."""
    s, e = _two_sum(a, b)
    t, f = _two_sum(a_low, b_low)
    e += t
    high = s + e
    low = e - (high - s)
    low += f
    s = high + low
    return s, low - (s - high)


@inlined
def multiply(a: float, a_low: float, b: float, b_low: float) -> Any:
    """Return (a + a_low) (b + b_low)."""
    p, e = two_product(a, b)
    e += a * b_low + a_low * b
    s = p + e
    return s, e - (s - p)


@inlined
def divide(a: float, a_low: float, b: float, b_low: float) -> Any:
    """Return (a + a_low) / (b + b_low)."""
    q = a / b
    p, e = multiply(b, b_low, q, 0.0)
    r, r_low = add(a, a_low, -p, -e)
    rest = (r + r_low) / b
    s = q + rest
    return s, rest - (s - q)
