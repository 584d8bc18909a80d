"""Count turns of phrase that readers have to read twice, in docstrings, comments, messages and pages.

`python -m tests.house.language` prints the turns by file and for each 1,000 words; `--write` lowers the budgets
of `language_budgets.json` to what is found, and adds new files with at most 3 in 1,000 words. A budget never
rises. `FILE ...` prints the turns of some files with their lines.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BUDGETS = Path(__file__).with_suffix("").with_name("language_budgets.json")
LIMIT = 3.0
"""Turns in 1,000 words that a file without a budget may have."""

HABITS = {
    # A docstring that begins with a question word or a preposition, not with a verb or a noun.
    "opening": r"\A\s*(?:What|Which|Whether|Where|Who|Whoever|Of|How|That|By)\b",
    # Speech acts in place of print, return, raise, report or log.
    "speech": r"\b(?:tells?|told|telling|says?|said|saying|speaks?|spoken)\b",
    # Persons in place of the caller, the operator, the consumer.
    "person": r"\b(?:nobody|somebody|anybody|whoever|whom|who)\b",
    # A condition or reason in the words for a place or a purpose.
    "where": r"\bwhere (?:it|there|they|this|that|these|none|nothing|one|no|each|both|nobody|not)\b",
    "for": r"[,;:] for (?:it|they|there|this|that|these|those|he|she|we|one|no|each|else|nothing)\b",
    "is no": r"\b(?:is|are|was|were|be) no (?!longer|more|less|fewer|later|earlier|such)[a-z]",
    "is to": r"\b(?:is|are|was|were|has|have|had) to be\b",
    "so many": r"\bso (?:many|much|long|few) (?!that|as)\b",
    # Adverbs and particles that need a second reading.
    "anew": r"\banew\b",
    "beside": r"\bbesides?\b(?! the point)",
    "apart": r"\bapart\b(?! from)",
    "at hand": r"\bat hand\b",
    "by now": r"\bby (?:now|then)\b",
    "of late": r"\bof late\b",
    "likewise": r"\b(?:likewise|alike)\b",
    "once more": r"\bonce more\b",
    "go on": r"\b(?:goes?|going|went|gone) on\b",
    "as yet": r"\b(?:as yet|ere|lest|therein|thereof)\b",
    # Phrasal verbs that a plain verb replaces.
    "take up": r"\b(?:takes?|took|taken|taking) (?:it |them |that )?up\b",
    "put away": r"\bputs? (?:it |them )?away\b",
    "hand on": r"\bhand(?:s|ed|ing)? (?:it |them )?(?:on|over)\b",
    "come apart": r"\b(?:comes?|came|coming) (?:apart|in)\b",
    # Pronouns in place of the noun.
    "that of": r"\b(?:that|those) of\b",
    "the one": r"\bthe ones?\b",
    "other ones": r"\b(?:the others|other ones|another one)\b",
}
TURNS = re.compile("|".join(f"(?:{habit})" for habit in HABITS.values()), re.IGNORECASE)

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_CODE = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
_MESSAGE = re.compile(r"[A-Za-z']+ [a-z']+ [a-z']+")


class Text(NamedTuple):
    """A passage of prose and the line on which it begins."""

    line: int
    words: str


def texts(path: Path) -> Iterator[Text]:
    """Yield the prose of a Python file (docstrings, comments, messages) or of a Markdown page."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield Text(1, _CODE.sub(lambda found: "\n" * found[0].count("\n"), source))
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _MESSAGE.search(node.value):
            yield Text(node.lineno, _CODE.sub("", node.value))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string.lstrip("# "))


def files() -> list[Path]:
    """Return what is read: the package, its pages, the README and the guides."""
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    return sorted([*ROOT.glob("streamnb/**/*.py"), *pages])


def measure(path: Path) -> tuple[int, int]:
    """Return how many turns a file has, and how many words."""
    found = list(texts(path))
    turns = sum(len(TURNS.findall(text.words)) for text in found)
    return turns, sum(len(_WORD.findall(text.words)) for text in found)


def allowed(name: str, words: int, budgets: dict[str, int]) -> int:
    """Return how many turns a file may have: its budget, or `LIMIT` in 1,000 words."""
    return budgets.get(name, int(LIMIT * words / 1000))


def main(arguments: list[str]) -> int:
    budgets = json.loads(BUDGETS.read_text()) if BUDGETS.exists() else {}
    named = [Path(one).resolve() for one in arguments if not one.startswith("--")]
    for path in named:
        for text in texts(path):
            for found in TURNS.finditer(text.words):
                line = text.line + text.words.count("\n", 0, found.start())
                sys.stdout.write(f"{path.relative_to(ROOT)}:{line}: {found[0]!r}\n")
    if named:
        return 0
    counted = {path.relative_to(ROOT).as_posix(): measure(path) for path in files()}
    turns, words = (sum(column) for column in zip(*counted.values(), strict=True))
    sys.stdout.write(f"{turns:,} turns in {words:,} words: {1000 * turns / words:.1f} in 1,000\n")
    if "--write" in arguments:
        kept = {
            name: min(found, budgets.get(name, found))
            for name, (found, n) in counted.items()
            if min(found, budgets.get(name, found)) > int(LIMIT * n / 1000)
            and (name in budgets or not budgets)
        }
        BUDGETS.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
