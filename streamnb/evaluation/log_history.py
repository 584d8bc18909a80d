"""The history of a log, for a model to replay: the records that its learner read, in that order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streamnb.config import Config
from streamnb.engine.journal.slice_replay import SliceReader
from streamnb.engine.ports import Log, NewRecord, Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.retraining.log_retraining import erased_before
from streamnb.errors import ConfigError, JournalError, LogError
from streamnb.evaluation.evaluation_page import EvaluationPage
from streamnb.evaluation.holdout import Row
from streamnb.formats.journal_record import Slice
from streamnb.formats.terminal_text import note
from streamnb.runtime import context, factories
from streamnb.values.messages import Message
from streamnb.verification.check_results import CheckResults, Outcome
from streamnb.verification.log.journal_chain import earliest_kept, scan_log, steps


class LogHistory(NamedTuple):
    """The records of one commit.

    Attributes:
        records: in order, of all topics that are read.
        now: its time.
        work: steps of work that takes longer than one commit.
    """

    records: Sequence[Record]
    now: float
    work: int = 0


def log_of(config: Config) -> Log:
    """Return the log to replay. Raises LogError if it does not exist."""
    try:
        return context.existing_log(config)
    except LogError as error:
        raise LogError(f"{error}; give a FILE of events, or the --log of a learner") from error


def history_of(config: Config, log: Log) -> Iterator[LogHistory]:
    """Yield all commits that made the present state, without events that were erased or that the log lost.

    Commits that were rolled back are excluded. The number of lost records is printed at the end.

    Raises:
        JournalError: nothing was learned yet, or the journal is damaged.
        ConfigError: the configuration reads other topics than the learner did.
    """
    identity = factories.identity(config)
    earliest, findings = earliest_kept(log, identity.topics), CheckResults()
    seen = scan_log(log, log.partitions(identity.journal)[0], earliest, {}, findings)
    if seen.is_broken:
        fault = next(one.text for one in findings.all() if one.verdict == Outcome.DIFFERS)
        raise JournalError(f"{fault}; `streamnb verify` reports all faults")
    if seen.first is None:
        raise JournalError("the journal is empty: a history is what a learner has read, and none has run yet")
    forgotten = erased_before(factories.snapshots(config), seen.end.origin.floor)
    left_out = {partition: set(offsets.tolist()) for partition, offsets in forgotten.items()}
    reader, gone = SliceReader(log), 0
    for step in steps(log, seen, {}):
        record, found = step.record, list[Record]()
        if record.kind != "commit" or not seen.counts(record.n):
            continue
        for part in record.slices:
            _refuse_unread(part, identity.topics, record.n)
            if seen.is_kept(part, record.n, earliest):
                found += reader.read(part, record.n)
            else:
                gone += part.count
        kept = [one for one in found if one.offset not in left_out.get(one.partition, ())]
        yield LogHistory(kept, record.now, record.work)
    if gone or seen.first_n:
        before = f" and all before journal record {seen.first_n:,}" if seen.first_n else ""
        text = (
            f"{gone:,} records{before} are left out: the log no longer has them, by retention or "
            "because their topic was recreated"
        )
        note(Message("records-gone", text, records=gone, before_journal=seen.first_n))


def _refuse_unread(part: Slice, topics: Sequence[str], n: int) -> None:
    if part.topic not in topics:
        raise ConfigError(
            f"journal record {n} read topic {part.topic!r}, and this configuration reads "
            f"{', '.join(topics)}: give the learner's, or "
            f"--set topics.labels={part.topic} if labels are read from it"
        )


def history_of_rows(rows: Iterable[Row], config: Config) -> LogHistory:
    """Return rows of a file as `evaluate` reads them: one partition, with rows as offsets."""
    partition = Partition(config.topics.events[0], 0)
    return LogHistory([Record(partition, row, None, raw, 0.0) for row, raw in rows], time.time())


def replay_history(
    learner: EventProcessor, past: Iterable[LogHistory], page: EvaluationPage | None = None
) -> Iterator[NewRecord]:
    """Yield the learner's outputs for a history."""
    for one in past:
        began = time.perf_counter()
        outputs = run_through(learner, one)
        if page is not None and one.records:
            page.timed(one.records, time.perf_counter() - began)
        yield from outputs
    while learner.has_work:
        learner.work()


def run_through(learner: EventProcessor, one: LogHistory) -> Sequence[NewRecord]:
    """Return the learner's outputs for one commit."""
    return learner.process(one.records, one.now, work=one.work)
