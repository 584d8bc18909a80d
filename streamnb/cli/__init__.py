"""The command line: arguments, exit codes, and one module for each command.

Only this package imports every room; each command imports what it needs when it runs. `parser.py` has
the commands and their arguments. `main` turns errors into one line and an exit code:

    0    done
    1    failed
    2    wrong usage or configuration
    130  interrupted
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar, cast

from streamnb.cli.parser import build_parser
from streamnb.errors import ConfigError, SmallWeightWarning, StreamnbError, UndeclaredTextWarning
from streamnb.formats.terminal_text import note
from streamnb.runtime.next_commands import repeating
from streamnb.values.messages import Message

T = TypeVar("T")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNCHECKED = frozenset(
    "after at before certificate config event file folder forgotten given id ids label log map_labels "
    "order out predictions private_key report set shards snapshot token_file".split()
)
"""Options that may hold a file name of arbitrary bytes, or whose own check rejects bad text."""
_USUAL = "streamnb.toml"
"""Output of `init`; never read implicitly, because it may belong to another stream."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return exit_code_of(_run, sys.argv[1:] if arguments is None else arguments)


def _run(given: Sequence[str]) -> int:
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # shell completion, if argcomplete is installed
        importlib.import_module("argcomplete").autocomplete(parser)
    first = given[0].partition("=")[0] if given else ""
    if first.startswith("--") and not any(own.startswith(first) for own in ("--help", "--version")):
        parser.error(f"{first} stands after the command: streamnb COMMAND {first} ...")
    options = parser.parse_args(given)
    options.given = list(given)
    if "module" not in options:
        parser.print_help(sys.stderr)
        return 2
    _refuse_bytes(vars(options))
    if getattr(options, "config", "") is None and options.module != "init" and Path(_USUAL).is_file():
        text = f"{_USUAL} in this folder is not read: add --config {_USUAL}"
        note(Message("configuration-not-read", text, file=_USUAL))
    command = importlib.import_module(f"streamnb.cli.commands.{options.module}")
    with _progress(), repeating(options):
        code: int = command.run(options)
    return code


def _refuse_bytes(options: Mapping[str, object]) -> None:
    """Raise ConfigError for text that is not UTF-8."""
    for name, given in options.items():
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, str) and name not in _UNCHECKED and _SURROGATE.search(one):
                raise ConfigError(f"argument {name}: it is not UTF-8: convert it, with iconv for example")


def exit_code_of(command: Callable[[T], int], given: T) -> int:
    """Run a command, print an error in one line, and return the exit code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UndeclaredTextWarning
            )  # `seen_fields` reports it once for all events
            warnings.simplefilter("ignore", SmallWeightWarning)  # `Counters` counts them
            return command(given)
    except StreamnbError as error:
        note(Message("command-failed", str(error)))
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        note(Message("command-interrupted", "interrupted"))
        return 130
    except BrokenPipeError:  # the reader of our output has closed the pipe
        sys.stdout = None  # otherwise the interpreter complains at exit
        return 1
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        note(Message("command-failed", f"{place}{error.strerror or error}"))
        return 1


def _progress() -> AbstractContextManager[object]:
    """Report compilations of kernels, if this command can compile any."""
    if "numba" not in sys.modules:
        return nullcontext()
    compiling = importlib.import_module("streamnb.cli.compilation_progress")
    return cast("AbstractContextManager[object]", compiling.listening(compiling.Progress()))
