"""The known name that an unknown name was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 200  # characters of a name that is compared


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to `name`, ignoring case, or None if none is near."""
    spellings = {spelling.lower(): spelling for spelling in known}
    near = get_close_matches(name.lower(), spellings, n=1) if len(name) <= _LONGEST else []
    return spellings[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown `name`: a suggestion, or "" if none is near."""
    near = nearest(name, known)
    if not near:
        return ""
    return f"; did you mean {near if near == near.strip() else repr(near)}?"
