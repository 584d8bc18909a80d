"""What was learned, counted again by dictionaries, beside what a model says that it has counted.

Both are flat: a few words that say what is counted -> how many; for a number's moments (n, mean, variance).
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from streamnb.models.tenants.tenant_models import TenantModels
from tests.oracles.words_oracle import words
from tests.system.storm.reading import Found

Counted = dict[tuple, Any]
ALL = "all tenants"


def recount(raws: Iterable[bytes], truths: Mapping[str, tuple[str, float]] | None = None) -> Counted:
    """Of labelled events as they were sent, none malformed; or of those that have a label and weight by id."""
    counts: Counter[tuple] = Counter()  # weights are binary fractions: sums are exact
    numbers = defaultdict(list)
    for event in map(json.loads, raws):
        label, weight = (event.get("label"), 1) if truths is None else truths.get(event["id"], (None, 0))
        if label is None or not weight:
            continue
        counts["events",] += 1
        counts["class", label] += weight
        for word in words(event.get("text") or ""):
            counts["word", "text", word, label] += weight
        for name, value in (event.get("features") or {}).items():
            if isinstance(value, bool):
                counts["value", name, str(value).lower(), label] += weight
            elif isinstance(value, str):
                counts["value", name, value, label] += weight
            elif value is not None:
                numbers[name, label].append((value, weight))
    return {**counts, **{("moments", *place): _moments(values) for place, values in numbers.items()}}


def recount_of_tenants(found: Iterable[Found], most: int) -> Counted:
    """The same of each key's events, and of all: in the order given, those of keys beyond the first are nobody's."""
    raws = defaultdict(list)
    for one in found:
        is_learned = "label" in json.loads(one.value)
        has_place = one.key in raws or len(raws.keys() - {"", ALL}) < most
        if is_learned:
            raws[one.key if has_place else ""].append(one.value)
            raws[ALL].append(one.value)
    return {(whose, *what): n for whose in raws for what, n in recount(raws[whose]).items()}


def counted(model: Any, texts: tuple[str, ...] = ("text",)) -> Counted:
    """Of a model that takes attributes as they come."""
    if isinstance(model, TenantModels):
        models = {ALL: model.shared, **{name: model.tenant(name) for name in model.store.names}}
        return {(whose, *what): n for whose, one in models.items() for what, n in counted(one, texts).items()}
    statistics = model.statistics
    found: Counted = {("events",): model.n_events}
    found |= {("class", label): weight for label, weight in model.class_weights.items()}
    for _, name in statistics.layout.groups:
        kind = "word" if name in texts else "value"
        for value, classes in statistics.class_counts(name).items():
            found |= {(kind, name, value, label): weight for label, weight in classes.items()}
    for name in statistics.layout.fields:
        for label, (n, mean, variance) in model.class_moments(name).items():
            found["moments", name, label] = (n, mean, variance)
    return found


def differences(found: Counted, expected: Counted) -> list[str]:
    """A line for each that differs: counts exactly; means and variances beyond what the order of sums does."""
    return [
        f"{' '.join(map(str, what))}: {found.get(what, 0)}, recounted {expected.get(what, 0)}"
        for what in sorted(found.keys() | expected.keys())
        if not _equal(found.get(what, 0), expected.get(what, 0))
    ]


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return a[0] == b[0] and all(
            math.isclose(x, y, rel_tol=1e-9) for x, y in zip(a[1:], b[1:], strict=True)
        )
    return bool(a == b)


def _moments(values: list[tuple[float, float]]) -> tuple[float, float, float]:
    n = math.fsum(weight for _, weight in values)
    mean = math.fsum(value * weight for value, weight in values) / n
    return n, mean, math.fsum((value - mean) ** 2 * weight for value, weight in values) / n
