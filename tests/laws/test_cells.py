"""What a cell becomes is the same by every way in, and what docs/formats.md says; `cells` has the cases."""

from __future__ import annotations

from functools import partial

import pytest

from tests.laws import cells
from tests.laws.cells import FRAMES, JSON, PAGE, PARQUET, ROLES, TABLE, TABLES, Case


def expected(case, roles=ROLES):
    return {role: getattr(case, role) for role in roles if getattr(case, role)}


def named(case):
    return f"{case.cell} {case.columns or ''}"


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@pytest.mark.parametrize("case", TABLES, ids=named)
def test_what_a_cell_of_text_becomes(case, ending, tmp_path):
    for one in case.each():
        assert {role: cells.by_table(tmp_path, ending, one, role) for role in ROLES} == expected(case)


@pytest.mark.parametrize("case", JSON, ids=named)
def test_what_a_value_of_json_becomes(case, tmp_path):
    for one in case.each():
        assert {role: cells.by_json(tmp_path, one, role) for role in ROLES} == expected(case)


@pytest.mark.parametrize("case", PARQUET, ids=named)
def test_what_a_value_of_parquet_becomes(case, tmp_path):
    for one in case.each():
        assert {role: cells.by_parquet(tmp_path, one, role) for role in ROLES} == expected(case)


@pytest.mark.parametrize("case", FRAMES, ids=named)
def test_what_a_value_of_a_data_frame_becomes(case):
    held = expected(case)
    assert held["feature"]
    for one in case.each():
        assert {role: cells.by_frame(one, role) for role in held} == held


def test_the_page_says_what_the_cases_give():
    assert TABLE.search(PAGE.read_text()).group() == cells.table(), "python -m tests.laws.cells --write"


def test_numbers_and_booleans_have_one_name_on_every_way_in(tmp_path):
    """As labels: 1, 1.0 and the decimal 1.00 are the class "1"; JSON takes no numbers."""
    import pyarrow as pa

    ways = [partial(cells.by_table, tmp_path, ending) for ending in (".csv", ".tsv")]
    for given in ("1", "1.0", "1.00"):
        assert {way(Case("", given, ""), "label") for way in ways} == {'"1"'}
    for kind in (pa.int8(), pa.float64(), pa.float16(), pa.decimal128(5, 2), pa.uint64()):
        array = pa.array([1.0]).cast(kind)
        assert cells.by_parquet(tmp_path, Case("", array, ""), "label") == '"1"'
        assert cells.by_parquet(tmp_path, Case("", array, ""), "feature") == "1"
