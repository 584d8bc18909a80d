"""Values that look like numbers in another notation, and the options of text files that read it.

`DataQuality` reports what is found here, and `init` proposes it. A column is judged by the strings in a
sample; values that already read as numbers are left alone.
"""

from __future__ import annotations

import math
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from streamnb.features.attributes import some_of
from streamnb.features.schema_inference import A_DATE, ENOUGH, FieldSummary, Keys
from streamnb.values.parameter_checks import pluralize

_MOST = 0.9  # share of the strings of a column in this notation
_MOST_AMONG_WORDS = 2 / 3  # share of numbers, if many different words are among them
_FEW = 3  # distinct unknown strings that may mark missing numbers
_ID_DIGITS = 9
_CODES = 10  # up to this number of distinct integers, fractions or dates may be codes
_LONGEST_EXAMPLE = 30
_MARKERS = frozenset(
    "na n/a #n/a <na> nan -nan null (null) none nil missing unknown undefined ? - -- . \\n inf +inf -inf "
    "infinity +infinity -infinity #div/0! #ref! #value! #name? #num! #null!".split()
)
"""Values, in lower case, by which programs and people mark a missing number."""

_PLAIN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIGITS = re.compile(r"[+-]?[0-9]{16,}")
_POINTS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+")
_ADDRESS = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}")
_EXACT = 2**53
_A_DIGIT = re.compile(r"\d")
_NUMBER = r"[+-]?\s?[0-9](?:[0-9.,'\u2019\s]*[0-9])?(?:[eE][+-]?[0-9]+)?"
_ANY_NUMBER = re.compile(_NUMBER)
_FRACTION = re.compile(r"[0-9][.,][0-9]")
_CURRENCY = r"$\u00a2-\u00a5\u20a0-\u20bf"
_WITH_UNIT = re.compile(
    rf"""(?P<minus>-)?
        (?:(?P<before>[<>~\u2264\u2265\u2248\u00b1{_CURRENCY}]|(?:US|R|A|C)\$|EUR|USD|GBP|CHF|JPY)\s?
          |(?P<word>[^\W\d_][^\s\d,:;|]{{0,19}})\s)?
        (?P<number>{_NUMBER})
        (?P<blank>\s?)(?P<behind>(?:[^\W\d_]|[%\u2030\u00b0"'\u2032\u2033{_CURRENCY}])[^,:;|]{{0,19}})?""",
    re.VERBOSE,
)
"""A number, and a unit after it or a currency or word before it; letters without a blank make a code."""
_IN_PARENTHESES = re.compile(r"^\((.*)\)$")
_MOST_UNITS = 3  # in one column
_MINUS_SIGNS = "\u2010\u2011\u2012\u2013\u2014\u2212\ufe58\ufe63\uff0d"
_SIGNS = dict.fromkeys(map(ord, _MINUS_SIGNS), "-") | {
    0xFF0B: "+", 0x066B: ".", 0xFF0E: ".", 0x066C: ",", 0xFF0C: ","
}  # fmt: skip
_QUOTES = "\"'\u2018-\u201f\u00ab\u00bb\u2039\u203a"
_SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b"
_RAISED = str.maketrans(_SUPERSCRIPTS, "0123456789+-")
_POWER = re.compile(
    rf"""(?P<factor>[+-]?[0-9]+(?:[.,][0-9]+)?)\s?(?:[*xX\u00d7\u22c5\u00b7]|\\times)\s?10
        (?:(?:\^|\*\*)\s?[({{]?(?P<raised>[+-]?[0-9]{{1,3}})[)}}]?|(?P<small>[{_SUPERSCRIPTS}]{{1,4}}))
      |(?P<double>[+-]?[0-9]+[.,][0-9]*)[dD](?P<exponent>[+-]?[0-9]{{1,3}})""",
    re.VERBOSE,
)
"""A number times a power of ten, or with an exponent of double precision as in Fortran."""
_QUOTIENT = re.compile(
    r"(?P<whole>[+-]?[0-9]+\s)?(?P<over>[+-]?[0-9]+)\s?[/\u2044]\s?(?P<under>0*[1-9][0-9]*)"
)
"""A fraction such as 18/37, or 1 1/2."""
_COMPACT_DATE = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
_CLOCK = re.compile(
    r"(?:(?P<hours>[0-9]{1,3}):)?(?P<minutes>[0-9]{1,3}):(?P<seconds>[0-5][0-9](?:[.,][0-9]+)?)"
)
"""A time or duration: hours, minutes and seconds, or two neighbours of these."""
_ENCLOSED = re.compile(
    rf"=?[{_QUOTES}]+(?P<inner>[^{_QUOTES}]+)[{_QUOTES}]*|\((?P<debit>.+)\)|(?P<credit>.*[0-9])\s?-"
)
"""A number in quotes, also as Excel writes a text, or with the minus sign of accountants."""


class Notation(NamedTuple):
    """The notation of the numbers of a column.

    Attributes:
        what: the notation in words, to follow "numbers".
        decimal: the decimal separator.
        thousands: the separator of thousands, or "".
        is_ambiguous: whether its comma may also be the decimal separator.
        written: how to write one of the numbers, if no option reads them; otherwise empty.
    """

    what: str
    decimal: str = "."
    thousands: str = ""
    is_ambiguous: bool = False
    written: str = ""

    @property
    def options(self) -> str:
        """The options that read it, for a message."""
        options = shlex.join(["--thousands", self.thousands]) if self.thousands else ""
        if self.decimal != "." or not options:
            options = f"{shlex.join(['--decimal', self.decimal])} {options}".strip()
        return options + " or --decimal ," * self.is_ambiguous

    @property
    def form(self) -> re.Pattern[str]:
        """The pattern of a number in this notation; a grouped number does not begin with 0."""
        groups = {" ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}
        group = groups.get(self.thousands, re.escape(self.thousands))
        point = re.escape(self.decimal)
        plain = rf"(?:0|[1-9][0-9]*|[0-9]*(?={point}[0-9]))(?:{point}[0-9]+)?(?:[eE][+-]?[0-9]+)?"
        grouped = rf"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{2,3}})*{group}[0-9]{{3}}(?:{point}[0-9]+)?|"
        return re.compile(rf"[+-]?(?:{grouped if group else ''}{plain})")


QUOTED = Notation("with a decimal point")
_GROUPED = Notation("with commas between thousands", thousands=",")
_COMMA = Notation("with a decimal comma", ",")
_EITHER = Notation("with commas between thousands, or decimal ones", thousands=",", is_ambiguous=True)
COMMA_AND_POINTS = Notation("with a decimal comma and points between thousands", ",", ".")
_FORMS = [
    _GROUPED,
    _COMMA,
    COMMA_AND_POINTS,
    Notation("with underscores between thousands", thousands="_"),
    *(
        Notation(f"with {words}{between} between thousands", decimal, thousands)
        for decimal, words in ((".", ""), (",", "a decimal comma and "))
        for thousands, between in ((" ", "blanks"), ("'", "apostrophes"))
    ),
]


def notation_of(seen: FieldSummary, decimal: str = ".") -> Notation | None:
    """Return the notation in which nearly all strings of a column are numbers; None if they are not.

    If several fit, the first one counts: 1,100 is rather a number above a thousand.

    Args:
        seen: the column.
        decimal: the separator by which its cells were read; with a comma, 6.040 stays a string.
    """
    strings = _strings(seen)
    markers = _markers(strings)
    kept = sum(n for value, n in seen.values.items() if isinstance(value, str | tuple))  # a sample of many
    kept -= sum(strings[text] for text in markers)
    words = _words(strings, markers)
    told = {text.strip(): n for text, n in strings.items() if text not in markers | words}
    total = kept - sum(strings[text] for text in words)
    least = kept / 2 if words == _few_words(strings, markers) else kept * _MOST_AMONG_WORDS
    if total < max(2, least) or any(map(_ADDRESS.fullmatch, told)):
        return None
    fitting = [notation for notation in _FORMS if _fits(told, notation, total)]
    if fitting[:2] == [_GROUPED, _COMMA]:
        return _EITHER
    if not fitting and decimal == "," and told and all(map(_POINTS.fullmatch, told)):
        return COMMA_AND_POINTS
    if not fitting and _fits(told, QUOTED, total) and _are_amounts(seen, told):
        return QUOTED
    return next(iter(fitting), None) or _written_otherwise(seen, told, total)


def plain_number(text: str) -> str:
    """Return a number with ASCII signs and digits, and without quotes or the parentheses of accountants.

    A time of day or a duration becomes a number of its last unit: seconds, or minutes after hours alone.

    Examples:
        >>> plain_number("\u221212,5"), plain_number("(3.20)"), plain_number("='7'"), plain_number("a-1")
        ('-12,5', '-3.20', '7', 'a-1')
        >>> plain_number("1:01:30"), plain_number("2:05.5")  # in seconds
        ('3690', '125.5')
        >>> plain_number("3.4\u00d710^5"), plain_number("3.4\u00b710\u207b\u2075"), plain_number("1.5D+03")
        ('3.4e5', '3.4e-5', '1.5e+03')
        >>> plain_number("18/32"), plain_number("1 1/2")
        ('0.5625', '1.5')
    """
    text = _in_ascii(text.strip())
    if found := _POWER.fullmatch(text):
        small = (found["small"] or "").translate(_RAISED)
        return f"{found['factor'] or found['double']}e{small or found['raised'] or found['exponent']}"
    if found := _CLOCK.fullmatch(text):
        minutes = 60 * int(found["hours"] or 0) + int(found["minutes"])
        return f"{60 * minutes + float(found['seconds'].replace(',', '.')):.15g}"
    if found := _QUOTIENT.fullmatch(text):
        whole, quotient = float(found["whole"] or 0), float(found["over"]) / float(found["under"])
        return f"{whole - quotient if whole < 0 else whole + quotient:.15g}"
    if found := _ENCLOSED.fullmatch(text):
        inner = found["inner"] or f"-{found['debit'] or found['credit']}"
        text = inner.strip() if _ANY_NUMBER.fullmatch(inner.strip()) else text
    return text


def _in_ascii(text: str) -> str:
    if text.isascii():
        return text
    text = text.translate(_SIGNS)
    return "".join(str(unicodedata.decimal(char, char)) for char in text)


def _written_otherwise(seen: FieldSummary, told: Mapping[str, int], total: int) -> Notation | None:
    plain = {text: plain_number(text) for text in told}
    found = {text: number for text, number in plain.items() if _ANY_NUMBER.fullmatch(number)}
    odd = [text for text, number in found.items() if number != text]
    if not odd or seen.kind == A_DATE or sum(told[text] for text in found) < _MOST * total:
        return None
    if all(map(str.isascii, odd)) and not (_are_most_numbers(seen) or _are_amounts(seen, plain.values())):
        return None
    written = f"write {plain[odd[0]]} for {_quoted(odd[0])}"
    what = "with other signs, digits or quotes"
    if _CLOCK.fullmatch(_in_ascii(odd[0])):
        what = "written as times or durations"
    elif _POWER.fullmatch(_in_ascii(odd[0])):
        what = "with powers of ten"
    elif _QUOTIENT.fullmatch(_in_ascii(odd[0])):
        if len(seen.values) <= _CODES:
            return None
        what, written = "written as fractions", f"{written}, or two attributes of one number each"
    return Notation(what, written=written)


def _fits(texts: Mapping[str, int], notation: Notation, total: int) -> bool:
    form = notation.form
    fits = [text for text in texts if form.fullmatch(text)]
    is_written = notation is QUOTED or not all(map(_PLAIN.fullmatch, fits))
    return is_written and sum(texts[text] for text in fits) >= _MOST * total


def markers_of(seen: FieldSummary, decimal: str = ".") -> list[str]:
    """Return the strings of a column that mark missing numbers, if all its other values are numbers."""
    strings = _strings(seen)
    markers = _markers(strings)
    words = _few_words(strings, markers)
    are_numbers = notation_of(seen, decimal) is not None
    if are_numbers or (
        _are_most_numbers(seen) and sum(strings[text] for text in markers | words) == seen.strings
    ):
        return sorted(markers | words)
    has_numbers = any(type(value) in {int, float} for value in seen.values)
    return sorted(markers) if has_numbers and sum(strings[text] for text in markers) == seen.strings else []


def known_markers_of(seen: FieldSummary, decimal: str = ".") -> list[str]:
    """Return the strings of `markers_of` that programs and people are known to write."""
    return sorted(_markers(markers_of(seen, decimal)))


def words_among_numbers(seen: FieldSummary) -> list[str]:
    """Return the strings without a digit in a column, if they are too many to mark missing numbers."""
    strings = _strings(seen)
    markers = _markers(strings)
    words = _words(strings, markers)
    return [] if words == _few_words(strings, markers) else [text for text in strings if text in words]


def odd_cells(seen: FieldSummary, texts: Iterable[str] = (), what: str = "cell") -> str:
    """Return the number and examples of strings in a column that has numbers in most events.

    Args:
        seen: the column.
        texts: these strings; by default all. The result is empty if all are well-known markers.
        what: the noun for one string.
    """
    strings = _strings(seen)
    n = sum(strings[text] for text in texts) or (seen.strings if _are_most_numbers(seen) else 0)
    texts = texts or strings
    if not n or not strings or _markers(texts) == set(texts):
        return ""
    examples = [f'"{text[:_LONGEST_EXAMPLE]}"' for text in islice(texts, 3)]
    return f"{pluralize(n, what)} such as {', '.join(examples)}"


def are_mixed_booleans(seen: FieldSummary) -> bool:
    """Return whether some values of a column are booleans, and others numbers, as 0 next to ``true`` is."""
    return bool in seen.types and not seen.types.isdisjoint((int, float))


def units_of(seen: FieldSummary) -> str:
    """Return the units with which nearly all strings of a column are numbers, for a message.

    It is empty if there are none, or if most values are numbers already. Several units are accepted only with
    amounts: fractions, or a blank and a word of two letters; `1a`, `2b` are names.
    """
    if seen.kind == A_DATE:
        return ""
    units: Counter[str] = Counter()
    strings = _strings(seen)
    have_amounts, are_words = False, True
    for text, n in strings.items():
        found = _WITH_UNIT.fullmatch(_IN_PARENTHESES.sub(r"\1", _in_ascii(text.strip())))
        if found is None or (found["word"] and not _FRACTION.search(found["number"])):
            continue
        if unit := found["before"] or found["behind"] or found["word"]:
            units[unit.strip()] += n
            have_amounts |= _FRACTION.search(found["number"]) is not None
            are_words &= bool(found["blank"]) and len(unit) > 1
    marks = _markers(strings)
    markers = sum(strings[text] for text in marks)
    total = sum(n for value, n in seen.values.items() if isinstance(value, str | tuple)) - markers
    total -= sum(strings[text] for text in _words(strings, marks))
    named = [unit for unit, _ in units.most_common(_MOST_UNITS + 1)]
    if len(strings) < 2 or not units or 2 * units.total() < sum(seen.values.values()) - markers:
        return ""
    if units[named[0]] >= _MOST * total:
        return f'a unit ("{named[0]}")'
    are_several = len(named) <= _MOST_UNITS and units.total() >= _MOST * total
    if not are_several or not (have_amounts or are_words):
        return ""
    return f"units ({', '.join(map(_quoted, named))})"


def _quoted(text: str) -> str:
    return f'"{text}"'


def is_grouped(seen: FieldSummary) -> bool:
    """Return whether a column read with a decimal comma has points between thousands: 767, 6.040."""
    strings = _strings(seen)
    points = strings.keys() - _markers(strings)
    are_whole = float not in seen.types and any(type(value) is int for value in seen.values)
    return are_whole and bool(points) and all(map(_POINTS.fullmatch, points))


def may_be_grouped(seen: FieldSummary) -> bool:
    """Return whether a column read with a decimal point may have points between thousands: 6.04 was 6.040."""
    strings = _strings(seen)
    numbers = [value for value in seen.values if type(value) in {int, float}]
    floats = [value for value in numbers if type(value) is float]
    if len(floats) in {0, len(numbers)} or any(abs(value) >= 1000 for value in numbers):
        return False
    if any(abs(value) < 1 or round(value, 3) != value for value in floats):
        return False
    n_thousandths = sum(round(value, 2) != value for value in floats)
    is_fine = len(floats) < 2 or 2 * n_thousandths >= len(floats)  # 6.5 and 12.25 are rather fractions
    return is_fine and all(map(_POINTS.fullmatch, strings.keys() - _markers(strings)))


def spoilt(seen: Mapping[Keys, FieldSummary], notation: Notation, decimal: str) -> list[Keys]:
    """Return the columns with this decimal separator, if a notation has a different separator."""
    if notation.decimal == decimal or notation.written:
        return []
    return [path for path, summary in seen.items() if float in map(type, summary.values)]


def no_options(paths: Sequence[str], decimal: str) -> str:
    """Return the message that no options read both the numbers found and the columns at `paths`."""
    return (
        f"no options fit both these and {some_of(paths)}, whose decimal separator is {decimal!r}: "
        "write all numbers in one notation"
    )


def is_rounded(seen: FieldSummary) -> bool:
    """Return whether a column has integers beyond 2^53, which doubles round."""
    return any(type(value) is int and abs(value) > _EXACT for value in seen.values)


def has_long_digits(seen: FieldSummary) -> bool:
    """Return whether strings of a column are integers beyond 2^53, which doubles round."""
    return any(_DIGITS.fullmatch(text) and _is_beyond_exact(text) for text in _strings(seen))


def _is_beyond_exact(digits: str) -> bool:
    digits = digits.lstrip("+-0")
    return len(digits) > len(str(_EXACT)) or int(digits or "0") > _EXACT


def are_like_ids(seen: FieldSummary) -> bool:
    """Return whether values are long whole numbers of one length, nearly all different, as ids are."""
    if seen.types != {int} or not seen.differ:
        return False
    lengths = {len(str(value)) for value in seen.values}
    return len(lengths) == 1 and lengths.pop() >= _ID_DIGITS


def dates_of(seen: FieldSummary) -> str:
    """Return what the values of a column of many dates or times are taken for; otherwise empty."""
    if len(seen.values) <= _CODES:
        return ""
    if seen.types == {int} and all(_COMPACT_DATE.fullmatch(str(value)) for value in seen.values):
        return "a number"
    return "one value" if seen.kind == A_DATE else ""


def _are_most_numbers(seen: FieldSummary) -> bool:
    """Return whether more events have a number than a string, and the numbers are amounts, not codes."""
    if not seen.types <= {int, float, str} or seen.n - seen.strings <= seen.strings:
        return False
    return float in seen.types or sum(type(value) is int for value in seen.values) > _CODES


def _words(strings: Iterable[str], markers: Container[str]) -> set[str]:
    """Return the strings without a digit that are not markers."""
    return {text for text in strings if text not in markers and not _A_DIGIT.search(text)}


def _few_words(strings: Iterable[str], markers: Container[str]) -> set[str]:
    """Return the strings without a digit that may mark missing numbers; none if they are many."""
    words = _words(strings, markers)
    return words if len(words) <= _FEW and not any("," in text for text in words) else set()


def _strings(seen: FieldSummary) -> Mapping[str, int]:
    return {value: n for value, n in seen.values.items() if isinstance(value, str)}


def _markers(strings: Iterable[str]) -> set[str]:
    return {text for text in strings if text.strip().lower() in _MARKERS or _is_beyond(text.strip())}


def _is_beyond(text: str) -> bool:
    """Return whether a text is a number with a fraction or exponent that no finite double holds."""
    is_number = _PLAIN.fullmatch(text) is not None and _DIGITS.fullmatch(text) is None
    return is_number and not math.isfinite(float(text))


def _are_amounts(seen: FieldSummary, numbers: Iterable[str]) -> bool:
    return seen.n >= ENOUGH and (seen.differ or any("." in text for text in numbers))
