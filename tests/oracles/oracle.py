"""A naive Bayes that recounts its examples for every question, in exact arithmetic where there is any.

It shares nothing with the package but the formulas of the lectures, and forgives nothing: counts are
fractions, logarithms have 50 digits.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import mpmath

from tests.oracles.gaussian_oracle import gaussian_of
from tests.oracles.words_oracle import words

mpmath.mp.dps = 50


def log(value):
    value = Fraction(value)
    return mpmath.log(mpmath.mpf(value.numerator) / value.denominator) if value else mpmath.mpf("-inf")


class Recount:
    """Examples are (x, label, weight); attributes: name -> ("multinomial" | "bernoulli" | "nominal" | "continuous", alpha or ("m", m, p))."""

    def __init__(self, attributes, examples, prior="learned"):
        self.attributes = attributes
        self.examples = [(x, y, Fraction(w)) for x, y, w in examples if w]
        self.prior = prior

    def classes(self):
        return list(dict.fromkeys(y for _, y, _ in self.examples))

    def with_label(self, label):
        return [(x, w) for x, y, w in self.examples if y == label]

    def log_prior(self, label):
        if self.prior == "uniform":
            return -log(len(self.classes()))
        if isinstance(self.prior, dict):
            return log(Fraction(self.prior[label]) / sum(Fraction(self.prior[c]) for c in self.classes()))
        return log(sum(w for _, w in self.with_label(label)) / sum(w for _, _, w in self.examples))

    def smoothing(self, how, k):
        if isinstance(how, tuple):
            _, m, p = how
            p = Fraction(1, k) if p is None else Fraction(p)
            return Fraction(m) * p, Fraction(m)
        return Fraction(how), Fraction(how) * k

    def joint(self, x, label):
        total = self.log_prior(label)
        for name, (kind, how) in self.attributes.items():
            if x.get(name) is not None:
                total += getattr(self, "_" + kind)(name, how, x[name], label)
        return total

    def posterior(self, x):
        joints = {label: self.joint(x, label) for label in self.classes()}
        top = max(joints.values())
        shares = {label: mpmath.exp(joint - top) for label, joint in joints.items()}
        return {label: share / sum(shares.values()) for label, share in shares.items()}

    def _multinomial(self, name, how, text, label):
        everything = Counter()
        counts = Counter()
        for x, y, w in self.examples:
            for word in words(x.get(name) or ""):
                everything[word] += w
                if y == label:
                    counts[word] += w
        s, S = self.smoothing(how, max(1, len(everything)))
        n = sum(counts.values())
        return sum(
            (log((counts[word] + s) / (n + S)) for word in words(text) if word in everything), mpmath.mpf(0)
        )

    def _bernoulli(self, name, how, text, label):
        vocabulary = {word for x, _, _ in self.examples for word in words(x.get(name) or "")}
        here = [(set(words(x[name])), w) for x, w in self.with_label(label) if x.get(name) is not None]
        s, S = self.smoothing(how, 2)
        n = sum(w for _, w in here)
        present = set(words(text))
        total = mpmath.mpf(0)
        for word in vocabulary:
            share = (sum(w for document, w in here if word in document) + s) / (n + S)
            total += log(share if word in present else 1 - share)
        return total

    def _nominal(self, name, how, value, label):
        values = {x[name] for x, _, _ in self.examples if x.get(name) is not None}
        if value not in values:
            return mpmath.mpf(0)
        here = [(x[name], w) for x, w in self.with_label(label) if x.get(name) is not None]
        s, S = self.smoothing(how, len(values))
        return log((sum(w for v, w in here if v == value) + s) / (sum(w for _, w in here) + S))

    def _moments(self, name, label):
        rows = [(Fraction(x[name]), w) for x, w in self.with_label(label) if x.get(name) is not None]
        n = sum(w for _, w in rows)
        if not n:
            return 0, Fraction(0), Fraction(0)
        mean = sum(w * v for v, w in rows) / n
        return n, mean, sum(w * (v - mean) ** 2 for v, w in rows)

    def _continuous(self, name, _how, value, label):
        moments = {c: self._moments(name, c) for c in self.classes()}
        found = gaussian_of({c: cell for c, cell in moments.items() if cell[0]}, label)
        if found is None:
            return mpmath.mpf(0)
        mean, variance = found
        square = (Fraction(value) - mean) ** 2 / variance
        two_pi = mpmath.log(2 * mpmath.pi)
        return -(two_pi + log(variance) + mpmath.mpf(square.numerator) / square.denominator) / 2
