"""What every classifier has for being kept in a file.

A model does no I/O. The file is the affair of `streamnb.persistence.model_files`, which is loaded when
something is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Self

from streamnb.values.hooks import Hooks
from streamnb.values.notebook_repr import Shown
from streamnb.values.parameter_checks import brief


class Savable(Shown):
    """A model with `state` and `load_state`, whose parameters are attributes of it by their names."""

    def __repr__(self) -> str:
        inherited = super().__repr__()
        if not inherited.startswith("<"):  # of River's base
            return inherited
        names = signature(type(self)).parameters
        made = getattr(self, "made_with", None) or {name: getattr(self, name) for name in names}
        told = ", ".join(f"{name}={brief(repr(value))}" for name, value in made.items())
        return f"{type(self).__name__}({told})"

    def save(self, path: str | Path) -> None:
        """Write parameters and all that was learned to a file, whole or not at all; see `streamnb.load`.

        The file is a snapshot of docs/snapshot-format.md: nothing in it is executed when it is loaded.

        Raises SnapshotError, and leaves a file that was there as it was, for a parameter that a file has no
        form for, such as a function, and where the disk refuses.
        """
        Hooks.model_files().save(self, path)

    def digest(self) -> str:
        """SHA-256, in hex, of all that was learned: equal where two have learned the same, to the bit.

        Classifiers themselves are equal where they are one object, as River's and scikit-learn's are: they
        change as they learn, and stand in sets and as keys meanwhile.
        """
        return Hooks.model_files().digest(self)


class SavableValue(Savable):
    """What `from_state` makes anew of a state, and is equal where states are: a posterior, for example."""

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Replace everything, the parameters too, by what a `state` of one of this class says; returns self.

        Raises SnapshotError, and changes nothing, where it is none.
        """
        self.__dict__ = type(self).from_state(meta, arrays).__dict__  # type: ignore[attr-defined]
        return self

    def __eq__(self, other: object) -> bool:
        """Whether parameters and all that was learned are equal, to the bit."""
        if type(other) is not type(self):
            return NotImplemented
        return self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]  # it changes
