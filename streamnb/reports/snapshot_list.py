"""``streamnb snapshot list``: the content of every snapshot file, and its state in the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from streamnb.config import Config
from streamnb.engine.journal.journal_history import entries, find, is_on, last, path_to
from streamnb.engine.ports import Log, OutageListener
from streamnb.errors import JournalError, LogError, SnapshotError
from streamnb.formats.terminal_text import emit
from streamnb.persistence.snapshot_folder import SnapshotFile, SnapshotFolder
from streamnb.reports.state_diff import time_of
from streamnb.reports.text_columns import table
from streamnb.runtime import context
from streamnb.values.messages import Message


def listed(config: Config) -> dict[str, Any]:
    """Return a description of every file, with its state in the journal if the log exists."""
    folder = SnapshotFolder(config.snapshot_folder)
    found = folder.list()
    journal, unread = None, None
    try:
        with closing(context.existing_log(config, OutageListener())) as log:  # a list waits for no cluster
            journal = _Journal(log, config, [entry.n for entry in found])
    except (LogError, JournalError) as error:
        unread = str(error)
    listed = [_described(folder, entry, journal) for entry in found]
    return {"folder": str(folder.path), "unread": unread, "snapshots": listed}


class _Journal:
    """States of snapshots in the journal, with the records that have snapshots."""

    def __init__(self, log: Log, config: Config, numbers: Sequence[int]) -> None:
        topic = log.partitions(config.topics.journal)[0]
        found = [entry for n in numbers if (entry := find(log, topic, n)) is not None]
        self.known = {entry.record.n: entry.record for entry in found}
        first, end = next(entries(log, topic), None), last(log, topic)
        self._first = 0 if first is None else first.record.n
        self._last = -1 if end is None else end.record.n
        since = entries(log, topic, found[0].offset) if found else ()
        rollbacks = {entry.record.n: entry.record.to for entry in since if entry.record.kind == "rollback"}
        self._path = path_to(self._last, rollbacks)

    def state(self, n: int, digest: str) -> str:
        record = self.known.get(n)
        if record is None and n > self._last:
            return f"beyond the journal's end, record {self._last}"
        if record is None and n < self._first:
            return f"before the journal's beginning, record {self._first}"
        if record is None or record.digest != digest:
            return "of another journal"
        return "good" if is_on(self._path, n) else "rolled back"


def _described(folder: SnapshotFolder, entry: SnapshotFile, journal: _Journal | None) -> dict[str, Any]:
    record = None if journal is None else journal.known.get(entry.n)
    described: dict[str, Any] = {
        "n": entry.n,
        "file": entry.path.name,
        "bytes": entry.size,
        "written": None if record is None else record.now,
    }
    try:
        digest = folder.load(entry.n).digest
    except SnapshotError as error:
        reason = str(error).removeprefix(f"{entry.path}: ")
        return described | {"readable": False, "state": f"damaged: {reason}"}
    state = "readable" if journal is None else journal.state(entry.n, digest)
    return described | {"readable": True, "state": state}


def print_list(answer: Mapping[str, Any]) -> None:
    """Print the list as a table."""
    if answer["unread"]:
        text = f"snapshot files only, without the journal: {answer['unread']}"
        emit(Message("journal-not-read", text, error=answer["unread"]))
    if not answer["snapshots"]:
        print(f"{answer['folder']} holds no snapshots")
        return
    times = ("" if one["written"] is None else time_of(one["written"]) for one in answer["snapshots"])
    found = zip(answer["snapshots"], times, strict=True)
    rows = [(one["n"], written, one["bytes"], one["state"]) for one, written in found]
    print(table(rows, ("record", "written", "bytes", "state")))
