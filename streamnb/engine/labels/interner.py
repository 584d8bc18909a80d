"""Interning of names as consecutive integers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


class Interner(dict[T, int]):
    """Name -> its number 0, 1, ... in the order of first lookup; `get` and `in` add nothing.

    Attributes:
        names: in this order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[T] = []

    def __missing__(self, name: T) -> int:
        number = self[name] = len(self.names)
        self.names.append(name)
        return number
