"""The last record of each tenant beside the last that a replay gives: a compacted topic keeps no others."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from streamnb.engine.ports import Log, NewRecord, Record, between
from streamnb.errors import JournalError, LogError
from streamnb.values.parameter_checks import pluralize
from streamnb.verification.check_results import CheckResults, place

STANDINGS = "standings"
_READ_AT_ONCE = 5000


class ReplayedTenantStats:
    """Compares what a topic says of each tenant with what a replay gives.

    Args:
        log: which is only read, up to where the topic ends now.
        findings: are told.
    """

    def __init__(self, log: Log, findings: CheckResults) -> None:
        self._log, self._findings = log, findings
        self._last: dict[str, dict[bytes | None, bytes]] = {}  # topic -> tenant -> value

    def expect(self, topic: str, outputs: Sequence[NewRecord]) -> Sequence[NewRecord]:
        """Remember what one commit said of tenants in this topic; its other outputs."""
        if not topic:
            return outputs
        own = [output for output in outputs if output.topic == topic]
        self._last.setdefault(topic, {}).update((output.key, output.value) for output in own)
        return [output for output in outputs if output.topic != topic] if own else outputs

    def finish(self, *, is_all: bool, goes_on: bool, behind: AbstractSet[str]) -> None:
        """Tell what is another record, or one too many.

        Args:
            is_all: whether every commit there is was expected, so that no other record can be the model's.
            goes_on: whether there were commits since, which may have said something later.
            behind: the tenants of which the last record may be of what was rolled back since.
        """
        for topic, expected in self._last.items():
            try:
                found = self._found(topic)
            except (LogError, JournalError) as error:
                self._findings.differs(
                    STANDINGS, f"topic {topic!r} cannot be read: {error}", {"topic": topic}
                )
                continue
            missing = Record(self._log.partitions(topic)[0], -1, None, b"", 0.0)
            pairs = [(key, found.pop(key, missing), value) for key, value in expected.items()]
            others = [(key, record, b"") for key, record in found.items()]
            differing = [pair for pair in pairs if pair[1].value != pair[2]]
            due = [pair for pair in differing if _name(pair[0]) in behind]
            self._report([pair for pair in differing if _name(pair[0]) not in behind], tells=not goes_on)
            if due:
                text = f"{pluralize(len(due), 'tenant')}: their records are of what was rolled back, and due"
                self._findings.unchecked(STANDINGS, text)
            self._report([pair for pair in others if pair[1].value != b""], tells=is_all)
            if not self._findings.count(STANDINGS):
                self._findings.ok(
                    STANDINGS, f"the last record of each of {pluralize(len(pairs) - len(due), 'tenant')}"
                )

    def _found(self, topic: str) -> dict[bytes | None, Record]:
        """The last record of each key."""
        found: dict[bytes | None, Record] = {}
        for partition in self._log.partitions(topic):
            first, end = self._log.offsets(partition)
            found.update(
                (record.key, record) for record in between(self._log, partition, first, end, _READ_AT_ONCE)
            )
        return found

    def _report(self, pairs: Sequence[tuple[bytes | None, Record, bytes]], *, tells: bool) -> None:
        """Say what the last record of each is, and what it should be; or that nobody knows."""
        if pairs and not tells:
            text = f"{pluralize(len(pairs), 'tenant')}: their last records are none that was replayed"
            self._findings.unchecked(STANDINGS, text)
            return
        for key, record, value in pairs:
            name = _name(key)
            here, there = (one.decode(errors="backslashreplace") or "none" for one in (record.value, value))
            self._findings.differs(
                STANDINGS,
                f"{record.partition}: the last record of tenant {name!r} is {here}, expected {there}",
                place(record.partition, record.offset, id=name),
                found=here,
                expected=there,
            )


def _name(key: bytes | None) -> str:
    """Of a tenant, by the key of its record."""
    return (key or b"").decode(errors="backslashreplace")
