"""Each message, dead letter and problem has a stable name that is listed, used and documented."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter

import pytest

import streamnb
from streamnb.events import REASONS
from streamnb.formats.terminal_text import emit, note, warn
from streamnb.serving.problem_details import CODES
from streamnb.telemetry.log_output import OUTPUT
from streamnb.values.message_names import MESSAGES, PROBLEMS, WITHOUT_CONTENT, level_of
from streamnb.values.messages import Message

PACKAGE = Path(streamnb.__file__).parent
DOCS = PACKAGE.parent / "docs"
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SECTION = re.compile(r"^## (\w+)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `([a-z0-9-]+)` \| \S.* \|$", re.MULTILINE)
TITLES = {"Errors": "error", "Warnings": "warning", "Information": "info"}

EMITS = {
    "cli/__init__.py": {"parser.print_help"},  # usage, not a message
    "formats/terminal_text.py": {"LOGGER.getChild(message.event).log"},  # all messages come through here
    "kernels/wheel.py": {"sys.stderr.write"},  # of a build, which is no command
    "persistence/model_files.py": {"warnings.warn"},  # of a `Message`, at the frame that loads
    "telemetry/watchdog.py": {"os.write"},  # of a `Message`: the lock of standard error may be held
    "values/messages.py": {"warnings.warn"},  # of a `Message`
}
"""File -> calls that write to standard error or warn. Anything else bypasses the names."""
LOGGERS = re.compile(
    r"(\w*\.)*_?(logg?er|LOGG?ER|logging)(\..*)?\.(debug|info|warning|error|critical|exception|log)"
)
INNER = {"not-predicted", "left-out"}
"""Reasons of exceptions that a retraining catches; they are not published."""


def calls(source: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]


def called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def bypasses(source: str) -> set[str]:
    """The calls that say something without a name."""
    found = set()
    for node in calls(source):
        name, given = called(node), [*node.args, *(one.value for one in node.keywords)]
        is_error = {"sys.stderr", "sys.__stderr__", "_STDERR"} & set(map(ast.unparse, given))
        if name in {"warnings.warn", "sys.stderr.write", "sys.__stderr__.write"} or LOGGERS.fullmatch(name):
            found.add(name)
        if is_error and not name.startswith("faulthandler."):
            found.add(name)
    return found


def names_in(node: ast.expr) -> set[str] | None:
    """The names that an expression may be; None if the source does not say."""
    if isinstance(node, ast.IfExp):
        both = names_in(node.body), names_in(node.orelse)
        return None if None in both else both[0] | both[1]
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def sources(room: str = "") -> dict[str, str]:
    files = sorted((PACKAGE / room).rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in files}


def test_no_message_bypasses_the_names():
    assert {file: found for file, source in sources().items() if (found := bypasses(source))} == EMITS


@pytest.mark.parametrize(
    "planted",
    [
        'print("streamnb: odd", file=sys.stderr)',
        'sys.stderr.write("odd")',
        'os.write(_STDERR, b"odd")',
        'warnings.warn("odd", stacklevel=2)',
        '_LOGGER.warning("odd")',
        'logging.info("odd")',
        'logging.getLogger("streamnb").log(30, "odd")',
    ],
)
def test_a_planted_bypass_is_found(planted):
    assert bypasses(planted)


def test_each_message_has_a_listed_name_and_each_name_a_message():
    made = [
        (file, ast.unparse(node), names_in(node.args[0]))
        for file, source in sources().items()
        if file != "values/messages.py"
        for node in calls(source)
        if called(node) == "Message"
    ]
    assert [(file, text) for file, text, names in made if names is None] == []
    assert set().union(*(names for _, _, names in made)) == set(MESSAGES)


def test_each_message_of_a_service_about_events_has_a_sentence_without_their_content():
    """A new one must be there, or here; and its fields are those of the sentence."""
    free = {"labels-are-numbers", "weight-below-unit"}
    files = ("evaluation/data_quality.py", "evaluation/label_quality.py", "cli/commands/run.py")
    made = [node for file in files for node in calls(sources()[file]) if called(node) == "Message"]
    about_events = [node for node in made if names_in(node.args[0]) <= set(WITHOUT_CONTENT)]
    named = set().union(*(names_in(node.args[0]) for node in made if node not in about_events))
    of_run = {
        ast.unparse(node.args[0]).strip("'")
        for node in calls(sources()[files[2]])
        if called(node) == "Message"
    }
    assert named <= free | of_run
    for node in about_events:
        kept = {name for _, name, _, _ in Formatter().parse(WITHOUT_CONTENT[node.args[0].value]) if name}
        given = {one.arg for one in node.keywords}
        assert None in given or kept <= given, ast.unparse(node)
    assert set(WITHOUT_CONTENT) == {node.args[0].value for node in about_events} | {"python-warning"}


def test_each_reason_in_the_source_is_listed():
    found = set()
    for source in sources().values():
        for node in calls(source):
            if called(node) in {"refuse", "MalformedEvent"} and node.args:
                found |= names_in(node.args[0]) or set()
    assert found - INNER <= set(REASONS)
    assert {"oversize", "wrong-type", "label-record"} <= found


def test_each_code_in_the_source_is_listed_and_each_listed_code_is_used():
    found = set(CODES.values())
    for source in sources("serving").values():
        for node in calls(source):
            if called(node) in {"ProblemError", "_RefusedError", "problem", "encoded_problem", "_problem"}:
                codes = [*node.args[2:3], *(one.value for one in node.keywords if one.arg == "code")]
                found |= set().union(*(names_in(one) or set() for one in codes))
    assert found - {""} == set(PROBLEMS)


def test_names_are_in_kebab_case_and_a_message_is_no_reason_or_code():
    assert [name for name in (*MESSAGES, *REASONS, *PROBLEMS) if not KEBAB.fullmatch(name)] == []
    assert set(MESSAGES) & {*REASONS, *PROBLEMS} == set()


def test_the_pages_have_every_name():
    page = (DOCS / "messages.md").read_text()
    rows = [(name, TITLES[title]) for title, text in SECTION.findall(page) for name in ROW.findall(text)]
    assert len(rows) == len(dict(rows)), "each name has one row"
    assert dict(rows) == MESSAGES
    formats = (DOCS / "formats.md").read_text()
    assert [reason for reason in REASONS if f"\n| `{reason}` |" not in formats] == []
    codes = re.search(r"\| Status \| `code` \|\n(.*?)\n\n", (DOCS / "ask.md").read_text(), re.DOTALL)[1]
    assert set(re.findall(r"`([a-z0-9-]+)`", codes)) == set(PROBLEMS)


def test_a_message_is_its_text_and_keeps_its_name_when_it_is_reworded():
    message = Message("topic-empty", "no record\nyet", topic="t")
    assert message == "no record\nyet"
    again = message.reworded(f"file: {message}", file="f")
    assert (again, again.event, again.fields) == (
        "file: no record\nyet",
        "topic-empty",
        {"topic": "t", "file": "f"},
    )


@pytest.mark.parametrize(
    ("printing", "before"), [(emit, ""), (note, "streamnb: "), (warn, "streamnb: warning: ")]
)
def test_a_message_is_printed_in_one_line(capsys, printing, before):
    with OUTPUT.attached():
        printing(Message("topic-empty", "no record\nyet", topic="t"))
    assert capsys.readouterr().err == rf"{before}no record\nyet" + "\n"


def test_an_unlisted_name_is_not_printed():
    with pytest.raises(KeyError, match="no-such-name"):
        emit(Message("no-such-name", "text"))
    assert level_of("command-failed") == "error"
