"""What every classifier has for being kept in a file.

A model does no I/O. The file is the affair of `streamnb.saved`, which is loaded when something is saved.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


class Savable:
    """A model with `state` and `load_state`, whose parameters are attributes of it by their names."""

    def save(self, path: str | Path) -> None:
        """Write parameters and all that was learned to a file, whole or not at all; see `streamnb.load`.

        The file is a snapshot of docs/snapshot-format.md: nothing in it is executed when it is loaded.

        Raises SnapshotError, and leaves a file that was there as it was, for a parameter that a file has no
        form for, such as a function, and where the disk refuses.
        """
        import_module("streamnb.saved").save(self, path)

    def digest(self) -> str:
        """SHA-256, in hex, of all that was learned: equal where two have learned the same, to the bit.

        Classifiers themselves are equal where they are one object, as River's and scikit-learn's are: they
        change as they learn, and stand in sets and as keys meanwhile.
        """
        found: str = import_module("streamnb.saved").digest(self)
        return found
