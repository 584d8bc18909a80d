"""The commands and their arguments."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from streamnb.values.parameter_checks import did_you_mean

_GROUPS = {
    "to begin with": ("demo", "sample", "init", "evaluate", "compare"),
    "learn from a log": ("run", "convert", "score", "replay", "label", "labels", "rebuild", "forget"),
    "ask": ("predict", "explain", "token", "serve", "dashboard", "inspect", "read"),
    "prove and repair": ("verify", "dlq", "snapshot", "journal", "doctor"),
    "learn in shards": ("model",),
    "set up": ("config", "topics", "warm"),
    "without a stream": ("joint",),
}
_WITH_ACTIONS = {"dlq", "journal", "labels", "model", "snapshot"}
"""Commands whose actions take different arguments."""
_TABLES = "JSON lines, or by its name as .csv, .tsv or .parquet"
_AHEAD = 86400.0  # seconds of tolerated clock skew
_FILES = (
    "events in one of the formats of docs/formats.md, such as JSON lines, CSV or ARFF; - is standard input"
)
_WIDEST = 100  # columns: longer lines are hard to read
_Command = Callable[..., argparse.ArgumentParser]
"""Makes the parser of a command from its name and summary."""


def _width() -> int:
    return min(shutil.get_terminal_size().columns - 2, _WIDEST)


class _Help(argparse.HelpFormatter):
    """Help as wide as the terminal, within reason; the usage leaves options to their list."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, max_help_position=26, width=_width())

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: str | None = None
    ) -> None:
        """Show only required arguments; in full if argparse derives a name, which has no prefix."""
        if prefix is None:
            needed = [action for action in actions if action.required or not action.option_strings]
            actions, groups = [argparse.Action([], "options", metavar="[OPTIONS]"), *needed], []
        super().add_usage(usage, actions, groups, prefix)


class _Overview(_Help, argparse.RawDescriptionHelpFormatter):
    """Help whose lines are already wrapped."""


class _Parser(argparse.ArgumentParser):
    """Parser with this help format, also for commands and actions.

    Attributes:
        given: arguments of the whole command line; they may select the format of errors.
    """

    given: Sequence[str] = ()

    def __init__(self, *, formatter_class: Any = _Help, **more: Any) -> None:
        super().__init__(formatter_class=formatter_class, **more)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a whole command line."""
        _Parser.given = sys.argv[1:] if args is None else args
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Exit with the usage and, for an invalid choice, a suggestion."""
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
        known = () if found is None else re.findall(r"[\w.-]+", found[2])
        text = message + ("" if found is None else did_you_mean(found[1], known))
        runner = importlib.import_module("streamnb.cli.command_runner")  # --help needs none of it
        if not runner.report_usage(self.prog, text, self.given):
            super().error(text)
        self.exit(2)


def build_parser() -> _Parser:
    """Build the parser of the whole command line."""
    text = "A streaming Bayesian classifier: it predicts each event of a log, then learns it."
    parser = _Parser(
        prog="streamnb",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description=textwrap.fill(text, _width()),
        formatter_class=_Overview,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and stop")
    commands = parser.add_subparsers(prog="streamnb", metavar="COMMAND", help=argparse.SUPPRESS)

    def command(name: str, summary: str, *, configured: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=summary, description=_sentence(summary))
        made.set_defaults(module=name)
        if name in _WITH_ACTIONS:
            return made
        return _add_common(made, configured=configured, has_log=configured and name != "warm")

    _add_trials(command)
    _add_init(command("init", "look at events, and write a configuration that fits them"))

    _add_services(command)

    replay = command("replay", "write the events of a file to a topic of the log")
    replay.add_argument("file", help=_FILES)
    _add_more(replay)
    replay.add_argument("--topic", help="the topic (default: the first of topics.events)")
    text = "events a second (default: as fast as possible)"
    replay.add_argument("--rate", type=_positive, metavar="N", help=text)
    text = "path of the record key in an event, such as $.features.sender (default: its entity, else its id)"
    replay.add_argument("--key", metavar="PATH", help=text)
    _add_csv(replay)

    _add_evaluate(command("evaluate", "predict each event, then learn it, and score the predictions"))
    _add_compare(
        command("compare", "rank configurations and classifiers by their predictions of the same events")
    )

    inspect = command("inspect", "show what has been learned: classes, priors, strongest attributes")
    _add_top(inspect, "attributes for each class")
    text = "also the parameters of naive Bayes: P(a | v) with its smoothing, and their number"
    inspect.add_argument("--details", action="store_true", help=text)

    _add_questions(command)

    read = command("read", "print the records of one topic of the log, as JSON lines")
    read.add_argument("topic", help="such as predictions, metrics, dead-letters or journal")
    text = "begin at this offset of each partition (default: 0; of --follow: its end)"
    read.add_argument("--from", dest="start", type=_whole, metavar="N", help=text)
    read.add_argument("--limit", type=_positive_int, metavar="N", help="print at most N records")
    which = read.add_mutually_exclusive_group()
    text = "print whatever comes, until interrupted or up to --limit"
    which.add_argument("--follow", action="store_true", help=text)
    text = "print the last record of each key, as of the topic of tenants"
    which.add_argument("--latest", action="store_true", help=text)

    _add_labels(command)
    _add_operations(command)

    _add_joint(command("joint", "ask a joint probability table, written as CSV", configured=False))
    warm = command("warm", "compile the kernels that the configuration needs now, and keep them on disk")
    warm.add_argument("--all", action="store_true", help="whatever the configuration: for images and wheels")
    parser.epilog = _in_groups(commands.choices)
    return parser


def _in_groups(commands: Mapping[str, argparse.ArgumentParser]) -> str:
    groups = [
        f"{title}:\n"
        + "\n".join(
            textwrap.fill(
                commands[name].description or "",
                _width(),
                initial_indent=f"  {name:<10} ",
                subsequent_indent=" " * 13,
            )
            for name in names
        )
        for title, names in _GROUPS.items()
    ]
    told = "`streamnb COMMAND --help` shows what a command takes."
    codes = textwrap.fill("Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.", _width())
    return "\n\n".join([*groups, f"{told}\n{codes}"])


def _add_trials(command: _Command) -> None:
    text = "stream real and made-up data through the embedded log, and show it learn"
    demo = command("demo", text, configured=False)
    demo.add_argument("--folder", help="keep the logs here (default: a temporary folder)")
    text = "made-up support tickets (default: %(default)s)"
    demo.add_argument("--events", type=_positive_int, default=20_000, help=text)

    sample = command("sample", "write a file of made-up support tickets to try things out", configured=False)
    text = "a new file: CSV where its name ends with .csv, else JSON lines; - is standard output"
    sample.add_argument("file", help=text)
    sample.add_argument("--events", type=_positive_int, default=1000, help="how many (default: %(default)s)")
    sample.add_argument(
        "--seed", type=_whole, default=0, help="seed of the random draws (default: %(default)s)"
    )


def _add_services(command: _Command) -> None:
    run = command("run", "learn from the log: predictions and metrics go to their topics")
    how_far = run.add_mutually_exclusive_group()
    text = "only print what would be predicted of the next N records; nothing is written or joined"
    how_far.add_argument("--dry-run", type=_positive_int, metavar="N", help=text)
    text = "stop at the end of the log, after transactions that producers have open"
    how_far.add_argument("--until-end", action="store_true", help=text)
    text = "end with all scores, the hypotheses, and the strongest words and values of each class"
    run.add_argument("--details", action="store_true", help=text)
    text = "continue although events were deleted before they were learned, or a topic was recreated"
    run.add_argument("--accept-loss", action="store_true", help=text)
    text = "end, also at a takeover, if the configuration differs from the journal's (exit code 2)"
    run.add_argument("--refuse-changes", action="store_true", help=text)
    text = "publish no predictions: scorers do (`streamnb score`), from here on and for good"
    run.add_argument("--learn-only", action="store_true", help=text)

    convert = command("convert", "turn records of other topics into events and labels, exactly once")
    how_far = convert.add_mutually_exclusive_group()
    text = "only print what the first N records of each source would become; nothing is written"
    how_far.add_argument("--dry-run", type=_positive_int, metavar="N", help=text)
    how_far.add_argument("--until-end", action="store_true", help="stop at the end of all sources")

    score = command("score", "predict events in place of a running learner, together with other scorers")
    text = "continue although events were deleted before they were predicted"
    score.add_argument("--accept-loss", action="store_true", help=text)


def _add_questions(command: _Command) -> None:
    predict = command("predict", "predict a message, or each event of a file, by the newest snapshot")
    text = "a text or a JSON object; or a file, as `evaluate` reads it; - is standard input"
    predict.add_argument("event", metavar="TEXT|FILE", help=text)
    _add_more(predict)
    text = f"write the predictions here, as {_TABLES}"
    predict.add_argument("--out", metavar="FILE", help=text)
    _add_csv(predict)
    explain = command("explain", "explain the label of a message, and show what would change it")
    text = "a text or a JSON object; - is standard input"
    explain.add_argument("event", nargs="?", metavar="TEXT", help=text)
    _add_event_of_log(explain)
    explain.add_argument("--against", metavar="LABEL", help="another label (default: the next one)")
    _add_top(explain, "words and values to show")
    token = command("token", "show counts and weights of one word or value")
    token.add_argument("word", metavar="WORD", help="a word of a text, or a nominal value")
    for made in (predict, explain, token):
        text = "snapshot of journal record N, or a file or folder (default: the newest of the log)"
        made.add_argument("--snapshot", metavar="N|FILE", help=text)
    for name, what in (
        ("serve", "follow a running learner, and answer questions over HTTP"),
        ("dashboard", "show a running learner as a live page, and correct labels there"),
    ):
        _add_serving(command(name, what))


def _add_event_of_log(explain: argparse.ArgumentParser) -> None:
    explain.add_argument("--id", metavar="ID", help="an event of the log, the last one that has this id")
    text = "an event of the log, by its partition and offset"
    explain.add_argument("--place", metavar="[TOPIC/]N/OFFSET", help=text)
    text = "search the newest N predictions for --id (default: %(default)s)"
    explain.add_argument("--look-back", type=_positive_int, default=1_000_000, metavar="N", help=text)
    which = explain.add_mutually_exclusive_group()
    which.add_argument("--at", metavar="N|FILE", help="also show the explanation by this snapshot")
    text = "derive the published prediction of the event again, and show the evidence of then"
    which.add_argument("--as-served", action="store_true", help=text)


def _add_serving(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--listen", default="127.0.0.1:8000", metavar="HOST:PORT", help="(default: %(default)s)"
    )
    for flag, what in (
        ("--token-file", "one token with all roles, or lines NAME ROLE[,ROLE] SHA256; clients must send one"),
        ("--certificate", "TLS certificate with its chain, as PEM"),
        ("--private-key", "key of the certificate, as PEM"),
    ):
        serve.add_argument(flag, metavar="FILE", help=what)
    serve.add_argument("--behind-proxy", action="store_true", help="a proxy in front of this does TLS")
    text = "pages of this origin may ask, too, such as https://shop.example; may be repeated"
    serve.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=text)
    text = "requests a second of each client, after a burst of 200 (default: %(default)g)"
    serve.add_argument("--rate", type=_positive, default=1000.0, metavar="N", help=text)


def _add_labels(command: _Command) -> None:
    label = command("label", "label an event late, or correct its label")
    label.add_argument("id", nargs="?", metavar="ID", help="id of the event")
    label.add_argument("label", nargs="?", metavar="LABEL", help="its class")
    label.add_argument("--withdraw", action="store_true", help="retract the label of the source")
    label.add_argument("--source", metavar="NAME", help="source of the label (default: default)")
    label.add_argument("--weight", type=_not_negative, default=1.0, help="in examples (default: %(default)g)")
    text = "time of the label, in seconds since the epoch (default: now)"
    label.add_argument("--ts", type=_moment, metavar="T", help=text)
    label.add_argument("--file", metavar="FILE", help="JSON lines, each a label; - is standard input")

    action = _actions(command("labels", "withdraw all labels of one source"))
    withdraw = action("withdraw", "retract all labels of a source for waiting events")
    withdraw.add_argument("--source", required=True, metavar="NAME", help="whose labels")
    text = "only labels since this time, in seconds since the epoch"
    withdraw.add_argument("--since", type=_moment, metavar="T", help=text)
    command("rebuild", "retrain the model from the log with the current labels, and install it")
    forget = command("forget", "remove the contribution of these events from the model")
    which = forget.add_mutually_exclusive_group(required=True)
    which.add_argument("--ids", metavar="FILE", help="ids of the events, one a line; - is standard input")
    which.add_argument("--key", metavar="KEY", help="the key of their records")
    which.add_argument("--where", metavar="FIELD=VALUE", help="an attribute, and its value")
    text = 'rows that were deleted, of sources with deletes = "forget"'
    which.add_argument("--deleted", action="store_true", help=text)


def _add_operations(command: _Command) -> None:
    config = command("config", "check or show the configuration, or look for keys without effect")
    config.add_argument("action", choices=["check", "lint", "show"])

    verify = command("verify", "recount the log, and compare the result with the model")
    text = "also retrain the model of the last rebuild or forget, and compare"
    verify.add_argument("--rebuilt", action="store_true", help=text)
    text = "also show that the model never saw these events: ids, one a line; - is standard input"
    verify.add_argument("--forgotten", metavar="FILE", help=text)

    action = _actions(command("dlq", "list the dead letters, show one, send them again, or skip them"))
    listed = action("list", "show how many there are, and the last ones")
    text = "number shown of each partition (default: %(default)s)"
    listed.add_argument("--limit", type=_positive_int, default=20, metavar="N", help=text)
    shown = action("show", "show all of one, and its outcome under the current configuration")
    shown.add_argument("place", metavar="PARTITION/OFFSET", help="as `streamnb dlq list` has it")
    again = action("replay", "send again those that can be read now, each exactly once")
    text = "send only these (default: all that were not sent before)"
    again.add_argument("places", nargs="*", metavar="PARTITION/OFFSET", help=text)
    text = "send dead letters with this reason; may be repeated"
    again.add_argument("--reason", action="append", default=[], metavar="REASON", help=text)
    again.add_argument("--dry-run", action="store_true", help="only show the result")
    skipped = action("skip", "settle some without sending them: they wait no more, and are never sent")
    skipped.add_argument(
        "places", nargs="*", metavar="PARTITION/OFFSET", help="as `streamnb dlq list` has it"
    )
    text = "skip the dead letters with this reason that wait; may be repeated"
    skipped.add_argument("--reason", action="append", default=[], metavar="REASON", help=text)
    skipped.add_argument("--dry-run", action="store_true", help="only show the result")

    _add_model(
        _actions(command("model", "add the models of learners that share a stream, or write them as text"))
    )

    action = _actions(command("snapshot", "list or compare snapshots, or return to an earlier state"))
    action("list", "show which snapshots there are")
    diff = action("diff", "show what was learned between two journal records")
    diff.add_argument("before", type=_whole, metavar="N", help="journal record")
    diff.add_argument("after", type=_whole, metavar="M", help="journal record (default: the last)", nargs="?")
    _add_top(diff, "attributes to show")
    text = "return to the state of an earlier journal record; no learner may be running"
    rollback = action("rollback", text)
    rollback.add_argument("--to", type=_whole, required=True, metavar="N", help="journal record")
    text = "roll back even if the present state cannot be recovered, and so cannot be restored later"
    rollback.add_argument("--without-return", action="store_true", help=text)

    journal = command("journal", "skip foreign records in the journal topic")
    text = "skip the records at these offsets from now on; no learner may be running"
    skip = _actions(journal)("skip", text)
    text = "offset in the journal topic; FIRST-LAST is a range"
    skip.add_argument("offsets", nargs="+", type=_offsets, metavar="OFFSET", help=text)

    topics = command("topics", "show or create the topics that the model needs, and show their ACLs")
    topics.add_argument("action", choices=["plan", "create"])
    topics.add_argument("--principal", metavar="NAME", help="principal of the ACLs (default: kafka.username)")

    doctor = command("doctor", "diagnose log, topics, permissions and this machine")
    text = "timeout of each request (default: %(default)g)"
    doctor.add_argument("--timeout", type=_positive, default=10.0, metavar="SECONDS", help=text)


def _add_model(action: _Command) -> None:
    what = "the configuration of a learner, or a file that `export` wrote"
    merge = action("merge", "publish the sum of shards' models, for `serve` and `score` to follow")
    merge.add_argument("shards", nargs="+", metavar="SHARD", help=what)
    when = merge.add_mutually_exclusive_group()
    text = "repeat at this interval until stopped (default: once)"
    when.add_argument("--every", type=_positive, metavar="SECONDS", help=text)
    when.add_argument("--out", metavar="FILE", help="write the sum as text instead; - is standard output")
    export = action("export", "write what a learner has committed as text: one fact a line, sorted")
    export.add_argument("--out", metavar="FILE", help="(default: standard output)")
    diff = action("diff", "show the differences of two models")
    diff.add_argument("before", metavar="A", help=what)
    diff.add_argument("after", metavar="B", help="as A")
    _add_top(diff, "attributes to show")


def _add_joint(joint: argparse.ArgumentParser) -> None:
    text = "CSV: a column for each variable, and one of probabilities; - is standard input"
    joint.add_argument("file", help=text)
    text = 'such as "P(burglary=yes | alarm)", "argmax burglary | alarm=yes" or "smart _|_ study"'
    joint.add_argument("query", nargs="+", help=text)
    text = "the numbers are counts: divide them by their sum"
    joint.add_argument("--counts", action="store_true", help=text)
    text = "column of the probabilities (default: probability, count, or the last)"
    joint.add_argument("--column", metavar="NAME", help=text)
    text = "largest |P(a, b) - P(a) P(b)| that counts as independent (default: %(default)g)"
    joint.add_argument("--tolerance", type=_not_negative, default=1e-9, metavar="X", help=text)
    joint.add_argument(
        "--delimiter", type=_delimiter, default=",", metavar="C", help="CSV separator (default: %(default)s)"
    )


def _add_top(made: argparse.ArgumentParser, what: str) -> None:
    made.add_argument("--top", type=_positive_int, default=10, help=f"{what} (default: %(default)s)")


def _add_more(made: argparse.ArgumentParser) -> None:
    made.add_argument("more", nargs="*", metavar="FILE", help="more files, which are read in the same way")


def _add_csv(made: argparse.ArgumentParser) -> None:
    text = "format of the file, such as csv or arff (default: by its name, else by its content)"
    made.add_argument("--format", metavar="NAME", help=text)
    made.add_argument("--member", metavar="NAME", help="file in a ZIP archive (default: all of them)")
    for role in ("id", "label", "text", "ts"):
        made.add_argument(
            f"--{role}-column", default=role, metavar="NAME", help="CSV column (default: %(default)s)"
        )
    text = "CSV separator (default: comma, tab, semicolon, bar or blanks, sniffed in the first rows)"
    made.add_argument("--delimiter", type=_delimiter, metavar="C", help=text)
    text = "the first line of CSV names the columns; else they are c1, c2, ... (default: sniffed)"
    made.add_argument("--header", action=argparse.BooleanOptionalAction, help=text)
    text = "lines to skip above the table of CSV (default: titles and comments, sniffed)"
    made.add_argument("--skip", type=_whole, metavar="N", help=text)
    text = "character that begins lines to skip in CSV (default: sniffed)"
    made.add_argument("--comment", type=_mark, metavar="C", help=text)
    text = "CSV cells that mean a missing value, in addition to empty ones, such as NA,?; may be repeated"
    made.add_argument("--missing", default="", metavar="CELLS", action=_Joined, help=text)
    text = "decimal separator of numbers in CSV (default: sniffed, else a point)"
    made.add_argument("--decimal", type=_separator, metavar="C", help=text)
    text = "thousands separator of numbers in CSV (default: sniffed, else none)"
    made.add_argument("--thousands", type=_separator, metavar="C", help=text)
    text = (
        """character that encloses CSV cells (default: ", or ' if each of the first rows has such a cell)"""
    )
    made.add_argument("--quote", type=_mark, metavar="C", help=text)
    text = "let the quote enclose CSV cells (default: yes; with tabs, detected in the first rows)"
    made.add_argument("--quoting", action=argparse.BooleanOptionalAction, help=text)
    text = "encoding of CSV and JSON lines, such as cp1252 (default: UTF-8, or UTF-16 by its byte order mark)"
    made.add_argument("--encoding", type=_encoding, metavar="NAME", help=text)


def _add_init(init: argparse.ArgumentParser) -> None:
    text = "file of events, as for `evaluate` (default: a topic of the log)"
    init.add_argument("file", nargs="?", help=text)
    _add_more(init)
    init.add_argument("--topic", help="the topic to look at (default: the first of topics.events)")
    text = "number of events to look at (default: %(default)s)"
    init.add_argument("--events", type=_positive_int, default=10_000, help=text)
    text = "a new file (default: %(default)s)"
    init.add_argument("--out", default="streamnb.toml", metavar="FILE", help=text)
    _add_csv(init)


def _add_evaluate(evaluate: argparse.ArgumentParser) -> None:
    text = f"{_FILES} (default: what a learner has read from the log, with late labels)"
    evaluate.add_argument("file", nargs="?", help=text)
    _add_more(evaluate)
    _add_row_order(evaluate)
    text = "learn this share of the rows first, such as 2/3, then score the rest without learning it"
    evaluate.add_argument("--holdout", metavar="SHARE", help=text)
    text = "seed of --delay, --reveal and --noise (default: %(default)s)"
    evaluate.add_argument("--seed", type=_whole, default=0, help=text)
    text = (
        "delay labels by a number of events, or by event time: 500, 2h, or exponential:500 on average; or by "
        "the number of events in between that is at a path"
    )
    evaluate.add_argument("--delay", metavar="N|TIME|PATH", help=text)
    text = (
        "reveal labels of this share of the events, or of those with true at this path; the rest is "
        "scored, and not learned"
    )
    evaluate.add_argument("--reveal", metavar="SHARE|PATH", help=text)
    text = "share of labels that are wrong at first, and corrected after another delay"
    evaluate.add_argument("--noise", type=_not_negative, default=0.0, metavar="SHARE", help=text)
    text = (
        "evaluate this classifier, or the result of this function, in place of the configured model: any "
        "of streamnb or River, from a module that can be imported here"
    )
    evaluate.add_argument("--model", metavar="MODULE:NAME", help=text)
    evaluate.add_argument("--predictions", metavar="FILE", help=f"write the predictions here, as {_TABLES}")
    text = "write a report here, as one HTML file with charts"
    evaluate.add_argument("--report", metavar="FILE", help=text)
    text = "show all scores, the calibration curve, and the hypotheses"
    evaluate.add_argument("--details", action="store_true", help=text)
    _add_csv(evaluate)


def _add_row_order(made: argparse.ArgumentParser) -> None:
    order = made.add_mutually_exclusive_group()
    text = "take the rows in this order (0-based numbers, one a line)"
    order.add_argument("--order", metavar="FILE", help=text)
    text = "take the rows in a random order of this seed (default: 0), through a temporary file"
    order.add_argument("--shuffle", type=_whole, nargs="?", const=0, metavar="SEED", help=text)
    text = "leave out this attribute, such as one that is known only after the label; may be repeated"
    made.add_argument("--drop", action="append", default=[], metavar="NAME", help=text)
    text = 'group labels by a JSON object: {"rec.autos": "like", "sci.med": "dislike"}; null hides one'
    made.add_argument("--map-labels", metavar="FILE", help=text)


def _add_compare(compare: argparse.ArgumentParser) -> None:
    text = "as `evaluate` reads it (default: what a learner has read from the log, with late labels)"
    compare.add_argument("file", nargs="?", help=text)
    _add_more(compare)
    text = "one more model: the first configuration with these keys; may be repeated"
    compare.add_argument("--against", metavar="KEY=VALUE", action="append", nargs="+", default=[], help=text)
    text = "one more model: this classifier in place of the first configuration's; may be repeated"
    compare.add_argument("--model", metavar="MODULE:NAME", action="append", default=[], help=text)
    _add_row_order(compare)
    _add_csv(compare)


class _Several(argparse.Action):
    """Append each file to `configs`; `config` is the first."""

    def __call__(self, _parser: object, found: argparse.Namespace, value: Any, *_: object) -> None:
        found.configs = [*found.configs, value]
        found.config = found.configs[0]


class _Joined(argparse.Action):
    """Join the values of a repeated option by commas."""

    def __call__(self, _parser: object, found: argparse.Namespace, value: Any, *_: object) -> None:
        setattr(found, self.dest, ",".join(filter(None, [getattr(found, self.dest), value])))


def _actions(made: argparse.ArgumentParser) -> _Command:
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, summary: str) -> argparse.ArgumentParser:
        return _add_common(actions.add_parser(name, help=summary, description=_sentence(summary)))

    return action


def _add_common(
    made: argparse.ArgumentParser, *, configured: bool = True, has_log: bool = True
) -> argparse.ArgumentParser:
    if has_log:
        text = "the log, such as sqlite:///events.db (default: log.url)"
        made.add_argument("--log", metavar="URL", help=text)
    every = made.add_argument_group("options of every command")
    every.add_argument("--json", action="store_true", help="answer in JSON on standard output")
    text = (
        "messages as sentences, as lines with time and level, or as JSON lines (default: log_output.format)"
    )
    every.add_argument("--log-format", choices=("auto", "plain", "text", "json"), help=text)
    text = "the least level of messages (default: info)"
    every.add_argument("--log-level", choices=("info", "warning", "error"), help=text)
    if configured:
        if made.get_default("module") == "compare":
            text = "TOML configuration; each repetition is one more model"
            every.add_argument("--config", metavar="FILE", action=_Several, help=text)
            made.set_defaults(configs=[])
        else:
            every.add_argument("--config", metavar="FILE", help="TOML configuration")
        text = "set one key, such as model.alpha=0.1"
        every.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help=text)
    return made


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        # The import is late: no command needs importlib.metadata.
        print("streamnb", importlib.import_module("importlib.metadata").version("streamnb"))
        parser.exit()


def _whole(text: str, least: int = 0) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number < 2**63:
        limit = f"of at least {least}" if number < least else "below 2^63"
        raise argparse.ArgumentTypeError(f"expected a whole number {limit}, got {text!r}")
    return number


def _offsets(text: str) -> range:
    first, dash, last = text.partition("-")
    given = range(_whole(first), (_whole(last) if dash else _whole(first)) + 1)
    if not given:
        raise argparse.ArgumentTypeError(f"expected FIRST-LAST with FIRST no later than LAST, got {text!r}")
    return given


def _positive_int(text: str) -> int:
    return _whole(text, 1)


def _number(expected: str, is_right: Callable[[float], bool]) -> Callable[[str], float]:

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            if math.isfinite(number := float(text)) and is_right(number):
                return number
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")

    return read


_positive = _number("a finite number above 0", lambda number: number > 0)
_not_negative = _number("a finite number of 0 or more", lambda number: number >= 0)
_moment = _number(
    "a time until now, seconds since the epoch", lambda seconds: seconds <= time.time() + _AHEAD
)


def _delimiter(text: str) -> str:
    character = "\t" if text == "\\t" else text
    if len(character) != 1 + character[1:].isspace() or character[0] in '"\r\n':
        expected = "one character (or \\t), which a blank may follow"
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return character


def _mark(text: str) -> str:
    if len(text) != 1 or text.isalnum() or text.isspace():
        raise argparse.ArgumentTypeError(f"expected one character that is in no word, got {text!r}")
    return text


def _separator(text: str) -> str:
    if len(text) != 1 or text.isalnum() or text in '"+-\r\n':
        raise argparse.ArgumentTypeError(f"expected one character that is in no number, got {text!r}")
    return text


def _encoding(text: str) -> str:
    try:
        b"a".decode(text, "ignore")  # half a character of UTF-16
    except LookupError:
        expected = "an encoding that Python knows, such as cp1252, latin-1 or utf-16-le"
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}") from None
    return text
