"""Drift of attributes: which of them have other values in recent windows of a stream than before.

An `AttributeSample` holds the values of the events of one window. `attribute_drift` compares each window with
a reference, and each attribute by all of these hypotheses:

* An event has the attribute, and has a given word or value of it, as often as before. The number of such
  events in the window is hypergeometric given the number in window and reference together: Fisher's exact
  test, with an upper bound of its tail. For a log-concave distribution,

      P(X >= k) <= P(X = k) / (1 - r),    r = P(X = k + 1) / P(X = k) < 1.

  Only values of at least ten events are tested, and the 500 most frequent of them. Window and reference
  together decide this; given that, the test stays exact (Tarone 1990). Presence counts, not repetitions:
  words of one text depend on each other.
* Numbers have the same distribution: the two-sample Kolmogorov-Smirnov distance D, with

      P(D > d) <= e exp(-2 d^2 nm / (n + m))

  (Wei and Dudley 2012; ties only make it smaller).

If events are exchangeable within the reference and the windows, then by Bonferroni's inequality, over values,
attributes and windows, the probability that the table marks *anything* is at most `alpha`. This holds for
dependent attributes and words, and at each look; it does not bound many looks together. Events that depend on
their neighbours, such as sorted or repeated ones, drift.

References: Fisher (1935), The Design of Experiments; Tarone (1990), "A modified Bonferroni method for
discrete data", Biometrics 46(2); Wei and Dudley (2012), "Two-sample Dvoretzky-Kiefer-Wolfowitz inequalities",
Statistics & Probability Letters 82(3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints

ALPHA = 0.01
"""Greatest probability that a table marks anything although nothing drifts."""
MOST_ATTRIBUTES = 100
_MOST_VALUES, _LEAST_EVENTS = 500, 10

Value = float | Iterable[str]
"""A number, or the words or the value that an event has."""


class AttributeSample:
    """Values of the attributes of some events.

    Invariant: it depends on the multiset of events only, so `merge` in any order equals `update` with all.

    Attributes:
        n_events: number of events.
        present: attribute -> number of events that have it.
        values: attribute -> word or value -> number of events that have it.
        numbers: attribute -> its numbers, in any order.
    """

    def __init__(self) -> None:
        self.n_events = 0
        self.present: Counter[str] = Counter()
        self.values: dict[str, Counter[str]] = {}
        self.numbers: dict[str, list[float]] = {}

    def update(self, event: Mapping[str, Value]) -> None:
        """Add one event."""
        self.n_events += 1
        self.present.update(event.keys())
        for name, value in event.items():
            if isinstance(value, float):
                self.numbers.setdefault(name, []).append(value)
            else:
                self.values.setdefault(name, Counter()).update(set(value))

    def merge(self, other: AttributeSample) -> None:
        """Add the events of another sample."""
        self.n_events += other.n_events
        self.present.update(other.present)
        for name, counts in other.values.items():
            self.values.setdefault(name, Counter()).update(counts)
        for name, numbers in other.numbers.items():
            self.numbers.setdefault(name, []).extend(numbers)


class AttributeChange(NamedTuple):
    """The difference with the least p-value of an attribute in one window.

    Attributes:
        p: its p-value, corrected for the number of hypotheses about this attribute.
        value: the word or value; None if the presence of the attribute or its numbers differ.
        is_number: True if the numbers differ.
        before, now: shares of events; medians of numbers.
    """

    p: float
    value: str | None = None
    is_number: bool = False
    before: float = 0.0
    now: float = 0.0


class AttributeDrift(NamedTuple):
    """Attributes and their changes.

    Attributes:
        level: an attribute drifts in a window if the p-value of its change is at most this.
        changes: attribute -> its change in each window, in the order of windows.
        n_omitted: number of rarer attributes that are not tested.
    """

    level: float
    changes: dict[str, list[AttributeChange]]
    n_omitted: int


def attribute_drift(
    reference: AttributeSample, windows: Sequence[AttributeSample], alpha: float = ALPHA
) -> AttributeDrift:
    """Compare windows with a reference.

    Args:
        reference: events before the windows.
        windows: one or more.
        alpha: greatest probability that any attribute drifts in any window by chance.
    """
    found: Counter[str] = Counter()
    for one in (reference, *windows):
        found.update(one.present)
    names = sorted(found, key=lambda name: (-found[name], name))[:MOST_ATTRIBUTES]
    by_window = [_changes(reference, one, names) for one in windows]
    level = alpha / max(1, len(names) * len(windows))
    changes = {name: [each[n] for each in by_window] for n, name in enumerate(names)}
    return AttributeDrift(level, changes, len(found) - len(names))


def _changes(
    reference: AttributeSample, window: AttributeSample, names: Sequence[str]
) -> list[AttributeChange]:
    """Return the change of each attribute in one window."""
    tested: list[tuple[int, str | None]] = []
    before: list[int] = []
    now: list[int] = []
    for n, name in enumerate(names):
        tested.append((n, None))
        before.append(reference.present[name])
        now.append(window.present[name])
        old, new = reference.values.get(name, Counter()), window.values.get(name, Counter())
        both = old + new
        frequent = [each for each in both if both[each] >= _LEAST_EVENTS]
        for each in sorted(frequent, key=lambda one: (-both[one], one))[:_MOST_VALUES]:
            tested.append((n, each))
            before.append(old[each])
            now.append(new[each])
    totals = reference.n_events, window.n_events
    p_values = rate_p_values(np.array(before), np.array(now), *totals).tolist()
    numbers = [(reference.numbers.get(name, ()), window.numbers.get(name, ())) for name in names]
    n_hypotheses = Counter(n for n, _ in tested)
    n_hypotheses.update(n for n, (old_ones, new_ones) in enumerate(numbers) if old_ones and new_ones)
    best = [AttributeChange(1.0)] * len(names)
    for (n, value), p, old_n, new_n in zip(tested, p_values, before, now, strict=True):
        if p < best[n].p:
            best[n] = AttributeChange(p, value, False, old_n / max(1, totals[0]), new_n / max(1, totals[1]))
    for n, (old_ones, new_ones) in enumerate(numbers):
        if old_ones and new_ones and (p := distance_p_value(old_ones, new_ones)) < best[n].p:
            best[n] = AttributeChange(p, None, True, float(np.median(old_ones)), float(np.median(new_ones)))
    return [one._replace(p=min(1.0, one.p * n_hypotheses[n])) for n, one in enumerate(best)]


def rate_p_values(before: Ints, now: Ints, n_before: int, n_now: int) -> Floats:
    """Return an upper bound of the two-sided p-value of each pair of counts (module docstring).

    Args:
        before: int64[n], events with a value in the reference.
        now: int64[n], such events in the window.
        n_before: events in the reference.
        n_now: events in the window.
    """
    from scipy.special import gammaln  # noqa: PLC0415  slow to load, and only this needs it

    def log_choose(n: Floats, k: Floats) -> Floats:
        made: Floats = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        return made

    had, has = before.astype(np.float64), now.astype(np.float64)
    old, new = np.full_like(had, n_before), np.full_like(has, n_now)
    log_p = log_choose(old, had) + log_choose(new, has) - log_choose(old + new, had + has)
    more = had * (new - has) / ((has + 1.0) * (old - had + 1.0))  # P(X = k + 1) / P(X = k)
    fewer = has * (old - had) / ((had + 1.0) * (new - has + 1.0))
    ratio = np.minimum(more, fewer)
    with np.errstate(divide="ignore"):
        tail = np.exp(log_p) / np.maximum(0.0, 1.0 - ratio)
    return np.minimum(1.0, 2.0 * tail)


def distance_p_value(before: Sequence[float], now: Sequence[float]) -> float:
    """Return an upper bound of the p-value of the distance between two samples (module docstring)."""
    old, new = np.sort(before), np.sort(now)
    points = np.concatenate([old, new])
    shares = [np.searchsorted(each, points, side="right") / each.size for each in (old, new)]
    distance = float(np.max(np.abs(shares[0] - shares[1])))
    return min(1.0, math.exp(1.0 - 2.0 * distance**2 * old.size * new.size / points.size))
