"""docs/texts.md shows texts of many languages with their tokens; each row is computed."""

import re
from pathlib import Path

import pytest

from streamnb.features.tokenizer import words

PAGE = Path(__file__).parents[2] / "docs" / "texts.md"
ROWS = re.findall(r"^\| (\w+) \| `(.+?)` \| (`.+`) \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("language", "text", "tokens"), ROWS)
def test_row(language, text, tokens):
    assert words(text) == re.findall("`(.+?)`", tokens), language


def test_the_page_has_the_scripts_that_differ():
    assert {"Hindi", "Thai", "Chinese", "Japanese", "Korean", "Arabic", "Turkish"} <= {row[0] for row in ROWS}
