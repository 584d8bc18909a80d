"""``streamnb journal skip``: get past records in the journal's topic that are none of the journal's."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import closing

from streamnb.cli import wiring
from streamnb.cli.snapshot import acquire
from streamnb.engine.history import strays_listed
from streamnb.engine.lifecycle import pass_over
from streamnb.model.attributes import some_of

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Write down that they are passed over. Raises JournalError for one that the journal needs."""
    config = wiring.load_config(options)
    offsets = frozenset(options.offsets)
    place = f"{config.topics.journal}/0 offset {some_of([str(offset) for offset in sorted(offsets)])}"
    with closing(wiring.existing_log(config)) as log:
        if offsets <= strays_listed(log, log.partitions(config.topics.journal)[0]):
            return _tell(options, None, f"passed over already, nothing was written: {place}")
        acquire(log, config.log.session_timeout)
        identity, snapshots = wiring.identity(config), wiring.snapshots(config)
        checkpoint = pass_over(log, snapshots, offsets, identity, time.time())
    return _tell(options, checkpoint.n, f"passed over by journal record {checkpoint.n}: {place}")


def _tell(options: argparse.Namespace, n: int | None, text: str) -> int:
    """What was done, by which record of the journal; None where that was done before."""
    print(json.dumps({"n": n, "offsets": sorted(set(options.offsets))}) if options.json else text)
    return 0
