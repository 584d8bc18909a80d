"""Values of an event that a counting model cannot use, and why.

An undeclared attribute has one kind for each type of its values: numbers are continuous, strings and booleans
nominal. So counts of ``905`` do not apply to ``"905"``. If a question has another type than was learned, or
unknown values, the answer rests on the other attributes or the class frequencies, and the caller should know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from streamnb.errors import OtherTypeWarning
from streamnb.features.data_frames import is_frame
from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.event_reader import EventReader
from streamnb.features.feature_layout import LearnedTypes, TypesLearned, learned_types
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.values.attribute_kinds import CONTINUOUS, NOMINAL
from streamnb.values.example_weights import UNIT
from streamnb.values.messages import Message, warn_user
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


class ValueLookup:
    """Questions about single attributes and values. Invariant: a question adds nothing to the statistics.

    Args:
        statistics: what was learned.
        reader: knows the kinds of attributes.
        encode: encodes events without learning them.
    """

    def __init__(
        self, statistics: SufficientStatistics, reader: EventReader, encode: Callable[..., Encoded]
    ) -> None:
        self._statistics, self._reader, self._encode = statistics, reader, encode

    def value_counts(self, name: Any, value: Any) -> dict[Any, float]:
        """Return class -> learned weight of one word or value of an attribute."""
        rows = self._encode([{name: value}]).batch.rows
        if rows.size != 1 or rows[0] < 0:
            return {}
        found = self._statistics.counts.table[rows[0]]
        return {label: int(found[k]) / UNIT for label, k in self._statistics.classes.items() if found[k]}

    def other_types(self, x: Any, learned: LearnedTypes | None = None) -> list[UnusedValue]:
        """Return the values of an event whose attribute was `learned` (default: so far) by another type."""
        known = self._statistics.layout if learned is None else learned
        return list(other_types(self._reader.kind, known, self._reader.texts(x)[0]))

    def warn_of_types(self, xs: Any) -> None:
        """Warn once of each attribute whose first value has another type than was learned."""
        x = {name: one for name in xs for one in xs[name].dropna().head(1)} if is_frame(xs) else xs[0]
        for one in self.other_types(x):
            if one.attribute not in self._reader.told_types:
                self._reader.told_types.add(one.attribute)
                warn_user(
                    Message("type-changed", one.message, attribute=str(one.attribute)), OtherTypeWarning
                )

    def unused_values(self, x: Any) -> list[UnusedValue]:
        """Return the values of an event that the model cannot use, each with the reason."""
        event, texts = self._reader.texts(x)
        found = self.other_types(x)
        others = {one.attribute for one in found}
        for name, value in event.items():
            if name in others or is_missing(value):
                continue
            if has_used(self._encode([{name: value}]).batch)[0]:
                continue
            if not self._knows(name):
                found.append(UnusedValue(name, value, "attribute"))
            elif name in texts:
                found.append(UnusedValue(name, value, "words"))
            else:
                near = [one for one in other_spellings(value_text(value)) if self.value_counts(name, one)]
                found.append(UnusedValue(name, value, "value", f'"{near[0]}"' if near else ""))
        return found

    def other_spellings(self, xs: Sequence[Any]) -> list[list[UnusedValue]]:
        """Return the strings of each event that were learned with another case or other blanks alone."""
        asked: list[list[tuple[Any, str]]] = []
        for x in xs:
            event, texts = self._reader.texts(x)
            asked.append([(k, v) for k, v in event.items() if isinstance(v, str) and k not in texts])
        known = self._learned_values(pair for pairs in asked for pair in pairs if self._knows(pair[0]))
        others = {
            (k, v): [(k, one) for one in other_spellings(v)] for (k, v), has in known.items() if not has
        }
        learned = self._learned_values(pair for pairs in others.values() for pair in pairs)
        near = {pair: next((v for k, v in found if learned[k, v]), None) for pair, found in others.items()}
        return [
            [
                UnusedValue(k, v, "value", f'"{one}"')
                for k, v in pairs
                if (one := near.get((k, v))) is not None
            ]
            for pairs in asked
        ]

    def _learned_values(self, pairs: Iterable[tuple[Any, str]]) -> dict[tuple[Any, str], bool]:
        distinct = list(dict.fromkeys(pairs))
        if not distinct:
            return {}
        used = has_used(self._encode([{name: value} for name, value in distinct]).batch)
        return dict(zip(distinct, used.tolist(), strict=True))

    def _knows(self, name: Any) -> bool:
        return bool(learned_types(self._statistics.layout, name))
