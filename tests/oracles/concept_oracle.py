"""Concept learning as the book has it: every hypothesis in a loop, fractions, and candidate elimination."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

ANY, NOTHING = None, "nothing"


def text(value):
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else f"{value}"


def hypotheses(attributes):
    """All conjunctions as {attribute: text or ANY}, and the empty concept."""
    names = list(attributes)
    choices = [[ANY, *(text(v) for v in values)] for values in attributes.values()]
    return [NOTHING, *(dict(zip(names, chosen, strict=True)) for chosen in product(*choices))]


def says(h, x):
    """Whether h covers x: True, False or None."""
    if h == NOTHING:
        return False
    cannot_tell = False
    for name, required in h.items():
        value = x.get(name)
        if required is ANY:
            continue
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            cannot_tell = True
        elif text(value) != required:
            return False
    return None if cannot_tell else True


def likelihood(h, x, is_positive, noise):
    answer = says(h, x)
    if answer is None:
        return Fraction(1, 2)
    return 1 - noise if answer == is_positive else noise


def joint(attributes, prior, noise, examples):
    """P(h) P(D | h) of each hypothesis, exactly; examples are (x, is positive, whole weight)."""
    found = []
    for h, p in zip(hypotheses(attributes), prior, strict=True):
        for x, is_positive, weight in examples:
            p *= likelihood(h, x, is_positive, noise) ** weight  # noqa: PLW2901
        found.append(p)
    return found


def consistent(h, examples):
    return all(says(h, x) in {None, is_positive} for x, is_positive, _ in examples)


def more_general_or_equal(g, h):
    if h == NOTHING:
        return True
    if g == NOTHING:
        return False
    return all(required is ANY or h[name] == required for name, required in g.items())


def boundaries(members):
    """S and G, by comparing each member with each."""
    specific = [h for h in members if not any(o != h and more_general_or_equal(h, o) for o in members)]
    general = [h for h in members if not any(o != h and more_general_or_equal(o, h) for o in members)]
    return specific, general


def candidate_elimination(attributes, examples):
    """S and G by Mitchell (1997), table 2.5; examples have every attribute, with declared values."""
    names = list(attributes)
    S, G = [NOTHING], [dict.fromkeys(names, ANY)]
    for x, is_positive, _ in examples:
        if is_positive:
            G = [g for g in G if says(g, x)]
            S = [s if says(s, x) else generalised(s, x, names) for s in S]
            S = [s for s in S if any(more_general_or_equal(g, s) for g in G)]
        else:
            S = [s for s in S if not says(s, x)]
            G = [n for g in G for n in ([g] if not says(g, x) else specialised(g, x, attributes))]
            G = [g for g in G if any(more_general_or_equal(g, s) for s in S)]
            G = [g for g in G if not any(o != g and more_general_or_equal(o, g) for o in G)]
            G = [g for i, g in enumerate(G) if g not in G[:i]]
    return S, G


def generalised(s, x, names):
    if s == NOTHING:
        return {name: text(x[name]) for name in names}
    return {name: required if required == text(x[name]) else ANY for name, required in s.items()}


def specialised(g, x, attributes):
    """All minimal specialisations of g that do not cover x; where g covers only x, the empty concept."""
    found = [
        {**g, name: text(value)}
        for name, values in attributes.items()
        if g[name] is ANY
        for value in values
        if text(value) != text(x[name])
    ]
    return found or [NOTHING]
