"""Files of predictions: JSON lines, CSV, TSV or Parquet, by the end of their name.

A file gets its name when it is complete: it is written under another name in the same folder, and renamed.
A pipe or device is written directly. Rows of a table pass through a temporary file, because its columns
include each class, and a class may appear in the last event.

A table has these columns, whatever was predicted, and then one for the probability of each class:

    id, label         the event's id and its own label, if it has one
    predicted         the most probable class, which JSON lines call `label`; `probability` is its probability
    unseen            probability of a label that was never learned
    decision, expected_cost, rejected, novelty
    refused           reason why the event was not predicted

A cell is empty if the prediction lacks the field; a class that is left out of a prediction, or was not
known yet, has an empty cell.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from streamnb.errors import ConfigError
from streamnb.formats.terminal_text import note
from streamnb.values.messages import Message

_FIELDS = {
    "id": "id",
    "label": "truth",
    "predicted": "label",
    "probability": "probability",
    "unseen": "unseen",
    "decision": "decision",
    "expected_cost": "expected_cost",
    "rejected": "rejected",
    "novelty": "novelty",
    "refused": "refused",
}
"""Column of a table -> field of a prediction."""
_NUMBERS = frozenset({"probability", "unseen", "expected_cost", "novelty"})
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_UNWRITTEN = frozenset({".gz", ".zst", ".bz2", ".xz", ".zip", ".xlsx", ".xls", ".arrow", ".feather", ".arff"})
_AT_ONCE = 10_000
_MOST_CLASSES = 1000  # with a column each


class PredictionFile(AbstractContextManager["PredictionFile"]):
    """A file of predictions, to be used as a context; an error in it removes what was written.

    Args:
        path: the file; its end selects the format.

    Raises:
        ConfigError: no such format is written, or pyarrow is missing.
        OSError: the file cannot be written.
    """

    def __init__(self, path: str) -> None:
        given, self._suffix = Path(path), Path(path).suffix.lower()
        if self._suffix in _UNWRITTEN:
            ends = ".jsonl, .csv, .tsv or .parquet"
            raise ConfigError(f"{path}: no predictions are written as {self._suffix}; end the name in {ends}")
        if self._suffix == ".parquet":
            _refuse_without_pyarrow(path)
        is_device = (given.exists() and not given.is_file()) or path.startswith(("/dev/", "/proc/"))
        self._path = given if is_device else given.resolve()
        self._part = given if is_device else self._path.with_name(f".{given.name}.{os.getpid()}.part")
        self._is_table = self._suffix in {*_DELIMITERS, ".parquet"}
        try:
            self._file = self._part.open("wb")
        except OSError as error:  # named as given, and not by its temporary name
            raise OSError(error.errno, error.strerror, path) from error
        self._rows: BinaryIO | Any = TemporaryFile() if self._is_table else self._file  # noqa: SIM115
        self._classes: dict[str, None] = {}
        self.written = 0

    def write(self, row: bytes) -> None:
        """Add a prediction as JSON without a line end."""
        if self._is_table:
            self._classes.update(dict.fromkeys(msgspec.json.decode(row).get("probabilities", ())))
        self._rows.write(row + b"\n")
        self.written += 1

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Complete the file and give it its name; after an error, remove it."""
        try:
            if kind is None:
                if self._is_table:
                    self._write_table()
                self._file.close()
                if self._part != self._path:
                    self._part.replace(self._path)
        finally:
            self._file.close()
            self._rows.close()
            if self._part != self._path:
                with suppress(FileNotFoundError):
                    self._part.unlink()

    def __enter__(self) -> Self:
        """Return the file."""
        return self

    def _write_table(self) -> None:
        classes = list(self._classes)
        if len(classes) > _MOST_CLASSES:
            text = f"{self._path.name} has no columns for the probabilities of {len(classes):,} classes; "
            text += "JSON lines (.jsonl) have all"
            note(Message("probabilities-left-out", text, classes=len(classes)))
            classes = []
        self._rows.seek(0)
        rows = map(msgspec.json.decode, self._rows)
        if self._suffix == ".parquet":
            _write_parquet(self._file, rows, classes)
            return
        with io.TextIOWrapper(self._file, encoding="utf-8", newline="") as text_file:
            writer = csv.writer(text_file, delimiter=_DELIMITERS[self._suffix], lineterminator="\n")
            writer.writerow([*_FIELDS, *map(column_of, classes)])
            writer.writerows([*_cells(row).values(), *_of_classes(row, classes)] for row in rows)


def column_of(label: str) -> str:
    """Return the name of the column with the probability of a class."""
    return f"probability_{label}"


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    return {column: row.get(field) for column, field in _FIELDS.items()}


def _of_classes(row: Mapping[str, Any], classes: Iterable[str]) -> Iterator[float | None]:
    told = row.get("probabilities", {})
    return (told.get(label) for label in classes)


def _refuse_without_pyarrow(path: str) -> None:
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415  an extra
    except ImportError as error:
        text = f"{path}: writing Parquet needs pyarrow: pip install 'streamnb[parquet]'"
        raise ConfigError(text) from error


def _write_parquet(file: BinaryIO, rows: Iterator[dict[str, Any]], classes: list[str]) -> None:
    import pyarrow as pa  # noqa: PLC0415  an extra
    from pyarrow import parquet  # noqa: PLC0415  an extra

    kinds = {column: pa.float64() if column in _NUMBERS else pa.string() for column in _FIELDS}
    kinds |= {column_of(label): pa.float64() for label in classes}
    schema = pa.schema(kinds.items())
    with parquet.ParquetWriter(file, schema) as writer:
        while part := list(islice(rows, _AT_ONCE)):
            cells = [[*_cells(row).values(), *_of_classes(row, classes)] for row in part]
            columns = zip(zip(*cells, strict=True), kinds.values(), strict=True)
            arrays = [pa.array(column, kind) for column, kind in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
