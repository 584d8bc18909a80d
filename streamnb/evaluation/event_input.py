"""Files of events, as a command's options read them: roles of columns, an order of rows, parts of events."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from streamnb.errors import ConfigError, MalformedEvent
from streamnb.evaluation.data_quality import InputOrigin
from streamnb.evaluation.holdout import Row
from streamnb.evaluation.input_files import settled_files
from streamnb.evaluation.label_groups import with_groups
from streamnb.events import Event
from streamnb.features.attributes import some_of
from streamnb.formats.codec import decode_event
from streamnb.formats.event_columns import ROLES, CsvColumns, RowNote
from streamnb.formats.event_files import format_of, read_rows_order
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.event_source import MAX_LINE
from streamnb.formats.terminal_text import note as print_note
from streamnb.values.messages import Message

_ZEROS = ("0", "00", "000", "0000")
_OF_FILES = ("order", "shuffle", "drop", "holdout", "delay", "reveal", "noise", "map_labels")
_PLAIN = EventSchema(max_bytes=MAX_LINE)


def columns_of(
    options: argparse.Namespace, schema: EventSchema, *, learns: bool = False, has_content_ids: bool = False
) -> CsvColumns:
    """Return the columns of CSV by a command's options, for events that a schema reads.

    A column that the schema reads among the features stays there, also if a flag names it. If a command
    `learns`, a header without the label's column is refused. Ids that are made for events without one depend
    on the file if `has_content_ids`; else they are row numbers.
    """
    texts = [place.keys for place in schema.places if place.kind == "text"]
    places: dict[str, list[tuple[str, ...] | None]]
    places = {"id": [schema.id_keys], "label": [schema.label_keys], "text": [*texts], "ts": [schema.ts_keys]}
    values = [place for place in schema.places if not place.part]
    places["name"] = [place.keys for place in values if place.kind == "nominal"]
    places["number"] = [place.keys for place in values if place.kind == "continuous"]
    places["time"] = [place.keys for place in schema.places if place.part]
    features = {
        role: {keys[1] for keys in found if keys is not None and len(keys) == 2 and keys[0] == "features"}
        for role, found in places.items()
    }
    columns: dict[str, Any]
    given = given_columns(options).items()
    columns = {role: role if column in features[role] else column for role, column in given}
    return CsvColumns(
        **columns,
        **cells_of(options),
        strings=frozenset(features["id"] | features["label"] | features["text"] | features["time"]),
        names=frozenset(features["name"]),
        labels=frozenset(features["label"]),
        numbers=frozenset(features["number"] | features["ts"]),
        finds_label=schema.label_path == _PLAIN.label_path,
        has_content_ids=has_content_ids,
        has_weights=schema.weight_keys == ("weight",),
        makes_ids=schema.id_path == _PLAIN.id_path,
        leaves_out_dates=bool(schema.open_features),
        flat=_kept_fields(schema) if schema.open_features else None,
        must_have_label=learns and schema.label_path == _PLAIN.label_path,
    )


def _kept_fields(schema: EventSchema) -> frozenset[str]:
    """Return the first keys of all paths that a schema reads."""
    paths = [schema.id_keys, schema.label_keys]
    paths += [schema.ts_keys or (), schema.weight_keys or (), schema.entity_keys or ()]
    read = {keys[0] for keys in (*paths, *(place.keys for place in schema.places)) if keys}
    return frozenset(read | {"id", "label", "ts", "text", "features"})


def cells_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the format of text files by a command's options. Raises ConfigError."""
    if options.thousands and (options.decimal or ".") == options.thousands:
        raise ConfigError(f"--decimal and --thousands are both {options.thousands!r}")
    if options.quote and (options.quote == options.delimiter or options.quoting is False):
        other = "--no-quoting" if options.quoting is False else "--delimiter"
        raise ConfigError(f"--quote {options.quote} and {other} contradict each other")
    return {
        "delimiter": options.delimiter or "",
        "missing": ("", *missing_cells(options.missing)),
        "decimal": options.decimal or "",
        "thousands": options.thousands or "",
        "quoting": options.quoting,
        "quote": options.quote or "",
        "has_header": options.header,
        "skipped": options.skip,
        "comment": options.comment or "",
        "encoding": options.encoding or "",
        "format": options.format or "",
        "member": options.member or "",
    }


def missing_cells(given: str) -> list[str]:
    """Return the cells that mean a missing value: a whole number also with a fraction of zeros.

    Examples:
        >>> missing_cells("NA,-9")
        ['NA', '-9', '-9.0', '-9,0', '-9.00', '-9,00', '-9.000', '-9,000', '-9.0000', '-9,0000']
    """
    found = []
    for cell in filter(None, given.split(",")):
        found.append(cell)
        if cell.removeprefix("-").isdecimal():
            found += [f"{cell}{point}{zeros}" for zeros in _ZEROS for point in ".,"]
    return found


def given_columns(options: argparse.Namespace) -> dict[str, str | None]:
    """Return role -> column; None if another role has its usual column.

    Raises ConfigError if two roles have one column, or a role has the label's column.
    """
    columns = {role: getattr(options, f"{role}_column") for role in ROLES}
    named = {role: column for role, column in columns.items() if column != role}
    for role, column in columns.items():
        other = next((one for one in named if one != role and named[one] == column), None)
        if other is not None and (role in named or role == "label"):
            raise ConfigError(f"--{role}-column and --{other}-column both name {column!r}")
        columns[role] = None if other is not None else column
    return columns


def origin_of(path: str, columns: CsvColumns) -> InputOrigin:
    """Return where the events of a file come from, by how it is read."""
    form = format_of(path, columns.format)
    return InputOrigin(path, form.has_columns, form.has_cells, columns.decimal or ".")


def files_of(options: argparse.Namespace) -> list[str]:
    """Return the files that a command reads; none for a log."""
    return [] if options.file is None else [options.file, *options.more]


def files_named(options: argparse.Namespace) -> str:
    """Return the name of a command's file, or the first with the number of all, for messages."""
    paths = files_of(options)
    return paths[0] if len(paths) == 1 else f"{paths[0]} to {paths[-1]} ({len(paths)} files)"


def numbered(events: Iterable[bytes], order: str | None) -> Iterator[tuple[int, bytes]]:
    """Return the events with their 0-based rows, in the order of the file or of an order file.

    Raises ConfigError if the order names rows that the file does not have.
    """
    if order is None:
        return iter(enumerate(events))
    rows = list(events)
    numbers = read_rows_order(order)
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(rows):
        raise ConfigError(f"--order: {order} names rows beyond the {len(rows)} of the file")
    return ((number, rows[number]) for number in numbers)


def without(events: Iterator[bytes], names: Sequence[str], absent: set[str]) -> Iterator[bytes]:
    """Return the raw events without some of their features; malformed events as they are.

    Args:
        events: raw events.
        names: the features to leave out.
        absent: names from which each feature that an event has is removed.
    """
    return (_without(raw, names, absent) for raw in events) if names else events


def _without(raw: bytes, names: Sequence[str], absent: set[str]) -> bytes:
    try:
        event = msgspec.json.decode(raw)
        features = event.get("features", {})
        absent.difference_update(features)
        for name in names:
            features.pop(name, None)
        if "text" in names and "text" in event:  # the text is a feature outside of "features"
            absent.discard("text")
            del event["text"]
            event.setdefault("features", features)
        return msgspec.json.encode(event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError, AttributeError):
        return raw


def rows_of(
    options: argparse.Namespace, schema: EventSchema, absent: set[str], note: RowNote = print_note
) -> tuple[CsvColumns, Iterator[Row]]:
    """Return how a command's files are read, and their rows in the order of the options, with grouped labels.

    Rows are numbered through all files. Events without ids get row numbers, or ids by file if it has several.

    Args:
        options: of the command.
        schema: reads the events.
        absent: names of ``--drop``, from which each feature that an event has is removed.
        note: called with each warning about the file.
    """
    paths = files_of(options)
    columns = columns_of(options, schema, learns=True, has_content_ids=len(paths) > 1)
    columns, files = settled_files(paths, columns, note)
    grouped = with_groups(chain.from_iterable(files), options.map_labels, schema)
    events = without(grouped, options.drop, absent)
    if options.shuffle is None:
        return columns, numbered(events, options.order)
    from streamnb.evaluation.row_shuffle import shuffled  # noqa: PLC0415  it imports numpy

    return columns, shuffled(events, options.shuffle)


def refuse_options_of_files(options: argparse.Namespace) -> None:
    """Raise ConfigError for an option that a log does not have."""
    for name in _OF_FILES:
        value = getattr(options, name, None)
        if value or (name == "shuffle" and value is not None):
            raise ConfigError(f"--{name.replace('_', '-')}: needs a file; without one the log is evaluated")


def report_absent(absent: set[str]) -> None:
    """Print the names of ``--drop`` that no event has."""
    if absent:
        text = f"--drop: left out nothing of {some_of(sorted(absent))}, which no event has"
        print_note(Message("dropped-nothing", text, columns=sorted(absent)))


def decoded(raw: bytes, schema: EventSchema) -> Event | None:
    """Return the event; None if it is malformed."""
    try:
        return decode_event(raw, schema)
    except MalformedEvent:
        return None
