"""Joint tables: the sum and product rules against fractions."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import JointTable
from streamnb.errors import UnlearnError

YES_NO = ["yes", "no"]
SMART = """smart,study,prepared,probability
yes,yes,yes,.432
yes,no,yes,.16
no,yes,yes,.084
no,no,yes,.008
yes,yes,no,.048
yes,no,no,.16
no,yes,no,.036
no,no,no,.072
"""


@st.composite
def tables(draw):
    """Counts of all combinations of the values of up to four variables."""
    cards = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    variables = {f"v{i}": [f"x{j}" for j in range(n)] for i, n in enumerate(cards)}
    worlds = list(product(*variables.values()))
    counts = draw(st.lists(st.integers(0, 20), min_size=len(worlds), max_size=len(worlds)))
    return variables, dict(zip(worlds, counts, strict=True))


def restricted(variables, counts, names, evidence):
    """Fractions of the whole, by name."""
    found = Counter()
    for world, n in counts.items():
        x = dict(zip(variables, world, strict=True))
        if all(x[name] == value for name, value in evidence.items()):
            found[tuple(x[name] for name in names)] += n
    total = sum(found.values())
    return {key: Fraction(n, total) for key, n in found.items()} if total else None


@given(tables(), st.data())
def test_questions_are_answered_by_the_sum_and_product_rules(case, data):
    variables, counts = case
    if not any(counts.values()):
        with pytest.raises(ValueError, match="all counts are zero"):
            JointTable.from_counts(variables, counts)
        return
    table = JointTable.from_counts(variables, counts)
    names = data.draw(st.permutations(list(variables)))
    cut, end = sorted(data.draw(st.tuples(st.integers(0, len(names)), st.integers(0, len(names)))))
    asked, evidence = names[:cut], {n: data.draw(st.sampled_from(variables[n])) for n in names[cut:end]}
    exact = restricted(variables, counts, asked, evidence)
    if exact is None:
        with pytest.raises(ValueError, match="has probability 0"):
            table.conditional(*asked, given=evidence)
        return
    expected = {key[0] if len(asked) == 1 else key: float(p) for key, p in exact.items()}
    assert table.conditional(*asked, given=evidence) == pytest.approx(expected, rel=1e-12)
    for key, p in exact.items():
        assert table.probability(dict(zip(asked, key, strict=True)), evidence) == pytest.approx(
            float(p), rel=1e-12
        )
    if asked:
        found = table.most_probable(*asked, given=evidence)
        assert found.probability == pytest.approx(float(max(exact.values())), rel=1e-12)
        assert exact[tuple(found.values.values())] == max(exact.values())


@given(tables(), st.data())
def test_of_several_alternatives_one_is_enough(case, data):
    """The sum rule, world by world; and inclusion and exclusion come to the same."""
    variables, counts = case
    value = {name: st.sampled_from(values) for name, values in variables.items()}
    one = st.sets(st.sampled_from(list(variables)), max_size=3).flatmap(
        lambda names: st.fixed_dictionaries({name: value[name] for name in sorted(names)})
    )
    asked, given_ = (data.draw(st.lists(one, min_size=1, max_size=4)) for _ in "ab")

    def total(*sides):
        worlds = ((dict(zip(variables, world, strict=True)), n) for world, n in counts.items())
        return sum(
            n for x, n in worlds if all(any(one.items() <= x.items() for one in side) for side in sides)
        )

    if not sum(counts.values()):
        return
    table = JointTable.from_counts(variables, counts)
    if not total(given_):
        with pytest.raises(ValueError, match="probability 0"):
            table.probability(asked, given_)
        return
    expected = Fraction(total(asked, given_), total(given_))
    assert table.probability(asked, given_) == pytest.approx(float(expected), abs=1e-12)
    summands = table.inclusion_exclusion(asked, given_)
    assert len(summands) == 2 ** len(asked) - 1
    assert sum(s.sign * s.probability for s in summands) == pytest.approx(float(expected), abs=1e-12)
    for sign, values, p in summands:
        assert p == (
            0.0 if values is None else pytest.approx(float(Fraction(total([values], given_), total(given_))))
        )
        assert sign in {1, -1}


@given(tables(), st.data())
def test_a_table_that_learns_is_that_of_its_counts(case, data):
    """In any order; a given table stands for examples; what is taken back was never there; two are one."""
    variables, counts = case
    worlds = [dict(zip(variables, world, strict=True)) for world in counts]
    examples = data.draw(
        st.lists(st.tuples(st.sampled_from(worlds), st.sampled_from([0.5, 1, 3])), max_size=6)
    )
    extra = data.draw(st.lists(st.sampled_from(worlds), max_size=3))
    weight = data.draw(st.sampled_from([0.0, 0.25, 2.0]))
    uniform = dict.fromkeys(counts, 1 / len(counts))
    tables = [JointTable(variables, uniform if weight else None, weight or 1.0) for _ in range(3)]
    for x, w in examples:
        tables[0].learn_one(x, w)
    for i, (x, w) in enumerate(examples):
        tables[1 + i % 2].learn_one(x, w)
    for x in extra:
        tables[1].learn_one(x)
    if weight:
        tables[1].marginal(next(iter(variables)))  # what was read before is not what is read now
    assert tables[1].merge(tables[2]) is tables[1]
    for x in extra:
        tables[1].unlearn_one(x)
    assert tables[0].digest() == tables[1].digest()
    n = weight + sum(w for _, w in examples)
    assert tables[0].n_examples == n - weight
    if not n:
        with pytest.raises(ValueError, match="has learned nothing"):
            tables[0].marginal(next(iter(variables)))
        return
    for world in worlds:
        seen = sum(w for x, w in examples if x == world) + weight / len(worlds)
        assert [one.probability(world) for one in tables[:2]] == pytest.approx([seen / n] * 2, abs=1e-15)
    first = worlds[0]
    with pytest.raises(UnlearnError, match="was never learned"):
        tables[0].unlearn_one(first, 1 / 1024 + sum(w for x, w in examples if x == first))
    assert tables[0].digest() == tables[1].digest()


def test_what_a_table_cannot_count_is_refused_and_counts_nothing():
    table = JointTable({"a": ["x", "y"], "b": [1, 2]})
    empty = table.digest()
    for x, said in [({"a": "x"}, "without a value of 'b'"), ({"a": "x", "b": 3}, "3 is no value of 'b'")]:
        with pytest.raises(KeyError, match=said):
            table.learn_one(x)
    with pytest.raises(ValueError, match="weight"):
        table.learn_one({"a": "x", "b": 1}, -1)
    with pytest.raises(ValueError, match="same variables"):
        table.merge(JointTable({"a": ["x", "y"], "b": [1, 2]}, [[0.25, 0.25], [0.25, 0.25]]))
    with pytest.raises(ValueError, match="11 alternatives"):
        table.inclusion_exclusion([{"a": "x"}] * 11)
    assert table.digest() == empty
    table.learn_one({"a": "x", "b": 1.0, "c": "not looked at"})
    assert table.marginal("a", "b")["x", "1"] == 1.0


@given(tables(), st.data())
def test_independence_is_the_equation(case, data):
    variables, counts = case
    if len(variables) < 2 or not any(counts.values()):
        return
    table = JointTable.from_counts(variables, counts)
    a, b, *rest = data.draw(st.permutations(list(variables)))
    fixed = data.draw(st.lists(st.sampled_from(rest), unique=True)) if rest else []
    differences = []
    for values in product(*(variables[n] for n in fixed)):
        evidence = dict(zip(fixed, values, strict=True))
        joint = restricted(variables, counts, [a, b], evidence)
        if joint is not None:
            p_a, p_b = (restricted(variables, counts, [n], evidence) for n in (a, b))
            differences += [joint[x, y] - p_a[x,] * p_b[y,] for x in variables[a] for y in variables[b]]
    answer = table.independent(a, b, fixed)
    assert bool(answer) == all(d == 0 for d in differences)
    assert sorted(one.difference for one in answer.comparisons) == pytest.approx(
        sorted(map(float, differences)), abs=1e-12
    )
    assert abs(answer.largest.difference) == pytest.approx(float(max(map(abs, differences))), abs=1e-12)
    assert table.independent(a, b, fixed, tolerance=1.0)


def test_values_are_compared_by_their_text():
    table = JointTable({"a": [True, False], "b": [1, 2.5]}, [[0.1, 0.2], [0.3, 0.4]])
    assert table.variables == {"a": ["true", "false"], "b": ["1", "2.5"]}
    assert table.probability({"a": True, "b": 1.0}) == table.probability({"a": "true", "b": "1"}) == 0.1
    assert table.probability({"a": True}, given={"a": False}) == 0.0
    assert table.restricted("b", "a").probabilities.tolist() == [[0.1, 0.3], [0.2, 0.4]]


def test_huge_and_tiny_counts():
    table = JointTable.from_counts({"a": [0, 1]}, [1e300, 1.7e308])
    assert table.probability({"a": 0}) == pytest.approx(1e300 / 1.7e308)
    assert JointTable.from_counts({"a": [0, 1]}, [5e-324, 5e-324]).marginal("a") == {"0": 0.5, "1": 0.5}
    rare = JointTable({"a": [0, 1], "b": [0, 1]}, [[1e-300, 1e-300], [0.5, 0.5]])
    assert rare.probability({"b": 0}, given={"a": 0}) == 0.5


@pytest.mark.parametrize(
    ("variables", "numbers", "said"),
    [
        ({"a": [0, 1]}, [0.5, 0.4], "sum to 0.9, not to 1; are they counts"),
        ({"a": [0, 1]}, [1.5, -0.5], "the probability of 1 is -0.5"),
        ({"a": [0, 1]}, [math.nan, 1], "the probability of 0 is nan"),
        ({"a": [0, 1]}, [[0.5, 0.5]], r"expected an array of shape \(2,\)"),
        ({"a": [0, 0]}, [0.5, 0.5], "none of them twice"),
        ({"a": []}, [], "expected some"),
        ({"a": [0, 1]}, {(0, 1): 1.0}, "expected a value for each of 'a'"),
        ({"a": [0, 1]}, {2: 1.0}, "expected a value for each of 'a'"),
    ],
)
def test_what_is_no_table_is_refused(variables, numbers, said):
    with pytest.raises(ValueError, match=said):
        JointTable(variables, numbers)


def test_questions_that_have_no_answer():
    table = JointTable({"a": [0, 1], "b": [0, 1]}, [[0.5, 0.5], [0, 0]])
    for ask in (
        lambda: table.marginal("c"),
        lambda: table.probability({"a": 2}),
        lambda: table.independent("a", "c"),
    ):
        with pytest.raises(KeyError, match="there are"):
            ask()
    for ask in (
        lambda: table.marginal("a", "a"),
        lambda: table.conditional("a", given={"a": 0}),
        lambda: table.probability({"b": 0}, given={"a": 1}),
        lambda: table.most_probable(given={"a": 1}),
        lambda: table.independent("a", "a"),
        lambda: table.independent("a", []),
        lambda: table.independent("a", "b", tolerance=-1),
    ):
        with pytest.raises(ValueError):  # noqa: PT011  each says something else
            ask()
    table.probabilities[:] = 9
    assert table.probability({"a": 0}) == 1.0
