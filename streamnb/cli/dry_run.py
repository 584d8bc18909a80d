"""Dry run: predictions for the next records of the log, without writing anything."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from streamnb.config import Config
from streamnb.engine.journal.journal_entries import missing_records, partitions_of
from streamnb.engine.journal.recovery import describe_changes, recover, refuse_changes
from streamnb.engine.ports import Log, Record
from streamnb.engine.processing.counters import Counters
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import JournalError
from streamnb.formats.terminal_text import emit
from streamnb.runtime import context, factories
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_AT_ONCE = 1000
_OUTPUT_BYTES = 16 << 20
_TURN_SECONDS = 0.1
_PATIENCE = 10.0  # seconds to wait for records that the lag reports


def dry_run(
    config: Config,
    learner: EventProcessor,
    most: int,
    met: Callable[[Sequence[Record]], None],
    *,
    accepts_loss: bool,
) -> int:
    """Print the predictions of the next `most` records, and a summary; `met` is called with each batch.

    The learner recovers as in `run` and learns in memory. Nothing is elected, joined or committed, so a
    running learner is not disturbed. Raises StreamnbError as `run` would.
    """
    with closing(context.existing_log(config)) as log:
        factories.check_topics(config, log)
        config = factories.begun_configuration(factories.fitted(config, log), log)
        fresh, identity = factories.learner(config), factories.identity(config)
        learner.settings, learner.model = fresh.settings, fresh.model
        at = recover(log, factories.snapshots(config), learner, identity)
        if changes := refuse_changes(at, identity) if at.n >= 0 else ():
            told = describe_changes(changes)
            text = f"a run would change the configuration: {told}"
            emit(Message("configuration-would-change", text, changes=told))
        missing = missing_records(log, at, identity) if at.n >= 0 else []
        if missing and not accepts_loss:
            raise JournalError(f"{'; '.join(missing)}; continue without them: `streamnb run --accept-loss`")
        starts = {p: log.offsets(p)[0] for p in partitions_of(log, identity)}
        log.seek({p: max(start, at.positions.get(p, 0)) for p, start in starts.items()})
        learner.tally = Counters()
        taken = 0
        for part in _parts(log, most):
            taken += _print_summary(config, learner, part)
            met(part)
    tally, since = learner.tally, f"after journal record {at.n:,}" if at.n >= 0 else "from the beginning"
    predicted, learned = tally.predicted.total(), tally.learned.total()
    letters = tally.dead_letters.total()
    text = (
        f"dry run: {pluralize(taken, 'record')} {since}, {pluralize(predicted, 'prediction')}, "
        f"{learned:,} learned in memory, {pluralize(letters, 'dead letter')}; nothing was written"
    )
    counts = {"records": taken, "predictions": predicted, "learned": learned, "dead_letters": letters}
    emit(Message("dry-run-ended", text, **counts))
    return 0


def _parts(log: Log, most: int) -> Iterator[Sequence[Record]]:
    """Yield batches of at most `most` records in total, up to the end of the log."""
    silent_since = time.monotonic()
    while most > 0:
        records = log.poll(min(_AT_ONCE, most), _TURN_SECONDS)
        now = time.monotonic()
        if records:
            most -= len(records)
            silent_since = now
            yield records
        elif not any(log.lag().values()) or now - silent_since > _PATIENCE:
            return


def _print_summary(config: Config, learner: EventProcessor, records: Sequence[Record]) -> int:
    total, left = learner.consumed, records
    while left:
        before = learner.consumed
        for output in learner.process(left, time.time(), max_bytes=_OUTPUT_BYTES):
            if output.topic == config.topics.predictions:
                sys.stdout.buffer.write(output.value + b"\n")
            elif output.topic == config.topics.dead_letters:
                headers = {name: value.decode(errors="replace") for name, value in output.headers}
                place = f"{headers['topic']}/{headers['partition']} offset {headers['offset']}"
                reason, path = headers["reason"], headers["path"]
                text = f"dead letter: {place}: {reason} at {path}"
                emit(Message("dry-run-dead-letter", text, place=place, reason=reason, path=path))
        left = left[learner.consumed - before :]
    sys.stdout.flush()
    return learner.consumed - total
