"""The registry of formats of events: name, suffixes, what its content looks like, and its reader.

An option names a file's format, else its suffix, else its first bytes; the default is JSON lines. A reader
takes an `EventSource`, and yields raw events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from streamnb.errors import ConfigError, LogError
from streamnb.formats.arff_events import arff_events, is_arff
from streamnb.formats.encoding_sniffing import UTF8
from streamnb.formats.event_csv import TableEvents
from streamnb.formats.event_source import EventSource, format_suffix
from streamnb.formats.fasttext_events import fasttext_events, is_fasttext
from streamnb.formats.json_line_events import SUFFIXES, is_json, json_line_events
from streamnb.formats.mail_events import is_mail, is_mbox, mail_file_events, mbox_events
from streamnb.formats.mail_folders import is_trec_index, mail_folder_events, trec_index_events
from streamnb.formats.refused_content import is_binary, refused_as
from streamnb.formats.svmlight_events import is_svmlight, svmlight_events
from streamnb.formats.table_dialect import is_table
from streamnb.formats.vowpal_events import is_vowpal, vowpal_events
from streamnb.formats.zip_events import zip_events
from streamnb.values.parameter_checks import did_you_mean

Read = Callable[[EventSource], Iterator[bytes]]


class EventFormat(NamedTuple):
    """One format of files of events.

    Attributes:
        name: its name in `--format`.
        title: its name in messages.
        suffixes: the suffixes of file names, in lower case.
        read: yields the raw events of a source.
        looks_like: returns whether the first bytes of decompressed content are of this format, for sure.
        has_columns: whether its values have names that options such as `--label-column` refer to.
        roles: roles of columns that it has in spite of that.
        has_cells: whether these values are text without types, whose notation options describe.
        is_binary: whether it has no encoding of text.
        is_loose: whether other content may look like it, so that a file's name counts first.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    read: Read
    looks_like: Callable[[bytes], bool]
    has_columns: bool = True
    roles: tuple[str, ...] = ()
    has_cells: bool = False
    is_binary: bool = False
    is_loose: bool = False


def _csv_events(source: EventSource) -> Iterator[bytes]:
    table = TableEvents(source.text_lines(), source.columns, source.note, source.findings, source.ids)
    source.columns = table.columns
    yield from table


def _tsv_events(source: EventSource) -> Iterator[bytes]:
    if "\t" in source.start_text:  # else the name is wrong, and the delimiter is sniffed
        source.columns = msgspec.structs.replace(source.columns, delimiter=source.columns.delimiter or "\t")
    yield from _csv_events(source)


def _parquet_events(source: EventSource) -> Iterator[bytes]:
    from streamnb.formats.parquet_events import parquet_events  # noqa: PLC0415  it imports numpy

    file = source.seekable("Parquet")
    for row, share in parquet_events(file, source.columns, source.note, source.ids, source.settle_header):
        source.line += 1
        source.share = share
        yield row


def _arrow_events(source: EventSource) -> Iterator[bytes]:
    from streamnb.formats.arrow_events import arrow_events  # noqa: PLC0415  it imports numpy

    return arrow_events(source)


def _avro_events(source: EventSource) -> Iterator[bytes]:
    from streamnb.formats.avro_events import avro_events  # noqa: PLC0415  it imports numpy

    return avro_events(source)


def _is_avro(start: bytes) -> bool:
    return start.startswith(b"Obj\x01")


def _zip_events(source: EventSource) -> Iterator[bytes]:
    def read(member: EventSource) -> Iterator[bytes]:
        form = settle_format(member)
        member.columns = msgspec.structs.replace(member.columns, format=form.name)
        return read_as(member, form)

    return zip_events(source, read)


def _is_zip(start: bytes) -> bool:
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def _is_arrow_file(start: bytes) -> bool:
    return start.startswith((b"ARROW1\0\0", b"FEA1"))


def _is_arrow_stream(start: bytes) -> bool:
    return start.startswith(b"\xff\xff\xff\xff") and 0 < int.from_bytes(start[4:8], "little") < 1 << 28


def _never(_: bytes) -> bool:
    return False


JSON_LINES = EventFormat(
    "jsonl",
    "JSON lines",
    SUFFIXES,
    json_line_events,
    is_json,
    has_columns=False,
)
_CSV = EventFormat("csv", "CSV", (".csv",), _csv_events, _never, has_cells=True)
_ZIP = EventFormat("zip", "a ZIP archive", (".zip",), _zip_events, _is_zip, has_cells=True, is_binary=True)
FORMATS = (
    JSON_LINES,
    _CSV,
    EventFormat("tsv", "TSV", (".tsv",), _tsv_events, _never, has_cells=True),
    EventFormat(
        "parquet",
        "Parquet",
        (".parquet",),
        _parquet_events,
        lambda start: start.startswith(b"PAR1"),
        is_binary=True,
    ),
    EventFormat("feather", "Feather", (".feather", ".arrow"), _arrow_events, _is_arrow_file, is_binary=True),
    EventFormat(
        "arrow-stream", "an Arrow stream", (".arrows",), _arrow_events, _is_arrow_stream, is_binary=True
    ),
    EventFormat("avro", "Avro", (".avro",), _avro_events, _is_avro, is_binary=True),
    _ZIP,
    EventFormat("arff", "ARFF", (".arff",), arff_events, is_arff),
    EventFormat(
        "svmlight",
        "svmlight",
        (".svm", ".svmlight", ".libsvm"),
        svmlight_events,
        is_svmlight,
        has_columns=False,
        is_loose=True,
    ),
    EventFormat("mbox", "mbox", (".mbox",), mbox_events, is_mbox, is_binary=True, is_loose=True),
    EventFormat("mail", "a mail", (".eml",), mail_file_events, is_mail, is_binary=True, is_loose=True),
    EventFormat("mails", "a folder of mails", (), mail_folder_events, _never, is_binary=True),
    EventFormat(
        "trec",
        "an index of mails",
        (),
        trec_index_events,
        is_trec_index,
        is_binary=True,
        is_loose=True,
    ),
    EventFormat(
        "fasttext",
        "fastText",
        (".ft",),
        fasttext_events,
        is_fasttext,
        has_columns=False,
        is_loose=True,
    ),
    EventFormat("vw", "Vowpal Wabbit", (".vw",), vowpal_events, is_vowpal, False, ("text",), is_loose=True),
)
"""All formats, in the order in which content is compared with them."""

_OLD_BINARY = [one for one in FORMATS if one.name == "arrow-stream"]  # before 0.15 without a signature

FORMAT_NAMES = tuple(one.name for one in FORMATS)


def format_named(name: str) -> EventFormat:
    """Return the format of this name. Raises ConfigError for an unknown one."""
    for one in FORMATS:
        if one.name == name:
            return one
    known = ", ".join(FORMAT_NAMES)
    raise ConfigError(f"--format {name}: expected one of {known}{did_you_mean(name, FORMAT_NAMES)}")


def format_of_name(path: str) -> EventFormat | None:
    """Return the format of a file's suffix, or None."""
    suffix = format_suffix(path)
    return next((one for one in FORMATS if suffix in one.suffixes), None)


def format_of_content(source: EventSource) -> EventFormat | None:
    """Return the format that the first bytes of decompressed content look like, or None."""
    start = source.start
    if b"\0" in start[:4] or (source.encoding != UTF8 and not is_binary(start)):  # text, as UTF-8
        start = source.start_text.encode(errors="surrogateescape")
    return next((one for one in FORMATS if one.looks_like(start)), None)


def settle_format(source: EventSource) -> EventFormat:
    """Return the format in which a source is read, and note it if its name has another.

    An option counts first, then content that is surely of a format, then the name, then content that looks
    like a table, and then JSON lines.
    """
    if _is_zip(source.start):
        return _ZIP  # an option names the format of the members
    if source.columns.format:
        return format_named(source.columns.format)
    named, found = format_of_name(source.name), format_of_content(source)
    if named is None or (found is None and named is JSON_LINES):
        is_cells = source.columns.has_cell_options or is_table(source.start_text)
        found = found or (_CSV if is_cells else None)
    elif found is not None and found.is_loose:
        found = named
    form = found or named or JSON_LINES
    is_json = form is JSON_LINES and named is None
    if form is not named and not is_json and (named is None or named.read is not form.read):
        source.findings.insert(0, f"format {form.name} by its content (--format)")
    return form


def read_as(source: EventSource, form: EventFormat) -> Iterator[bytes]:
    """Yield the events of a source in a format. Raises LogError for content of no format that is read."""
    if not form.looks_like(source.start):
        _refuse_other_content(source, may_be_binary=form in _OLD_BINARY)
    if form.is_binary:  # whose text has encodings of its own
        source.findings = [one for one in source.findings if not one.startswith("encoding ")]
    if not form.has_cells and form is not JSON_LINES:  # whose readers sniff more
        source.report_findings()
    return form.read(source)


def _refuse_other_content(source: EventSource, *, may_be_binary: bool = False) -> None:
    if what := refused_as(source.start):
        raise LogError(f"is {what}")
    if may_be_binary or source.encoding.startswith(("utf-16", "utf-32")):
        return
    if is_binary(source.start):
        raise LogError(f"is binary, of no known format; it begins with {source.start[:8].hex(' ')}")
