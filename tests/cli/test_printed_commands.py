"""Each command that a message prints is a whole command: the parser takes it."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

import streamnb
from streamnb.cli.parser import build_parser
from streamnb.runtime.next_commands import commands_in

PACKAGE = Path(streamnb.__file__).parent
NAMES = "|".join(
    name for action in build_parser()._actions for name in (action.choices or ()) if action.dest != "help"
)
BARE = re.compile(rf"(?<![`\w.-])streamnb (?:{NAMES})\b(?! \|)")
ALONE = re.compile(rf"streamnb (?:{NAMES})(?: [a-z]+)?")
QUOTED = re.compile(r"`streamnb [^`]*`")
PLAIN = {
    "cli/commands/demo.py",
    "cli/commands/init.py",
    "evaluation/evaluation_page.py",
    "serving/dead_letter_view.py",
}
"""Files of pages, and of output that has commands on lines of their own."""


def texts():
    """Each text in the package that is not a docstring, with 1 for each value in it: file, line, text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        inner = {id(part) for node in joined for part in node.values}
        inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in inner:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.relative_to(PACKAGE).as_posix(), node.lineno, node.value
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "1" for part in node.values]
                yield path.relative_to(PACKAGE).as_posix(), node.lineno, "".join(parts)


FOUND = sorted(
    {
        (file, command)
        for file, _, text in texts()
        for command in commands_in(text)
        if "COMMAND" not in command
    }
)


def test_a_command_stands_in_backticks():
    bare = [
        (file, line, text)
        for file, line, text in texts()
        if file not in PLAIN and not ALONE.fullmatch(text) and BARE.search(QUOTED.sub("", text))
    ]
    assert bare == []
    assert len(FOUND) > 40


@pytest.mark.parametrize(("file", "command"), FOUND)
def test_a_command_is_whole(file, command, capsys):
    _, *arguments = shlex.split(re.sub(r"\{\w+\}", "1", command))
    if not command.startswith("streamnb "):
        return
    code = 0
    try:
        build_parser().parse_args(arguments)
    except SystemExit as end:
        code = end.code
    assert code == 0, f"{file}: {command}: {capsys.readouterr().err}"
