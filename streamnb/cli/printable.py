"""Text from data, as a terminal may have it."""

from __future__ import annotations


def printable(text: object) -> str:
    r"""The text in one line; what is no letter, mark or space is escaped as Python does, an ESC as \x1b.

    Characters that steer a terminal, end a line or turn the direction of writing would let an event say what
    the program did not. They are what `str.isprintable` refuses: Unicode's Other and Separator, but for the
    space.
    """
    told = str(text)
    if told.isprintable():
        return told
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in told)
