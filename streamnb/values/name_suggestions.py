"""What a name that nobody knows was most likely meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 200  # characters of a name that is compared


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be, whatever its case; None where none is near."""
    spellings = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), spellings, n=1) if len(name) <= _LONGEST else []
    return spellings[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message that says that `name` is not known; empty where none is near."""
    near = nearest(name, known)
    if not near:
        return ""
    return f"; did you mean {near if near == near.strip() else repr(near)}?"
