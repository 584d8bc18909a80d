"""The readings of several files of one command or archive, which are refused if they differ."""

from __future__ import annotations

from streamnb.errors import ConfigError
from streamnb.features.attributes import some_of
from streamnb.formats.event_columns import CsvColumns, RowNote
from streamnb.values.messages import Message

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


def refuse_other_reading(
    one: tuple[str, CsvColumns], first: tuple[str, CsvColumns], remedy: str = "read one file at a time"
) -> None:
    """Raise ConfigError if a file is read otherwise than the first, with the option that settles it."""
    (path, here), (other, there) = one, first
    for option, name in _SETTLED.items():
        if (given := getattr(here, name)) != (wanted := getattr(there, name)):
            raise ConfigError(
                f"{path} is read with {option} {_shown(given)}, but {other} with {_shown(wanted)}: "
                f"give {option}, or {remedy}"
            )
    if here.has_header is False and len(here.header) != len(there.header):
        raise ConfigError(
            f"{path} has {len(here.header)} columns without a header, but {other} has {len(there.header)}: "
            f"{remedy}"
        )
    both = set(here.header) & set(there.header)
    for name in here.header:
        if name in both and (name in here.left_out) != (name in there.left_out):
            action = "left out of" if name in here.left_out else "read in"
            raise ConfigError(
                f"{path}: column {name!r} is {action} this file, other than in {other}: declare it in "
                f"[[attributes]], or {remedy}"
            )


def note_other_columns(one: tuple[str, CsvColumns], first: tuple[str, CsvColumns], note: RowNote) -> None:
    """Note columns that one of two files lacks."""
    (path, here), (other, there) = one, first
    absent = [name for name in there.header if name not in here.header]
    more = [name for name in here.header if name not in there.header]
    parts = [f"no column {some_of(absent)}, which {other} has"] if absent else []
    parts += [f"{some_of(more)}, which {other} has not"] if more else []
    if parts:
        note(Message("columns-differ", f"{path} has {', and '.join(parts)}", columns=absent or more))


def _shown(value: object) -> str:
    return repr(value) if value not in {"", None} else "not needed"
