"""The newest records of each topic, in ring buffers for the live page, read next to any learner."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgspec

from streamnb.config import Config
from streamnb.engine.ports import Log, Owner, Partition, Record
from streamnb.errors import JournalError, MalformedEvent, UnknownTopic
from streamnb.events import Alert, Drift, LabelRecord, MetricsReport, Prediction, TenantStanding
from streamnb.formats.codec import decode_alert, decode_metrics
from streamnb.formats.journal_record import JournalRecord, decode_journal
from streamnb.queries.resolved_labels import ResolvedLabels
from streamnb.runtime.log_follower import FollowerThread
from streamnb.serving.dead_letter_desk import DeadLetterDesk
from streamnb.serving.drift_windows import DriftWindows
from streamnb.serving.label_search import LabelSearch
from streamnb.serving.latency_samples import LatencySamples
from streamnb.serving.prediction_filter import (
    PredictionBlocks,
    PredictionFilter,
    PredictionPage,
    RecentPrediction,
    decoded_predictions,
)
from streamnb.serving.recent_events import RecentEvents
from streamnb.serving.report_history import ReportHistory, sampled_records
from streamnb.serving.review_queue import MOST_QUEUED, ReviewQueue
from streamnb.values.messages import Message

_PREDICTIONS, _PREDICTION_BYTES = 100_000, 64 << 20
_REPORTS, _OTHERS = 2000, 1000
_TENANTS = 20_000
_LABELS = 20_000  # label records to read, and events whose labels are kept: about 10 MB
_AT_ONCE = 1000
_POLL_SECONDS, _PAUSE_SECONDS, _LOOK_SECONDS = 0.5, 0.3, 2.0
_STEP_SECONDS = 0.2  # of reading older reports, between two looks at the newest records
_SILENT_SECONDS = 4.0  # a learner that runs shows itself each second
_OLD_SECONDS = 15.0  # since the last look at it
_LETTER_BYTES = 300
_RATE_SECONDS = 10.0
_MOST_FILTERED = 10_000  # predictions that one page of a table searches, so that each takes as long


class RecentDeadLetter(NamedTuple):
    """A dead letter: its place, beginning, size in bytes, headers and time."""

    place: str
    value: str
    size: int
    about: dict[str, str]
    ts: float


class _RecordHead(msgspec.Struct):
    """The fields needed of every prediction; other fields are decoded for display."""

    id: str
    label: str | None = None
    truth: str | None = None


_tenant_of = msgspec.json.Decoder(TenantStanding).decode
_head_of = msgspec.json.Decoder(_RecordHead).decode


class RecentRecords(FollowerThread):
    """Reads from near the end of each topic on.

    Attributes:
        drifts, alerts, letters, commits, verdicts: the newest ones, oldest first.
        changes: the newest journal records that are not commits, oldest first.
        history: reports over any range of time.
        n_alerts: alerts read so far.
        tenants: the newest state of each tenant, of those whose state changed last.
        report: the newest one, whole; None before there is one.
        judging: which label holds of the events that the newest labels are about.
        ends: where the topics end that the learner reads.
        owner: the learner, as the log knew it at the last look; None is not known.
        missing: topics that there are not.
        is_loading: whether it is still on its way to the end.
        has_history: whether older reports were read, too.
        events: the events of predictions, read on demand.
        dead_letters: single dead letters, read and settled on demand.
        attribute_drift: the drift of attributes, read on demand.
        label_search: all labels of one event, searched on demand.
        review_queue: the predictions to review next.
        latency: from the time of an event in the log to its prediction, as sampled.
    """

    _again = "the page reads again"
    _join_seconds = 2 * _POLL_SECONDS  # a log that does not answer is not waited for

    def __init__(self, config: Config, tell: Callable[[Message], None]) -> None:
        super().__init__(config, tell)
        self.problem = "nothing has been read yet"
        self.events = RecentEvents(config)
        self.dead_letters = DeadLetterDesk(config)
        self.attribute_drift = DriftWindows(config)
        self.label_search = LabelSearch(config)
        self._clear()

    def close(self) -> None:
        """Follow no more, and read no more events."""
        self.events.close()
        self.dead_letters.close()
        self.attribute_drift.close()
        self.label_search.close()
        super().close()

    def _clear(self) -> None:
        self.history = ReportHistory()
        self.drifts: deque[Drift] = deque(maxlen=_OTHERS)
        self.alerts: deque[Alert] = deque(maxlen=_OTHERS)
        self.changes: deque[JournalRecord] = deque(maxlen=_OTHERS)
        self.n_alerts = 0
        self.tenants: dict[str, TenantStanding] = {}
        self.letters: deque[RecentDeadLetter] = deque(maxlen=_OTHERS)
        self.commits: deque[JournalRecord] = deque(maxlen=_OTHERS)
        self.verdicts: deque[LabelRecord] = deque(maxlen=_OTHERS)
        self.judging = ResolvedLabels(self.config, _LABELS)
        self.latency = LatencySamples(self.config.topics.events)
        self._reads_all_labels = False
        self.report: MetricsReport | None = None
        self.ends: dict[Partition, int] = {}
        self.owner: Owner | None = None
        self._looked = 0.0
        self.missing: list[str] = []
        self.is_loading, self.has_history = True, False
        self._seen: deque[RecentPrediction] = deque(maxlen=_PREDICTIONS)
        self._by_id: dict[str, RecentPrediction] = {}  # the newest of each
        self._blocks = PredictionBlocks(_PREDICTIONS)
        self._seen_bytes = self._n_predictions = 0
        self.review_queue = ReviewQueue(self._seen, self.judging)

    @property
    def learner(self) -> str:
        """State of the learner: `running`, `silent` (killed, or it hangs), `stopped` or `not known`."""
        if self.owner is None or self.problem or time.monotonic() - self._looked > _OLD_SECONDS:
            return "not known"
        if self.owner.name is None:
            return "stopped"
        return "silent" if self.owner.silent > _SILENT_SECONDS else "running"

    @property
    def silent(self) -> float:
        """Seconds since the last heartbeat of a learner that is silent; 0 of any other."""
        if self.owner is None or self.learner != "silent":
            return 0.0
        return self.owner.silent + time.monotonic() - self._looked

    @property
    def knows_all_labels(self) -> bool:
        """True if the label topic was read from its first record on, so that other events have no label."""
        return self._reads_all_labels and not self.is_loading and not self.judging.has_forgotten

    @property
    def n_predictions(self) -> int:
        """Number of predictions read so far, also of those that are no longer in the buffer."""
        return self._n_predictions

    def newest_labels(self) -> Iterator[str | None]:
        """Yield the predicted labels, newest first. Needs the lock."""
        return (one.label for one in reversed(self._seen))

    @property
    def n_seen(self) -> int:
        """Number of predictions in the buffer."""
        return len(self._seen)

    def labelled_pairs(self, most: int) -> list[tuple[str, str | None]]:
        """Return the label in force and the predicted label of the newest labelled events, oldest first."""
        newest = islice(reversed(self._seen), most)
        pairs = [(self.judging.label(one.id, one.truth), one.label) for one in newest]
        return [(truth, label) for truth, label in reversed(pairs) if truth is not None]

    def matching(self, limit: int, is_wanted: Callable[[str | None, str | None], bool]) -> list[Prediction]:
        """Return the newest predictions, chosen by the label in force and the predicted label."""
        newest = islice(reversed(self._seen), MOST_QUEUED)
        found = (one for one in newest if is_wanted(self.judging.label(one.id, one.truth), one.label))
        return list(islice(decoded_predictions(one.raw for one in found), limit))

    def prediction_page(self, wanted: PredictionFilter, before: int | None, limit: int) -> PredictionPage:
        """Return the newest predictions that a filter admits. Needs the lock.

        Args:
            wanted: the filter.
            before: cursor of an earlier page; None starts at the newest prediction.
            limit: maximum number of rows.
        """
        start = max(0, self._n_predictions - before) if before is not None else 0
        rows: list[Prediction] = []
        left, at = reversed(self._seen), 0
        place, end = start, min(len(self._seen), start + _MOST_FILTERED)
        while place < end and len(rows) < limit:
            number = self._n_predictions - 1 - place
            n_block = min(number % PredictionBlocks.SIZE + 1, end - place)
            if self._blocks.excludes(number, wanted):
                place += n_block
                continue
            skipped, at = place - at, place + n_block
            for one in islice(left, skipped, skipped + n_block):
                place += 1
                if wanted.admits(one, self.judging):
                    rows += decoded_predictions([one.raw])
                if len(rows) == limit:
                    break
        return PredictionPage(rows, self._n_predictions - place if place < len(self._seen) else None, place)

    def prediction(self, id_: str) -> Prediction | None:
        """Return the newest prediction of an event. Needs the lock."""
        return next(decoded_predictions(one.raw for one in [self._by_id.get(id_)] if one), None)

    def published(self, id_: str) -> bytes | None:
        """Return the newest prediction of an event as published. Needs the lock."""
        one = self._by_id.get(id_)
        return None if one is None else one.raw

    def behind(self) -> int | None:
        """Return the records that the learner has yet to read; None if unknown. Needs the lock."""
        if not self.commits or not self.ends:
            return None
        positions = self.commits[-1].positions
        return sum(
            max(0, end - positions.get(topic, {}).get(str(number), 0))
            for (topic, number), end in self.ends.items()
        )

    def rate(self) -> float:
        """Return the records a second over the last ten seconds. Needs the lock."""
        since = time.time() - _RATE_SECONDS
        sizes = (part.count for one in self.commits if one.now >= since for part in one.slices)
        return sum(sizes) / _RATE_SECONDS

    def _takers(self) -> dict[str, tuple[int, Callable[[Record], None]]]:
        """Return the number of records to read of each topic, and what takes one."""
        topics = self.config.topics
        takers: dict[str, tuple[int, Callable[[Record], None]]] = {}
        takers[topics.journal] = _OTHERS, self._add_commit
        takers[topics.metrics] = _REPORTS, self._add_metrics
        takers[topics.dead_letters] = _OTHERS, self._add_dead_letter
        takers[topics.predictions] = _PREDICTIONS, self._add_prediction
        if topics.alerts:
            takers[topics.alerts] = _OTHERS, self._add_alert
        if topics.labels:
            takers[topics.labels] = _LABELS, self._add_label
        if topics.tenants:
            takers[topics.tenants] = _TENANTS, self._add_tenant
        return takers

    def _follow(self, log: Log) -> None:
        topics, takers = self.config.topics, self._takers()
        with self.lock:
            self._clear()
            seen = {topic: self._extents(log, topic) for topic in {*takers, *topics.read}}
        starts: dict[Partition, int] = {}
        for topic, (n, _) in takers.items():
            share = -(-n // max(1, len(seen[topic])))  # divides the newest n records
            starts |= {place: max(first, end - share) for place, (first, end) in seen[topic].items()}
        self._reads_all_labels = not any(
            start for place, start in starts.items() if place.topic == topics.labels
        )
        log.seek(starts)
        read = [topic for topic in topics.read if seen[topic]]
        earlier = self._earlier(log, {one: at for one, at in starts.items() if one.topic == topics.metrics})
        self._looked = paused = 0.0
        while not self._stopping:
            if time.monotonic() > self._looked + _LOOK_SECONDS:
                ends = {place: end for topic in read for place, (_, end) in log.offset_ranges(topic).items()}
                owner = log.owner()
                self.latency.read(log)
                with self.lock:
                    self.ends, self.owner = ends, owner
                    self._looked = time.monotonic()
            found = log.poll(_AT_ONCE, _POLL_SECONDS)
            with self.lock:
                for record in found:
                    with suppress(MalformedEvent, JournalError, ValueError, RecursionError):  # no learner's
                        takers[record.partition.topic][1](record)
            self.problem = ""
            if len(found) < _AT_ONCE and time.monotonic() > paused + _PAUSE_SECONDS:
                paused = time.monotonic()
                if sum(log.lag().values()) < _AT_ONCE:
                    self.is_loading = False
                    if next(earlier, True):
                        time.sleep(_PAUSE_SECONDS)  # a page that is looked at need not follow each commit

    def _earlier(self, log: Log, starts: Mapping[Partition, int]) -> Iterator[bool]:
        """Read reports older than the followed ones, some at each step; yield False before the end."""
        reports: list[MetricsReport] = []
        deadline = time.monotonic() + _STEP_SECONDS
        for partition, start in starts.items():
            for record in sampled_records(log, partition, start, time.time()):
                if record is not None:
                    with suppress(MalformedEvent, ValueError, RecursionError):
                        found = decode_metrics(record.value)
                        if isinstance(found, MetricsReport) and _is_whole(found):
                            reports.append(found)
                if time.monotonic() > deadline:
                    yield False
                    deadline = time.monotonic() + _STEP_SECONDS
        with self.lock:
            self.history.add_earlier(reports)
        self.has_history = True
        yield True

    def _extents(self, log: Log, topic: str) -> Mapping[Partition, tuple[int, int]]:
        try:
            return log.offset_ranges(topic)
        except UnknownTopic:
            self.missing.append(topic)
            return {}

    def _add_commit(self, record: Record) -> None:
        found = decode_journal(record.value)
        self.commits.append(found)
        if found.kind != "commit":
            self.changes.append(found)
        self.latency.note(record, found)

    def _add_metrics(self, record: Record) -> None:
        found = decode_metrics(record.value)
        if isinstance(found, Drift):
            self.drifts.append(found)
            return
        if not _is_whole(found):
            return
        self.history.add(found)
        self.report = found

    def _add_alert(self, record: Record) -> None:
        self.alerts.append(decode_alert(record.value))
        self.n_alerts += 1

    def _add_tenant(self, record: Record) -> None:
        found = _tenant_of(record.value)
        self.tenants.pop(found.tenant, None)
        self.tenants[found.tenant] = found
        if len(self.tenants) > _TENANTS:
            del self.tenants[next(iter(self.tenants))]

    def _add_dead_letter(self, record: Record) -> None:
        about = {name: value.decode(errors="replace")[:_LETTER_BYTES] for name, value in record.headers}
        value = record.value[:_LETTER_BYTES].decode(errors="replace")
        place = f"{record.partition.number}/{record.offset}"
        self.letters.append(RecentDeadLetter(place, value, len(record.value), about, record.timestamp))

    def _add_prediction(self, record: Record) -> None:
        found = _head_of(record.value)
        self._n_predictions += 1
        self._blocks.add(found.id, found.label)
        if len(self._seen) == _PREDICTIONS:
            self._evict_prediction()
        one = RecentPrediction(found.id, found.label, found.truth, record.value)
        self._seen.append(one)
        self.review_queue.add(one.raw)
        self._by_id[one.id] = one
        self._seen_bytes += len(record.value)
        while self._seen_bytes > _PREDICTION_BYTES:
            self._evict_prediction()

    def _evict_prediction(self) -> None:
        oldest = self._seen.popleft()
        self._seen_bytes -= len(oldest.raw)
        if self._by_id[oldest.id] is oldest:
            del self._by_id[oldest.id]

    def _add_label(self, record: Record) -> None:
        if found := self.judging.add(record):
            self.verdicts.append(found)


def _is_whole(report: MetricsReport) -> bool:
    """Return False for a report that no learner wrote."""
    named = len(report.labels)
    sizes = [len(row) for row in report.confusion]
    return sizes == [named + 1] * named and len(report.class_rates) in {0, named}
