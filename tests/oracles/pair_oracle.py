"""Averaged one-dependence estimators once more, in plain Python: dictionaries of counts, and `math`."""

from __future__ import annotations

import itertools
import math
from collections import Counter


def key_of(value):
    """A nominal value's text; a number's octave and quarter, by logarithms of its own."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if value == 0 or 0 < value < 2.0**-1024:
        return 0
    if abs(value) < 2.0**-1022:  # below the least octave: quarters of its power of two
        return math.copysign(1, value), -1022, int(math.ldexp(abs(value), 1024))
    fraction, power = math.frexp(abs(value))
    return math.copysign(1, value), power, int(fraction * 8)


def is_missing(value):
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def sort_of(name, value):
    return name, isinstance(value, (str, bool))


class Oracle:
    """Counts of values and pairs by class."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha
        self.classes, self.attributes = Counter(), Counter()
        self.values, self.pairs = Counter(), Counter()

    def keys(self, x):
        return {sort_of(n, v): key_of(v) for n, v in x.items() if not is_missing(v)}

    def learn(self, x, y, w=1.0):
        keys = self.keys(x)
        self.classes[y] += w
        for a, v in keys.items():
            self.attributes[a, y] += w
            self.values[a, v, y] += w
        for (a, v), (b, u) in itertools.permutations(keys.items(), 2):
            self.pairs[a, v, b, u, y] += w

    def known(self, a):
        return {v for (b, v, _), n in self.values.items() if b == a and n}

    def averaged(self, x, y, m=5.0):
        """The mean over all parents that 30 examples had; naive Bayes where there is none."""
        keys = {a: v for a, v in self.keys(x).items() if v in self.known(a)}
        n = {a: self.values[a, v, y] for a, v in keys.items()}
        base = {a: (n[a] + self.alpha) / (self.classes[y] + self.alpha * len(self.known(a))) for a in keys}
        said = []
        for b, u in keys.items():
            if sum(self.values[b, u, z] for z in self.classes) >= 30:
                given = {a: (self.pairs[a, v, b, u, y] + m * base[a]) / (n[b] + m) for a, v in keys.items()}
                said.append(sum(math.log(base[a] if a == b else given[a]) for a in keys))
        said = said or [sum(map(math.log, base.values()))]
        top = max(said)
        prior = math.log(self.classes[y] / sum(self.classes.values()))
        return prior + top + math.log(sum(math.exp(one - top) for one in said) / len(said))

    def unlearn(self, x, y, w=1.0):
        self.learn(x, y, -w)
        for counts in (self.classes, self.attributes, self.values, self.pairs):
            for key in [key for key, n in counts.items() if not n]:
                del counts[key]
