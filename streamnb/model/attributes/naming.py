"""The attribute of an event that names whom it is of: an entity, or a tenant."""

from __future__ import annotations

from typing import Any

from streamnb.model.attributes.ranges import is_missing
from streamnb.model.attributes.values import as_event, value_text


def name_in(x: Any, attribute: Any, role: str) -> str | None:
    """The name that this attribute has; None where it is missing. Raises TypeError where it is no value."""
    value = as_event(x).get(attribute)
    if type(value) is str:
        return value
    try:
        return None if is_missing(value) else value_text(value)
    except TypeError as error:
        raise TypeError(f"{role} {attribute!r}: {error}") from error


def without(x: Any, attribute: Any) -> Any:
    """The event without this attribute; itself where it has none."""
    return {name: value for name, value in x.items() if name != attribute} if attribute in x else x
