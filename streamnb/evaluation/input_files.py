"""Opening of a command's files: settled in their first bytes, read in one way, with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import msgspec
from tqdm import tqdm

from streamnb.errors import ConfigError
from streamnb.formats.event_columns import ROLES, CsvColumns, RowNote
from streamnb.formats.event_files import CountedEvents, open_counted
from streamnb.formats.event_formats import EventFormat
from streamnb.formats.file_readings import note_other_columns, refuse_other_reading
from streamnb.formats.json_paths import render_path
from streamnb.formats.terminal_text import note as print_note
from streamnb.values.messages import Message

T = TypeVar("T")

_COLUMNS = CsvColumns()


def _refuse_in_vain(path: str, form: EventFormat, columns: CsvColumns) -> None:
    if form.has_cells:
        return
    of_cells = {
        "--delimiter": columns.delimiter,
        "--decimal": columns.decimal != _COLUMNS.decimal,
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
    for role in () if form.has_columns else [role for role in ROLES if role not in form.roles]:
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
    path: str, columns: CsvColumns = _COLUMNS, note: RowNote = print_note
) -> tuple[CsvColumns, Iterator[bytes]]:
    """Return how a file is read, settled in its first bytes, and its raw events, with a progress bar."""
    source = open_counted(path, columns, note)
    events = begun(_with_progress(source, columns))
    return source.columns, events


def settled_files(
    paths: Sequence[str], columns: CsvColumns = _COLUMNS, note: RowNote = print_note
) -> tuple[CsvColumns, list[Iterator[bytes]]]:
    """Return how several files are read, and the raw events of each.

    All are settled here. Files other than the first are closed after that, and opened again when their turn
    comes, unless they are pipes.

    Raises:
        ConfigError: a file is given twice, or is read in another way than the first, with the option that
            settles it.
    """
    _refuse_twice(paths)
    columns = msgspec.structs.replace(columns, is_one_of_many=len(paths) > 1)
    told, found = _Once(note), list[Iterator[bytes]]()
    first: tuple[str, CsvColumns] | None = None
    for path in paths:
        one, events = settled_events(path, columns, told)
        begin = list(islice(events, 1))
        if not begin and len(paths) > 1:
            told(Message("file-without-events", f"{path} holds no event", file=path))
        elif first is None:
            first = path, one
            found.append(chain(begin, events))
        else:
            refuse_other_reading((path, one), first)
            note_other_columns((path, one), first, told)
            is_file = Path(path).is_file()
            found.append(_later(path, columns, one, told) if is_file else chain(begin, events))
    return (one if first is None else first[1]), found


def _later(path: str, columns: CsvColumns, settled: CsvColumns, note: RowNote) -> Iterator[bytes]:
    """Yield the events of a file that is opened again. Raises ConfigError if it is now read otherwise."""
    found, events = settled_events(path, columns, note)
    refuse_other_reading((path, found), (path, settled))
    yield from events


class _Once:
    """Passes each message on once, although files are settled twice."""

    def __init__(self, note: RowNote) -> None:
        self._note, self._noted = note, set[str]()

    def __call__(self, message: Message) -> None:
        if message not in self._noted:
            self._noted.add(message)
            self._note(message)


def _refuse_twice(paths: Sequence[str]) -> None:
    known: dict[object, str] = {}
    for path in paths:
        there = Path(path)
        status = there.stat() if path != "-" and there.exists() else None
        key = path if status is None else (status.st_dev, status.st_ino)
        if key in known:
            also = f", as {known[key]}" * (known[key] != path)
            raise ConfigError(f"{path} is given twice{also}: its events would count twice")
        known[key] = path


def sample_of(files: Sequence[Iterator[bytes]], n: int) -> list[bytes]:
    """Return the first `n` events, of each file an equal share, as far as it has so many."""
    found: list[bytes] = []
    for place, events in enumerate(files):
        found += islice(events, -(-(n - len(found)) // (len(files) - place)))
    found += islice(chain.from_iterable(files), n - len(found))
    return found


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
