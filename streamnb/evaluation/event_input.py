"""Files of events, as the commands read them: with a progress bar, in an order, in parts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec
from tqdm import tqdm

from streamnb.errors import ConfigError, MalformedEvent
from streamnb.evaluation.data_quality import InputOrigin
from streamnb.evaluation.holdout import Row
from streamnb.evaluation.label_groups import with_groups
from streamnb.events import Event
from streamnb.features.attributes import some_of
from streamnb.formats.codec import decode_event
from streamnb.formats.event_columns import CsvColumns, RowNote
from streamnb.formats.event_files import CountedEvents, format_of, open_counted, read_rows_order
from streamnb.formats.event_formats import EventFormat
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.event_source import MAX_LINE
from streamnb.formats.json_paths import render_path
from streamnb.formats.terminal_text import note as print_note
from streamnb.values.messages import Message

T = TypeVar("T")

_CSV = CsvColumns()
_ROLES = ("id", "label", "text", "ts")
_OF_FILES = ("order", "shuffle", "drop", "holdout", "delay", "reveal", "noise", "map_labels")
_SETTLED = {
    "--format": "format",
    "--encoding": "encoding",
    "--delimiter": "delimiter",
    "--quote": "quote",
    "--header": "has_header",
    "--decimal": "decimal",
    "--thousands": "thousands",
}
"""Option -> attribute of `CsvColumns` that is the same for all files of a command."""
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
        makes_ids=schema.id_path == _PLAIN.id_path,
        leaves_out_dates=bool(schema.open_features),
        flat=_kept_fields(schema) if schema.open_features else None,
        must_have_label=learns and schema.label_path == _PLAIN.label_path,
    )


def _kept_fields(schema: EventSchema) -> frozenset[str]:
    """Return the first keys of all paths that a schema reads."""
    paths = [schema.id_keys, schema.label_keys, schema.ts_keys or (), schema.entity_keys or ()]
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
        "missing": ("", *filter(None, options.missing.split(","))),
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


def given_columns(options: argparse.Namespace) -> dict[str, str | None]:
    """Return role -> column; None if another role has its usual column.

    Raises ConfigError if two roles have one column, or a role has the label's column.
    """
    columns = {role: getattr(options, f"{role}_column") for role in _ROLES}
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


def _refuse_in_vain(path: str, form: EventFormat, columns: CsvColumns) -> None:
    if form.has_cells:
        return
    of_cells = {
        "--delimiter": columns.delimiter,
        "--decimal": columns.decimal != _CSV.decimal,
        "--thousands": columns.thousands,
        "--quote": columns.quote,
        "--header" if columns.has_header else "--no-header": columns.has_header is not None,
        "--skip": columns.skipped is not None,
        "--comment": columns.comment,
        "--quoting" if columns.quoting else "--no-quoting": columns.quoting is not None,
    }
    if form.has_columns:
        of_cells["--encoding"] = columns.encoding if form.is_binary else ""
        what = f"has no cells of text, but is {form.title}, which has types"
    else:
        of_cells["--missing"] = any(columns.missing)
        what = f"has no cells, but is read as {form.title}; --format csv reads CSV"
    if flag := next((flag for flag, is_given in of_cells.items() if is_given), ""):
        raise ConfigError(f"{flag}: {path} {what}")
    for role in () if form.has_columns else [role for role in _ROLES if role not in form.roles]:
        name = getattr(columns, role)
        if name not in {role, None}:
            place = render_path((name,))
            remedy = (
                "`streamnb init FILE` declares where texts are"
                if role == "text"
                else f"--set events.{role}='{place}' sets the path of a field"
            )
            raise ConfigError(
                f"--{role}-column {name}: {path} has no columns, but is read as {form.title}; {remedy}"
            )


def settled_events(
    path: str, columns: CsvColumns = _CSV, note: RowNote = print_note
) -> tuple[CsvColumns, Iterator[bytes]]:
    """Return how a file is read, settled in its first bytes, and its raw events, with a progress bar."""
    source = open_counted(path, columns, note)
    events = begun(_with_progress(source, columns))
    return source.columns, events


def settled_files(
    paths: Sequence[str], columns: CsvColumns = _CSV, note: RowNote = print_note
) -> tuple[CsvColumns, Iterator[bytes]]:
    """Return how several files are read, and their raw events, one file after another.

    Raises ConfigError if a file is read in another way than the first, with the option that settles it.
    """
    found = [settled_events(path, columns, note) for path in paths]
    first = found[0][0]
    for path, (one, _) in zip(paths, found, strict=True):
        for option, name in _SETTLED.items():
            here, there = getattr(one, name), getattr(first, name)
            if here != there:
                raise ConfigError(
                    f"{path} is read with {option} {_shown(here)}, but {paths[0]} with {_shown(there)}: "
                    f"give {option}, or read one file at a time"
                )
    return first, chain.from_iterable(events for _, events in found)


def _shown(value: object) -> str:
    return repr(value) if value not in {"", None} else "not needed"


def events_of(path: str, columns: CsvColumns = _CSV, note: RowNote = print_note) -> Iterator[bytes]:
    """Yield the raw events of a file, with a progress bar on standard error."""
    yield from settled_events(path, columns, note)[1]


def _with_progress(source: CountedEvents, columns: CsvColumns) -> Iterator[bytes]:
    hidden = not sys.stderr.isatty()
    with source:
        _refuse_in_vain(source.name, source.form, columns)
        events = iter(source)
        yield from islice(events, 1)  # kernels may be compiled before the next, with a bar of their own
        with tqdm(total=source.total, unit="B", unit_scale=True, disable=hidden, leave=False) as bar:
            for raw in events:
                yield raw
                bar.update(source.position - bar.n)


def begun(rows: Iterable[T]) -> Iterator[T]:
    """Return the same rows after reading the first, so that a missing file or wrong header is refused now."""
    left = iter(rows)
    return chain(list(islice(left, 1)), left)


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
    """Return how a command's file is read, and its rows in the order of the options, with grouped labels.

    Args:
        options: of the command.
        schema: reads the events.
        absent: names of ``--drop``, from which each feature that an event has is removed.
        note: called with each warning about the file.
    """
    columns, events = settled_events(options.file, columns_of(options, schema, learns=True), note)
    events = without(with_groups(events, options.map_labels, schema), options.drop, absent)
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
