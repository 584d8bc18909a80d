"""A value that is used and never shown."""

from __future__ import annotations

__all__ = ["Secret"]


class Secret:
    """A string that no repr, message, file or hash holds; only `reveal` gives it away.

    It is no string on purpose: whoever writes it somewhere gets asterisks, and encoders refuse it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The string itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(***)" if self else "Secret()"
