"""Labels that differ only by case, blanks, leading zeros or Unicode form, or are blank."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from streamnb.values.parameter_checks import nearest

ALIKE = "labels that differ only by case, blanks, leading zeros or Unicode form are classes of their own"
INVISIBLE = "a label needs a character that can be seen"


def folded(label: str) -> str:
    r"""Return the common form of labels that differ only by case, blanks, leading zeros or Unicode form.

    Examples:
        >>> folded(" Not  Spam"), folded("007"), folded("\u00e9") == folded("e\u0301")
        ('not spam', '7', True)
    """
    if label.isascii() and label.isalnum():
        return label.lstrip("0") or "0" if label.isdigit() else label.lower()
    seen = "".join(char for char in label if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", " ".join(seen.casefold().split()))


def not_allowed(label: str, allowed: Sequence[str]) -> str:
    """Return why a label may not be written, with the nearest label that may; empty if it may.

    Args:
        label: the label.
        allowed: labels that may be written; empty is any.
    """
    if not allowed or label in allowed:
        return ""
    alike = next((one for one in allowed if folded(one) == folded(label)), "")
    near = alike or nearest(label, allowed)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{label[:100]!r} is not among labels.allowed{hint}"


def is_visible(label: str) -> bool:
    """Return whether a label has a character other than blanks and invisible format characters."""
    return any(not char.isspace() and unicodedata.category(char) != "Cf" for char in label)
