"""What `run` would say of the next records of the log, found out without writing anything."""

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
from streamnb.formats.terminal_text import printable
from streamnb.runtime import context, factories
from streamnb.values.parameter_checks import pluralize

_AT_ONCE = 1000
_OUTPUT_BYTES = 16 << 20
_TURN_SECONDS = 0.1
_PATIENCE = 10.0  # seconds, for records that a log says are there


def dry_run(
    config: Config,
    learner: EventProcessor,
    most: int,
    met: Callable[[Sequence[Record]], None],
    *,
    accepts_loss: bool,
) -> int:
    """Print what would be predicted of the next `most` records, and say what else would come of them.

    `met` is called with what was learned.

    The learner recovers as it would in `run`, and learns in memory. No election is held, no group joined,
    nothing committed: a learner that runs meanwhile does not notice. Raises StreamnbError as `run` would.
    """
    with closing(context.existing_log(config)) as log:
        factories.check_topics(config, log)
        config = factories.begun_configuration(factories.fitted(config, log), log)
        fresh, identity = factories.learner(config), factories.identity(config)
        learner.settings, learner.model = fresh.settings, fresh.model
        at = recover(log, factories.snapshots(config), learner, identity)
        if changes := refuse_changes(at, identity) if at.n >= 0 else ():
            print(
                f"a run would change the configuration: {printable(describe_changes(changes))}",
                file=sys.stderr,
            )
        missing = missing_records(log, at, identity) if at.n >= 0 else []
        if missing and not accepts_loss:
            raise JournalError(f"{'; '.join(missing)}; go on without them: streamnb run --accept-loss")
        starts = {p: log.offsets(p)[0] for p in partitions_of(log, identity)}
        log.seek({p: max(start, at.positions.get(p, 0)) for p, start in starts.items()})
        learner.tally = Counters()
        taken = 0
        for part in _parts(log, most):
            taken += _print_summary(config, learner, part)
            met(part)
    tally, since = learner.tally, f"after journal record {at.n:,}" if at.n >= 0 else "from the beginning"
    print(
        f"dry run: {pluralize(taken, 'record')} {since}, {pluralize(tally.predicted.total(), 'prediction')}, "
        f"{tally.learned.total():,} learned in memory, "
        f"{pluralize(tally.dead_letters.total(), 'dead letter')}; "
        "nothing was written",
        file=sys.stderr,
    )
    return 0


def _parts(log: Log, most: int) -> Iterator[Sequence[Record]]:
    """At most so many records, in parts, up to where the log ends."""
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
    """What would be published of some records; how many they were."""
    total, left = learner.consumed, records
    while left:
        before = learner.consumed
        for output in learner.process(left, time.time(), most_bytes=_OUTPUT_BYTES):
            if output.topic == config.topics.predictions:
                sys.stdout.buffer.write(output.value + b"\n")
            elif output.topic == config.topics.dead_letters:
                told = {name: value.decode(errors="replace") for name, value in output.headers}
                place = f"{told['topic']}/{told['partition']} offset {told['offset']}"
                print(printable(f"dead letter: {place}: {told['reason']} at {told['path']}"), file=sys.stderr)
        left = left[learner.consumed - before :]
    sys.stdout.flush()
    return learner.consumed - total
