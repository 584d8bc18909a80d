"""Copies of snapshots in object storage, for machines that do not share a disk with the learner.

    segments/<sha256>                       named by their content
    snapshot-<record>-<digest>.snb          named by the digest of the journal record
    snapshot-<record>-<digest>.json         written last: a snapshot without it does not count

Names are made of digests, so no writer can replace another's snapshot, and a learner that was fenced does no
harm: a reader takes only a snapshot whose digest is in the journal. A failed upload leaves objects that do
not count, and that a later upload removes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streamnb.errors import ConfigError, SnapshotError
from streamnb.formats.snapshot_container import Snapshot, segment_names
from streamnb.persistence.snapshot_folder import SEGMENTS, install_snapshot

_MANIFEST = re.compile(r"(?:.*/)?(snapshot-([0-9]{20})-([0-9a-f]{64}))\.json")
_YOUNG = timedelta(hours=1)  # objects that an upload in progress may need
_RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}


class MirroredSnapshot(NamedTuple):
    """Complete snapshot in object storage: its journal record, and that record's digest."""

    n: int
    digest: str

    @property
    def name(self) -> str:
        """Common part of the names of its objects."""
        return f"snapshot-{self.n:020d}-{self.digest}"


class _Manifest(msgspec.Struct):
    segments: tuple[str, ...]


class SnapshotMirror:
    """Snapshots under a URL of object storage.

    Credentials and endpoint are taken from the environment, as obstore reads them (`AWS_ACCESS_KEY_ID`,
    `AWS_ENDPOINT_URL` and so on).

    Args:
        url: such as `s3://bucket/prefix` or `file:///directory`.
        keep: how many of the newest snapshots are kept.

    Raises:
        ConfigError: obstore is not installed, or the URL cannot be used.
    """

    def __init__(self, url: str, keep: int = 3) -> None:
        try:
            import obstore  # noqa: PLC0415  an extra
            from obstore import store  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(
                f'snapshots.mirror = "{url}" needs obstore ({error}): pip install "streamnb[object-storage]"'
            ) from error
        self.url, self.keep, self._obstore = url, keep, obstore
        options: dict[str, Any] = {"mkdir": True} if url.startswith("file:") else {"retry_config": _RETRIES}
        try:
            self._store = store.from_url(url, **options)
        except Exception as error:  # obstore raises many kinds
            raise ConfigError(
                f'snapshots.mirror is "{url}", which cannot be used: {_first_line(error)}'
            ) from error

    def list(self) -> Sequence[MirroredSnapshot]:
        """Return the complete snapshots, oldest first. Raises SnapshotError."""
        return _complete(path for path, _ in self._objects("snapshot-"))

    def upload(self, snapshot: Snapshot, file: Path) -> None:
        """Copy a snapshot from its folder.

        1. Copy the segments that the storage lacks, then the file.
        2. Write the manifest: from here on the snapshot counts.
        3. Remove the snapshots beyond `keep`, and old objects that no manifest needs.

        Raises SnapshotError; before step 3 nothing is removed.
        """
        named = MirroredSnapshot(snapshot.journal_n, snapshot.digest)
        segments = tuple(segment_names(snapshot.parts))
        stored = {path.rpartition("/")[2] for path, _ in self._objects(SEGMENTS)}
        for name in segments:
            if name not in stored:
                self._call(self._obstore.put, f"{SEGMENTS}/{name}", file.parent / SEGMENTS / name)
        self._call(self._obstore.put, f"{named.name}.snb", file)
        self._call(self._obstore.put, f"{named.name}.json", msgspec.json.encode(_Manifest(segments)))
        self._remove_old()

    def download(self, found: MirroredSnapshot, folder: Path) -> Path:
        """Copy a snapshot to a folder of snapshots, and return its file. Raises SnapshotError."""
        segments = {name: self._chunks(f"{SEGMENTS}/{name}") for name in self._segments_of(found)}
        return install_snapshot(folder, found.n, self._chunks(f"{found.name}.snb"), segments)

    def _segments_of(self, found: MirroredSnapshot) -> Sequence[str]:
        content = b"".join(self._chunks(f"{found.name}.json"))
        try:
            return msgspec.json.decode(content, type=_Manifest).segments
        except msgspec.DecodeError as error:
            raise SnapshotError(f"{self.url}: {found.name}.json: {error}") from error

    def _remove_old(self) -> None:
        """Remove, manifests first, so that a snapshot that counts is always whole."""
        objects = dict(self._objects(""))
        kept = _complete(objects)[-self.keep :]
        needed = {f"{SEGMENTS}/{name}" for one in kept for name in self._segments_of(one)}
        needed |= {f"{one.name}{suffix}" for one in kept for suffix in (".snb", ".json")}
        gone = [path for path in objects if path.endswith(".json") and path not in needed]
        finished = {path.removesuffix(".json") for path in gone}
        until = datetime.now(UTC) - _YOUNG
        gone += [
            path
            for path, changed in objects.items()
            if path not in needed
            and path not in gone
            and (changed < until or path.removesuffix(".snb") in finished)
        ]
        if gone:
            self._call(self._obstore.delete, gone)

    def _objects(self, start: str) -> Iterator[tuple[str, datetime]]:
        """Yield name and time of the objects whose name begins with `start`."""
        for part in self._call(lambda store, _: list(self._obstore.list(store)), start):
            for one in part:
                if one["path"].startswith(start):
                    yield one["path"], one["last_modified"]

    def _chunks(self, name: str) -> Iterator[bytes]:
        for chunk in self._call(lambda store, _: self._obstore.get(store, name).stream(), name):
            yield bytes(chunk)

    def _call(self, act: Callable[..., Any], name: Any, *more: Any) -> Any:
        try:
            return act(self._store, name, *more)
        except Exception as error:  # obstore raises many kinds
            raise SnapshotError(f"{self.url}: {_first_line(error)}") from error


def _complete(paths: Iterable[str]) -> list[MirroredSnapshot]:
    """Return the snapshots whose manifests are among the paths, oldest first."""
    matches = filter(None, map(_MANIFEST.fullmatch, paths))
    return sorted(MirroredSnapshot(int(match[2]), match[3]) for match in matches)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
