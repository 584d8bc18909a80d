"""What a name that nobody knows was most likely meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice

_LONGEST = 200  # characters of a name that is compared
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
