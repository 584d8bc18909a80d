"""What is left of a storm, looked at from outside: by another client, and by a plain recount."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from streamnb import config as configuration
from streamnb.cli.commands.rebuild import retraining_of
from streamnb.engine.journal.journal_history import entries
from streamnb.engine.journal.recovery import recover
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.retraining.log_retraining import Retraining
from streamnb.errors import StreamnbError
from streamnb.formats.codec import decode_event
from streamnb.formats.snapshot_container import part_digest
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories
from tests.support.program import Program
from tests.system.storm.account import account
from tests.system.storm.late_labels import scores_differ, truths_of
from tests.system.storm.reading import Found, ends, read
from tests.system.storm.recount import counted, differences, recount, recount_of_tenants
from tests.system.storm.stream import Made, is_malformed
from tests.system.storm.undisturbed import disturbances

INPUTS = "events", "labels"
"""Roles of topics that are read; labels have one where they come apart."""
VERIFY_SECONDS = 900.0
"""It replays every event and every output of a storm."""


def judge(
    program: Program, address: str, stream: Iterator[Made], *, compares: bool = False
) -> dict[str, Any]:
    """Facts, and under "faults" a line for each thing that should not be; it is empty where all is well.

    Where it `compares`, the model stands beside one that nobody disturbed.
    """
    faults: list[str] = []
    topics = program.topics
    inputs = [topics[role] for role in INPUTS if role in topics]
    went_in, *heard = (list(read(address, topic)) for topic in inputs)
    made = list(stream)
    written = account((one.id for one in made), (found.id for part in (went_in, *heard) for found in part))
    names = [one.id for one in made if one.role == "events" or is_malformed(one.id)]
    if not written.is_clean:
        faults.append(f"the producer itself failed: {written.told()}")
    said = [found.value for found in read(address, topics["predictions"])]
    predicted = [json.loads(value)["id"] for value in said]
    refused = [found.id for found in read(address, topics["dead_letters"])]
    whole = account(names, predicted + refused)
    good = account((name for name in names if not is_malformed(name)), predicted)
    bad = account((name for name in names if is_malformed(name)), refused)
    faults += [
        f"{what}: {found.told()}"
        for what, found in {"outputs": whole, "predictions": good, "dead letters": bad}.items()
        if not found.is_clean
    ]
    journal = list(read(address, topics["journal"]))
    faults += journal_faults(journal, {topic: ends(address, topic) for topic in inputs})
    try:
        faults += _model(program, went_in, *heard, said=said)
        if compares:
            config = configuration.load(program.file, {}, [])
            learned = recovered(program, program.folder / "snapshots")
            faults += disturbances(config, went_in, learned, said)
    except StreamnbError as error:
        faults.append(f"no model can be had of the journal: {error}")
    verified, complaint = _verify(program)
    faults += complaint
    return {
        "events": len(went_in),
        "verdicts": sum(map(len, heard)),
        "dead_letters": len(refused),
        "lost": len(whole.lost),
        "repeated": len(whole.repeated),
        "strange": len(whole.strange),
        "commits": len(journal) - 1,
        "longest_gap_seconds": round(max((b.at - a.at for a, b in pairwise(journal)), default=0.0), 1),
        "verify": verified,
        "faults": faults,
    }


def journal_faults(journal: list[Found], expected: dict[str, dict[str, int]]) -> Iterator[str]:
    """Numbers without gaps; slices that begin where the ones before ended; everything read."""
    numbers = [json.loads(found.value)["n"] for found in journal]
    if numbers != list(range(len(numbers))):
        yield "the journal's numbers have gaps, or repeat"
    at = json.loads(journal[0].value)["positions"]
    for found in journal[1:]:
        record = json.loads(found.value)
        for part in record["slices"]:
            place = at.setdefault(part["topic"], {})
            if part["first"] != place.get(str(part["partition"]), 0):
                yield f"journal record {record['n']} does not begin where the ones before ended: {part}"
            place[str(part["partition"])] = part["next"]
        if record["positions"] != at:
            yield f"journal record {record['n']} stands elsewhere than its slices end"
    if at != expected:
        yield f"the journal ends at {at}, and the events at {expected}"


def _model(
    program: Program, went_in: list[Found], heard: list[Found] | None = None, *, said: list[bytes]
) -> Iterator[str]:
    """The model of snapshot and journal, that of the journal alone, and the recount."""
    with_snapshots = recovered(program, program.folder / "snapshots")
    without = recovered(program, program.folder / "no-snapshots")
    if digests(with_snapshots) != digests(without):
        yield "a recovery with snapshots and one without give two models"
    has_work = with_snapshots.has_work
    while with_snapshots.has_work:  # what withdrawals left undone when the learner was told to end
        with_snapshots.work()
    truths = None if heard is None else truths_of(went_in, heard)
    if truths is not None:
        yield from scores_differ(with_snapshots, said, truths)
    sound, model = [found for found in went_in if not is_malformed(found.id)], with_snapshots.model
    if isinstance(model, TenantModels):
        expected = recount_of_tenants(sound, model.tenants)
    else:
        expected = recount((found.value for found in sound), truths)
    different = differences(counted(model), expected)
    if different:
        yield f"{len(different)} counts differ: {'; '.join(different[:5])}"
    inspected = json.loads(program.run("inspect", "--json"))
    if inspected["digest"] != digests(without)["model"]:
        yield "`inspect` describes another model"
    if truths is not None and not has_work:
        yield from _learned_anew(program, went_in, truths)
    if inspected["learned"] != without.model.n_events:
        yield f"`inspect` says that {inspected['learned']} events were learned"


def _learned_anew(
    program: Program, went_in: list[Found], truths: Mapping[str, tuple[str, float]]
) -> Iterator[str]:
    """A model learned anew, and one that nobody disturbed, of events that carried the labels of the end."""
    config = configuration.load(program.file, {}, [])
    with closing(context.open_log(config)) as log:
        rebuilt = Retraining(retraining_of(config, log)).retrained()
        journal = [found.record for found in entries(log, log.partitions(config.topics.journal)[0])]
    at = {(found.partition, found.offset): found for found in went_in}
    alone, schema = factories.model(config), context.schema(config)
    for part in (part for record in journal for part in record.slices if part.topic in config.topics.events):
        for offset in range(part.first, part.next):
            found = at.get((part.partition, offset))
            if found is not None and not is_malformed(found.id) and truths.get(found.id, ("", 0))[1]:
                event = decode_event(found.value, schema, found.key.encode(), found.at)
                alone.learn_one(event.x, *truths[found.id])
    if part_digest(*alone.state()) != rebuilt.digest:
        yield "a model that was learned anew is not that of an undisturbed run"


def recovered(program: Program, snapshots: Path) -> EventProcessor:
    """A learner that stands where the journal does, by the snapshots of a folder."""
    config = configuration.load(program.file, {}, [])
    learner = factories.learner(config)
    with closing(context.open_log(config)) as log:
        recover(log, SnapshotFolder(snapshots), learner, factories.identity(config))
    return learner


def digests(learner: EventProcessor) -> dict[str, str]:
    """Of everything that a snapshot holds."""
    return {name: part_digest(*part) for name, part in learner.parts().items()}


def _verify(program: Program) -> tuple[str, list[str]]:
    """What the program's own check says, which has to agree."""
    there = program.start("verify", "--help").finish()
    if there.process.returncode:
        return "no such command", []
    done = program.start("verify", "--json").finish(VERIFY_SECONDS)
    if done.process.returncode:
        return "differs", [f"`verify` ended with {done.process.returncode}: {done.said(0)}{done.said()}"]
    return "clean", []
