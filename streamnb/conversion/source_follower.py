"""Conversion of one source in a thread: read, convert, and write outputs and position in one transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from streamnb.config import Config
from streamnb.config.source_config import SourceConfig
from streamnb.conversion.prediction_encoder import PredictionEncoder
from streamnb.conversion.record_converter import RecordConverter
from streamnb.conversion.schema_registry import SchemaRegistry
from streamnb.conversion.source_metrics import SourceMetrics
from streamnb.engine.ports import Log, NewRecord, Partition, Record
from streamnb.errors import Unavailable
from streamnb.serving.leased_follower import LeasedFollower
from streamnb.serving.leased_position import LeasedPosition, Start
from streamnb.serving.record_feed import Cursor
from streamnb.values.messages import Message

LEASE_SECONDS = 30.0
_POLL_SECONDS = 0.25
_PARTITION_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_AT_ONCE = 1000
_MOST_BYTES = 8 << 20  # outputs that fill a transaction
_FLOOR = "floor"
NOTICES = {
    "array": "column {name} has arrays, which no attribute holds: it is left out",
    "unavailable": "column {name} comes as the placeholder of an unchanged value: it is missing",
    "attributes": "rows change in other columns than the label: an event keeps its first values",
    "absent": "the first rows have no column {name}, which `label`, `text`, `ts` or `drop` names",
    "operation": "records with `op` {name} have no meaning for a learner, and are passed",
    "letter": "records become dead letters, {name}: `streamnb dlq list` shows why",
    "feature": 'column id is a feature, not the id of the event: set id = "id", or drop = ["id"]',
    "foreign": "records that are no predictions are passed",
    "large": "predictions that are larger than max.message.bytes of topic {name} are passed",
    "hidden": 'the id of the CloudEvent is used, not the `id` of its data, which id = "id" would use',
}
"""Reading of a source that its owner may not expect -> message."""


def predictions_source(config: Config) -> SourceConfig:
    """Return the topic of predictions as a source, which `registry.predictions` has encoded."""
    return SourceConfig(name="predictions", topic=config.topics.predictions)


class SourceFollower(LeasedFollower):
    """Converts the records of one source while it has the lease.

    Args:
        config: the configuration.
        source: the source.
        metrics: counts the records.
        report: callback that receives messages for the operator.
        lease_seconds: see `LeasedPosition`.

    Attributes:
        totals: number of outputs and passed records, by one of `results`.
        is_at_end: whether it has seen the end of the topic.

    Raises ConfigError if a library is missing.
    """

    _again = "the source is read again"
    _join_seconds = 10.0

    def __init__(
        self,
        config: Config,
        source: SourceConfig,
        metrics: SourceMetrics,
        report: Callable[[Message], None],
        *,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        super().__init__(config, report, lease_seconds)
        self._source, self._metrics, self._report = source, metrics, report
        self._registry = SchemaRegistry(config.registry) if config.registry.url else None
        self._noticed: set[tuple[str, str]] = set()
        topics = config.topics
        self._written = [topics.events[0], topics.dead_letters, *([topics.labels] if topics.labels else [])]
        self._converter: RecordConverter | PredictionEncoder
        if source == predictions_source(config):
            assert self._registry is not None  # noqa: S101  as the configuration was checked
            self._written = [config.registry.predictions]
            self._converter = PredictionEncoder(self._written[0], self._registry, self._notice)
        else:
            self._converter = RecordConverter(source, config, self._registry, self._notice)
        self.totals: Counter[str] = Counter()
        self.results = self._converter.results
        self.is_at_end = False

    def position_in(self, log: Log) -> LeasedPosition:
        """Return the position of the source, which begins at the first record."""
        by = f"source-{self._source.name}"
        return LeasedPosition(log, self._source.topic, by, self.owner, self.lease_seconds, from_start=True)

    def work(self, log: Log, position: LeasedPosition, start: Start) -> None:
        """Convert batch after batch."""
        verb = "continues" if start.is_continued else "begins"
        text = f"{verb} at {self._source.topic}: {start.cursor}"
        self._report(self._named(Message("source-begins", text, cursor=str(start.cursor))))
        self._pass_gaps(start, position)
        self._convert(log, position)

    def show(self, *, is_working: bool) -> None:
        """Show whether this process converts the source."""
        self._metrics.converting.labels(self._source.name).set(is_working)

    def _pass_gaps(self, start: Start, position: LeasedPosition) -> None:
        """Report records that no longer exist, and continue after them."""
        for gap in start.gaps:
            text = (
                f"{self._source.topic}/{gap.partition}: records from offset {gap.offset} on cannot be read "
                f"({gap.reason}); the next is {gap.continues}"
            )
            self._report(self._named(Message("source-gap", text, **gap._asdict())))
        position.move(start.cursor)

    def _convert(self, log: Log, position: LeasedPosition) -> None:
        """Convert batch after batch until the end, or until there are new partitions."""
        log.seek({Partition(self._source.topic, n): offset for n, offset in enumerate(position.offsets)})
        self._converter.sizes = log.sizes(self._written)
        known = dict(position.more)
        self._converter.floor = max(self._converter.floor, float(known.pop(_FLOOR, 0.0)))
        if self._registry is not None:
            self._registry.digests = {**known, **self._registry.digests}
        due = time.monotonic() + _PARTITION_SECONDS
        while not self.is_over():
            records = log.poll(_AT_ONCE, _POLL_SECONDS)
            behind = sum(log.lag().values())
            self._metrics.behind.labels(self._source.name).set(len(records) + behind)
            if records and not self._is_written(records, position):
                return
            self.is_at_end = behind == 0
            if position.is_due:
                position.save()
            if time.monotonic() > due:
                due = time.monotonic() + _PARTITION_SECONDS
                partitions, topic_id = log.partitions(self._source.topic), log.topic_id(self._source.topic)
                if len(partitions) != len(position.offsets) or topic_id != position.topic_id:
                    return

    def _is_written(self, records: Sequence[Record], position: LeasedPosition) -> bool:
        """Write what records become, in several transactions if it is much; return False if it must stop."""
        outputs: list[NewRecord] = []
        self._converter.counts.clear()
        size = begin = 0
        for i, record in enumerate(records):
            found = self._outputs(record, position)
            if found is None:
                return False
            outputs += found
            size += sum(len(output.value) for output in found)
            if size > _MOST_BYTES:
                self._save(outputs, records[begin : i + 1], position)
                outputs, size, begin = [], 0, i + 1
        if begin < len(records):
            self._save(outputs, records[begin:], position)
        return True

    def _save(
        self, outputs: Sequence[NewRecord], records: Sequence[Record], position: LeasedPosition
    ) -> None:
        """Write the outputs of records, and the position after these, in one transaction."""
        position.more = {_FLOOR: repr(self._converter.floor)}
        if self._registry is not None:
            position.more |= self._registry.digests
        position.save(outputs, Cursor(position.topic_id, tuple(position.offsets)).after(records))
        self._count(self._converter.counts)
        self._converter.counts.clear()

    def _outputs(self, record: Record, position: LeasedPosition) -> Sequence[NewRecord] | None:
        """Return what a record becomes, as soon as the registry answers; None at the end."""
        pause, reason = _FIRST_PAUSE, ""
        while not self.is_over():
            try:
                found = self._converter.outputs(record)
            except Unavailable as error:
                if str(error) != reason:
                    reason = str(error)
                    self._report(
                        self._named(Message("registry-unreachable", f"waits: {reason}", error=reason))
                    )
                self.wait(pause, position)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            if reason:
                self._report(self._named(Message("registry-reachable", "the registry answers again")))
            return found
        return None

    def _count(self, counts: Counter[str]) -> None:
        self.totals.update(counts)
        for result, n in counts.items():
            self._metrics.records.labels(self._source.name, result).inc(n)

    def _notice(self, name: str, why: str) -> None:
        """Report once what is read otherwise than it was sent."""
        if (name, why) not in self._noticed and len(self._noticed) < _AT_ONCE:
            self._noticed.add((name, why))
            self._report(
                self._named(Message("source-notice", NOTICES[why].format(name=name), column=name, reason=why))
            )

    def _named(self, message: Message) -> Message:
        """Return a message with the name of the source."""
        return message.reworded(f"source {self._source.name}: {message}", source=self._source.name)
