"""Binomial and multinomial distributions with known chances, 0 and 1 included."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

from streamnb.toolbox.posterior.conjugate import log_coefficient, whole_counts

_SUM = 1e-9

Numbers = Mapping[Hashable, float] | Sequence[float]


def log_multinomial_pmf(counts: Numbers, chances: Numbers) -> float:
    """Return log P(these counts, in any order) of n independent draws, in nats.

        n! / (n_1! ... n_k!)  p_1^n_1 ... p_k^n_k        0^0 = 1

    Args:
        counts: how often each outcome occurred; an outcome left out has 0. The outcomes of a sequence are its
            places, from 0.
        chances: probability of each outcome, in the same form; they sum to 1.

    Returns:
        The logarithm; -inf if an outcome of chance 0 occurred.

    Raises:
        ValueError: if a count is negative or not whole, a chance is not within [0, 1], the chances do not
            sum to 1 within 1e-9, or an outcome has no chance.

    Examples:
        >>> from streamnb import log_multinomial_pmf
        >>> import math
        >>> word = {"a": 0.5, "b": 0.3, "c": 0.2}
        >>> round(math.exp(log_multinomial_pmf({"a": 2, "b": 1}, word)), 6)  # 3 .5 .5 .3
        0.225
        >>> log_multinomial_pmf({"H": 3}, {"H": 1.0, "T": 0.0})
        0.0
    """
    counts, chances = _by_outcome(counts), _by_outcome(chances)
    for outcome, p in chances.items():
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"the chance of {outcome!r} must lie between 0 and 1, not {p!r}")
    if not abs(math.fsum(chances.values()) - 1.0) <= _SUM:
        raise ValueError(f"the chances sum to {math.fsum(chances.values())!r}, not to 1")
    of_each = dict(zip(counts, whole_counts(counts.values()), strict=True))
    unknown = [outcome for outcome in of_each if outcome not in chances]
    if unknown:
        raise ValueError(f"{unknown[0]!r} has no chance; the outcomes are {list(chances)!r}")
    if any(n and not chances[outcome] for outcome, n in of_each.items()):
        return -math.inf
    logs = [n * math.log(chances[outcome]) for outcome, n in of_each.items() if n]
    return math.fsum([log_coefficient(of_each.values()), *logs])


def _by_outcome(numbers: Numbers) -> Mapping[Hashable, float]:
    return numbers if isinstance(numbers, Mapping) else dict(enumerate(numbers))


def log_binomial_pmf(successes: float, n: float, p: float) -> float:
    """Return log P(k successes in n trials of chance p), in nats: C(n, k) p^k (1 - p)^(n - k).

    Raises ValueError if k or n is negative or not whole, k exceeds n, or p is not within [0, 1].

    Examples:
        >>> from streamnb import log_binomial_pmf
        >>> import math
        >>> round(math.exp(log_binomial_pmf(2, 3, 0.5)), 6)
        0.375
    """
    return log_multinomial_pmf({True: successes, False: n - successes}, {True: p, False: 1.0 - p})
