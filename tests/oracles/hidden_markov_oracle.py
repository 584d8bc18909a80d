"""Hidden Markov models by enumeration: sums and maxima over every path, in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from math import prod

from hypothesis import strategies as st


def joints(initial, transition, emission, observations):
    """{path: P(path, observations)}; an observation of None has no factor."""
    K = len(initial)
    return {
        path: prod(
            (
                initial[path[0]],
                *(transition[i][j] for i, j in pairwise(path)),
                *(emission[s][x] for s, x in zip(path, observations, strict=True) if x is not None),
            ),
            start=Fraction(1),
        )
        for path in product(range(K), repeat=len(observations))
    }


def possible(initial, transition, emission, observations):
    """The observations, those that are impossible after the ones before them as missing."""
    kept = []
    for x in observations:
        kept.append(x)
        if not any(joints(initial, transition, emission, kept).values()):
            kept[-1] = None
    return kept


def marginal(paths, t, K):
    """P(s_t | ...) of joint probabilities of paths."""
    total = sum(paths.values())
    return [sum(p for path, p in paths.items() if path[t] == k) / total for k in range(K)]


def distribution(size):
    """Fractions that sum to 1, often with zeros."""
    weights = st.lists(st.integers(0, 5), min_size=size, max_size=size).filter(any)
    return weights.map(lambda found: [Fraction(n, sum(found)) for n in found])


@st.composite
def models(draw, most_states=3, most_symbols=3):
    """(initial, transition, emission) in fractions."""
    K, V = draw(st.integers(1, most_states)), draw(st.integers(1, most_symbols))
    return (
        draw(distribution(K)),
        [draw(distribution(K)) for _ in range(K)],
        [draw(distribution(V)) for _ in range(K)],
    )


@st.composite
def models_and_sequences(draw, most=6):
    """A model, and observations by number, None among them."""
    model = draw(models())
    V = len(model[2][0])
    return model, draw(st.lists(st.none() | st.integers(0, V - 1), max_size=most))
