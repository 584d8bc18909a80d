"""Retrain the last retrained model again from the log alone, and compare."""

from __future__ import annotations

from streamnb.engine.journal.journal_history import find
from streamnb.engine.retraining.label_resolution import Chosen
from streamnb.engine.retraining.log_retraining import Retraining, RetrainingSource, nothing
from streamnb.errors import JournalError
from streamnb.formats.snapshot_container import part_digest
from streamnb.values.parameter_checks import pluralize
from streamnb.verification.check_results import CheckResults

REBUILT = "learned anew"


def check_rebuilt(
    source: RetrainingSource, adopted: int, findings: CheckResults, chosen: Chosen | None = None
) -> None:
    """Compare the model that a journal record installed with one retrained now, bit for bit.

    The model must never have seen the `chosen` events. If no record installed a model, `adopted` is -1.
    """
    found = find(source.log, source.log.partitions(source.identity.journal)[0], adopted)
    if found is None:
        findings.differs(REBUILT, "the journal never installed a retrained model: nothing was erased")
        return
    record = found.record
    if record.machine != source.identity.machine:
        findings.unchecked(REBUILT, "another kind of machine learned it: its bits may differ", record=adopted)
        return
    try:
        rebuilding = Retraining(source, chosen or nothing, record.to, record.config)
    except JournalError as error:
        findings.unchecked(REBUILT, str(error), record=adopted)
        return
    if rebuilding.forgotten:
        events = f"{rebuilding.forgotten:,} of these events"
        text = f"{events}, up to journal record {record.to}, were not forgotten"
        findings.differs(REBUILT, text, {"record": adopted})
    rebuilding.follow()
    digest = rebuilding.retrained().digest
    kept = source.snapshots.newest(adopted)
    taken = {f"journal record {adopted}": record.model}
    if kept is not None and kept.snapshot.journal_n == adopted:
        taken[f"the snapshot at journal record {adopted}"] = part_digest(*kept.snapshot.parts["model"])
    for name, known in taken.items():
        if known != digest:
            text = f"the model of {name} is not the model that the log gives"
            findings.differs(REBUILT, text, {"record": adopted}, found=known, expected=digest)
    if not findings.count(REBUILT):
        without = sum(map(len, rebuilding.retrained().all_erased.values()))
        what = f", without the {without:,} events that were forgotten" if without else ""
        text = f"{pluralize(rebuilding.learned, 'event')}{what}: the same model, bit for bit"
        findings.ok(REBUILT, text, record=adopted)
