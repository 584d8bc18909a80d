"""Measures streamnb (`make bench`, `make ablation`): what it costs, how long an event takes, what parts of a mixture bring.

python -m tests.benchmarks.measure bench FILE
"""

from __future__ import annotations

import argparse
import sys

from streamnb.cli.command_runner import exit_code_of
from streamnb.cli.parser import _add_common, _add_csv, _positive, _positive_int
from tests.benchmarks.measuring import ablate, bench, latency

COMMANDS = {"ablate": ablate, "bench": bench, "latency": latency}


def build_parser():
    parser = argparse.ArgumentParser(prog="measure.py", description="Measure streamnb.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    made = {}
    for name, summary in (
        (
            "ablate",
            "show what each part of a mixture brings: progressive validation without it, on each file",
        ),
        ("bench", "time the learner beside River and others, or the whole service on a log, in one run"),
        ("latency", "time events from produced to visible, beside loops that learn nothing"),
    ):
        made[name] = commands.add_parser(name, help=summary, description=f"{summary}.")
        made[name].set_defaults(run=COMMANDS[name].run)
        _add_common(made[name], has_log=False)
    for name in ("ablate", "bench"):
        made[name].add_argument(
            "--order", metavar="FILE", help="take the rows in this order (0-based numbers, one a line)"
        )
    _add_ablate(made["ablate"])
    _add_bench(made["bench"])
    _add_latency(made["latency"])
    return parser


def _add_ablate(made):
    made.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSON lines, CSV or TSV, plain or .gz or .zst; - is standard input",
    )
    made.add_argument("--markdown", action="store_true", help="print tables as Markdown, for a page")
    _add_csv(made)


def _add_bench(made):
    made.add_argument("file", nargs="?", help="JSON lines with text and label (default: generated messages)")
    made.add_argument(
        "--log",
        metavar="URL",
        help="time the whole service on this log, beside loops of the same client that only copy",
    )
    made.add_argument(
        "--events",
        type=_positive_int,
        default=50_000,
        help="with --log: so many, the file's again and again (default: %(default)s)",
    )
    made.add_argument(
        "--rounds", type=_positive_int, default=3, help="turns for each contender (default: %(default)s)"
    )
    made.add_argument(
        "--growth",
        type=_positive_int,
        nargs="?",
        const=10_000_000,
        metavar="N",
        help="instead: what a token costs and a word holds, with up to N words known (default: %(const)s)",
    )


def _add_latency(made):
    made.add_argument("--log", metavar="URL", help="the log, such as sqlite:///events.db (default: log.url)")
    for flag, default, meaning in (
        ("--rate", 1000.0, "events a second"),
        ("--seconds", 30.0, "time that counts, for each contender"),
        ("--warm-up", 5.0, "time before it, in seconds"),
    ):
        made.add_argument(
            flag, type=_positive, default=default, metavar="N", help=f"{meaning} (default: %(default)g)"
        )
    made.add_argument(
        "--bytes", type=_positive_int, default=200, metavar="N", help="of an event (default: %(default)s)"
    )
    made.add_argument(
        "--prefix",
        default="streamnb-latency",
        metavar="NAME",
        help="what the topics begin with that it makes and deletes (default: %(default)s)",
    )


def main(arguments=None):
    options = build_parser().parse_args(arguments)
    return exit_code_of(options.run, options)


if __name__ == "__main__":
    sys.exit(main())
