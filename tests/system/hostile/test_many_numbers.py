"""Many numeric attributes: what is kept of each grows with its values."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB
from streamnb.features import feature_layout
from streamnb.models.softmax.quantile_bins import QuantileBins, check_bins, expected_bins, note_value
from streamnb.values.state_validation import checked, named

pytestmark = pytest.mark.thorough

FIELDS = 20_000


def drawn(f, n, seed=0):
    """Values of an attribute: of one it is a code, of the next there are few values, of others many."""
    rng = random.Random(f"{f} {seed}")
    return [float(rng.randrange((2, 300, 10**9)[f % 3])) for _ in range(n)]


def learned(by_field):
    """Bins that have learned the values of each attribute, by turns."""
    bins = QuantileBins()
    for t in range(max(map(len, by_field))):
        for f, values in enumerate(by_field):
            if t < len(values):
                bins.reserve(len(by_field), 4000)
                note_value(bins.tables, f, values[t])
    return bins


def read(state):
    part = named(state, "bins_")
    check_bins(found := checked(part, expected_bins()))
    return found


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


LENGTHS = st.lists(
    st.sampled_from([0, 1, 4, 5, 31, 32, 33, 256, 257, 1025, 2047, 2048, 2100]), min_size=1, max_size=5
)


@settings(max_examples=25, deadline=None)
@given(LENGTHS)
def test_a_state_goes_on_as_what_it_is_of(lengths):
    by_field = [drawn(f, n) for f, n in enumerate(lengths)]
    bins = learned(by_field)
    again = QuantileBins()
    again.load(read(bins.state()))
    assert same(again.state(), bins.state())
    for one in (bins, again):
        for f in range(len(lengths)):
            for value in drawn(f, 300, 1):
                one.reserve(len(lengths), 4000)
                note_value(one.tables, f, value)
    assert same(again.state(), bins.state())


def test_an_event_of_many_new_names_takes_what_its_values_take():
    """It took 25 KiB for each. A first block is 8 doubles; `at`, `learned`, `n_codes` and four `n_edges` make 7 more.

    The pool may have half as much again as its blocks, and in the same event the names' blocks are asked for whole.
    """
    model = BayesOptimalNB()
    for x, y in (({"links": 1.0}, "ham"), ({"links": 2.0}, "spam")):
        model.learn_one(x, y)
    model.learn_one({f"f{i}": 1.0 for i in range(FIELDS)}, "spam")
    assert model._learners.bins.n_bytes <= (8 * 8 * 3 // 2 + 7 * 8) * (FIELDS + 2)
    _, arrays = model.state()
    assert sum(array.nbytes for name, array in arrays.items() if "bins" in name) < 100 * FIELDS


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans())), st.sets(st.integers(0, 5)))
def test_names_get_their_numbers_in_the_order_in_which_they_are_first_met(items, known):
    """In one pass, whatever is new: an event of 90,000 new names took ten seconds for this alone."""
    names = {}
    places = np.array([names.setdefault(f"n{i}", len(names)) for i, _ in items], dtype=np.int32)
    adds = np.array([adding for _, adding in items], dtype=bool)
    given, numbers = {f"n{i}": i for i in known}, {}

    def number(name, *, adds):
        numbers[name] = given.setdefault(name, 100 + len(given)) if adds else given.get(name, -1)
        return numbers[name]

    found = feature_layout.numbers_of(names, places, adds, number)
    told, expected = {f"n{i}": i for i in known}, []
    for i, adding in items:
        if adding and f"n{i}" not in told:
            told[f"n{i}"] = 100 + len(told)
        expected.append(told.get(f"n{i}", -1))
    assert found.tolist() == expected
    assert given == told
