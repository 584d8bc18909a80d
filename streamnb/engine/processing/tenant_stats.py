"""Statistics of each tenant's model in a compacted topic; a tombstone if the model is gone.

A tenant is *due* once its model has changed since its record was written. A commit with a report writes a
bounded number of due tenants, round-robin by their numbers. The due tenants are state in snapshots, and a
replay finds the same ones. So a record that a crash prevented is written later, and none is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streamnb.engine.ports import NewRecord
from streamnb.engine.topic_plan import TENANT_BYTES
from streamnb.errors import SnapshotError
from streamnb.events import ModelInfo, TenantStanding
from streamnb.formats.codec import encode_tenant_stats
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.interface.tenant_usage import TenantedModel, TenantLabels
from streamnb.values.state_validation import count, state_errors

MOST, MOST_ALONE = 1000, 5000
"""Maximum number of tenants in a commit that learns events, and in one that only reports."""
MOST_BYTES = 4 << 20
"""Bytes of tenant records after which a commit writes no more."""
_LABELS = 10
"""Maximum number of classes in a record."""


class TenantStats:
    """Due tenants, in addition to `TenantTable.changed`.

    Args:
        topic: topic of the records.

    Attributes:
        gone: names of tenants without a model that may still have a record.
        next: number of the tenant at which the round-robin continues.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.gone: list[str] = []
        self.next = 0

    @staticmethod
    def of_topic(before: TenantStats | None, topic: str, model: StreamModel) -> TenantStats | None:
        """Return the statistics of a topic: continued, or with all tenants due; None if disabled."""
        if not (topic and isinstance(model, TenantedModel)):
            return None
        if before is not None and before.topic == topic:
            return before
        model.store.changed = model.store.counted()[:, 0] > 0
        return TenantStats(topic)

    @staticmethod
    def are_due(before: TenantStats | None, topic: str, model: StreamModel) -> bool:
        """Return if a tenant is due in the statistics that `of_topic` would return."""
        if not (topic and isinstance(model, TenantedModel)):
            return False
        if before is None or before.topic != topic:
            return model.n_events > 0
        return bool(before.gone) or bool(model.store.changed.any())

    def due(self, model: StreamModel) -> set[str]:
        """Return the names of due tenants."""
        assert isinstance(model, TenantedModel)  # noqa: S101  see `of_topic`
        names = model.store.names
        return {*self.gone, *(names[number] for number in np.flatnonzero(model.store.changed).tolist())}

    def begin_anew(self, names: Sequence[str], model: StreamModel) -> TenantStats | None:
        """Make all tenants due again, also the former `names`; None for a model without tenants."""
        if not isinstance(model, TenantedModel):
            return None
        model.store.changed[:] = True
        self.gone = sorted({*self.gone, *names} - {*model.store.names})
        return self

    def records(self, model: StreamModel, name: str, now: float, most: int) -> Iterator[NewRecord]:
        """Yield the records of at most `most` due tenants and a few MiB; they are no longer due."""
        assert isinstance(model, TenantedModel)  # noqa: S101  see `of_topic`
        left, gone = MOST_BYTES, self.gone[:most]
        self.gone = self.gone[most:]
        known = {*model.store.names} if gone else set()  # a tenant that returned is written below
        yield from (self._record(tenant, b"") for tenant in gone if tenant not in known)
        due = np.flatnonzero(model.store.changed)
        turn = np.roll(due, -int(np.searchsorted(due, self.next)))[: most - len(gone)].tolist()
        of = ModelInfo(name, model.n_events)
        for number, standing in zip(turn, model.store.tenant_stats(turn, _LABELS), strict=True):
            if left <= 0:
                break
            record = self._record(standing.tenant.name, _named_tenant(standing, of, now))
            left -= len(record.key or b"") + len(record.value)
            model.store.changed[number], self.next = False, number + 1
            yield record

    def _record(self, tenant: str, value: bytes) -> NewRecord:
        return NewRecord(self.topic, tenant.encode(), value)

    def part(self, model: StreamModel) -> SnapshotPart:
        """Return the snapshot part."""
        assert isinstance(model, TenantedModel)  # noqa: S101  see `of_topic`
        meta = {"topic": self.topic, "next": self.next, "gone": self.gone}
        return SnapshotPart(meta, {"due": np.flatnonzero(model.store.changed)})

    @classmethod
    def from_part(cls, part: SnapshotPart, model: StreamModel) -> TenantStats | None:
        """Restore from a `part` and mark due tenants in the model; raise SnapshotError if invalid."""
        if not isinstance(model, TenantedModel):
            return None
        with state_errors("the standings of tenants"):
            made = cls(str(part.meta["topic"]))
            made.next, made.gone = count(part.meta, "next"), list(map(str, part.meta["gone"]))
            due, changed = part.arrays["due"], model.store.changed
            if due.dtype != np.int64 or due.ndim != 1 or ((due < 0) | (due >= changed.size)).any():
                raise SnapshotError("a due tenant has no model")
            changed[due] = True
        return made


def _named_tenant(standing: TenantLabels, of: ModelInfo, now: float) -> bytes:
    """Return the value of a tenant's record; a tombstone if its model has no events."""
    tenant, labels, rest = standing.tenant, dict(standing.labels), standing.rest
    if not tenant.events:
        return b""
    while True:
        said = encode_tenant_stats(
            TenantStanding(
                tenant=tenant.name,
                events=tenant.events,
                tested=tenant.tested,
                right=tenant.right,
                accuracy=tenant.right / tenant.tested if tenant.tested else None,
                labels=labels,
                rest=rest or None,
                model=of,
                ts=now,
            )
        )
        if len(said) + len(tenant.name.encode()) <= TENANT_BYTES or not labels:
            return said
        rest += labels.popitem()[1]
