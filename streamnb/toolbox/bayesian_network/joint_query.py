r"""Parser and evaluation of textual queries to a joint table.

    burglary                                   P of each value
    P(burglary=yes, earthquake | alarm=yes)    P of these values, and of each value of names without one
    burglary | alarm                           a name without a value stands for each of its values
    burglary=yes or earthquake=yes | alarm     P that at least one holds; `or` may also follow the bar
    burglary!=yes | not alarm=yes              every other value, by either sign; also within an alternative
    car=2 | car=1 or car=2                     a variable may be on both sides
    argmax burglary, earthquake | alarm=yes    the most probable values
    smart _|_ study                            are they independent?
    smart independent of prepared given study  the same question; several names are separated by commas

Names and values are written plainly, or in double quotes if they begin or end with a space, contain one of
``, | = ( ) "``, contain the word "and" or "or", begin with "not ", or end with "!". `and` is a comma, which
binds tighter than `or`.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from itertools import product
from typing import NamedTuple

from streamnb.toolbox.bayesian_network.independence import Independence
from streamnb.toolbox.bayesian_network.joint_table import JointTable, Summand

_TOKEN = re.compile(
    r'\s*(?:"((?:[^"\\]|\\.)*)"|(_\|_)|((?:and|or)(?=\s|$)|[,|=()])|([^,|=()"]+?)(?=\s*(?:_\|_|[,|=()"]|\s(?:and|or)(?:\s|$)|$)))\s*'
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORDS = (
    re.compile(r"^(.+?)\s+(?:is\s+)?independent\s+of\s+(.+)$", re.DOTALL),
    re.compile(r"^(.*?)(?:\s+given\s+|\|)(.*)$", re.DOTALL),
)


class Excluded(NamedTuple):
    """Every value of a variable but this one."""

    value: str


Terms = tuple[tuple[str, str | Excluded | None], ...]
Values = dict[Hashable, str | Excluded]


class JointQuery(NamedTuple):
    """A parsed query.

    Attributes:
        kind: "probability", "most probable" or "independence".
        asked: alternatives, of which at least one must hold: (name, value), with value None for each value.
            An `Excluded` value stands for all others together.
        given: alternatives of the evidence, in the same form.
        other: the second side of a question of independence.
    """

    kind: str
    asked: tuple[Terms, ...]
    given: tuple[Terms, ...] = ((),)
    other: Terms = ()

    @property
    def names(self) -> list[str]:
        """Names of all variables in the query, each once."""
        return list(dict.fromkeys(name for terms in (*self.asked, *self.given) for name, _ in terms))

    @property
    def is_plain(self) -> bool:
        """True if no value is excluded and no variable is on both sides."""
        asked, given = ([term for terms in side for term in terms] for side in (self.asked, self.given))
        has_not = any(isinstance(value, Excluded) for _, value in (*asked, *given))
        return not has_not and not {name for name, _ in asked} & {name for name, _ in given}


class QueryRow(NamedTuple):
    """One probability of an answer.

    Attributes:
        asked: values of each alternative.
        given: values of each alternative of the evidence.
        probability: None if the evidence has probability 0.
        sum: terms of inclusion and exclusion, if there are several alternatives.
    """

    asked: tuple[Values, ...]
    given: tuple[Values, ...]
    probability: float | None
    sum: tuple[Summand, ...] = ()


class QueryAnswer(NamedTuple):
    """The answer to a query.

    Attributes:
        rows: probabilities, or the most probable values.
        independence: answer to a question of independence.
        log_bayes_factor: of dependence against independence, in nats, if the table holds counts.
    """

    rows: list[QueryRow]
    independence: Independence | None = None
    log_bayes_factor: float | None = None


def parse_query(text: str) -> JointQuery:
    """Parse a query. Raises ValueError, with the expected syntax, for an invalid text."""
    stripped = text.strip()
    if sides := _divided(stripped, _WORDS[0]):
        right, condition = _divided(sides[1], _WORDS[1]) or (sides[1], "")
        return _independence(text, sides[0], right, condition)
    tokens = _tokens(text, stripped)
    if ("_|_", False) in tokens:
        at = tokens.index(("_|_", False))
        rest = tokens[at + 1 :]
        bar = rest.index(("|", False)) if ("|", False) in rest else len(rest)
        given = _terms(text, rest[bar + 1 :], may_be_none=bar == len(rest))
        return _checked(text, _terms(text, tokens[:at]), _terms(text, rest[:bar]), given)
    return _of_probability(text, tokens)


def answer(table: JointTable, query: JointQuery, tolerance: float = 1e-9) -> QueryAnswer:
    """Evaluate a query. Raises KeyError for an unknown variable or value, ValueError for a repeated name."""
    if query.kind == "independence":
        a, b, c = ([name for name, _ in side] for side in (query.asked[0], query.other, query.given[0]))
        factor = table.log_bayes_factor(a, b, c) if table.n_examples else None
        return QueryAnswer([], table.independent(a, b, c, tolerance), factor)
    for names in ([name for name, _ in terms] for terms in (*query.asked, *query.given)):
        if len(set(names)) < len(names):
            raise ValueError(f"a variable is named twice: {', '.join(names)}")
    if query.kind == "most probable" and not query.is_plain:
        raise ValueError("argmax takes evidence without negation, about other variables")
    table.restricted(*query.names)  # raises for an unknown name before any row is computed
    rows: list[QueryRow] = []
    for evidence in _each(table, query.given):
        given = _filled(query.given, evidence)
        is_possible = table.probability(_expanded(table, given)) > 0.0
        if query.kind == "probability":
            ways = (_filled(query.asked, one) for one in _each(table, query.asked))
            rows += [
                _probable(table, way, given) if is_possible else QueryRow(way, given, None) for way in ways
            ]
        elif is_possible:
            found = table.most_probable(*(name for name, _ in query.asked[0]), given=given[0])
            rows.append(QueryRow(({**found.values},), given, found.probability))
        else:
            rows.append(QueryRow(({},), given, None))
    return QueryAnswer(rows)


def _probable(table: JointTable, asked: tuple[Values, ...], given: tuple[Values, ...]) -> QueryRow:
    way, evidence = _expanded(table, asked), _expanded(table, given)
    summands = table.inclusion_exclusion(way, evidence) if len(asked) == len(way) > 1 else []
    return QueryRow(asked, given, table.probability(way, evidence), tuple(summands))


def _expanded(table: JointTable, alternatives: tuple[Values, ...]) -> list[dict[Hashable, str]]:
    """Return the alternatives with each excluded value replaced by all other values in turn."""
    found = []
    for values in alternatives:
        ways = [_values_of(table, name, value) for name, value in values.items()]
        found += [dict(zip(values, way, strict=True)) for way in product(*ways)]
    return found


def _values_of(table: JointTable, name: Hashable, value: str | Excluded) -> list[str]:
    if not isinstance(value, Excluded):
        return [value]
    table.probability({name: value.value})  # raises for an unknown value
    return [other for other in table.variables[name] if other != value.value]


def _each(table: JointTable, alternatives: tuple[Terms, ...]) -> list[Values]:
    asked = dict.fromkeys(name for terms in alternatives for name, value in terms if value is None)
    ways = product(*(table.variables[name] for name in asked))
    return [dict(zip(asked, values, strict=True)) for values in ways]


def _filled(alternatives: tuple[Terms, ...], values: Values) -> tuple[Values, ...]:
    return tuple(
        {name: values[name] if value is None else value for name, value in terms} for terms in alternatives
    )


def _divided(text: str, words: re.Pattern[str]) -> tuple[str, str] | None:
    match = words.match(_QUOTED.sub(lambda quoted: '"' * len(quoted[0]), text))
    return match and (text[slice(*match.span(1))], text[slice(*match.span(2))])


def _of_probability(text: str, tokens: list[tuple[str, bool]]) -> JointQuery:
    kind = "probability"
    first = tokens[0] if tokens else ("", False)
    if not first[1] and re.match(r"argmax\s", first[0] + " "):
        kind = "most probable"
        rest = first[0].removeprefix("argmax").strip()
        tokens = [*([(rest, False)] if rest else []), *tokens[1:]]
    elif first == ("P", False) and tokens[1:2] == [("(", False)]:
        if tokens[-1] != (")", False):
            raise ValueError(f"{text!r}: an opening bracket is not closed")
        tokens = tokens[2:-1]
    bar = tokens.index(("|", False)) if ("|", False) in tokens else len(tokens)
    asked = _alternatives(text, tokens[:bar], may_be_none=kind == "most probable")
    given = _alternatives(text, tokens[bar + 1 :], may_be_none=bar == len(tokens))
    if kind == "most probable" and len(asked) + len(given) > 2:
        raise ValueError(f"{text!r}: argmax finds values of variables: expected commas in place of `or`")
    if kind == "most probable" and any(value is not None for _, value in asked[0]):
        raise ValueError(f"{text!r}: argmax finds the values: expected names alone before the bar")
    return JointQuery(kind, asked, given)


def _independence(text: str, left: str, right: str, condition: str) -> JointQuery:
    sides = [_terms(text, _tokens(text, side)) for side in (left, right)]
    return _checked(text, sides[0], sides[1], _terms(text, _tokens(text, condition), may_be_none=True))


def _checked(text: str, left: Terms, right: Terms, condition: Terms) -> JointQuery:
    for name, value in (*left, *right, *condition):
        if value is not None:
            raise ValueError(f"{text!r}: independence is of variables: expected {name}, not {name}={value}")
    return JointQuery("independence", (left,), (condition,), right)


def _tokens(text: str, part: str) -> list[tuple[str, bool]]:
    """Split into words and signs, each with True if it was in quotes."""
    found, at = [], 0
    while at < len(part):
        match = _TOKEN.match(part, at)
        if match is None or match.end() == at:
            raise ValueError(f"{text!r}: cannot read {part[at:]!r}")
        quoted, *plain = match.groups()
        if quoted is not None:
            found.append((re.sub(r"\\(.)", r"\1", quoted), True))
        else:
            word = next(one for one in plain if one is not None).strip()
            found.append(("," if word == "and" else word, False))
        at = match.end()
    return found


def _alternatives(
    text: str, tokens: list[tuple[str, bool]], *, may_be_none: bool = False
) -> tuple[Terms, ...]:
    cuts = [at for at, token in enumerate(tokens) if token == ("or", False)]
    starts, ends = [0, *(at + 1 for at in cuts)], [*cuts, len(tokens)]
    return tuple(
        _terms(text, tokens[first:last], may_be_none=may_be_none and not cuts)
        for first, last in zip(starts, ends, strict=True)
    )


def _terms(text: str, tokens: list[tuple[str, bool]], *, may_be_none: bool = False) -> Terms:
    if not tokens and may_be_none:
        return ()
    found: list[tuple[str, str | Excluded | None]] = []
    signs = {(sign, False) for sign in ("|", "=", ",", "(", ")", "_|_", "or")}
    at = 0
    while True:
        here = tokens[at : at + 4]
        if not here or here[0] in signs:
            raise ValueError(f"{text!r}: expected a name, or name=value, with commas between them")
        value: str | Excluded | None = None
        at += 1
        name, is_quoted = here[0]
        is_not = not is_quoted and name.startswith("not ")
        name = name[4:].strip() if is_not else name
        if here[1:2] == [("=", False)]:
            if not is_quoted and name.endswith("!"):
                name, is_not = name[:-1].rstrip(), not is_not  # not a!=x is a=x
            if len(here) < 3 or here[2] in signs:
                raise ValueError(f"{text!r}: expected a value after {name}=")
            value = Excluded(here[2][0]) if is_not else here[2][0]
            at += 2
        elif is_not:
            raise ValueError(f"{text!r}: expected a value to exclude: not {name}=value")
        found.append((name, value))
        if at == len(tokens):
            return tuple(found)
        if tokens[at] != (",", False):
            raise ValueError(f"{text!r}: expected a comma, a bar or the end before {tokens[at][0]!r}")
        at += 1
