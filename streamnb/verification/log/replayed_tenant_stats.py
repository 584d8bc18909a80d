"""Compare each tenant's last record with the last one of a replay, as a compacted topic keeps only that."""

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
    """Comparison of tenant records in a topic, up to its current end, with a replay."""

    def __init__(self, log: Log, findings: CheckResults) -> None:
        self._log, self._findings = log, findings
        self._last: dict[str, dict[bytes | None, bytes]] = {}  # topic -> tenant -> value

    def expect(self, topic: str, outputs: Sequence[NewRecord]) -> Sequence[NewRecord]:
        """Remember the tenant records of one commit in this topic, and return its other outputs."""
        if not topic:
            return outputs
        own = [output for output in outputs if output.topic == topic]
        self._last.setdefault(topic, {}).update((output.key, output.value) for output in own)
        return [output for output in outputs if output.topic != topic] if own else outputs

    def finish(self, *, is_all: bool, goes_on: bool, behind: AbstractSet[str]) -> None:
        """Report records that differ or are surplus.

        Args:
            is_all: True if every existing commit was expected, so any other record is a surplus.
            goes_on: True if later commits exist, which may have published newer records.
            behind: tenants whose last record may come from a commit that was rolled back since.
        """
        for topic, expected in self._last.items():
            try:
                found = self._found(topic)
            except (LogError, JournalError) as error:
                text = f"topic {topic!r} cannot be read: {error}"
                self._findings.differs(STANDINGS, text, {"topic": topic})
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
                tenants = pluralize(len(pairs) - len(due), "tenant")
                self._findings.ok(STANDINGS, f"the last record of each of {tenants}")

    def _found(self, topic: str) -> dict[bytes | None, Record]:
        found: dict[bytes | None, Record] = {}
        for partition in self._log.partitions(topic):
            first, end = self._log.offsets(partition)
            found.update(
                (record.key, record) for record in between(self._log, partition, first, end, _READ_AT_ONCE)
            )
        return found

    def _report(self, pairs: Sequence[tuple[bytes | None, Record, bytes]], *, tells: bool) -> None:
        if pairs and not tells:
            text = f"{pluralize(len(pairs), 'tenant')}: their last records are none that was replayed"
            self._findings.unchecked(STANDINGS, text)
            return
        for key, record, value in pairs:
            name = _name(key)
            here, there = (one.decode(errors="backslashreplace") or "none" for one in (record.value, value))
            text = f"{record.partition}: the last record of tenant {name!r} is {here}, expected {there}"
            at = place(record.partition, record.offset, id=name)
            self._findings.differs(STANDINGS, text, at, found=here, expected=there)


def _name(key: bytes | None) -> str:
    return (key or b"").decode(errors="backslashreplace")
