"""The commands that messages suggest, with the log and the configuration of the command that says so."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote

from streamnb.errors import StreamnbError

_COMMAND = re.compile(
    r"\bstreamnb (?:(?:config|dlq|journal|labels|model|snapshot|topics) [a-z]+|dashboard|doctor|explain|"
    r"forget|inspect|label|predict|read|rebuild|replay|run|score|serve|token|verify)\b"
    r"(?! --(?:help|config)\b)"
)


def repeated(text: str, options: argparse.Namespace) -> str:
    """The text, fit to be pasted: each command in it has the options that say of which log it is, and how."""
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


@contextmanager
def repeating(options: argparse.Namespace) -> Iterator[None]:
    """Errors suggest commands that can be pasted."""
    try:
        yield
    except StreamnbError as error:
        error.args = (repeated(str(error), options),)
        raise
