"""A folder of snapshots, written whole or not at all and read newest first; damage is reported."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import re
import secrets
import stat
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from streamnb.errors import SnapshotError, told_as
from streamnb.formats.portable_arrays import StoredArray
from streamnb.formats.snapshot_container import (
    DIGEST,
    Snapshot,
    encode_chunks,
    floor_of,
    load,
    load_parts,
    segment_names,
)
from streamnb.persistence.compressed_files import MAGIC, DecompressedContent, compressed
from streamnb.values.messages import Message
from streamnb.values.type_aliases import Array

_NAME = re.compile(r"snapshot-([0-9]{20})\.snb")
_TEMPORARY_NAME = re.compile(r"((?:snapshot|adopt|delta)-[0-9]{20}\.snb|[0-9a-f]{64})\.[0-9a-f]{16}\.tmp")
SEGMENTS = "segments"
"""Folder of the segments in a folder of snapshots."""
_OFFERED = re.compile(r"adopt-([0-9]{20})\.snb")
_ASKED = "adopt.lock"
_SAVE_PATIENCE = 60.0  # seconds for which a save waits for the save of another process
_PATIENCE = 3.0  # seconds
_T = TypeVar("_T")
_LOOKS, _LOOK_SECONDS = 20, 0.05  # a learner that checks for requests holds the lock for a moment


class SnapshotFile(NamedTuple):
    """One snapshot file: its journal record, path and size in bytes."""

    n: int
    path: Path
    size: int


class Damaged(NamedTuple):
    """A snapshot file that could not be read, and the reason."""

    path: Path
    reason: str

    @property
    def message(self) -> Message:
        """The message that the file is skipped."""
        text = f"passing over {self.path}: {self.reason}"
        return Message("snapshot-damaged", text, file=str(self.path), reason=self.reason)


class FoundSnapshotFile(NamedTuple):
    """The newest readable snapshot, and the newer damaged files that were skipped, newest first."""

    snapshot: Snapshot
    path: Path
    damaged: tuple[Damaged, ...]


class SnapshotFolder:
    """The snapshots of one learner, at most `keep` of them, in files named by their journal record.

    One process saves at a time, and others wait; any number of processes may read meanwhile. A missing folder
    holds no snapshots;
    `save` creates it with access for its user alone. If the group may read the folder, it may read the files
    as well, as far as the umask allows.

    Args:
        path: the folder.
        keep: how many snapshots are kept.
        report: called with every damaged file that `newest` skips.
        whole: whether to read segments, too; predictions do not need them.
        copy: called after each save, with the snapshot and its file; must not raise.
    """

    def __init__(
        self,
        path: Path | str,
        keep: int = 3,
        report: Callable[[Damaged], None] = lambda _: None,
        *,
        whole: bool = True,
        copy: Callable[[Snapshot, Path], None] = lambda *_: None,
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.path = Path(path)
        self._owner = threading.get_ident()
        self._asked: Future[StoredArray] | None = None  # the copy in progress
        self.keep, self._report, self._whole, self._copy = keep, report, whole, copy

    def save(self, snapshot: Snapshot) -> Path:
        """Write one snapshot; on return it is durable under the path returned.

        1. Validate the snapshot's values before the disk is touched.
        2. Wait for the save of another process, then remove temporary files of writers that died.
        3. Write and sync the missing segments, each whole or not at all.
        4. Write all bytes, compressed, to a temporary file in the same folder, and sync it.
        5. Rename it, replacing any snapshot of the same journal record.
        6. Sync the folder: from here on the snapshot survives a loss of power.
        7. Of the snapshots up to this one, remove the oldest beyond `keep`, and the snapshots before the
        floor
           if events were evicted; then remove the segments that no remaining snapshot names.

        A death between any two steps leaves every older snapshot, and perhaps a temporary file.

        Raises:
            SnapshotError: the snapshot has a value without a form, or stands before the first journal
                record, or the disk refused. Before step 7 no older snapshot has been touched, and unless the
                disk refuses that too, the temporary file is removed.
        """
        if snapshot.journal_n < 0:
            raise SnapshotError("a snapshot to be kept stands at a journal record, this one before the first")
        chunks = encode_chunks(snapshot)
        final = self.path / f"snapshot-{snapshot.journal_n:020d}.snb"
        with ExitStack() as saving:
            with told_as(SnapshotError, f"cannot save {final}", OSError):
                _make_folder(self.path)
                saving.enter_context(_alone(self.path))
                self._remove_stale(self.path)
                self._save_segments(snapshot)
                _write_and_rename(compressed(chunks), final)
                _sync_folder(self.path)
            self._drop_oldest(snapshot.journal_n, floor_of(snapshot.parts))
            self._drop_segments()
        self._copy(snapshot, final)
        return final

    def segments(self) -> frozenset[str]:
        """Return the names of the segments that are stored completely."""
        try:
            return frozenset(
                path.name for path in (self.path / SEGMENTS).iterdir() if DIGEST.fullmatch(path.name)
            )
        except OSError:
            return frozenset()

    def aside(self, blocks: Iterable[Array]) -> StoredArray:
        """Copy blocks of rows to an array in an unnamed file, which is deleted with the array.

        Raises SnapshotError if the disk refuses. So that the learner continues, it also raises SnapshotError
        if the disk does not respond within `_PATIENCE` seconds, or has not yet completed an earlier late
        copy.
        """
        if threading.get_ident() != self._owner:
            return self._put_aside(blocks)
        if self._asked is None or self._asked.done():
            asked = self._asked = _in_background(lambda: self._put_aside(blocks))
            with suppress(TimeoutError):
                asked.exception(_PATIENCE)
                self._asked = None  # it holds the file
                return asked.result()
        raise SnapshotError(f"{self.path} takes nothing within {_PATIENCE:g} s: does the disk answer?")

    def _put_aside(self, blocks: Iterable[Array]) -> StoredArray:
        rows = 0
        with told_as(SnapshotError, f"cannot write to {self.path}", OSError):
            _make_folder(self.path)
            with tempfile.TemporaryFile(dir=self.path, buffering=0) as file:
                for block in blocks:
                    _write(file.fileno(), np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
                    rows += len(block)
                return StoredArray(_Reading(os.dup(file.fileno())), block.dtype, (rows, *block.shape[1:]))

    def save_aside(self, made: Callable[[], Snapshot]) -> Future[Path]:
        """Call `made` and `save` in a daemon thread, and return the future path."""
        return _in_background(lambda: self.save(made()))

    def newest(
        self, at_most: int | None = None, alive: Callable[[], None] = lambda: None
    ) -> FoundSnapshotFile | None:
        """Return the newest readable snapshot; None only if the folder has no snapshot files.

        Args:
            at_most: pass over those that stand at a later journal record.
            alive: called before every few hundred kilobytes are read.

        Raises:
            SnapshotError: there are snapshot files and none can be read; it names each with its reason.
        """
        while paths := {n: path for n, path in self._paths().items() if at_most is None or n <= at_most}:
            damaged: list[Damaged] = []
            vanished = False
            for n in sorted(paths, reverse=True):
                try:
                    return FoundSnapshotFile(self._read(paths[n], n, alive), paths[n], tuple(damaged))
                except (SnapshotError, OSError) as error:
                    if os.path.lexists(paths[n]):
                        damaged.append(Damaged(paths[n], _reason(error)))
                        self._report(damaged[-1])
                    else:  # dropped by the writer meanwhile: there are newer snapshots
                        vanished = True
            if not vanished:
                reasons = "; ".join(f"{path}: {reason}" for path, reason in damaged)
                raise SnapshotError(
                    f"no snapshot can be read: {reasons}; bring a good one back, or move these away, and the "
                    "model is built again from the journal's beginning"
                )
        return None

    def newest_record(self) -> int:
        """Return the journal record of the newest file, readable or not; -1 without files."""
        return max(self._paths(), default=-1)

    def load(self, n: int) -> Snapshot:
        """Return the snapshot at journal record `n`; raise SnapshotError if it is missing or damaged."""
        path = self._paths().get(n)
        if path is None:
            raise SnapshotError(f"{self.path} holds no snapshot at journal record {n}")
        with told_as(SnapshotError, path, SnapshotError, OSError):
            return self._read(path, n)

    def list(self) -> Sequence[SnapshotFile]:
        """Return every snapshot file, readable or not, oldest first; raise SnapshotError if that fails."""
        entries = []
        for n, path in sorted(self._paths().items()):
            with suppress(FileNotFoundError):  # dropped by the writer meanwhile
                entries.append(SnapshotFile(n, path, path.lstat().st_size))
        return tuple(entries)

    def _paths(self) -> dict[int, Path]:
        """Return the files by journal record, from the names alone.

        A snapshot is dropped only after a newer one has its name, so a single listing is empty only if the
        folder has no snapshots; reading the size of each file in between would lose this guarantee.
        """
        with told_as(SnapshotError, f"cannot list {self.path}", OSError), suppress(FileNotFoundError):
            found = [(_NAME.fullmatch(path.name), path) for path in self.path.iterdir()]
            return {int(match[1]): path for match, path in found if match}
        return {}

    def _read(self, path: Path, n: int, alive: Callable[[], None] = lambda: None) -> Snapshot:
        snapshot = read_file(path, alive)
        if snapshot.journal_n != n:
            raise SnapshotError(f"it stands at journal record {snapshot.journal_n}, its name has {n}")
        named = segment_names(snapshot.parts) if self._whole else ()
        found = {name: self._segment(name, alive) for name in named}
        return msgspec.structs.replace(snapshot, segments=found) if found else snapshot

    def _segment(self, name: str, alive: Callable[[], None]) -> bytes:
        path = self.path / SEGMENTS / name
        with told_as(SnapshotError, f"its segment {path}", OSError), _Watched(path, alive) as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != name:
            raise SnapshotError(f"its segment {path} does not match its checksum")
        return content

    def _save_segments(self, snapshot: Snapshot) -> None:
        """Write the segments contained in the snapshot.

        Raises SnapshotError if a referenced segment is gone.
        """
        named = segment_names(snapshot.parts)
        if not named:
            return
        folder = self.path / SEGMENTS
        _make_folder(folder)
        self._remove_stale(folder)
        stored = self.segments()
        missing = [name for name in named if name not in stored and name not in snapshot.segments]
        if missing:
            raise SnapshotError(
                f"segment {folder / missing[0]} was deleted; the next snapshot writes it again"
            )
        new = [name for name in named if name not in stored]
        for name in new:
            _write_and_rename(iter([snapshot.segments[name]]), folder / name)
        if new:
            _sync_folder(folder)

    def _drop_segments(self) -> None:
        """Remove unreferenced segments; none if a snapshot cannot be read."""
        stored = self.segments()
        if not stored:
            return
        try:
            named = {name for path in self._paths().values() for name in _named_in(path)}
        except (SnapshotError, OSError):
            return
        for name in stored - named:
            with suppress(OSError):
                (self.path / SEGMENTS / name).unlink()

    @staticmethod
    def _remove_stale(folder: Path) -> None:
        """Remove temporary files of dead writers: a live writer holds a lock on its file."""
        for path in folder.iterdir():
            if _TEMPORARY_NAME.fullmatch(path.name):
                with suppress(OSError), io.FileIO(path, opener=_open_file) as file:
                    if _lock(file.fileno()):
                        path.unlink()

    def offer(self, snapshot: Snapshot) -> Path:
        """Save a retrained model for a learner that stands at the snapshot's journal record."""
        final = self._offer(snapshot.journal_n)
        save_file(snapshot, final, None)
        return final

    def _offer(self, n: int) -> Path:
        return self.path / f"adopt-{n:020d}.snb"

    def offered(self, n: int) -> Snapshot | None:
        """Return the model offered to a learner at journal record `n`. Raises SnapshotError if damaged."""
        path = self._offer(n)
        with told_as(SnapshotError, path, SnapshotError, OSError), suppress(FileNotFoundError):
            return self._read(path, n)
        return None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask the learner to pause for a hand-over.

        Raises SnapshotError if another process is already asking.
        """
        _make_folder(self.path)
        with (self.path / _ASKED).open("a+") as file:
            looks = 1
            while not _lock(file.fileno()):
                if looks == _LOOKS:
                    file.seek(0)
                    raise SnapshotError(
                        f"{self.path / _ASKED} is held by process {file.read().partition(' ')[0]}: "
                        "it is handing a model over, or was stopped (Ctrl-Z) while it did; wait for it, "
                        "or end it"
                    )
                looks += 1
                time.sleep(_LOOK_SECONDS)
            file.truncate(0)
            file.write(f"{os.getpid()} {secrets.token_hex(8)}")
            file.flush()
            yield  # the file stays: processes that wait for its lock have it open

    def remove_offers(self, since: int) -> None:
        """Remove the models offered to learners at a journal record or beyond."""
        for path in self._offers(range(since, sys.maxsize)):
            path.unlink(missing_ok=True)

    def _offers(self, numbers: range) -> Sequence[Path]:
        found = [(path, _OFFERED.fullmatch(path.name)) for path in self.path.iterdir()]
        return [path for path, match in found if match and int(match[1]) in numbers]

    def asked_by(self) -> str:
        """Return the identity of the live process that asks; empty if none asks or it is not yet known."""
        if not (self.path / _ASKED).exists():  # the common case
            return ""
        try:
            with io.FileIO(self.path / _ASKED, opener=_open_file) as file:
                return "" if _lock(file.fileno()) else file.read().decode(errors="replace")
        except OSError:
            return ""

    def _drop_oldest(self, n: int, floor: int) -> None:
        # Newer snapshots than `n`, left by a rollback, are overtaken in time; counting them now would remove
        # older ones.
        kept = [(other, path) for other, path in sorted(self._paths().items()) if other <= n]
        paths = [path for other, path in kept[: -self.keep]]
        paths += [path for other, path in kept[-self.keep :] if other < floor]
        oldest = kept[len(paths)][0]
        for path in [*paths, *self._offers(range(oldest))]:
            with told_as(SnapshotError, f"saved {n}, but cannot remove {path}", OSError):
                path.unlink(missing_ok=True)


def install_snapshot(
    folder: Path, n: int, content: Iterator[bytes], segments: Mapping[str, Iterator[bytes]]
) -> Path:
    """Write a snapshot that was saved elsewhere to a folder of snapshots; the file comes last.

    Raises SnapshotError if the disk refuses, or if an iterator does; then the folder is as before, apart from
    segments that nothing needs.
    """
    final = folder / f"snapshot-{n:020d}.snb"
    with told_as(SnapshotError, f"cannot save {final}", OSError):
        _make_folder(folder)
        with _alone(folder):
            if segments:
                _make_folder(folder / SEGMENTS)
            for name, chunks in segments.items():
                if not (folder / SEGMENTS / name).exists():
                    _write_and_rename(chunks, folder / SEGMENTS / name)
            _write_and_rename(content, final)
            for changed in [folder / SEGMENTS] * bool(segments) + [folder]:
                _sync_folder(changed)
    return final


def read_file(path: Path, alive: Callable[[], None] = lambda: None) -> Snapshot:
    """Return the snapshot of one file of any name, without segments. Raises SnapshotError and OSError."""
    with _Watched(path, alive) as file:
        content = _content_of(file)
        snapshot = load(content)
        if isinstance(content, DecompressedContent):
            content.check_end()
        return snapshot


def save_file(snapshot: Snapshot, path: Path, mode: int | None = 0o666) -> None:
    """Write one file durably, whole or not at all; see `_write_and_rename`. Raises SnapshotError."""
    chunks = encode_chunks(snapshot)
    with told_as(SnapshotError, f"cannot save {path}", OSError):
        _write_and_rename(chunks, path, mode)
        _sync_folder(path.parent)


def _in_background(work: Callable[[], _T]) -> Future[_T]:
    outcome: Future[_T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised where the outcome is asked for
            outcome.set_exception(error)

    threading.Thread(target=run, name="snapshot", daemon=True).start()
    return outcome


class _Reading:
    """Reader of a file that is closed with this object.

    It is not mapped: a read error of the disk would end the process without an exception.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __call__(self, buffer: memoryview, at: int) -> None:
        try:
            while buffer:
                if not (n := os.preadv(self._descriptor, [buffer], at)):
                    raise SnapshotError("the file of a copy ended while it was being read")
                buffer, at = buffer[n:], at + n
        except OSError as error:
            raise SnapshotError(f"a copy cannot be read back: {_reason(error)}") from error


class _Watched(io.BufferedReader):
    """A file whose reads send heartbeats."""

    def __init__(self, path: Path, alive: Callable[[], None]) -> None:
        super().__init__(io.FileIO(path, opener=_open_file))
        self._alive = alive

    def read(self, size: int | None = -1, /) -> bytes:
        self._alive()
        return super().read(size)

    def readinto(self, buffer: Any, /) -> int:
        self._alive()
        return super().readinto(buffer)


def _open_file(name: str, flags: int) -> int:
    """Return a descriptor of a regular file or folder; opening a pipe would wait for its writer."""
    descriptor = os.open(name, flags | os.O_NONBLOCK)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):  # reading a folder fails later
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file")


def _content_of(file: io.BufferedReader[Any]) -> io.BufferedReader[Any]:
    """Return the decompressed content of a file, or the file itself if it is not compressed."""
    return DecompressedContent(file) if file.peek(len(MAGIC))[: len(MAGIC)] == MAGIC else file


def _named_in(path: Path) -> Sequence[str]:
    with io.FileIO(path, opener=_open_file) as raw, io.BufferedReader(raw) as file:
        return segment_names(load_parts(_content_of(file)))


def _write_and_rename(chunks: Iterator[bytes], final: Path, mode: int | None = None) -> None:
    """Write a file with `mode`; by default for its user, and for the group if it may read the folder."""
    temporary = final.with_name(f"{final.name}.{secrets.token_hex(8)}.tmp")
    mode = 0o600 | final.parent.stat().st_mode & stat.S_IRGRP if mode is None else mode
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        # Held until the file has its final name, so that no other writer considers it abandoned.
        _lock(descriptor)
        for chunk in chunks:
            _write(descriptor, chunk)
        os.fsync(descriptor)
        os.rename(temporary, final)  # noqa: PTH104  next to the other calls on descriptors
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108  the same
        raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, chunk: bytes | memoryview) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock a folder; go on without the lock after `_SAVE_PATIENCE`, and on a file system without locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + _SAVE_PATIENCE
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_SECONDS)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Return whether the file is now locked by this process; False on a file system without locks, too."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make_folder(path: Path) -> None:
    """Create a folder and its missing parents, each durably."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(0o700, exist_ok=True)
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
