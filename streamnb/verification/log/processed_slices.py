"""Read the events of the journal's slices again, in order and in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from streamnb.engine.journal.job_identity import JournalOrigin
from streamnb.engine.journal.slice_replay import SliceReader
from streamnb.engine.ports import Log, Partition, Record, between
from streamnb.engine.processing.alarm_responses import PAUSE
from streamnb.engine.settings import Settings
from streamnb.errors import JournalError, LogError, MalformedEvent, OutOfRange
from streamnb.events import Event, LabelRecord, Retraction
from streamnb.formats.codec import decode_event, decode_label
from streamnb.formats.event_validity import LATEST
from streamnb.formats.journal_record import AppliedAction, Slice
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.journal_chain import ChainEntry, LogScan, steps
from streamnb.verification.log.published_outputs import ProcessedEvents
from streamnb.verification.recount.event_recount import RecountPlan

SLICES = "slices"
Read = Event | LabelRecord | Retraction | None


@dataclass(eq=False)
class ProcessedReader:
    """Reader of processed records, in order and in one pass.

    Args:
        origins: record number -> origin in the snapshot at that record.
        earliest: partition -> offset of the earliest record kept.

    Attributes:
        slices: number of unchanged slices.
        gone: number of slices that the log no longer keeps.
        incomplete: records with a slice that could not be read completely.
    """

    log: Log
    seen: LogScan
    origins: Mapping[int, JournalOrigin]
    earliest: Mapping[Partition, int]
    plans: Callable[[JournalOrigin], RecountPlan]

    def __post_init__(self) -> None:
        self._reader = SliceReader(self.log)
        self._known: dict[str, RecountPlan] = {}
        self.slices = self.gone = 0
        self.incomplete: set[int] = set()

    def plan(self, origin: JournalOrigin) -> RecountPlan | None:
        """Return the recount plan; None if the journal does not name the configuration."""
        if not origin.config_hash:
            return None
        if origin.config_hash not in self._known:
            self._known[origin.config_hash] = self.plans(origin)
        return self._known[origin.config_hash]

    def __call__(self, findings: CheckResults) -> Iterator[ProcessedEvents]:
        """Yield every journal record with its events, and report slices that differ."""
        self._reader = SliceReader(self.log)
        for step in steps(self.log, self.seen, self.origins):
            plan = self.plan(step.after.origin)
            settings = None if plan is None else plan.settings
            found = [record for part in self._slices(step, findings) for record in part]
            read = [] if settings is None else [(r, _read(r, settings)) for r in found]
            yield ProcessedEvents(step, _weighed(read, step.record.acted))

    def _slices(self, step: ChainEntry, findings: CheckResults) -> Iterator[list[Record]]:
        positions = dict(step.before.positions)
        n = step.record.n
        for part in step.record.slices:
            partition = Partition(part.topic, part.partition)
            position = positions.get(partition, 0)
            positions[partition] = part.next
            if not self.seen.is_kept(part, n, self.earliest):
                self.gone += 1
                self.incomplete.add(n)
                continue
            if part.first < position:  # the check of positions reported this overlap: read the records again
                self._reader = SliceReader(self.log)
            elif part.first > position:
                self._look_between(partition, position, part, n, findings)
            yield self._slice(partition, part, n, findings)

    def _look_between(
        self, partition: Partition, position: int, part: Slice, n: int, findings: CheckResults
    ) -> None:
        """Report records in gaps between slices; a real broker's transaction markers leave empty gaps."""
        start = max(position, self.earliest[partition])
        gap = Slice(part.topic, part.partition, start, part.first, 0, 0)
        try:
            if start < part.first:
                self._reader.read(gap, n)
        except (JournalError, LogError):
            text = f"journal record {n}: {partition} offset {position}: skipped up to {part.first}"
            at = _place(part, n) | {"offset": position}
            findings.differs("positions", text, at, found=part.first, expected=position)

    def _slice(self, partition: Partition, part: Slice, n: int, findings: CheckResults) -> list[Record]:
        """Return the current records of a slice, and report it if they differ from the learned ones."""
        try:
            records = self._reader.read(part, n)
        except (JournalError, LogError) as error:
            self.incomplete.add(n)
            if isinstance(error.__cause__, OutOfRange) and self.log.offsets(partition)[0] > part.first:
                self.gone += 1  # since verification began
                return []
            records = []
            with suppress(LogError):
                records.extend(between(self.log, partition, part.first, part.next, part.next - part.first))
            findings.differs(SLICES, str(error), _place(part, n), found=len(records), expected=part.count)
        else:
            self.slices += 1
        return records


def _place(part: Slice, n: int) -> dict[str, str | int]:
    return {"record": n, "topic": part.topic, "partition": part.partition, "offset": part.first}


def _weighed(
    read: Sequence[tuple[Record, Read]], acted: Sequence[AppliedAction]
) -> list[tuple[Record, Read]]:
    """Return the records, with weight 0 for labels that arrived while learning was paused."""
    paused = {place for one in acted if one.action == PAUSE for place in range(one.first, one.stop)}
    return [
        (record, msgspec.structs.replace(one, weight=0.0))
        if place in paused and isinstance(one, (Event, LabelRecord))
        else (record, one)
        for place, (record, one) in enumerate(read)
    ]


def _is_ahead(said: LabelRecord | Retraction, recorded: float, settings: Settings) -> bool:
    """Return True if the time of a label is more than a day ahead of the log.

    This repeats the rule of docs/formats.md, so a learner that applies a different rule is detected.
    """
    is_checked = 0.0 < recorded < LATEST and settings.schema.clock == "log"
    return is_checked and said.ts is not None and said.ts > recorded + 86400.0


def _read(record: Record, settings: Settings) -> Read:
    try:
        if settings.labels is not None and record.partition.topic == settings.labels.topic:
            said = decode_label(record.value, settings.schema)
            return None if _is_ahead(said, record.timestamp, settings) else said
        return decode_event(record.value, settings.schema, record.key, record.timestamp)
    except MalformedEvent:
        return None
