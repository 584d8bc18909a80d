"""Rows of a Parquet file as records of events, with the types of its columns: ``streamnb[parquet]``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from streamnb.errors import ConfigError, LogError
from streamnb.wire.event_csv import CsvColumns, check_header, encoded, event_of
from streamnb.wire.values import nominal

_AT_ONCE = 1000


def parquet_events(source: Any, columns: CsvColumns) -> Iterator[tuple[bytes, float]]:
    """Each row's event, and what share of the rows has been read by then. Memory holds a group of rows.

    Raises:
        ConfigError: pyarrow is missing, or columns that were asked for.
        LogError: it is no Parquet file, or damaged; or lacks the label's column, which must be there.
    """
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError("reading Parquet needs pyarrow: pip install 'streamnb[parquet]'") from error
    number = 0
    try:
        file = parquet.ParquetFile(source)
        check_header(file.schema_arrow.names, columns)
        for batch in file.iter_batches(batch_size=_AT_ONCE):
            for row in batch.to_pylist():
                cells = {name: plain for name, cell in row.items() if (plain := _plain(cell)) is not None}
                for name in {columns.id, columns.label, columns.text, *columns.strings} & cells.keys():
                    cells[name] = _name(cells[name])
                yield (
                    encoded(event_of(cells, number, columns)),
                    (number := number + 1) / file.metadata.num_rows,
                )
    except ArrowException as error:
        raise LogError(f"no Parquet that can be read, after row {number}: {error}") from error


def _plain(cell: Any) -> Any:
    """The cell as JSON has it; None where it is missing. A time without a zone is in UTC."""
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).isoformat()
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")
    number = float(cell) if isinstance(cell, Decimal) else cell
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _name(cell: Any) -> Any:
    """A number as the text of an id, a label or a text: 1 and 1.0 are both "1"."""
    return nominal(cell, ()) if isinstance(cell, bool | int | float) else cell
