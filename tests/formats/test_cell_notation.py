"""Cells as numbers: the fast ways agree with the patterns that define them."""

from __future__ import annotations

import math
import re

from hypothesis import example, given
from hypothesis import strategies as st

from streamnb.formats import cell_notation, table_dialect
from streamnb.formats.cell_notation import BOOLEANS, DIGITS, NUMBER, number_reader

LARGE = ["1e400", "1.0e999", "9" * 15, "9" * 16, "9" * 400, f"{2**53}", f"-{2**53 - 1}"]
ODD = [
    "true",
    " True",
    "nan",
    ".inf",
    "-0",
    "1.5 ",
    f" {2**60} ",
    "1_0.5",
    "\u0661.5",
    "1.5\u00a0",
    "1\u0661.5",
]
cells = st.text("019.eE+-_ \n:a\u0661\u00a0", max_size=7) | st.sampled_from(LARGE + ODD)


def reference(cell):
    stripped = cell.strip()
    if not NUMBER.fullmatch(stripped):
        return BOOLEANS.get(stripped, cell)
    number = float(stripped)
    if not math.isfinite(number):
        return cell
    if not DIGITS.fullmatch(stripped):
        return number
    return int(stripped) if abs(number) < 2.0**53 else stripped


@example(found=LARGE + ODD)
@given(found=st.lists(cells, max_size=9))
def test_cells_are_read_by_the_pattern_of_numbers(found):
    read = number_reader()
    assert [repr(read(cell)) for cell in found] == [repr(reference(cell)) for cell in found]


@example(found=["1\n2"])
@given(found=st.lists(cells, max_size=3))
def test_columns_of_plain_numbers_or_without_digits_have_no_notation(found):
    are_plain = all(map(NUMBER.fullmatch, found))
    expected = not are_plain and re.search(r"\d", "".join(found)) is not None
    assert cell_notation._may_have_notation(found) == expected


@given(found=st.lists(st.sampled_from(["1", "2.5", "a", ""]), max_size=40))
def test_nine_tenths_of_a_column_of_numbers_are_numbers(found):
    n = sum(cell[:1].isdigit() for cell in found)
    assert table_dialect._are_numbers(found) == (len(found) > 0 and 10 * n >= 9 * len(found))
