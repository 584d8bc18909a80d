"""numba without SciPy until somebody compiles linear algebra, which no kernel here has.

As numba registers its array functions it imports `scipy.linalg` to see whether there is a BLAS. That takes a
quarter of the time from a start to the first prediction. Where linear algebra is compiled numba looks again.
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
