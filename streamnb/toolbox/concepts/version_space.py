"""Hypotheses that agree with all labels, and their boundaries.

A space of conjunctions is partially ordered from general to specific. A hypothesis between two hypotheses
that agree with all labels also agrees with them. It is more general than the first, so it covers the same
positive examples; it is more specific than the second, so it covers no negative one. So the version space is
everything between its most specific hypotheses S and its most general hypotheses G, as kept by candidate
elimination.

Reference: Mitchell, Machine Learning (1997), sections 2.4 to 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from streamnb.toolbox.concepts.hypothesis_space import HypothesisSpace
from streamnb.values.type_aliases import Flags


class VersionSpace:
    """VS_{H,D}: the hypotheses of H that agree with all labels of D, at the time of the call.

    `ConceptLearner.version_space` returns one. A hypothesis that is undecided on an example, because of a
    missing attribute, agrees with either label.

    Args:
        space: H.
        members: bool[H], True for members.

    Examples:
        The version space of EnjoySport (Mitchell 1997, figures 2.3 and 2.7):

        >>> from streamnb import ConceptLearner, Conjunction, Conjunctions
        >>> space = Conjunctions({
        ...     "sky": ["sunny", "cloudy", "rainy"], "temperature": ["warm", "cold"],
        ...     "humidity": ["normal", "high"], "wind": ["strong", "weak"],
        ...     "water": ["warm", "cool"], "forecast": ["same", "change"],
        ... })
        >>> learner = ConceptLearner(space, positive="yes", negative="no")
        >>> for *values, label in [
        ...     ("sunny", "warm", "normal", "strong", "warm", "same", "yes"),
        ...     ("sunny", "warm", "high", "strong", "warm", "same", "yes"),
        ...     ("rainy", "cold", "high", "strong", "warm", "change", "no"),
        ...     ("sunny", "warm", "high", "strong", "cool", "change", "yes"),
        ... ]:
        ...     learner.learn_one(dict(zip(space.attributes, values)), label)
        >>> found = learner.version_space
        >>> len(found), [space.notation(h) for h in found.specific]
        (6, ['<sunny, warm, ?, strong, ?, ?>'])
        >>> [space.notation(h) for h in found.general]
        ['<?, warm, ?, ?, ?, ?>', '<sunny, ?, ?, ?, ?, ?>']
        >>> Conjunction({"sky": "sunny", "wind": "strong"}) in found
        True

        The share of the six members that cover a new day (table 2.6, day C):

        >>> day = ("sunny", "warm", "normal", "weak", "warm", "same")
        >>> found.vote(dict(zip(space.attributes, day)))
        Fraction(1, 2)

    References:
        Mitchell, Machine Learning (1997), sections 2.4 to 2.6.
    """

    def __init__(self, space: HypothesisSpace, members: Flags) -> None:
        self._space, self._members = space, members

    @property
    def specific(self) -> list[Any]:
        """S, the members with no more specific member. Raises TypeError for hypotheses that are functions."""
        return [self._space.hypothesis(i) for i in self._space.specific(self._members)]

    @property
    def general(self) -> list[Any]:
        """G, the members with no more general member; errors as of `specific`."""
        return [self._space.hypothesis(i) for i in self._space.general(self._members)]

    def vote(self, x: Any) -> Fraction:
        """Return P(c(x) = 1 | D), exactly: the share of the members that cover `x`.

        An undecided member gives half its vote. This is the Bayesian prediction without noise, under a
        uniform prior, if no learned example had a missing attribute.

        Raises:
            ValueError: if the version space is empty.
        """
        if not len(self):
            raise ValueError("the version space is empty: no hypothesis is consistent with all labels")
        covering, undecided = (int(self._members[numbers].sum()) for numbers in self._space.judge(x))
        return Fraction(2 * covering + undecided, 2 * len(self))

    def __len__(self) -> int:
        return int(np.count_nonzero(self._members))

    def __contains__(self, hypothesis: object) -> bool:
        try:
            return bool(self._members[self._space.number(hypothesis)])
        except KeyError:
            return False

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the members in the space's order."""
        return (self._space.hypothesis(i) for i in np.flatnonzero(self._members).tolist())
