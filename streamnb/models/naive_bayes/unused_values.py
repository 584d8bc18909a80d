"""Values of an event that a counting model cannot use, and why.

An undeclared attribute has one kind for each type of its values: numbers are continuous, strings and booleans
nominal. So counts of ``905`` do not apply to ``"905"``. If a question has another type than was learned, or
unknown values, the answer rests on the other attributes or the class frequencies, and the caller should know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from streamnb.features.encoded_batch import Batch
from streamnb.values.attribute_kinds import CONTINUOUS, KINDS, NOMINAL
from streamnb.values.nominal_values import value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import brief, pluralize
from streamnb.values.type_aliases import Flags

Reason = Literal["attribute", "type", "value", "words"]

_LEARNED_AS = {CONTINUOUS: "a number", NOMINAL: "a string or boolean"}


class UnusedValue(NamedTuple):
    """One value that a model cannot use.

    Attributes:
        attribute: the name of its attribute.
        value: the value.
        reason: `"attribute"` if nothing was learned of the attribute, `"type"` if only values of another type
            were, `"value"` if this value was never learned, `"words"` if no word of this text was.
        learned: the types that were learned (reason `"type"`), or the learned value that differs in its case
            alone (reason `"value"`); else empty.
    """

    attribute: Hashable
    value: Any
    reason: Reason
    learned: str = ""

    @property
    def message(self) -> str:
        """One clause: the problem, and what to send instead if that is clear."""
        name = str(self.attribute)
        if self.reason == "attribute":
            return f"nothing was learned of {name}"
        if self.reason == "words":
            return f"no word of {name} was learned"
        shown = shown_value(self.value)
        if self.reason == "value":
            hint = f"; did you mean {self.learned}?" if self.learned else ""
            return f"{name} was never learned with the value {shown}{hint}"
        remedy = self._remedy(shown)
        return f"{name} is {type_of(self.value)} ({shown}), and was learned as {self.learned}{remedy}"

    def _remedy(self, shown: str) -> str:
        if self.learned == _LEARNED_AS[CONTINUOUS] and isinstance(self.value, str):
            number = self.value.strip()
            return f": send the number {number}" if _is_number(number) else ""
        if self.learned == _LEARNED_AS[NOMINAL] and type_of(self.value) == "a number":
            return f': send the string "{shown}"'
        return ""


def _is_number(text: str) -> bool:
    try:
        return not is_missing(float(text))
    except ValueError:
        return False


def type_of(value: Any) -> str:
    """Return the name of a value's type in JSON."""
    if isinstance(value, (bool, np.bool_)):
        return "a boolean"
    return (
        "a string"
        if isinstance(value, str)
        else "a bag of words"
        if isinstance(value, Mapping)
        else "a number"
    )


def shown_value(value: Any) -> str:
    """Return a value as JSON writes it, shortened; a bag of words as its number of words."""
    if isinstance(value, Mapping):
        return pluralize(len(value), "word")
    return f'"{brief(value)}"' if isinstance(value, str) else brief(value_text(value))


class TypesLearned(Protocol):
    """Types by which attributes were learned; implemented by `Layout` and `LearnedTypes`."""

    @property
    def groups(self) -> Collection[tuple[int, Any]]:
        """(kind, name) of texts and nominal attributes."""

    @property
    def fields(self) -> Collection[Any]:
        """Names of continuous attributes."""


class LearnedTypes(NamedTuple):
    """A snapshot of the types that were learned; see `TypesLearned`."""

    groups: Collection[tuple[int, Any]]
    fields: Collection[Any]


def learned_types(layout: TypesLearned, name: Any) -> list[int]:
    """Return the kinds by which an attribute was learned."""
    kinds = [kind for kind in KINDS if (kind, name) in layout.groups]
    return [*kinds, CONTINUOUS] if name in layout.fields else kinds


def other_types(
    kind_of: Callable[[Any, Any], int], layout: TypesLearned, x: Mapping[Any, Any]
) -> Iterator[UnusedValue]:
    """Yield the values of an event whose attribute was learned only by values of another kind."""
    for name, value in x.items():
        kind = kind_of(name, value)
        is_known = name in layout.fields if kind == CONTINUOUS else (kind, name) in layout.groups
        if is_known or is_missing(value):
            continue
        if kinds := learned_types(layout, name):
            learned = " and as ".join(dict.fromkeys(_LEARNED_AS.get(k, "a text") for k in kinds))
            yield UnusedValue(name, value, "type", learned)


def has_used(batch: Batch) -> Flags:
    """Return bool[n], True for events with a learned number, word or nominal value."""
    if batch.label.size == 1:  # fast path for a single question
        return np.array([batch.value.size > 0 or bool((batch.rows >= 0).any())])
    known = np.append(0, np.cumsum(batch.rows >= 0))
    words = np.diff(known[batch.item_rows[batch.event_items]])
    used: Flags = (words + np.diff(batch.event_values)) > 0
    return used


def other_spellings(value: str) -> list[str]:
    """Return the value in other cases, stripped of blanks."""
    plain = value.strip()
    return [case for case in (plain, plain.lower(), plain.title(), plain.upper()) if case != value]
