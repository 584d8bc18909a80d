"""Logarithms of rising factorials, a (a + 1) ... (a + n - 1) = Gamma(a + n) / Gamma(a), n real.

A difference of two `lgamma` loses all digits of large, close arguments: one more toss after 10^15 has a log
evidence of -0.69, and lgamma(10^15) = 3 10^16 is known to +-4. By Stirling's series, with lgamma(x) = (x -
1/2) ln x - x + ln(2 pi) / 2 + s(x), the large terms cancel on paper:

    ln Gamma(a + n) / Gamma(a) = n ln a + (a + n - 1/2) ln(1 + n / a) - n + s(a + n) - s(a)

Reference: NIST Digital Library of Mathematical Functions, 5.11.1.
"""

from __future__ import annotations

import math

_LARGE = 20.0  # from here on, five terms of the series are exact to 1e-17
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def log_rising(a: float, n: float) -> float:
    """Return the log of Gamma(a + n) / Gamma(a), for a > 0 and a + n > 0."""
    if min(a, a + n) < _LARGE:
        return math.lgamma(a + n) - math.lgamma(a)
    return n * math.log(a) + (a + n - 0.5) * math.log1p(n / a) - n + (_tail(a + n) - _tail(a))


def log_rising_ratio(a: float, b: float, n: float) -> float:
    """Return the log of the product over i < n of (a + i) / (a + b + i), for a > 0, a + b > 0, n >= 0.

    It equals ln[(a)_n / (a + b)_n] and ln[(a)_b / (a + n)_b]. Of the two, the smaller factorials lose less to
    rounding: about 1e-16 min(b, n) ln(a + b + n).
    """
    if n <= abs(b):
        return log_rising(a, n) - log_rising(a + b, n)
    return log_rising(a, b) - log_rising(a + n, b)


def log_beta(a: float, b: float) -> float:
    """Return the log of Gamma(a) Gamma(b) / Gamma(a + b), for a > 0 and b > 0."""
    small, large = sorted((a, b))
    return math.lgamma(small) - log_rising(large, small)


def _tail(x: float) -> float:
    """Return the remainder s(x) of Stirling's formula, for x >= 20."""
    inverse = 1.0 / (x * x)  # 0 of a large x, whose square may be beyond a double
    return math.fsum(c * inverse**i for i, c in enumerate(_SERIES)) / x
