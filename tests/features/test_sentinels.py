"""Numbers that mark missing values are found whatever numbers a column holds."""

import math

import pytest

from streamnb.features.schema_inference import FieldSummary
from streamnb.features.sentinels import sentinel_remedy, sentinels_of


def summary(values):
    seen = FieldSummary()
    for value in values:
        seen.add(value)
    return seen


ORDINARY = [float(value) for value in range(20)]


@pytest.mark.parametrize(
    "strange", [math.nan, math.inf, -math.inf, 10**400, -(10**400), 1.7e308, True, None, "x"]
)
def test_a_sentinel_is_found_beside_any_value(strange):
    seen = summary([*ORDINARY, -999, -999.0, -999, strange, strange, strange])
    assert -999.0 in sentinels_of(seen)
    assert "-999" in sentinel_remedy(seen, has_cells=True)


def test_what_is_missing_already_is_no_sentinel():
    assert sentinels_of(summary([*ORDINARY, *[math.inf, math.nan, 10**400] * 9])) == {}
