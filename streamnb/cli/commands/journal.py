"""``streamnb journal skip``: skip foreign records in the journal topic."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from contextlib import closing
from itertools import chain

from streamnb.cli.commands.snapshot import acquire
from streamnb.engine.journal.journal_entries import skip_foreign_records
from streamnb.engine.journal.journal_history import decoded, list_foreign_records
from streamnb.engine.ports import Log, Partition
from streamnb.errors import JournalError
from streamnb.features.attributes import some_of
from streamnb.runtime import context, factories


def run(options: argparse.Namespace) -> int:
    """Record the skipped offsets. Raises JournalError if one belongs to the journal."""
    config = context.load_config(options)
    with closing(context.existing_log(config)) as log:
        journal = log.partitions(config.topics.journal)[0]
        offsets = frozenset(chain.from_iterable(_held(log, journal, given) for given in options.offsets))
        place = f"{journal} offset {some_of([str(offset) for offset in sorted(offsets)])}"
        if offsets <= list_foreign_records(log, journal):
            text = f"passed over already, nothing was written: {place}"
            return _print_foreign_records(options, None, offsets, text)
        acquire(log, config.log.session_timeout)
        config = factories.begun_configuration(config, log)
        identity, snapshots = factories.identity(config), factories.snapshots(config)
        checkpoint = skip_foreign_records(log, snapshots, offsets, identity, time.time())
    text = f"passed over by journal record {checkpoint.n}: {place}"
    return _print_foreign_records(options, checkpoint.n, offsets, text)


def _held(log: Log, journal: Partition, given: range) -> Iterable[int]:
    """Return a single offset, or the offsets in a range that hold a record, of which there must be one."""
    if given.stop - given.start == 1:  # `len` fails for a long range
        return given
    held = [at for at, _ in decoded(log, journal, given.start, min(given.stop, log.offsets(journal)[1]))]
    if not held:
        raise JournalError(f"{journal} offset {given.start}-{given.stop - 1}: there is no record")
    return held


def _print_foreign_records(
    options: argparse.Namespace, n: int | None, offsets: frozenset[int], text: str
) -> int:
    print(json.dumps({"n": n, "offsets": sorted(offsets)}) if options.json else text)
    return 0
