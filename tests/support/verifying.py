"""A model as its configuration has it, learned through a worker, and verified; and logs with damage."""

from __future__ import annotations

import msgspec

from streamnb import config as configuration
from streamnb.cli.commands.verify import source_of
from streamnb.formats.journal_record import START, decode_journal, encode_journal, seal
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import factories
from streamnb.runtime.worker import Worker
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.verification.check_results import CheckResults, Outcome
from streamnb.verification.log_verification import verify
from tests.support.service import AtOnce, Ticking

PACE = CommitPolicy(
    commit_events=30, snapshot_events=90, snapshot_seconds=3600.0
)  # however long kernels compile


def configured(*sets, file=None):
    return configuration.load(file, {}, ["log.url=sqlite:///unused.db", *sets])


def new_worker(log, folder, *sets, pace=PACE, file=None, clock=None, **options):
    config = configured(*sets, file=file)
    return Worker(
        log,
        AtOnce(folder, 100),
        factories.learner(config),
        factories.identity(config),
        pace,
        clock or Ticking(),
        **options,
    )


def learn(log, folder, *sets, **options):
    """A worker's whole life, to the end of the log."""
    worker = new_worker(log, folder, *sets, **options)
    worker.start("test")
    worker.run(until_end=True)
    worker.close()


def verified(log, folder, *sets, file=None, progress=lambda _: None):
    return verify(
        source_of(configured(*sets, file=file), log, SnapshotFolder(folder)), CheckResults(), progress
    )


def told(outcome, verdict=Outcome.DIFFERS):
    return [(f.check, f.text) for f in outcome.findings.all() if f.verdict == verdict]


def places(outcome, check):
    return [f.place for f in outcome.findings.all() if f.verdict == Outcome.DIFFERS and f.check == check]


class Altered:
    """A log of which one topic reads otherwise: `change` makes of each record none, another, or several."""

    def __init__(self, log, topic, change):
        self._log, self._topic, self._change = log, topic, change

    def __getattr__(self, name):
        return getattr(self._log, name)

    def read(self, partition, offset, limit):
        while found := self._log.read(partition, offset, limit):
            if partition.topic != self._topic:
                break
            changed = [other for record in found for other in self._change(record)]
            if changed:
                return changed
            offset = found[-1].offset + 1
        return found


def journal_of(log):
    partition = log.partitions("journal")[0]
    return [decode_journal(r.value) for r in log.read(partition, log.offsets(partition)[0], 10_000)]


def rewritten(log, n, edit):
    """The log with a journal whose record `n` is another, and whose digests hide that."""
    new, previous = {}, START
    for record in journal_of(log):
        changed = msgspec.structs.replace(record, previous=previous)
        if record.n == n:
            changed = edit(changed)
        changed = seal(changed)
        new[record.n], previous = encode_journal(changed), changed.digest
    return Altered(log, "journal", lambda r: [r._replace(value=new[decode_journal(r.value).n])])


def edit_snapshot(folder, edit, n=None):
    """Write a snapshot anew, with right checksums, after `edit` has changed its parts."""
    store = AtOnce(folder, 100)
    snapshot = store.newest(n).snapshot
    parts = {
        name: SnapshotPart(dict(part.meta), {key: array.copy() for key, array in part.arrays.items()})
        for name, part in snapshot.parts.items()
    }
    parts = edit(parts) or parts
    store.save(msgspec.structs.replace(snapshot, parts=parts))
    return snapshot.journal_n
