"""Ports of the snapshot store."""

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
    """Readable snapshots."""

    def newest(
        self, at_most: int | None = None, heartbeat: Callable[[], None] = lambda: None
    ) -> FoundSnapshot | None:
        """Return the newest readable snapshot at journal record `at_most` or before.

        None only if there is no such file. Raises SnapshotError if none of them can be read. Reading may take
        long: `heartbeat` is called now and then.
        """

    def offered(self, n: int) -> Snapshot | None:
        """Return the retrained model for a learner at record `n`; raise SnapshotError if unreadable."""


class NoSnapshots:
    """Empty store, for a recovery from the journal alone."""

    def segments(self) -> Container[str]:
        """Return no names."""
        return ()

    def newest(self, at_most: int | None = None, heartbeat: Callable[[], None] = lambda: None) -> None:
        """Return None."""

    def offered(self, n: int) -> None:
        """Return None."""

    def aside(self, blocks: Iterable[Array]) -> Array:
        """Concatenate in memory."""
        return concatenated(blocks)

    def newest_record(self) -> int:
        """Return -1."""
        return -1

    def asked_by(self) -> str:
        """Return ""."""
        return ""


class SnapshotStore(Snapshots, Protocol):
    """Writable snapshot store."""

    def segments(self) -> Container[str]:
        """Return the names of stored segments, whose bytes a new snapshot may omit."""

    def newest_record(self) -> int:
        """Return the journal record of the newest snapshot, readable or not; -1 without one."""

    def asked_by(self) -> str:
        """Return a unique id of the live request to pause for a retrained model, or ""."""

    def aside(self, blocks: Iterable[Array]) -> Any:
        """Concatenate blocks of rows to an array on disk; raise SnapshotError if the disk fails."""

    def save_aside(self, made: Callable[[], Snapshot]) -> Future[Path]:
        """Create and save a snapshot durably in the background; its arrays must not change.

        The future yields its file, or a SnapshotError. Only one may be in flight.
        """
