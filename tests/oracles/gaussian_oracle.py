"""The rule of `streamnb.models.naive_bayes.gaussian_factors` in plain Python, for fractions, `mpf`s and floats.

Cells are label -> (n, mean, M2) of the classes that have values, n in examples.
"""

from __future__ import annotations

M, SHARE, NARROWEST, FEW = 10, 5, 10**9, 3


def pooled_of(cells):
    """Overall mean, T and H; T is 0 where there is no spread at all."""
    n_all = sum(n for n, _, _ in cells.values())
    if not n_all:
        return 0, 0, 0
    middle = sum(n * mean for n, mean, _ in cells.values()) / n_all
    total = sum(M2 + n * (mean - middle) ** 2 for n, mean, M2 in cells.values()) / n_all
    if not total:
        return middle, 0, 0
    reliable = [(n - FEW, M2) for n, _, M2 in cells.values() if n > FEW and M2]
    precision = M / total + sum(w * w / max(M2, w * total / NARROWEST) for w, M2 in reliable)
    return middle, total, (M + sum(w for w, _ in reliable)) / precision


def gaussian_of(cells, label, leans_on=None):
    """(Mean, variance) by which a class reads a number; None where the attribute says nothing."""
    middle, total, usual = leans_on or pooled_of(cells)
    if not total:
        return None
    if label not in cells:
        return middle, total
    n, mean, M2 = cells[label]
    return mean, max((M2 + M * usual) / (n + M), usual / SHARE)
