"""The schema of events: names, kinds and paths of their attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from streamnb.errors import ConfigError
from streamnb.formats.json_paths import parse_path

ENTITY = "entity"
"""The name of the attribute with an event's entity, if one is read."""


class AttributeSpec(msgspec.Struct, frozen=True):
    """One declared attribute.

    Attributes:
        name: its name in the model, its evidence and its metrics.
        kind: "text" (cut into tokens), "nominal" (one of some values) or "continuous" (a number).
        path: the path of its value in the event.
        values: the texts of all values of a nominal attribute; any other makes a dead letter. None: any.
        least, most: bounds to which a continuous value is clipped. None: no bound.
        part: the part of a time that is read, a key of `time_parts.PARTS`; empty reads the value itself.
    """

    name: str
    kind: Literal["text", "nominal", "continuous"]
    path: str
    values: tuple[str, ...] | None = None
    least: float | None = None
    most: float | None = None
    part: str = ""

    @property
    def place(self) -> AttributePlace:
        """Its parsed path, with its values and bounds."""
        values = None if self.values is None else dict.fromkeys(self.values)
        ends = -math.inf if self.least is None else self.least, math.inf if self.most is None else self.most
        return AttributePlace(self.name, self.kind, parse_path(self.path), values, *ends, self.part)


class AttributePlace(NamedTuple):
    """A declared attribute: keys of its path, values if they are listed, bounds, and part of a time."""

    name: str
    kind: str
    keys: tuple[str, ...]
    values: dict[str, None] | None = None
    least: float = -math.inf
    most: float = math.inf
    part: str = ""


_TEXT = (
    AttributeSpec("text", "text", "$.text"),
    AttributeSpec("text", "text", "$.features.text"),  # only without $.text
)


class EventSchema(msgspec.Struct, frozen=True, dict=True):
    """How to read an event.

    Open features are the undeclared ones: ``$.text`` is a text attribute named "text", and every entry of
    ``$.features`` is an attribute named by its key, of a kind by its type. An entry that the id, the label,
    the ts or a declared attribute reads, or that has the name of one, is not open.

    Attributes:
        attributes: the declared attributes; their names differ.
        open_features: whether open features are read in addition; None (replaced by True or False on
            creation) reads them if no attribute is declared.
        id_path: path of the event's id.
        label_path: path of the event's label.
        ts_path: path of the event's time; None ignores it.
        weight_path: path of the event's weight in examples; None counts each event once.
        entity_path: path of the event's entity, which becomes the attribute `ENTITY`, a name that no other
            attribute may have; "" is the key of its record, None ignores it.
        max_bytes: maximum size of a record that is decoded.
        clock: "log" gives an event without a time the time of its record, and rejects a time far ahead of
            it; "event" uses only the times in events.
        aliases: label -> the label as which it is read, in events and label records; "" removes the label.

    Raises:
        ConfigError: a path that cannot be parsed, two attributes of one name, an attribute with the entity's
            name, or a `max_bytes` below 1.
    """

    attributes: tuple[AttributeSpec, ...] = ()
    open_features: bool | None = None
    id_path: str = "$.id"
    label_path: str = "$.label"
    ts_path: str | None = "$.ts"
    max_bytes: int = 1 << 20
    entity_path: str | None = None
    weight_path: str | None = None
    clock: Literal["log", "event"] = "log"
    aliases: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        if self.open_features is None:
            msgspec.structs.force_setattr(self, "open_features", not self.attributes)
        if self.max_bytes < 1:
            raise ConfigError(f"max_bytes: expected at least 1, got {self.max_bytes}")
        names = [attribute.name for attribute in self.attributes]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"attributes: the name {name!r} is given twice")
        if self.entity_path is not None and ENTITY in names:
            raise ConfigError(f"attributes: the name {ENTITY!r} is reserved for the entity of an event")
        _ = self.id_keys, self.label_keys, self.ts_keys, self.weight_keys, self.entity_keys, self.places

    @cached_property
    def id_keys(self) -> tuple[str, ...]:
        """The keys of `id_path`."""
        return parse_path(self.id_path)

    @cached_property
    def label_keys(self) -> tuple[str, ...]:
        """The keys of `label_path`."""
        return parse_path(self.label_path)

    @cached_property
    def ts_keys(self) -> tuple[str, ...] | None:
        """The keys of `ts_path`."""
        return None if self.ts_path is None else parse_path(self.ts_path)

    @cached_property
    def weight_keys(self) -> tuple[str, ...] | None:
        """The keys of `weight_path`."""
        return None if self.weight_path is None else parse_path(self.weight_path)

    @cached_property
    def entity_keys(self) -> tuple[str, ...] | None:
        """The keys of `entity_path`; None if the entity is the record's key, or is not read."""
        return parse_path(self.entity_path) if self.entity_path else None

    @cached_property
    def places(self) -> tuple[AttributePlace, ...]:
        """The attributes with known names and kinds, in order, with their paths."""
        named_text = any(attribute.name == "text" for attribute in self.attributes)
        implied = _TEXT if self.open_features and not named_text else ()
        return tuple(attribute.place for attribute in (*implied, *self.attributes))

    @cached_property
    def claimed(self) -> frozenset[str]:
        """The entries of ``$.features`` that are not open."""
        names = {place.name for place in self.places}
        optional = [self.ts_keys or (), self.weight_keys or (), self.entity_keys or ()]
        optional += [place.keys for place in self.places]
        read = [self.id_keys, self.label_keys, *optional]
        names |= set() if self.entity_path is None else {ENTITY}
        return frozenset(names | {keys[1] for keys in read if keys[:1] == ("features",) and keys[1:]})

    @cached_property
    def told_by(self) -> frozenset[str]:
        """The first keys of paths that mark a record as an event; see `event_validity`."""
        own = (self.id_keys, self.label_keys, self.ts_keys or ())
        named = {keys[0] for keys in own if keys} - {"id", "label", "ts"}
        read = (self.entity_keys or (), *(place.keys for place in self.places))
        return frozenset(named | {keys[0] for keys in read if keys})

    @cached_property
    def is_plain(self) -> bool:
        """True if this is the default schema, except size, clock, aliases, and an entity that is the key."""
        own = ("max_bytes", "entity_path", "clock", "aliases")
        return not self.entity_path and self == EventSchema(**{name: getattr(self, name) for name in own})

    def named(self, label: str | None) -> str | None:
        """Return the label as which a label is read, or None."""
        return None if label is None else self.aliases.get(label, label) or None
