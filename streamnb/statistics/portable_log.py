"""Natural logarithm of correctly rounded operations alone, so that its bits are the same on every processor.

    x = m 2^e, m in [sqrt(1/2), sqrt(2))      ln x = e ln 2 + 2 artanh z,  z = (m - 1) / (m + 1)
    artanh z = z + z^3 / 3 + z^5 / 5 + ...    |z| <= 0.1716, so 11 terms leave less than 2^-58 of it

A library's logarithm may differ in the last bit from one processor or version to the next.
"""

from __future__ import annotations

import math

from streamnb.kernels.jit import inlined
from streamnb.statistics.logspace import mantissa_of, power_of

_LN2_HIGH = 0.6931471803691238  # 33 bits, so that its product with an exponent is exact
_LN2_LOW = 1.9082149292705877e-10
_ROOT_OF_HALF = math.sqrt(0.5)


@inlined
def portable_log(x: float) -> float:
    """Return ln x of a normal positive number, within 2 units of the last place."""
    m, e = mantissa_of(x), power_of(x)
    if m < _ROOT_OF_HALF:
        m, e = 2.0 * m, e - 1
    z = (m - 1.0) / (m + 1.0)
    square, total = z * z, 0.0
    for i in range(10, 0, -1):
        total = square * (total + 1.0 / (2 * i + 1))
    return float(e * _LN2_HIGH + (e * _LN2_LOW + 2.0 * (z + z * total)))
