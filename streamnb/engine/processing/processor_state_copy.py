"""Consistent copy of a learner's state while it continues."""

from __future__ import annotations

from collections.abc import Mapping

from streamnb.engine.labels.label_buffer import DelayedLabelsCopy
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.models.interface.stream_model import StateCopying


class ProcessorStateCopy:
    """State of a learner at one moment, copied in slices; see `StateCopying`."""

    def __init__(
        self, model: StateCopying, small: Mapping[str, SnapshotPart], late: DelayedLabelsCopy | None
    ) -> None:
        self._model, self._small, self._late = model, small, late

    def advance(self, n_bytes: int) -> bool:
        """Copy about `n_bytes` more; return if the copy is complete."""
        return self._model.advance(n_bytes) and (self._late is None or self._late.advance(n_bytes))

    def parts(self) -> dict[str, SnapshotPart]:
        """Return the parts of a snapshot, once the copy is complete."""
        late = {} if self._late is None else self._late.parts()
        return {"model": SnapshotPart(*self._model.state()), **self._small, **late}

    def segments(self) -> dict[str, bytes]:
        """Return the segments that are not stored already."""
        return {} if self._late is None else self._late.segments()
