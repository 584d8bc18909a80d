"""Messages of the `streamnb` loggers on standard error, in the form of [log_output].

    emit -> logger streamnb.EVENT -> LogOutput -> one write to standard error

Each message goes to the logger `streamnb.EVENT` with its level, and with `event` and `fields` as attributes
of the record. The library attaches no handler that writes. The command line attaches `OUTPUT` to the root
logger while a command runs, so records of other libraries and Python's warnings have the same form.

Invariants:

* A line is one write. Lines of threads never mix; lines of processes do not either in a file that is appended
  to, nor in a pipe up to 4,096 bytes.
* A reader of standard error that is gone does not stop a service.
* Another program's text cannot forge a line: control characters are escaped, and JSON is ASCII.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from streamnb.config.connections import LogOutputConfig
from streamnb.formats.terminal_text import LOGGER, emit, printable
from streamnb.values.message_names import level_of
from streamnb.values.messages import Message

_CLIENT = "kafka"  # its log explains errors, and the errors are reported
_PLAIN_SECONDS, _QUIET_SECONDS = 1.0, 60.0  # between progress messages


class LogOutput(logging.Handler):
    """Handler that writes each record to standard error.

    Attributes:
        form: "plain", "text" or "json".
        progress_seconds: time between two progress messages.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_service = self._is_attached = False
        self.configure(LogOutputConfig())

    def configure(self, settings: LogOutputConfig, *, is_service: bool | None = None) -> None:
        """Write in this form from now on; a service without a terminal writes lines by default."""
        if is_service is not None:
            self._is_service = is_service
        auto = "text" if self._is_service and not _is_terminal() else "plain"
        self.form = auto if settings.format == "auto" else settings.format
        usual = _PLAIN_SECONDS if self.form == "plain" else _QUIET_SECONDS
        self.progress_seconds = usual if settings.progress is None else settings.progress
        if self._is_attached:
            LOGGER.setLevel(settings.level.upper())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as one line."""
        if record.name.partition(".")[0] != _CLIENT:
            with suppress(OSError):
                _write(f"{self.format(record)}\n")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, or the lines of a traceback, without the last end of line."""
        message = record.msg
        if not isinstance(message, Message):
            failed = record.exc_info[1] if record.exc_info else None
            fields = {"logger": record.name} | ({} if failed is None else reported(failed))
            message = Message("library-message", record.getMessage(), **fields)
        prefix = getattr(record, "prefix", "")
        return self.line(message, record.levelname.lower(), record.created, prefix)

    def line(self, message: Message, level: str, created: float, prefix: str = "") -> str:
        """Return a message in the form of this output. It needs no lock."""
        if self.form == "plain":
            return f"{prefix}{printable(message)}"
        moment = datetime.fromtimestamp(created).astimezone().isoformat(timespec="milliseconds")
        if self.form == "json":
            known = {"time": moment, "level": level, "event": message.event, "message": message}
            others = {(name if name not in known else f"{name}_"): of for name, of in message.fields.items()}
            return json.dumps(_plain(known | others), allow_nan=False)
        begin = f"{moment} {level} {message.event}"
        more = str(message.fields.get("traceback", "")).splitlines()
        return "\n".join(f"{begin} {printable(text)}" for text in (message, *more))

    def urgent(self, message: Message) -> bytes:
        """Return the line of a message for a caller that must not await a lock."""
        return f"{self.line(message, level_of(message.event), time.time(), 'streamnb: ')}\n".encode()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Write all messages while the context lasts, and unexpected errors of threads, too."""
        before = LOGGER.level, threading.excepthook, warnings.showwarning
        self._is_attached = True
        self.configure(LogOutputConfig(), is_service=False)
        logging.getLogger().addHandler(self)
        report: Any = self._report_warning
        threading.excepthook, warnings.showwarning = self._report_thread, report
        try:
            yield
        finally:
            self._is_attached = False
            logging.getLogger().removeHandler(self)
            threading.excepthook, warnings.showwarning = before[1:]
            LOGGER.setLevel(before[0])

    def _report_thread(self, failed: threading.ExceptHookArgs) -> None:
        if self.form == "plain" or failed.exc_value is None:
            threading.__excepthook__(failed)
            return
        name = "" if failed.thread is None else failed.thread.name
        text = f"thread {name} ended: {failed.exc_type.__name__}: {failed.exc_value}"
        emit(Message("thread-failed", text, thread=name, **reported(failed.exc_value)))

    def _report_warning(
        self, message: Any, category: type[Warning], filename: str, lineno: int, *_: object
    ) -> None:
        if self.form == "plain":
            _write(warnings.formatwarning(message, category, filename, lineno))
        else:
            text = f"{category.__name__}: {message}"
            emit(Message("python-warning", text, category=category.__name__, place=f"{filename}:{lineno}"))


OUTPUT = LogOutput()
"""The handler of the command line."""


def reported(error: BaseException) -> dict[str, str]:
    """Return cause and traceback of an unexpected error, as fields."""
    return {"cause": cause_of(error), "traceback": "".join(traceback.format_exception(error))}


def cause_of(error: BaseException) -> str:
    """Return type and text of the error that is at the beginning of others."""
    while (
        first := error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    ) is not None:
        error = first
    return f"{type(error).__name__}: {error}"


def _is_terminal() -> bool:
    with suppress(ValueError):  # it is closed
        return sys.stderr is not None and sys.stderr.isatty()
    return False


def _write(text: str) -> None:
    stream = sys.stderr
    if stream is None:  # it was closed before the program began
        return
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):  # a stand-in without a file
        stream.write(text)
        return
    stream.flush()
    rest = text.encode(stream.encoding or "utf-8", "backslashreplace")
    while rest:
        rest = rest[os.write(number, rest) :]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: other types as text, and numbers that JSON lacks as null."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(member) for member in value]
    return value if value is None or isinstance(value, bool | int) else str(value)
