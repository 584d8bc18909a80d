"""How a stream is cut is unobservable, whatever else happens to the model in between."""

from __future__ import annotations

import random

import pytest

from tests.models.mixture.hostile_streams import SETTINGS, feed, hostile_stream, new
from tests.support.states import digest

pytestmark = pytest.mark.filterwarnings("ignore")  # of attributes that look like texts, or change their type


def assert_cuts_are_unobservable(name, steps):
    """Batches of 1, 7 and 500 predict and learn alike; so do questions and lessons one by one."""
    told, model = feed(new(name), steps, 1)
    expected = digest(model)
    for size in (7, 500):
        others, model = feed(new(name), steps, size)
        assert others == told, size
        assert digest(model) == expected, size
    asked, model = feed(new(name), steps, None, one=False)
    assert digest(model) == expected
    others, model = feed(new(name), steps, None, one=True)
    assert others == asked
    assert digest(model) == expected


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SETTINGS)
def test_how_a_hostile_stream_is_cut_is_unobservable(name, seed):
    random_stream = random.Random(f"{name} {seed}")
    assert_cuts_are_unobservable(name, hostile_stream(random_stream, 100))


def test_a_new_value_is_no_long_one_where_memory_for_pairs_ends():
    """A long text has the code of the rest, and a new value has none, also if events go one by one."""
    rows = [({"k": "a" * 300, "j": f"v{i % 3}"}, f"c{i % 2}", 1.0) for i in range(40)]
    rows += [({"k": f"new{i}", "j": f"w{i}"}, f"c{i % 2}", 1.0) for i in range(40)]
    assert_cuts_are_unobservable("wide", [("events", rows)])
