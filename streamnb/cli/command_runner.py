"""Run a command: its log output, its errors in one line, and its exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import cast

from streamnb.config import LogOutputConfig, log_output
from streamnb.errors import ConfigError, SmallWeightWarning, StreamnbError, UndeclaredTextWarning
from streamnb.formats.terminal_text import note
from streamnb.runtime.context import layers
from streamnb.runtime.next_commands import next_command, repeating
from streamnb.telemetry.log_output import OUTPUT, cause_of, reported, text_of
from streamnb.values.messages import Message

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNCHECKED = frozenset(
    "after at before certificate config event file folder forgotten given id ids label log map_labels "
    "order out predictions private_key report set shards snapshot token_file".split()
)
"""Options that may hold a file name of arbitrary bytes, or whose own check rejects bad text."""
_SERVICES = frozenset({"run", "score", "serve", "dashboard"})
_USUAL = "streamnb.toml"
"""Output of `init`; never read implicitly, because it may belong to another stream."""


def run(options: argparse.Namespace) -> int:
    """Run the command of parsed options."""
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


def _early_settings(given: Sequence[str]) -> LogOutputConfig:
    """Return the settings of the environment, --log-format and --log-level, without the configuration."""
    flags = [word for one in given for word in one.split("=", 1)]
    return log_output(
        None,
        os.environ,
        [
            f"log_output.{flag.removeprefix('--log-')}={value}"
            for flag, value in pairwise(flags)
            if flag in {"--log-format", "--log-level"}
        ],
    )


def report_interruption() -> int:
    """Log an interruption before a command has begun; return the exit code."""
    with OUTPUT.attached():
        note(Message("command-interrupted", "interrupted", code=130))
    return 130


def report_usage(prog: str, text: str, given: Sequence[str]) -> bool:
    """Log an error of usage, unless messages are sentences, which argparse prints with the usage."""
    with OUTPUT.attached():
        OUTPUT.configure(_early_settings(given), is_service=not _SERVICES.isdisjoint(given[:1]))
        if OUTPUT.form == "plain":
            return False
        fields = {"cause": "usage", "code": 2, "command": f"{prog} --help"}
        note(Message("command-failed", f"{prog}: {text}", **fields))
        return True


def exit_code_of(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command, log an error in one line, and return the exit code."""
    settings = log_output(*layers(options)) if "config" in options else _early_settings(options.given)
    with OUTPUT.attached():
        is_trial = getattr(options, "dry_run", None) is not None
        is_service = getattr(options, "module", "") in _SERVICES and not is_trial
        OUTPUT.configure(settings, is_service=is_service)
        return _exit_code_of(command, options)


def _exit_code_of(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UndeclaredTextWarning
            )  # `seen_fields` reports it once for all events
            warnings.simplefilter("ignore", SmallWeightWarning)  # `Counters` counts them
            return command(options)
    except StreamnbError as error:
        return _failed(error, text_of(error), options, 2 if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        note(Message("command-interrupted", "interrupted", code=130))
        return 130
    except BrokenPipeError:  # the reader of our output has closed the pipe
        sys.stdout = None  # otherwise the interpreter complains at exit
        return 1
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        return _failed(error, f"{place}{error.strerror or error}", options, 1)
    except Exception as error:
        if OUTPUT.form == "plain" and OUTPUT.quotes:
            raise
        text = f"unexpected {type(error).__name__}: {text_of(error)}"
        return _failed(error, text, options, 1, **reported(error))


def _failed(error: Exception, text: str, options: argparse.Namespace, code: int, **more: str) -> int:
    command = next_command(error, text, options)
    fields = {"cause": cause_of(error), **more}
    note(Message("command-failed", text, code=code, command=command, **fields))
    return code


def _progress() -> AbstractContextManager[object]:
    """Report compilations of kernels, if this command can compile any."""
    if "numba" not in sys.modules:
        return nullcontext()
    compiling = importlib.import_module("streamnb.cli.compilation_progress")
    return cast("AbstractContextManager[object]", compiling.listening(compiling.Progress()))
