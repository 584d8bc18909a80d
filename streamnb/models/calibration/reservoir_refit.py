"""Refit to kept rows: a Gaussian that absorbed rows one by one is corrected if the kept rows refute it.

A row stays in a Gaussian as the parabola that fitted it on arrival. On a stream in a systematic order, such
as sorted by class, most parabolas fit badly at the final weights. So a uniform sample of the rows is kept
(`row_reservoir`), and Newton's method (`newton`) finds the optimum w* of f. Each kept row stands for (rows
seen / rows kept) rows:

    all rows are kept      the Gaussian becomes Laplace's approximation at w*, which is exact at its mode.
    one of k is            the same, if the kept rows refute the mode w: if f(w) - f(w*), in kept rows,
                           exceeds chance and the error of the sample itself.

w* of a sample of n rows is off by about p / 2 nats in n rows, with p the number of weights that the rows
determine (p = columns - tr(H^-1) / v). At the optimum of all rows, 2 (f(w) - f(w*)) is chi-squared of p
degrees of freedom at most: mean p, variance 2 p. So w is refuted if f(w) - f(w*) exceeds p, the error that w*
itself may have, by two standard deviations and 3. A good Gaussian is left unchanged.

A refit is due when there are an eighth more rows than at the last one: a row is read about ten times while
all are kept, and less and less often afterwards. It is due earlier if the mode drifts: if its squared steps,
in standard deviations of the Gaussian, sum to an eighth for each column. A caller may ask for a refit after
each of the first rows, when a refit is cheap.

References: Wilks (1938), "The large-sample distribution of the likelihood ratio"; MacKay (1992), Neural
Computation 4(5).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.calibration.newton import optimum
from streamnb.models.calibration.row_reservoir import KeptRows
from streamnb.models.calibration.sequential_laplace import LaplaceUnits

Targets = Callable[[Ints], Floats]
_FAR = 1 / 8  # squared steps for each column
_LEAST, _MOST = 1 / 32, 1 / 8  # rows between two refits, as a share of the kept rows, and of all rows
_PASSES = 50


def go_back(units: LaplaceUnits, kept: KeptRows, targets: Targets, few: int = 0) -> None:
    """Correct the units that are due; `targets` maps labels int64[n] to float64[n, units].

    Each is due after each of the first `few` rows.
    """
    if len(kept):
        due = units.due(_FAR, _LEAST * len(kept), 0.0 if kept.seen <= few else _MOST * kept.seen)
        if due.size:
            _revisit(units, kept, due, targets)


def _revisit(units: LaplaceUnits, kept: KeptRows, due: Ints, targets: Targets) -> None:
    wanted = targets(kept.labels)[:, due]
    rows, weights = kept.rows, kept.weights
    wide = units.means.shape[1]
    rows = rows[:, :wide] if rows.shape[1] >= wide else np.pad(rows, ((0, 0), (0, wide - rows.shape[1])))
    found = optimum(units.means[due], lambda: [(rows, wanted, weights)], 1.0 / units.variance, _PASSES)
    determined = wide - np.square(found.roots).sum(axis=(1, 2)) / units.variance
    share = kept.seen / len(kept)
    allowed = determined + 2.0 * np.sqrt(2.0 * np.maximum(determined, 0.0)) + 3.0
    refuted = (found.before - found.values) / share > allowed
    for i, u in enumerate(due):
        if share == 1.0 or refuted[i]:
            units.replace(int(u), found.means[i], found.roots[i])
        units.rest(int(u))
