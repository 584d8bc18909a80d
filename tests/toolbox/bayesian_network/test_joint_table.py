"""Joint tables: the sum and product rules against fractions, questions as text, CSV and the command."""

from __future__ import annotations

import io
import json
import math
import re
import shlex
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import JointTable
from streamnb.cli import main
from streamnb.errors import ConfigError, UnlearnError
from streamnb.toolbox.bayesian_network.joint_query import Excluded, JointQuery, answer, parse_query
from streamnb.toolbox.bayesian_network.probability_csv import read_joint_table

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
        with pytest.raises(ValueError, match="neither declared nor learned"):
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
    for x, said in [({"a": "x"}, "has no value of 'b'"), ({"a": "x", "b": 3}, "3 is not a value of 'b'")]:
        with pytest.raises(KeyError, match=said):
            table.learn_one(x)
    with pytest.raises(ValueError, match="weight"):
        table.learn_one({"a": "x", "b": 1}, -1)
    with pytest.raises(ValueError, match="equal variables"):
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
        ({"a": [0, 1]}, [0.5, 0.4], "sum to 0.9, not to 1; for counts use from_counts"),
        ({"a": [0, 1]}, [1.5, -0.5], "the probability of 1 is -0.5"),
        ({"a": [0, 1]}, [math.nan, 1], "the probability of 0 is nan"),
        ({"a": [0, 1]}, [[0.5, 0.5]], r"expected an array of shape \(2,\)"),
        ({"a": [0, 0]}, [0.5, 0.5], "all different"),
        ({"a": []}, [], "expected one or more"),
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
        with pytest.raises(KeyError, match=" are "):
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


# -- questions as text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a", JointQuery("probability", ((("a", None),),))),
        (" P( a = x , b | c=y ) ", JointQuery("probability", ((("a", "x"), ("b", None)),), ((("c", "y"),),))),
        ("a|b", JointQuery("probability", ((("a", None),),), ((("b", None),),))),
        ('"a | b"="x, y" | "c=d"', JointQuery("probability", ((("a | b", "x, y"),),), ((("c=d", None),),))),
        (r'"say \"hi\""', JointQuery("probability", ((('say "hi"', None),),))),
        ("two words = more words", JointQuery("probability", ((("two words", "more words"),),))),
        ("argmax", JointQuery("most probable", ((),))),
        ("argmax a, b | c=x", JointQuery("most probable", ((("a", None), ("b", None)),), ((("c", "x"),),))),
        ("argmax | c=x", JointQuery("most probable", ((),), ((("c", "x"),),))),
        ("argmaximum", JointQuery("probability", ((("argmaximum", None),),))),
        ("a _|_ b", JointQuery("independence", ((("a", None),),), ((),), (("b", None),))),
        ("a, d_|_b | c", JointQuery("independence", ((("a", None), ("d", None)),), ((("c", None),),), (("b", None),))),
        ("a is independent of b given c", JointQuery("independence", ((("a", None),),), ((("c", None),),), (("b", None),))),
        ("a independent of b, d | c", JointQuery("independence", ((("a", None),),), ((("c", None),),), (("b", None), ("d", None)))),
        ("P", JointQuery("probability", ((("P", None),),))),
        ('P("a is independent of b"=x)', JointQuery("probability", ((("a is independent of b", "x"),),))),
        ('a independent of "b|c"', JointQuery("independence", ((("a", None),),), ((),), (("b|c", None),))),
        ('a independent of "b given c" given d', JointQuery("independence", ((("a", None),),), ((("d", None),),), (("b given c", None),))),
        ("a=x or b", JointQuery("probability", ((("a", "x"),), (("b", None),)))),
        ("P(a=x, b=y or c | d=u or e=v)", JointQuery("probability", ((("a", "x"), ("b", "y")), (("c", None),)), ((("d", "u"),), (("e", "v"),)))),
        ('oracle = more or  "or" = "x or y"', JointQuery("probability", ((("oracle", "more"),), (("or", "x or y"),)))),
        ("a!=x | not b = y", JointQuery("probability", ((("a", Excluded("x")),),), ((("b", Excluded("y")),),))),
        ('not a!=x, "not b"=y, "c!"=z', JointQuery("probability", ((("a", "x"), ("not b", "y"), ("c!", "z")),))),
        ("floor=1 or corridor=2", JointQuery("probability", ((("floor", "1"),), (("corridor", "2"),)))),
    ],
)  # fmt: skip
def test_what_a_text_asks(text, query):
    assert parse_query(text) == query


@pytest.mark.parametrize(
    "text",
    ["", "a,", "a=", "=x", "a b | ", "|a", "P(a", "P(a) b", "a=x=y", "a | b | c", "a _|_ ", "a _|_ b=x", "(a)",
     "argmax a=x", "_|_ b", 'a="x', "a independent of b given c=x", "a, , b", "a _|_ b _|_ c", "P()",
     "a=x or ", "or a=x", "a=x or or b=y", "a, or _|_ b"],
)  # fmt: skip
def test_what_asks_nothing_is_refused_with_what_was_expected(text):
    with pytest.raises(ValueError, match=r"expected|cannot read|bracket"):
        parse_query(text)


MONTY = """car,opened,probability
1,2,1
1,3,1
2,3,2
3,2,2
"""
"""The player picked door 1; the host opens a door without the car. Weights of 6."""


@pytest.mark.parametrize(
    ("query", "p"),
    [
        ("car!=1 | opened=3", 2 / 3),  # switching
        ("not car=1 | not opened=2", 2 / 3),
        ("car=2 | not car=3", 1 / 2),
        ("car=2 | car=1 or car=2", 1 / 2),
        ("car=1 | car=2", 0.0),
        ("car=1 | car=1", 1.0),
        ("car!=1 or opened!=2", 5 / 6),
        ("car!=1, opened!=2", 1 / 3),
        ("not car!=1", 1 / 3),
        ("car=2 and opened=3", 1 / 3),
        ("P(car!=1 and opened=2 or car=1 and opened=3)", 1 / 2),
        ("car=2 | not car=3 and opened=3", 2 / 3),
    ],
)
def test_negation_and_a_variable_on_both_sides(query, p):
    table = read_joint_table(MONTY.splitlines(keepends=True), normalise=True)
    (row,) = answer(table, parse_query(query)).rows
    assert row.probability == pytest.approx(p)


def test_probabilities_may_be_fractions():
    """The doors' weights of 6, as the sixths that they are."""
    sixths = MONTY.replace(",1\n", ",1/6\n").replace(",2\n", ",1/3\n")
    found = read_joint_table(sixths.splitlines(keepends=True))
    counted = read_joint_table(MONTY.splitlines(keepends=True), normalise=True)
    assert found.probability({"car": "2"}, given={"opened": "3"}) == pytest.approx(2 / 3)
    assert found.probabilities == pytest.approx(counted.probabilities)


def test_the_word_and_in_quotes_is_a_name():
    assert parse_query('"rock and roll"=yes').names == ["rock and roll"]
    assert parse_query("sand=and1 and andy").asked == ((("sand", "and1"), ("andy", None)),)
    words, sign = "smart and study independent of prepared", "smart, study _|_ prepared"
    assert parse_query(words) == parse_query(sign)


def test_a_variable_on_both_sides_has_a_row_for_each_value():
    table = read_joint_table(MONTY.splitlines(keepends=True), normalise=True)
    rows = answer(table, parse_query("car | car!=2")).rows
    assert [row.probability for row in rows] == pytest.approx([0.5, 0.0, 0.5])


def test_negation_as_text_and_as_json(tmp_path, capsys):
    (tmp_path / "monty.csv").write_text(MONTY)
    ask = ["joint", str(tmp_path / "monty.csv"), "--counts", "car!=1 | opened=3"]
    assert main(ask) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["car!=1", "opened=3", "0.6667"]
    assert main([*ask, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["answers"][0]["rows"]
    assert (row["values"], row["given"]) == ({"car": {"not": "1"}}, {"opened": "3"})


@given(st.lists(st.sampled_from([*'ab=!,|()"_ \\P', " or ", "not "]), max_size=12).map("".join))
def test_any_text_is_a_question_or_is_refused(text):
    try:
        query = parse_query(text)
    except ValueError:
        return
    assert query.kind in {"probability", "most probable", "independence"}


# -- CSV and the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a header and a row"),
        ("a,p\n", "expected a header and a row"),
        ("p\n1\n", "expected a column for each variable"),
        ("a,a,p\nx,y,1\n", "none of them twice, found 'a'"),
        ("a,,p\nx,y,1\n", "a name for each column"),
        ("a,p\nx,.5\ny\n", "row 2: expected 2 cells, found 1"),
        ("a,p\nx,.5\ny,half\n", "row 2: p is 'half'; expected a number of 0 or more"),
        ("a,p\nx,-1\n", "row 1: p is '-1'"),
        ("a,p\nx,1/0\n", "row 1: p is '1/0'; expected a number of 0 or more, such as .25 or 1/4"),
        ("a,p\nx,-1/4\n", "row 1: p is '-1/4'"),
        ("a,p\nx,1/3/3\n", "row 1: p is '1/3/3'"),
        ("a,p\nx,inf\n", "row 1: p is 'inf'"),
        ("a,p\nx,nan\n", "row 1: p is 'nan'"),
        ("a,b,p\nx,y,.5\nx,z,.25\nx,y,.25\n", "row 3: the same combination as in row 1: x, y"),
        ("a,p\nx,.5\ny,.4\n", "sum to 0.9, not to 1; counts are divided by their sum with --counts"),
    ],
)
def test_what_is_no_csv_of_probabilities_is_refused_with_its_row(text, said):
    with pytest.raises(ConfigError, match=said):
        read_joint_table(text.splitlines(keepends=True))


def test_the_column_of_probabilities_is_found():
    for text, column in [
        ("Probability,a\n.5,x\n.5,y\n", None),
        ("count,a\n.5,x\n.5,y\n", None),
        ("a,last\nx,.5\ny,.5\n", None),
        ("p,a\n.5,x\n\n.5,y\n", "p"),
    ]:
        table = read_joint_table(text.splitlines(keepends=True), column=column)
        assert table.marginal("a") == {"x": 0.5, "y": 0.5}
    with pytest.raises(ConfigError, match="no column 'q'; there are a, p"):
        read_joint_table(["a,p\n", "x,1\n"], column="q")
    counted = read_joint_table(["a;count\n", "x; 3\n", "y; 1\n"], delimiter=";", normalise=True)
    assert counted.marginal("a") == {"x": 0.75, "y": 0.25}
    sparse = read_joint_table(["a,b,p\n", "x,u,.5\n", "y,v,.5\n"])
    assert sparse.probability({"a": "x", "b": "v"}) == 0.0


@pytest.fixture
def smart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smart.csv").write_text(SMART)
    return "smart.csv"


def test_the_command_answers_each_question(smart, capsys):
    questions = ["smart _|_ study", "smart independent of prepared given study", "P(prepared=yes | study)", "argmax smart, study"]  # fmt: skip
    assert main(["joint", smart, *questions]) == 0
    said = capsys.readouterr().out
    assert "smart and study are independent: no difference is above the tolerance, 1e-09" in said
    assert "smart and prepared are not independent given study: the largest difference is 0.064" in said
    assert "yes       yes                 0.8600" in said
    assert "P(smart, study)" in said
    assert main(["joint", smart, "--json", *questions]) == 0
    told = json.loads(capsys.readouterr().out)
    independence, conditional, rows, best = told["answers"]
    assert told["variables"] == {"smart": YES_NO, "study": YES_NO, "prepared": YES_NO}
    assert (independence["independent"], conditional["independent"]) == (True, False)
    first = independence["comparisons"][0]
    assert (first["joint"], first["product"]) == pytest.approx((0.48, 0.48))
    assert conditional["largest_difference"] == pytest.approx(0.064)
    assert [row["probability"] for row in rows["rows"]] == pytest.approx([0.86, 0.42])
    assert best["rows"][0]["values"] == {"smart": "yes", "study": "yes"}


def test_the_page_shows_what_the_command_prints(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[3] / "docs" / "networks.md").read_text()
    monkeypatch.chdir(tmp_path)
    (csv,) = re.findall(r"^```csv\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "smart.csv").write_text(csv)
    shown = re.findall(
        r"^```sh\nstreamnb (joint .*?)\n```\n\n```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    assert len(shown) == 2
    for command, output in shown:
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == output
    section = page[: page.index("\n## Bayesian networks")]
    questions = re.findall(r"^\| `(.*?)`(?:, `(.*?)`)? \| ", section, re.MULTILINE)
    for question in [one.replace("\\|", "|") for row in questions for one in row if one]:
        assert main(["joint", "smart.csv", question]) == 0, question
    assert len(questions) == 9


def test_the_command_shows_what_an_alternative_is_the_sum_of(smart, capsys):
    assert smart
    assert main(["joint", "smart.csv", "smart=yes or study=yes", "prepared | smart=yes or study=yes"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["smart=yes", "or", "study=yes", "0.9200"] in lines
    assert ["+", "study=yes", "0.6000"] in lines
    assert ["-", "smart=yes,", "study=yes", "0.4800"] in lines
    assert ["prepared=yes", "smart=yes", "or", "study=yes", "0.7348"] in lines  # .676 / .92
    assert main(["joint", "--json", "smart.csv", "smart=yes or smart=no"]) == 0
    row = json.loads(capsys.readouterr().out)["answers"][0]["rows"][0]
    assert (row["values"], row["probability"]) == ([{"smart": "yes"}, {"smart": "no"}], 1.0)
    assert row["sum"][2] == {"sign": -1, "values": None, "probability": 0.0}
    assert main(["joint", "smart.csv", "argmax smart or study"]) == 2
    assert "expected commas in place of `or`" in capsys.readouterr().err


def test_evidence_that_cannot_be_has_no_answer(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,b,p\nx,u,1\ny,v,0\n")
    assert main(["joint", str(tmp_path / "t.csv"), "a | b", "argmax a | b"]) == 0
    assert capsys.readouterr().out.count("undefined") == 3
    assert main(["joint", str(tmp_path / "t.csv"), "--json", "a=x | b"]) == 0
    rows = json.loads(capsys.readouterr().out)["answers"][0]["rows"]
    assert [row["probability"] for row in rows] == [1.0, None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["smart.csv", "clever"], "'clever' is not a variable of this table; the variables are 'smart'"),
        (["smart.csv", "smart=perhaps"], "'perhaps' is not a value of 'smart'"),
        (["smart.csv", "smart=yes, smart=no | study"], "named twice"),
        (["smart.csv", "smart!=perhaps"], "'perhaps' is not a value of 'smart'"),
        (["smart.csv", "argmax smart | not study=yes"], "argmax takes evidence without negation"),
        (["smart.csv", "argmax smart | smart=yes"], "argmax takes evidence without negation"),
        (["smart.csv", "not smart"], "expected a value to exclude"),
        (["smart.csv", "smart _|_"], "query 'smart _|_': expected a name"),
        (["smart.csv", "smart", "--column", "p"], "smart.csv: header: no column 'p'"),
        (["smart.csv", "smart", "--delimiter", ";"], "smart.csv: header: expected a column"),
        (["bad.csv", "smart"], "bad.csv: is not CSV"),
    ],
)
def test_mistakes_in_the_command(smart, arguments, said, tmp_path, capsys):
    assert smart
    (tmp_path / "bad.csv").write_bytes(b"a,p\n\xff,1\n")
    assert main(["joint", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys):
    assert main(["joint", "nowhere.csv", "a"]) == 1
    assert "nowhere.csv" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["joint", "nowhere.csv", "a", "--tolerance", "-1"])
    assert stopped.value.code == 2


def test_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa,n\nx,3\ny,1\n")))
    assert main(["joint", "-", "a=x", "--counts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["rows"][0]["probability"] == 0.75
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,n\n\xff,3\n")))
    assert main(["joint", "-", "a=x", "--counts"]) == 2
    assert "-: is not CSV" in capsys.readouterr().err


def test_a_table_too_large_for_memory_is_refused(tmp_path, capsys):
    header = ",".join(f"v{i}" for i in range(40))
    rows = "".join(",".join([value] * 40) + ",.5\n" for value in "xy")
    (tmp_path / "wide.csv").write_text(f"{header},p\n{rows}")
    assert main(["joint", str(tmp_path / "wide.csv"), "v0"]) == 2
    assert "a table of 1,099,511,627,776 cells over 40 variables" in capsys.readouterr().err


def test_a_tolerance_of_zero_may_be_written_in_any_way(smart, capsys):
    for zero in ("0", "0.00", "0e0"):
        assert main(["joint", smart, "smart _|_ smart", "--tolerance", zero]) == 2
        assert "named twice" in capsys.readouterr().err
