"""Commands suggested in messages, with the log and configuration options of the current command."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote

from streamnb.errors import ConfigError, JournalError, LogError, SnapshotError, StreamnbError

_COMMAND = re.compile(
    r"\bstreamnb (?:(?:config|dlq|journal|labels|model|snapshot|topics) [a-z]+|convert|dashboard|doctor|"
    r"explain|forget|inspect|label|predict|read|rebuild|replay|run|score|serve|token|verify)\b"
    r"(?! --(?:help|config)\b)"
)

_OF_FILES = frozenset({"compare", "evaluate", "init"})
_SUGGESTED = re.compile(r"`((?:streamnb|kafka-[a-z-]+\.sh) [^`]+)`")


def repeated(text: str, options: argparse.Namespace) -> str:
    """Return the text with the options for log and configuration added to each command in it."""
    given = [
        f" {flag} {quote(value)}"
        for flag, values in (
            ("--config", [getattr(options, "config", None)]),
            ("--log", [getattr(options, "log", None)]),
            ("--set", getattr(options, "set", [])),
        )
        for value in values
        if value is not None
    ]
    return _COMMAND.sub(lambda command: command[0] + "".join(given), text) if given else text


def commands_in(text: str) -> list[str]:
    """Return the commands that a text suggests, which stand in backticks."""
    return _SUGGESTED.findall(text)


def next_command(error: Exception, text: str, options: argparse.Namespace) -> str:
    """Return the first command that the text of an error suggests, or one that finds the cause."""
    if found := commands_in(text):
        return found[0]
    has_log = getattr(options, "log", None) is not None or getattr(options, "module", "") not in _OF_FILES
    if "log" in options and has_log and isinstance(error, LogError | JournalError | SnapshotError):
        return repeated("streamnb doctor", options)
    if "config" in options and isinstance(error, ConfigError):
        return repeated("streamnb config lint", options)
    return f"streamnb {getattr(options, 'module', '')} --help".replace("  ", " ")


@contextmanager
def repeating(options: argparse.Namespace) -> Iterator[None]:
    """Add the options to commands in the message of an error."""
    try:
        yield
    except StreamnbError as error:
        error.args = (repeated(str(error), options),)
        raise
