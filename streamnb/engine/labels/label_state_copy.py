"""The state of late labels at one moment, as a snapshot has it."""

from __future__ import annotations

import hashlib
from typing import Any

from streamnb.engine.labels.label_buffer import LabelBufferCopy
from streamnb.formats.snapshot_container import SnapshotPart


class DelayedLabelsCopy:
    """All state at one moment, copied in slices."""

    def __init__(
        self, meta: dict[str, Any], early: bytes, scores: SnapshotPart, pending: LabelBufferCopy
    ) -> None:
        name = hashlib.sha256(early).hexdigest()
        self._meta, self._scores, self._pending = {**meta, "early": name}, scores, pending
        self._early = {name: early}

    def advance(self, n_bytes: int) -> bool:
        """Copy about so many bytes more; whether that is all."""
        return self._pending.advance(n_bytes)

    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of a snapshot."""
        self._pending.advance(1 << 62)
        rows = self._pending.rows()
        segments = [*self._early, *(name for _, _, fixed, changing in rows for name in (fixed, changing))]
        meta = {**self._meta, "chunks": rows, "segments": segments}
        return {"labels": SnapshotPart(meta, {}), "progressive": self._scores}

    def segments(self) -> dict[str, bytes]:
        """Its segments, but for those that are held already."""
        self._pending.advance(1 << 62)
        return self._early | self._pending.segments
