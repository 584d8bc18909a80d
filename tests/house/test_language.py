"""Docstrings, comments, messages and pages read at the first reading; no file may get worse."""

from __future__ import annotations

import ast
import json
import re

import pytest

from tests.house import language


@pytest.fixture(scope="module")
def counted():
    return {path.relative_to(language.ROOT).as_posix(): language.measure(path) for path in language.files()}


def test_no_file_has_more_turns_than_its_budget(counted):
    """`python -m tests.house.language FILE` shows them; rephrase, for a budget never rises."""
    budgets = json.loads(language.BUDGETS.read_text())
    over = {
        name: f"{turns} of at most {most}"
        for name, (turns, words) in counted.items()
        if turns > (most := language.allowed(name, words, budgets))
    }
    assert over == {}


def test_budgets_are_those_of_files_that_need_one(counted):
    """`python -m tests.house.language --write` lowers them."""
    budgets = json.loads(language.BUDGETS.read_text())
    assert {name: n for name, n in budgets.items() if name not in counted or n > counted[name][0]} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What a learner is told to do.", ["What", "told"]),
        ("Return the label, or None where it is not known.", ["where it"]),
        ("learned anew, once more", ["anew", "once more"]),
        ("Raise LogError if the topic does not exist.", []),
        ("A model for texts that are not labelled", []),
        ("the file where the state is kept", []),
    ],
)
def test_what_is_counted(text, found):
    assert language.TURNS.findall(text) == found


def test_code_is_not_counted(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Use `tell`.\n\n```sh\nwho says\n```\n")
    module = tmp_path / "module.py"
    module.write_text('told = {"who": 1}\n# Nobody knows.\n\n\ndef said():\n    """Return who said it."""\n')
    assert language.measure(page)[0] == 0
    assert language.measure(module) == (3, 6)


NO_VERB = re.compile(r"(?:An?|The|About|Over|In|From|If|When|Within|Called|\w+ing|\w+[^\Ws]s)\b")
VERBS = re.compile(r"(?:Bring|Process|Pass|Compress|Express|Access|Discuss|Ping|Bias)\b")


def without_verb(source):
    """Functions whose docstring begins with no imperative, which D401 does not see; properties have nouns."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("property" in ast.unparse(one) for one in node.decorator_list)
        and not node.name.startswith("__")
        and (said := ast.get_docstring(node))
        and NO_VERB.match(said)
        and not VERBS.match(said)
    ]


def test_docstrings_of_functions_begin_with_a_verb():
    files = {path: without_verb(path.read_text()) for path in language.ROOT.glob("streamnb/**/*.py")}
    assert {str(path): found for path, found in files.items() if found} == {}


@pytest.mark.parametrize(
    ("opening", "is_found"),
    [("Returns the label.", True), ("Loading a model.", True), ("The label.", True), ("Process it.", False)],
)
def test_a_planted_docstring_without_a_verb_is_found(opening, is_found):
    assert without_verb(f'def planted():\n    """{opening}"""\n') == ["planted"] * is_found
