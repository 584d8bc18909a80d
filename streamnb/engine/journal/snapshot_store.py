"""What a learner asks of where its snapshots are kept."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from streamnb.formats.snapshot_container import Snapshot
from streamnb.values.type_aliases import Array, concatenated


class FoundSnapshot(Protocol):
    """A snapshot that a store found."""

    @property
    def snapshot(self) -> Snapshot:
        """Its values."""


class Snapshots(Protocol):
    """Where snapshots are found."""

    def newest(
        self, at_most: int | None = None, alive: Callable[[], None] = lambda: None
    ) -> FoundSnapshot | None:
        """The newest readable one that stands at journal record `at_most` or before.

        None only where there is no such file. Raises SnapshotError where none of them can be read. Reading
        may take long: `alive` is called now and then.
        """

    def offered(self, n: int) -> Snapshot | None:
        """What holds a model that was learned anew, for whoever stands at journal record `n`.

        Raises SnapshotError where it cannot be read.
        """


class NoSnapshots:
    """For a recovery that is to begin with nothing."""

    def segments(self) -> Container[str]:
        """None are stored."""
        return ()

    def newest(self, at_most: int | None = None, alive: Callable[[], None] = lambda: None) -> None:
        """There is none."""

    def offered(self, n: int) -> None:
        """There is none."""

    def aside(self, blocks: Iterable[Array]) -> Array:
        """In memory."""
        return concatenated(blocks)

    def asked_by(self) -> str:
        """Nobody asks."""
        return ""


class SnapshotStore(Snapshots, Protocol):
    """Where snapshots are kept, too."""

    def segments(self) -> Container[str]:
        """The names of segments that are stored: a snapshot that is kept need not bring their bytes."""

    def asked_by(self) -> str:
        """Who learned a model anew, asks the learner to stand still, and lives; empty where nobody does.

        No two answers are the same, though one process may ask twice.
        """

    def aside(self, blocks: Iterable[Array]) -> Any:
        """One array of these blocks of rows that takes no memory; a snapshot that is kept may hold it.

        Raises SnapshotError where there is no place for it, or where that does not answer.
        """

    def save_aside(self, made: Callable[[], Snapshot]) -> Future[Path]:
        """Keep a snapshot that is made, too, in the background, durably; its arrays change no more.

        The file it is in, or a SnapshotError, is the outcome. Only one is on its way at a time.
        """
