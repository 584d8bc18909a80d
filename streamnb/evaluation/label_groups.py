"""Labels of a file in groups of their own, such as a reader's like and dislike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from streamnb.errors import ConfigError
from streamnb.formats.event_schema import EventSchema

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def with_groups(events: Iterable[bytes], path: str | None, schema: EventSchema) -> Iterator[bytes]:
    """Yield the raw events, with labels replaced by the file of ``--map-labels``, if there is one.

    A label that the file does not contain stays; one that it maps to null is removed, so that its event is
    only predicted. Malformed events are passed on to the decoder, which reports them.

    Raises ConfigError, which names the file, if it is not an object of labels.
    """
    return iter(events) if path is None else _mapped(events, _groups(path), schema.label_keys)


def _groups(path: str) -> dict[str, str | None]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, str | None])
    except OSError as error:
        raise ConfigError(f"--map-labels: {path}: {error.strerror}") from error
    except _UNREADABLE as error:
        raise ConfigError(
            f'--map-labels: {path}: {error}; expected an object such as {{"rec.autos": "like"}}'
        ) from error


def _mapped(events: Iterable[bytes], groups: dict[str, str | None], keys: tuple[str, ...]) -> Iterator[bytes]:
    for raw in events:
        try:
            event = place = msgspec.json.decode(raw)
            for key in keys[:-1]:
                place = place[key]
            if place[keys[-1]] in groups:
                place[keys[-1]] = groups[place[keys[-1]]]
                yield msgspec.json.encode(event)
                continue
        except (*_UNREADABLE, LookupError, TypeError):
            pass
        yield raw
