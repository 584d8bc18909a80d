"""Delay numba's import of SciPy until linear algebra is compiled, which no kernel here uses.

When numba registers its array functions, it imports `scipy.linalg` to check for a BLAS. This takes a quarter
of the time from a start to the first prediction. numba checks again when it compiles linear algebra.
"""

from __future__ import annotations

import sys

from numba.np import linalg

if "numba.np.arraymath" not in sys.modules:
    look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = look
    arraymath.ensure_blas = look
