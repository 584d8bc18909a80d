"""Attribution of a prediction: what each attribute value adds to the log odds of the predicted class.

In naive Bayes the attribution of a value is the model's own score of an event that holds only this value. So
the items of an event and the prior sum to the log odds of the predicted class against the runner-up:

    log P(v1|x)/P(v2|x) = log P(v1)/P(v2) + sum over attributes of log P(a|v1)/P(a|v2)

See `mixture_attribution` for gradient learners and for many hypotheses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Self

from streamnb.features.tokenizer import words
from streamnb.models.interface.attribution_parts import LIMIT
from streamnb.models.interface.predictions import Posteriors
from streamnb.values.hooks import Hooks, Shown
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Times, Weights


class Single(NamedTuple):
    """One value of an event, and an event with this value alone.

    Attributes:
        name: of the attribute.
        value: a value, a word, or "" for a text without its words.
        event: holds the value alone.
        base: 0 if the value counts against an event without values; otherwise, for a word, 1 + the index of
            its text without words.
    """

    name: Any
    value: Any
    event: dict[Any, Any]
    base: int


class Item(NamedTuple):
    """One attribute value, and its log odds in nats of the predicted class against the runner-up.

    The value is a word of a text, with all its occurrences; the absent words of a Bernoulli text together
    are the empty word.
    """

    attribute: Hashable
    value: Any
    log_odds: float


class Items(list[Item], Shown):
    """Items of an attribution, the strongest first; if it is empty, `why` gives the reason.

    Attributes:
        prior: log odds before the event is read; None if the model does not have them.
    """

    prior: float | None = None
    why = "no value of this event changes the log odds"

    @classmethod
    def with_prior(cls, prior: float, items: Iterable[Item] = ()) -> Self:
        """Return items with their prior; it may be nan, with fewer than two classes."""
        found = cls(items)
        if not math.isnan(prior):
            found.prior = prior
        return found

    @classmethod
    def of_classes(cls, n: int) -> Self:
        """Return the empty items of a model with n < 2 classes."""
        items = cls()
        items.why = "only one class was learned: it has no runner-up" if n else "nothing was learned yet"
        return items

    def __repr__(self) -> str:
        return super().__repr__() if self else f"[] ({self.why})"


class Explanation(NamedTuple):
    """Log odds of the predicted class against the runner-up, attributed to values (nats).

    Attributes:
        predicted: the most probable class.
        runner_up: the second most probable class.
        prior: log odds before the event is read.
        items: of every value with nonzero log odds, the strongest first.
    """

    predicted: Any
    runner_up: Any
    prior: float
    items: list[Item]

    def _repr_html_(self) -> str:
        return Hooks.html(self)

    @property
    def log_odds(self) -> float:
        """Sum of the prior's and all items' log odds."""
        return self.prior + math.fsum(item.log_odds for item in self.items)


def explain_then_learn_many(
    model: Any, xs: Sequence[Any], ys: Iterable[Any], ws: Weights, ts: Times, top: int
) -> tuple[Posteriors, Sequence[Sequence[Item]]]:
    """Return `predict_then_learn_many`, and `explain_one` of each event before it is learned.

    A model may have this method itself, which explains events in the pass that predicts and learns them.
    """
    if not explains_in_batches(model):
        return explain_each(model, xs, ys, ws, ts, top)
    found: tuple[Posteriors, Sequence[Sequence[Item]]] = model.explain_then_learn_many(xs, ys, ws, ts, top)
    return found


def explains_in_batches(model: Any) -> bool:
    """Return whether the model explains events in the pass that predicts and learns them."""
    return hasattr(model, "explain_then_learn_many")


def explain_each(
    model: Any, xs: Sequence[Any], ys: Iterable[Any], ws: Weights, ts: Times, top: int
) -> tuple[Posteriors, list[Sequence[Item]]]:
    """Return the same by separate calls for each event."""
    parts, items = list[Posteriors](), list[Sequence[Item]]()
    columns = ys, repeat(1.0) if ws is None else ws, repeat(None) if ts is None else ts
    for x, y, w, t in zip(xs, *columns, strict=False):
        items.append(model.explain_one(x, top, t))
        parts.append(model.predict_then_learn_many([x], [y], [w], [t]))
    return Posteriors.joined(parts), items


def single_events(x: Mapping[Any, Any], texts: frozenset[Any]) -> list[Single]:
    """Return each value of an event with the event that holds only this value, see `Single`."""
    singles: list[Single] = []
    for name, value in x.items():
        if is_missing(value):
            continue
        if name not in texts:
            singles.append(Single(name, value, {name: value}, 0))
            continue
        bag = Counter(words(value)) if isinstance(value, str) else value
        singles.append(Single(name, "", {name: ""}, 0))
        base = len(singles)
        singles += [Single(name, word, {name: {word: times}}, base) for word, times in bag.items()]
    return singles


def ranked(items: Iterable[Item]) -> list[Item]:
    """Return the items with nonzero log odds, the strongest first."""
    return sorted((item for item in items if item.log_odds != 0.0), key=lambda item: -abs(item.log_odds))


def odds(joint: Mapping[Any, float], base: Mapping[Any, float], first: Any, second: Any) -> float:
    """Return by how much the log odds of the first class in `joint` exceed those in `base`."""
    one, other = (
        joint[label] - base[label] if joint[label] > -math.inf else -math.inf for label in (first, second)
    )
    return 0.0 if one == other else max(-LIMIT, min(LIMIT, one - other))
