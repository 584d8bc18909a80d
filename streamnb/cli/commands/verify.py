"""``streamnb verify``: recount the log and compare the result with the model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

from tqdm import tqdm

from streamnb.cli.commands.forget import WithIds, with_ids
from streamnb.config import Config, restored
from streamnb.config.model_factory import model
from streamnb.engine.journal.job_identity import JobIdentity, JournalOrigin
from streamnb.engine.journal.journal_history import entries
from streamnb.engine.journal.snapshot_store import Snapshots
from streamnb.engine.ports import Log
from streamnb.errors import JournalError
from streamnb.formats.terminal_text import left_out
from streamnb.persistence.snapshot_folder import Damaged, SnapshotFolder
from streamnb.reports.text_columns import table
from streamnb.runtime import context, factories
from streamnb.runtime.next_commands import repeated
from streamnb.values.parameter_checks import pluralize
from streamnb.verification.check_results import CheckResult, CheckResults, Outcome
from streamnb.verification.log.retrained_model_check import REBUILT, check_rebuilt
from streamnb.verification.log_verification import VerificationResult, VerificationSource, verify
from streamnb.verification.recount.event_recount import RecountPlan


def run(options: argparse.Namespace) -> int:
    """Verify everything, without disturbing the learner; return 1 if anything differs or is missing."""
    config = context.load_config(options)
    damaged: list[Damaged] = []  # with repeats
    folder = SnapshotFolder(config.snapshot_folder, config.snapshots.keep, damaged.append)
    findings = CheckResults()
    bar = tqdm(unit=" events recounted", disable=not sys.stderr.isatty(), leave=False)
    with closing(context.existing_log(config)) as log, bar:
        _refuse_sums(config, log)
        source = source_of(config, log, folder)
        verified = verify(source, findings, lambda events: bar.update(events - bar.n))
        if options.rebuilt or options.forgotten is not None:
            chosen = None if options.forgotten is None else with_ids(options.forgotten)
            check_rebuilt(source, verified.adopted, findings, chosen)
            if chosen is not None and verified.adopted >= 0:
                _report_unmet(chosen, findings)
    reported = " ".join(finding.text for finding in findings.all())
    for path, reason in {str(path): reason for path, reason in damaged}.items():
        if path not in reported:  # others are named by the finding that needs them
            findings.differs("snapshots", f"{path}: {reason}", {"path": path})
    found = ((f.check, f.verdict, repeated(f.text, options)) for f in findings.all())
    rows = table(found, ("check", "", "found"))
    print(json.dumps(_described(verified)) if options.json else f"{rows}\n\n{_sentence(verified)}")
    return 0 if findings.is_clean else 1


def _report_unmet(chosen: WithIds, findings: CheckResults) -> None:
    """Report ids without an event: they may be misspelt and prove nothing."""
    if not chosen.ids:
        findings.differs(REBUILT, "the file is empty: no id was looked for")
    elif len(chosen.unmet) == len(chosen.ids):
        findings.differs(REBUILT, chosen.description)
    elif chosen.unmet:
        findings.unchecked(REBUILT, chosen.description)


def _refuse_sums(config: Config, log: Log) -> None:
    """Raise JournalError for the journal of a merged model, which learns no events."""
    first = (one.record for one in entries(log, log.partitions(config.topics.journal)[0]))
    if (found := next((one for one in first if one.merged or one.kind == "commit"), None)) and found.merged:
        raise JournalError(
            f"topic {config.topics.journal!r} holds sums of the models of shards, and no event is "
            "learned by it: verify each shard, by its own configuration; `streamnb model diff A B` compares "
            "what is published with a sum that is written now (`streamnb model merge --out FILE SHARD`)"
        )


def source_of(config: Config, log: Log, snapshots: Snapshots) -> VerificationSource:
    """Return the source of a verification under a configuration."""
    config = factories.begun_configuration(config, log, snapshots)
    identity = factories.identity(config)
    plans = partial(_plan, config, identity)
    return VerificationSource(log, snapshots, lambda: factories.learner(config), identity, plans)


def _plan(config: Config, identity: JobIdentity, origin: JournalOrigin) -> RecountPlan:
    is_present = origin.config_hash == identity.config_hash or not origin.config
    then = config if is_present else restored(origin.config)
    return RecountPlan.of_model(factories.settings(then), model(then))


def _sentence(verified: VerificationResult) -> str:
    if verified.n < 0:
        return "nothing was verified: no journal record was found; see above, and `streamnb run` learns"
    if not verified.findings.is_clean:
        return f"differs: up to journal record {verified.n:,} there are differences or gaps; see above"
    equal = verified.compared
    if not verified.events and verified.adopted >= 0:
        is_anew = any(one.check == REBUILT and one.verdict is Outcome.OK for one in verified.findings.all())
        how = "retrained: the same" if is_anew else "not checked: --rebuilt retrains it"
        return (
            f"verified: the journal; the model of its record {verified.adopted:,} was {how}, and "
            "no event was counted after it"
        )
    if not verified.events:
        return "nothing was verified: the log keeps no event that was learned"
    numbers = "" if equal is None else f"; {equal}"
    events = pluralize(verified.events - verified.labels, "event")
    commits = pluralize(verified.commits, "commit")
    labels = f" and {pluralize(verified.labels, 'label')}" if verified.labels else ""
    refused = left_out({"refused as dead letters": verified.refused})
    return f"{refused}verified: {events}{labels} in {commits}, counted once each{numbers}"


def _described(verified: VerificationResult) -> dict[str, Any]:
    equal = verified.compared
    return {
        "verified": verified.findings.is_clean,
        "journal": verified.n,
        "events": verified.events,
        "commits": verified.commits,
        "counts": None if equal is None else equal.counts,
        "moments": None if equal is None else equal.moments,
        "findings": [_finding(finding) for finding in verified.findings.all()],
    }


def _finding(finding: CheckResult) -> Mapping[str, Any]:
    described = {"check": finding.check, "verdict": str(finding.verdict), "text": finding.text}
    described |= {"place": dict(finding.place)} if finding.place else {}  # type: ignore[dict-item]
    if finding.found is not None or finding.expected is not None:
        described |= {"found": finding.found, "expected": finding.expected}
    return described
