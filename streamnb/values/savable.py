"""The base of classifiers that can be saved; `streamnb.persistence.model_files` does the I/O."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Self

from streamnb.values.hooks import Hooks, Shown
from streamnb.values.parameter_checks import brief


class Savable(Shown):
    """A model with `state` and `load_state`, whose parameters are attributes of the same names."""

    def __repr__(self) -> str:
        inherited = super().__repr__()
        if not inherited.startswith("<"):  # of River's base
            return inherited
        names = signature(type(self)).parameters
        values = getattr(self, "made_with", None) or {name: getattr(self, name) for name in names}
        parameters = ", ".join(f"{name}={brief(repr(value))}" for name, value in values.items())
        return f"{type(self).__name__}({parameters})"

    def save(self, path: str | Path) -> None:
        """Write parameters and learned state to a file, whole or not at all; see `streamnb.load`.

        The file is a snapshot of docs/snapshot-format.md: nothing in it is executed when it is loaded.

        Raises SnapshotError if a parameter, such as a function, cannot be stored, or if the disk refuses.
        An existing file then stays as it was.
        """
        Hooks.model_files().save(self, path)

    def digest(self) -> str:
        """Return the SHA-256 of the learned state, in hex: equal for bit-identical states.

        Classifiers themselves compare by identity, as those in River and scikit-learn do: they change as
        they learn, and are members of sets and keys of dictionaries meanwhile.
        """
        return Hooks.model_files().digest(self)


class SavableValue(Savable):
    """A model that `from_state` rebuilds from a state, and that is equal if the state is, as a posterior."""

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Replace everything, also the parameters, by a `state` of the same class; return self.

        Raises SnapshotError, and changes nothing, if the state is invalid.
        """
        self.__dict__ = type(self).from_state(meta, arrays).__dict__  # type: ignore[attr-defined]
        return self

    def __eq__(self, other: object) -> bool:
        """Return whether parameters and learned state are equal, to the bit."""
        if type(other) is not type(self):
            return NotImplemented
        return self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]  # it changes
