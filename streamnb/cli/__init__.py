"""The command line: arguments, exit codes, and one module for each command.

Only this package imports every room; each command imports what it needs when it runs. `parser.py` has
the commands and their arguments, and `command_runner.py` turns errors into one line and an exit code:

    0    done
    1    failed
    2    wrong usage or configuration
    130  interrupted
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from streamnb.cli.parser import build_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(given)
    except KeyboardInterrupt:  # while it loads
        code: int = importlib.import_module("streamnb.cli.command_runner").report_interruption()
        return code
    except BrokenPipeError:  # the reader of the help has closed the pipe
        sys.stdout = None  # otherwise the interpreter complains at exit
        return 1


def _run(given: list[str]) -> int:
    parser = build_parser()
    type(parser).given = given
    if "_ARGCOMPLETE" in os.environ:  # shell completion, if argcomplete is installed
        importlib.import_module("argcomplete").autocomplete(parser)
    first = given[0].partition("=")[0] if given else ""
    if first.startswith("--") and not any(own.startswith(first) for own in ("--help", "--version")):
        parser.error(f"{first} stands after the command: streamnb COMMAND {first} ...")
    options = parser.parse_args(given)
    options.given = given
    if "module" not in options:
        parser.print_help(sys.stderr)
        return 2
    runner = importlib.import_module("streamnb.cli.command_runner")  # --help needs none of it
    code: int = runner.exit_code_of(runner.run, options)
    return code
