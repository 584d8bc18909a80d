"""Messages for people that also have an event name and fields, and warnings at the user's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container, Mapping
from typing import Any, Self

_PACKAGES = f"{__name__.partition('.')[0]}.", "river."


class Message(str):
    """A sentence for people, with its event name and the values in it.

    It is the text, so each place that takes a text takes a message. Text that is built from a message is a
    plain `str` without a name; `reworded` keeps the name.

    Args:
        event: a name in `streamnb.values.message_names.MESSAGES`.
        text: the sentence.
        fields: the values in the sentence, by name.

    Examples:
        >>> message = Message("log-reachable", "the log answers again, after 3 s", seconds=3)
        >>> print(message)
        the log answers again, after 3 s
        >>> message.event, message.fields
        ('log-reachable', {'seconds': 3})
    """

    __slots__ = ("event", "fields")

    event: str
    fields: Mapping[str, Any]

    def __new__(cls, event: str, text: object, /, **fields: Any) -> Self:
        """Return the message; see the class."""
        message = super().__new__(cls, text)
        message.event, message.fields = event, fields
        return message

    def reworded(self, text: str, **more: Any) -> Message:
        """Return a message with the same event name, another text, and more fields."""
        return Message(self.event, text, **{**self.fields, **more})

    def reduced(self, text: str, names: Container[str]) -> Message:
        """Return a message with the same event name, another text, and the fields of these names only."""
        return Message(self.event, text, **{name: of for name, of in self.fields.items() if name in names})


def warn_user(message: Message, category: type[Warning]) -> None:
    """Warn at the first frame outside this package and River: Python shows it once for each such line."""
    warnings.warn(str(message), category, stacklevel=_level_of_user())


def _level_of_user() -> int:
    frame, level = sys._getframe(1), 1  # noqa: SLF001  as `warnings` does
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGES):
        frame, level = frame.f_back, level + 1
    return level
