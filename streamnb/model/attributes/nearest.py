"""What a name that nobody knows was most likely meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice

_LONGEST = 200  # characters of a name that is compared
_RARE = 20
_MOST_CLASSES = 200  # of which slips are looked for
_MOST = 5  # labels that are compared: there may be many, and many that are known


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be, whatever its case; None where none is near."""
    spellings = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), spellings, n=1) if len(name) <= _LONGEST else []
    return spellings[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message that says that `name` is not known; empty where none is near."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def doubtful(labels: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """What is to be said of labels that no event had, and that are near to one that events have."""
    had = set(known)
    for label in islice((one for one in dict.fromkeys(labels) if one not in had), _MOST):
        if near := did_you_mean(label, had):
            yield f"no event was labelled {label}{near}"


def slips(counts: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Labels that were hardly meant, each with the more frequent one that was: label -> how many have it.

    They differ from it in case or blanks; or, where it is `_RARE` times as frequent, in a letter of three or
    more. Digits are no slips: class1 is not class2.
    """
    ranked = sorted(counts, key=lambda label: -counts[label])
    for place, label in enumerate(islice(ranked, _MOST_CLASSES)):
        often = _RARE * counts[label]
        near = (one for one in ranked[:place] if _differ_little(label, one, in_a_letter=counts[one] >= often))
        yield from ((label, one) for one in islice(near, 1))


def _differ_little(label: str, other: str, *, in_a_letter: bool) -> bool:
    short, long = sorted(("".join(one.casefold().split()) for one in (label, other)), key=len)
    if short == long or not in_a_letter or not 3 <= len(short) <= len(long) <= len(short) + 1 <= _LONGEST:
        return short == long
    place = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    replaced = len(short) == len(long)
    is_letter = not any(map(str.isdigit, long[place] + short[place : place + replaced]))
    return is_letter and long[place + 1 :] == short[place + replaced :]
