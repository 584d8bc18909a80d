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
* A service without a terminal quotes no event unless `log_output.content` is set: `WITHOUT_CONTENT` has other
  sentences for messages that do, and only errors of `_FREE_OF_CONTENT` keep their text.
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
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from string import Formatter
from typing import Any

from streamnb.config.connections import LogOutputConfig
from streamnb.errors import MalformedEvent, StreamnbError, UnlearnError
from streamnb.formats.terminal_text import LOGGER, emit, printable
from streamnb.values.message_names import WITHOUT_CONTENT, level_of
from streamnb.values.messages import Message

_CLIENT = "kafka"  # its log explains errors, and the errors are reported
_PLAIN_SECONDS, _QUIET_SECONDS = 1.0, 60.0  # between progress messages
_FREE_OF_CONTENT = StreamnbError, OSError, MemoryError
_CLIENTS = frozenset({_CLIENT, "confluent_kafka", "sqlite3"})
"""Packages whose errors quote no record."""
_HIDDEN = "log_output.content = true quotes it"


class LogOutput(logging.Handler):
    """Handler that writes each record to standard error.

    Attributes:
        form: "plain", "text" or "json".
        quotes: whether messages may quote events.
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
        self.quotes = settings.content or not self._is_service or _is_terminal()
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
            message = self._of_library(record)
        elif not self.quotes:
            message = without_content(message)
        prefix = getattr(record, "prefix", "")
        return self.line(message, record.levelname.lower(), record.created, prefix)

    def _of_library(self, record: logging.LogRecord) -> Message:
        failed = record.exc_info[1] if record.exc_info else None
        if failed is None:
            return Message("library-message", record.getMessage(), logger=record.name)
        text = record.getMessage() if self.quotes else f"{record.name}: {cause_of(failed)}"
        return Message("library-message", text, logger=record.name, **reported(failed))

    def line(self, message: Message, level: str, created: float, prefix: str = "") -> str:
        """Return a message in the form of this output. It needs no lock."""
        more = str(message.fields.get("traceback", "")).splitlines()
        if self.form == "plain":  # Python prints the traceback of an error that may be quoted
            lines = [f"{prefix}{message}", *([] if self.quotes else more)]
            return "\n".join(map(printable, lines))
        moment = datetime.fromtimestamp(created).astimezone().isoformat(timespec="milliseconds")
        if self.form == "json":
            known = {"time": moment, "level": level, "event": message.event, "message": message}
            others = {(name if name not in known else f"{name}_"): of for name, of in message.fields.items()}
            return json.dumps(_plain(known | others), allow_nan=False)
        begin = f"{moment} {level} {message.event}"
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
        if (self.form == "plain" and self.quotes) or failed.exc_value is None:
            threading.__excepthook__(failed)
            return
        name = "" if failed.thread is None else failed.thread.name
        text = f"thread {name} ended: {_named(failed.exc_value)}"
        emit(Message("thread-failed", text, thread=name, **reported(failed.exc_value)))

    def _report_warning(
        self, message: Any, category: type[Warning], filename: str, lineno: int, *_: object
    ) -> None:
        if self.form == "plain" and self.quotes:
            _write(warnings.formatwarning(message, category, filename, lineno))
        else:
            text = f"{category.__name__}: {message}"
            emit(Message("python-warning", text, category=category.__name__, place=f"{filename}:{lineno}"))


OUTPUT = LogOutput()
"""The handler of the command line."""


def reported(error: BaseException) -> dict[str, str]:
    """Return cause and traceback of an unexpected error, as fields."""
    if OUTPUT.quotes:
        return {"cause": cause_of(error), "traceback": "".join(traceback.format_exception(error))}
    parts = [f"Traceback of {_named(one)}\n{''.join(_calls(one))}" for one in _chain(error)]
    return {"cause": cause_of(error), "traceback": "".join(reversed(parts))}


def text_of(error: BaseException) -> str:
    """Return the text of an error; if it may quote events, and must not, the option that shows it."""
    package = type(error).__module__.partition(".")[0]
    is_free = isinstance(error, _FREE_OF_CONTENT) or package in _CLIENTS
    is_shown = OUTPUT.quotes or (is_free and not isinstance(error, MalformedEvent | UnlearnError))
    return str(error) if is_shown else _HIDDEN


def without_content(message: Message) -> Message:
    """Return a message that quotes no event: of one that may, the sentence and the fields of its name."""
    sentence = WITHOUT_CONTENT.get(message.event)
    if sentence is None:
        return message
    names = {name for _, name, _, _ in Formatter().parse(sentence) if name}
    text = sentence.format_map(defaultdict(lambda: "?", message.fields))
    return message.reduced(f"{text}; {_HIDDEN}", names)


def cause_of(error: BaseException) -> str:
    """Return type and text of the error that is at the beginning of others."""
    return _named(list(_chain(error))[-1])


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _calls(error: BaseException) -> list[str]:
    return traceback.format_tb(error.__traceback__)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {text_of(error)}"


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
