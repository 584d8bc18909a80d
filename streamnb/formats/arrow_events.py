"""Rows of Arrow files (Feather) and Arrow streams as event records: ``streamnb[parquet]``.

Values become what the same columns in Parquet become. A record batch is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnb.errors import ConfigError, LogError
from streamnb.formats.column_events import ColumnEvents
from streamnb.formats.event_columns import check_header
from streamnb.formats.event_source import EventSource
from streamnb.formats.parquet_events import AT_ONCE, ArrowColumns, index_left_out

_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"


def arrow_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each row.

    Raises:
        ConfigError: pyarrow is missing, or a configured column.
        LogError: the content is damaged or not Arrow, or lacks the required label column; an Arrow file is a
            pipe or compressed as a whole.
    """
    try:
        from pyarrow import ArrowException, ipc, types  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError("reading Arrow needs pyarrow: pip install 'streamnb[parquet]'") from error
    if source.start.startswith(_FEATHER_1):
        raise LogError("is Feather of version 1: pandas.read_feather(FILE).to_parquet(FILE) converts it")
    is_file = source.start.startswith(_FILE)
    number = 0
    try:
        reader = (
            ipc.open_file(source.seekable("an Arrow file")) if is_file else ipc.open_stream(source.content)
        )
        names = reader.schema.names
        source.settle_header(names)
        check_header(names, source.columns, "Arrow")
        columns = ArrowColumns(types, source.columns, source.note)
        left_out = index_left_out(names, source.columns, source.note)
        events = ColumnEvents(names, source.columns, source.ids, left_out)
        for batch, share in _batches(reader, is_file=is_file):
            batch.validate(full=True)  # damaged offsets would be read beyond the batch
            source.share = share
            for start in range(0, batch.num_rows, AT_ONCE):
                part = batch.slice(start, AT_ONCE)
                rows = events.rows([columns.cells(name, part.column(n)) for n, name in enumerate(names)])
                number += len(rows)
                yield from rows
    except (ArrowException, OSError, UnicodeError, MemoryError) as error:
        why = str(error) or "a length in it exceeds the memory"
        raise LogError(f"no Arrow that can be read, after row {number}: {why}") from error


def _batches(reader: Any, *, is_file: bool) -> Iterator[tuple[Any, float]]:
    """Yield the record batches, and the share of the file that was read with each."""
    if not is_file:
        yield from ((batch, 0.0) for batch in reader)
        return
    n = reader.num_record_batches
    for number in range(n):
        yield reader.get_batch(number), (number + 1) / n
