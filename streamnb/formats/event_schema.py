"""Which values of an event are attributes: their names, their kinds and the places where they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from streamnb.errors import ConfigError
from streamnb.formats.json_paths import parse_path

ENTITY = "entity"
"""The attribute that names an event's entity, where one is read."""


class AttributeSpec(msgspec.Struct, frozen=True):
    """One declared attribute.

    Attributes:
        name: what the model, its evidence and its metrics call it.
        kind: "text" (cut into tokens), "nominal" (one of some values) or "continuous" (a number).
        path: where its value stands in the event.
        values: the texts of all values that a nominal one has; any other makes a dead letter. None: of any.
        least, most: a continuous one beyond them is read as the nearer of the two. None: as it is.
    """

    name: str
    kind: Literal["text", "nominal", "continuous"]
    path: str
    values: tuple[str, ...] | None = None
    least: float | None = None
    most: float | None = None

    @property
    def place(self) -> AttributePlace:
        """Where it is read, and what of it is taken."""
        values = None if self.values is None else dict.fromkeys(self.values)
        ends = -math.inf if self.least is None else self.least, math.inf if self.most is None else self.most
        return AttributePlace(self.name, self.kind, parse_path(self.path), values, *ends)


class AttributePlace(NamedTuple):
    """A declared attribute, the keys of its path, its values where they are listed, and their ends."""

    name: str
    kind: str
    keys: tuple[str, ...]
    values: dict[str, None] | None = None
    least: float = -math.inf
    most: float = math.inf


_TEXT = (
    AttributeSpec("text", "text", "$.text"),
    AttributeSpec("text", "text", "$.features.text"),  # not read where the place before is filled
)


class EventSchema(msgspec.Struct, frozen=True, dict=True):
    """How to read an event.

    Open features are the undeclared ones: ``$.text`` is a text attribute named "text", and every entry of
    ``$.features`` is an attribute named by its key and taken by its type. An entry that the id, the label,
    the ts or a declared attribute reads, or whose name one bears, is not open.

    Attributes:
        attributes: the declared attributes; their names differ.
        open_features: whether open features are read beside them; None (turned into True or False when the
            schema is made) reads them where nothing is declared.
        id_path: the event's id.
        label_path: the event's label.
        ts_path: the event's time; None leaves it unread.
        entity_path: the event's entity, which becomes the attribute `ENTITY`, and no other one bears that
            name; "" is the key of its record, None leaves it unread.
        max_bytes: the largest record that is still decoded.
        clock: "log" gives an event without a time that of its record, and refuses one far ahead of it;
            "event" knows the times of events alone.
        aliases: label -> what it is read as, in events and apart from them; "" is no label.

    Raises:
        ConfigError: a path that cannot be parsed, two attributes of one name, an attribute that bears the
            entity's, or no room for a record.
    """

    attributes: tuple[AttributeSpec, ...] = ()
    open_features: bool | None = None
    id_path: str = "$.id"
    label_path: str = "$.label"
    ts_path: str | None = "$.ts"
    max_bytes: int = 1 << 20
    entity_path: str | None = None
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
            raise ConfigError(f"attributes: the name {ENTITY!r} is that of the entity of an event")
        _ = self.id_keys, self.label_keys, self.ts_keys, self.entity_keys, self.places

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
    def entity_keys(self) -> tuple[str, ...] | None:
        """The keys of `entity_path`; None where the entity is the record's key, or is not read."""
        return parse_path(self.entity_path) if self.entity_path else None

    @cached_property
    def places(self) -> tuple[AttributePlace, ...]:
        """Where attributes of known name and kind are read, in order."""
        named_text = any(attribute.name == "text" for attribute in self.attributes)
        implied = _TEXT if self.open_features and not named_text else ()
        return tuple(attribute.place for attribute in (*implied, *self.attributes))

    @cached_property
    def claimed(self) -> frozenset[str]:
        """The entries of ``$.features`` that are not open."""
        names = {place.name for place in self.places}
        others = (self.ts_keys or (), self.entity_keys or (), *(place.keys for place in self.places))
        read = [self.id_keys, self.label_keys, *others]
        names |= set() if self.entity_path is None else {ENTITY}
        return frozenset(names | {keys[1] for keys in read if keys[:1] == ("features",) and keys[1:]})

    @cached_property
    def told_by(self) -> frozenset[str]:
        """The first keys of paths that make an event of a record that has them; see `wire.event_rules`."""
        own = (self.id_keys, self.label_keys, self.ts_keys or ())
        named = {keys[0] for keys in own if keys} - {"id", "label", "ts"}
        read = (self.entity_keys or (), *(place.keys for place in self.places))
        return frozenset(named | {keys[0] for keys in read if keys})

    @cached_property
    def is_plain(self) -> bool:
        """Whether this is the default schema, but for size, clock, aliases, and an entity that is the key."""
        own = ("max_bytes", "entity_path", "clock", "aliases")
        return not self.entity_path and self == EventSchema(**{name: getattr(self, name) for name in own})

    def named(self, label: str | None) -> str | None:
        """What a label is read as."""
        return None if label is None else self.aliases.get(label, label) or None
