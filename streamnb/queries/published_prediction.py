"""Derive a published prediction again, from the state that made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from streamnb.config import Config, restored
from streamnb.engine.journal.checkpoint import Checkpoint, origin_of
from streamnb.engine.journal.event_locator import EventLocation, EventLocator
from streamnb.engine.journal.journal_entries import refuse_forgotten
from streamnb.engine.journal.journal_history import entries
from streamnb.engine.journal.prediction_search import PublishedPrediction
from streamnb.engine.journal.recovery import recover, standing
from streamnb.engine.labels.delayed_labels import DelayedLabels
from streamnb.engine.ports import Log, Partition, Record, bytes_of
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import LabelSettings
from streamnb.errors import ConfigError, JournalError, OutOfRange, StreamnbError
from streamnb.events import Event
from streamnb.formats.codec import IN_EVENT, decode_event
from streamnb.formats.event_validity import LATEST
from streamnb.queries.answers import explained, held
from streamnb.queries.query_model import query_model_of
from streamnb.runtime import context, factories

Read = Callable[[Record], Event]
_DECIDED, _WHY = ("decision", "expected_cost"), ("rejected", "novelty")


def reader(log: Log, config: Config) -> tuple[Checkpoint, Read]:
    """Return the end of the journal, and a reader of events there; raise JournalError if it is empty."""
    end = standing(log, factories.snapshots(config), factories.identity(config))
    if end.n < 0:
        raise JournalError("the journal is empty: nothing has been learned yet; `streamnb run` learns")
    schema = context.schema(restored(end.origin.config))
    return end, lambda record: decode_event(record.value, schema, record.key, record.timestamp)


def found(
    log: Log, config: Config, read: Read, id_: str | None, place: str | None, look_back: int
) -> EventLocation:
    """Return an event by its id, or by [TOPIC/]PARTITION/OFFSET; raise StreamnbError."""
    topics = config.topics
    of = (list(topics.events), topics.predictions, topics.journal)
    search = EventLocator(log, of, config.model.name, read)
    if place is None:
        return search.by_id(id_ or "", look_back)
    topic, number, offset = ["", "", *place.rsplit("/", 2)][-3:]
    topic = topic or topics.events[0]
    if not (number.isdecimal() and offset.isdecimal() and topic in topics.events):
        raise ConfigError(
            f"--place: expected PARTITION/OFFSET of {topics.events[0]}, or TOPIC/PARTITION/OFFSET of "
            f"{', '.join(topics.events)}, got {place!r}"
        )
    event = search.at(Partition(topic, int(number)), int(offset), look_back)
    if id_ not in {None, event.event.id}:
        raise ConfigError(f"--place {place} holds event {event.event.id!r}, and not {id_!r}")
    return event


def described(event: EventLocation, published: PublishedPrediction | None = None) -> dict[str, Any]:
    """Return the place of an event, and its last published prediction, as JSON values."""
    (topic, number), offset = event.record.partition, event.record.offset
    told: dict[str, Any] = {
        "event": {"id": event.event.id, "topic": topic, "partition": number, "offset": offset},
        "served": None,
    }
    if event.published:
        record, said = published or event.published[-1]
        told["served"] = {
            "label": said.label,
            "probability": said.probability,
            "probabilities": said.probabilities,
            **({} if said.decision is UNSET else {name: getattr(said, name) for name in _DECIDED}),
            **{name: one for name in _WHY if (one := getattr(said, name)) is not None},
            "truth": said.truth,
            "ts": said.ts,
            "journal": event.commit.n,
            "topic": record.partition.topic,
            "partition": record.partition.number,
            "offset": record.offset,
        }
    return told


def label_of(config: Config, event: EventLocation) -> dict[str, Any] | None:
    """Return the label in force by the newest snapshot, its source and time, and others; None if unknown."""
    found = factories.snapshots(config).newest()
    if found is None or "labels" not in found.snapshot.parts:
        return None
    snapshot = found.snapshot
    settings = factories.settings(restored(origin_of(snapshot).config)).labels or LabelSettings()
    classes = snapshot.parts["model"].meta.get("classes", [])
    late = DelayedLabels.from_state(settings, snapshot.parts, snapshot.segments, classes)
    recorded = event.record.timestamp
    said = late.source_labels_of(event.event.id, recorded if recorded < LATEST else None)
    if said is None or all(one.source == IN_EVENT for one in said):
        return None
    return held(said, snapshot.journal_n)


def derived(
    log: Log, config: Config, end: Checkpoint, event: EventLocation, against: str | None, top: int
) -> dict[str, Any]:
    """Return the prediction of the state just before the event, compared with the published one.

    The state is the newest snapshot before its commit, the journal since then, and the commit's records
    before the event. Nothing is written. Raises StreamnbError if any of them is no longer retained.
    """
    config = factories.begun_configuration(config, log)
    learner: EventProcessor = factories.learner(config)
    before, replayed = _recovered(log, config, end, event.commit.n - 1, learner)
    if event.place:
        learner.process(event.records[: event.place], event.commit.now)
    under, told = restored(before.origin.config), {"file": "the state then"}
    asked = query_model_of(learner.model, under, told, learner.decisions)
    try:
        answer = explained(asked, event.event, against, top)
    except StreamnbError as error:  # without an explanation, the prediction is still derived
        why = str(error) if learner.model.classes else "nothing had been learned before it"
        answer = {"evidence": None, "why_none": why}
    made = learner.process([event.record], event.commit.now)
    said = [bytes_of(one) for one in made if one.topic == learner.settings.predictions]
    same = next((one for one in event.published if bytes_of(one.record) in said), None)
    return {
        **described(event, same),
        **answer,
        "derived": {
            "same": same is not None if event.published else None,
            "prediction": said[0][1].decode() if said else None,
            "journal": before.n,
            "replayed": replayed,
            "this_machine": event.commit.machine == factories.identity(config).machine,
        },
    }


def _recovered(
    log: Log, config: Config, end: Checkpoint, n: int, learner: EventProcessor
) -> tuple[Checkpoint, int]:
    snapshots, identity, replayed = factories.snapshots(config), factories.identity(config), 0

    def passed(*_: object) -> None:
        nonlocal replayed
        replayed += 1

    try:
        refuse_forgotten(end, n)
    except JournalError as error:
        raise JournalError(
            f"{error}: what was served by journal record {n + 1} is not to be derived any more; its record "
            f"stays in {config.topics.predictions} as long as retention keeps it"
        ) from error
    first = next(entries(log, log.partitions(identity.journal)[0])).record.n
    if first and not any(file.n <= n for file in snapshots.list()):
        raise JournalError(_gone(config, n, f"the journal begins with record {first}"))
    try:
        return recover(log, snapshots, learner, identity, at=n, passed=passed), replayed
    except JournalError as error:
        if isinstance(error.__cause__, OutOfRange):
            raise JournalError(_gone(config, n, str(error.__cause__))) from error
        raise


def _gone(config: Config, n: int, what: str) -> str:
    return (
        f"what was served by journal record {n + 1} cannot be derived again: that takes a snapshot of record "
        f"{n} or before, and all that was learned since, and {what}; bring a snapshot of record {n} or "
        f"shortly before back to {config.snapshot_folder}; topics.retention and snapshots.keep say what is "
        "kept from now on"
    )
