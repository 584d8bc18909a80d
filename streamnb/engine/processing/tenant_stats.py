"""What a compacted topic says of each tenant: where its model stands, or that there is none any more.

A tenant is *due* once its model has changed since its record was written. A commit that reports writes the
records of some that are due, in the order of their numbers, going round: whoever is due has its turn within
as many of them as it takes to write of all that are, and none writes more than a bounded number. Which are
due is state, in snapshots, and a replay finds the same ones: so each record that a crash kept from being
written is written later, and none is written twice.
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
from streamnb.models.tenants.tenant_models import TenantLabels, TenantModels
from streamnb.values.state_validation import count, state_errors

MOST, MOST_ALONE = 1000, 5000
"""The most tenants that a commit writes of: one that learns events, and one that only reports."""
MOST_BYTES = 4 << 20
"""A commit writes of no more tenants once their records have so many bytes."""
_LABELS = 10
"""The most classes that a record names."""


class TenantStats:
    """Which tenants are due, beside what their models say of themselves (`TenantModels.changed`).

    Args:
        topic: of their records.

    Attributes:
        topic: as given.
        gone: the names of those of which there is no model any more, and a record perhaps.
        next: the number of the tenant from which on those that are due have their turn.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.gone: list[str] = []
        self.next = 0

    @staticmethod
    def of_topic(before: TenantStats | None, topic: str, model: StreamModel) -> TenantStats | None:
        """Those of a topic: as they were before, or of all tenants; None where nobody writes of any."""
        if not (topic and isinstance(model, TenantModels)):
            return None
        if before is not None and before.topic == topic:
            return before
        model.changed = model.counted()[:, 0] > 0
        return TenantStats(topic)

    @staticmethod
    def are_due(before: TenantStats | None, topic: str, model: StreamModel) -> bool:
        """Whether the next of a topic, see `of`, would write of some tenant."""
        if not (topic and isinstance(model, TenantModels)):
            return False
        if before is None or before.topic != topic:
            return model.n_events > 0
        return bool(before.gone) or bool(model.changed.any())

    def due(self, model: StreamModel) -> set[str]:
        """The names of those that are."""
        assert isinstance(model, TenantModels)  # noqa: S101  see `of`
        names = model.names
        return {*self.gone, *(names[number] for number in np.flatnonzero(model.changed).tolist())}

    def begin_anew(self, names: Sequence[str], model: StreamModel) -> TenantStats | None:
        """Let all be due: those of a model that replaced one of the tenants `names`, and these.

        Where it is a model of no tenants nobody writes of any.
        """
        if not isinstance(model, TenantModels):
            return None
        model.changed[:] = True
        self.gone = sorted({*self.gone, *names} - {*model.names})
        return self

    def records(self, model: StreamModel, name: str, now: float, most: int) -> Iterator[NewRecord]:
        """The records of some that are due, which no longer are: at most so many, and some MiB."""
        assert isinstance(model, TenantModels)  # noqa: S101  see `of`
        left, gone = MOST_BYTES, self.gone[:most]
        self.gone = self.gone[most:]
        known = {*model.names} if gone else set()  # one that came again has its turn
        yield from (self._record(tenant, b"") for tenant in gone if tenant not in known)
        due = np.flatnonzero(model.changed)
        turn = np.roll(due, -int(np.searchsorted(due, self.next)))[: most - len(gone)].tolist()
        of = ModelInfo(name, model.n_events)
        for number, standing in zip(turn, model.tenant_stats(turn, _LABELS), strict=True):
            if left <= 0:
                break
            record = self._record(standing.tenant.name, _named_tenant(standing, of, now))
            left -= len(record.key or b"") + len(record.value)
            model.changed[number], self.next = False, number + 1
            yield record

    def _record(self, tenant: str, value: bytes) -> NewRecord:
        return NewRecord(self.topic, tenant.encode(), value)

    def part(self, model: StreamModel) -> SnapshotPart:
        """What a snapshot holds of it."""
        assert isinstance(model, TenantModels)  # noqa: S101  see `of`
        meta = {"topic": self.topic, "next": self.next, "gone": self.gone}
        return SnapshotPart(meta, {"due": np.flatnonzero(model.changed)})

    @classmethod
    def from_part(cls, part: SnapshotPart, model: StreamModel) -> TenantStats | None:
        """The object that `part` described; the model gets its share. Raises SnapshotError for another."""
        if not isinstance(model, TenantModels):
            return None
        with state_errors("the standings of tenants"):
            made = cls(str(part.meta["topic"]))
            made.next, made.gone = count(part.meta, "next"), list(map(str, part.meta["gone"]))
            due = part.arrays["due"]
            if due.dtype != np.int64 or due.ndim != 1 or ((due < 0) | (due >= model.changed.size)).any():
                raise SnapshotError("tenants are due of which there is no model")
            model.changed[due] = True
        return made


def _named_tenant(standing: TenantLabels, of: ModelInfo, now: float) -> bytes:
    """The value of a tenant's record; a tombstone where its model has no events."""
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
