"""Which values of an event are attributes: their names, their kinds and the places where they stand."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from streamnb.errors import ConfigError
from streamnb.wire.paths import parse_path

__all__ = ["AttributeSpec", "EventSchema", "Place"]


class AttributeSpec(msgspec.Struct, frozen=True):
    """One declared attribute.

    Attributes:
        name: what the model, its evidence and its metrics call it.
        kind: "text" (cut into tokens), "nominal" (one of some values) or "continuous" (a number).
        path: where its value stands in the event.
    """

    name: str
    kind: Literal["text", "nominal", "continuous"]
    path: str


class Place(NamedTuple):
    """A declared attribute and the keys of its path."""

    name: str
    kind: str
    keys: tuple[str, ...]


_TEXT = (
    AttributeSpec("text", "text", "$.features.text"),
    AttributeSpec("text", "text", "$.text"),  # the later place wins where both are filled
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
        max_bytes: the largest record that is still decoded.

    Raises:
        ConfigError: a path that cannot be parsed, two attributes of one name, or no room for a record.
    """

    attributes: tuple[AttributeSpec, ...] = ()
    open_features: bool | None = None
    id_path: str = "$.id"
    label_path: str = "$.label"
    ts_path: str | None = "$.ts"
    max_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if self.open_features is None:
            msgspec.structs.force_setattr(self, "open_features", not self.attributes)
        if self.max_bytes < 1:
            raise ConfigError(f"max_bytes: expected at least 1, got {self.max_bytes}")
        names = [attribute.name for attribute in self.attributes]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"attributes: the name {name!r} is given twice")
        _ = self.id_keys, self.label_keys, self.ts_keys, self.places

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
    def places(self) -> tuple[Place, ...]:
        """Where attributes of known name and kind are read, in order."""
        named_text = any(attribute.name == "text" for attribute in self.attributes)
        implied = _TEXT if self.open_features and not named_text else ()
        return tuple(Place(a.name, a.kind, parse_path(a.path)) for a in (*implied, *self.attributes))

    @cached_property
    def claimed(self) -> frozenset[str]:
        """The entries of ``$.features`` that are not open."""
        names = {place.name for place in self.places}
        read = [self.id_keys, self.label_keys, self.ts_keys or (), *(keys for _, _, keys in self.places)]
        return frozenset(names | {keys[1] for keys in read if keys[:1] == ("features",) and keys[1:]})

    @cached_property
    def is_plain(self) -> bool:
        """Whether this is the default schema, up to `max_bytes`."""
        return self == EventSchema(max_bytes=self.max_bytes)
