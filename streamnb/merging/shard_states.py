"""Committed states of learners, each of its own partitions, and their sum."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

from streamnb import config as configuration
from streamnb.config import Config, changes, config_hash, restored, semantic_config_of
from streamnb.config.shard_constraints import refuse_of_shards
from streamnb.engine.journal.checkpoint import BEFORE, Checkpoint
from streamnb.engine.journal.job_identity import JobIdentity, JournalOrigin
from streamnb.engine.journal.journal_history import entries
from streamnb.engine.journal.recovery import committed, standing
from streamnb.engine.journal.snapshot_store import Snapshots
from streamnb.engine.ports import Log, OutageListener
from streamnb.errors import ConfigError, SnapshotError, StreamnbError, told_as
from streamnb.formats.model_text import FIRST, decode_text, encode_text
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.naive_bayes.sufficient_statistics_facts import StatisticFact, facts_of, state_of
from streamnb.runtime import context, factories
from streamnb.runtime.next_commands import repeated
from streamnb.values.parameter_checks import brief
from streamnb.values.state_validation import state_errors

_OWN = "model.name", "events.partitions", "topics.", "predictions."
"""Keys, and prefixes of keys, in which shards may differ, in addition to changes allowed in a model's life.
"""


class PartitionId(NamedTuple):
    """A partition of one topic alone, be there others of its name elsewhere."""

    topic: str
    number: int
    topic_id: str


class LearnedPosition(NamedTuple):
    """Offset of the next record of a partition, and the model that learned it."""

    position: int
    by: str


class ShardState(NamedTuple):
    """Committed state of a model: configuration, sum, learned positions, and the digests of its summands."""

    config: Config
    model: NaiveBayes
    positions: Mapping[PartitionId, LearnedPosition]
    digests: frozenset[str]

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.config.model.name

    @property
    def checkpoint(self) -> Checkpoint:
        """Under what it was learned; it stands at no record of a journal."""
        return Checkpoint(
            -1, "", "", {}, JournalOrigin(config_hash(self.config), semantic_config_of(self.config))
        )

    def to_text(self) -> bytes:
        """Return the state as text, from which `of_text` restores it without loss."""
        facts: list[StatisticFact] = [("configuration", semantic_config_of(self.config))]
        facts += [("position", *place, *learned) for place, learned in self.positions.items()]
        return encode_text([*facts, *facts_of(self.model.statistics)])


def state_of_source(
    place: str, alive: Callable[[], None] = lambda: None, patience: OutageListener | None = None
) -> ShardState:
    """Return the state in a text, or of the learner of a configuration; raise StreamnbError with the file."""
    expected = "expected a learner's configuration, or what `streamnb model export` wrote"
    try:
        with Path(place).open("rb") as file:
            begin = file.read(len(FIRST))
            text = begin + file.read() if begin.startswith(FIRST[:-1]) else None
    except OSError as error:
        raise ConfigError(f"{place}: {error.strerror}; {expected}") from error
    if not begin:
        raise ConfigError(f"{place}: is empty; {expected}")
    try:
        if text is not None:
            return of_text(text)
        return of_learner(configuration.load(Path(place), os.environ, []), alive, patience)
    except StreamnbError as error:
        told = repeated(str(error), argparse.Namespace(config=place))
        told = told if told.startswith(f"{place}: ") else f"{place}: {told}"
        raise type(error)(f"{told}; {expected}" if "is not TOML" in told else told) from error


def of_text(text: bytes) -> ShardState:
    """Return the state in a text; raise SnapshotError, with the line or the fact, if there is none."""
    about: dict[str, list[StatisticFact]] = {"configuration": [], "position": [], "model": []}
    for fact in decode_text(text):
        about[fact[0] if fact[0] in about else "model"].append(fact)
    with state_errors("a model", ValueError):
        ((_, shaping),) = about["configuration"]
        config = restored(shaping)
        refuse_of_shards(config, adds=False)
        model = _model(config)
        model.load_state(*state_of(about["model"]))
    _refuse_foreign(config, about["model"])
    positions = {PartitionId(*fact[1:4]): LearnedPosition(*fact[4:]) for fact in about["position"]}
    return ShardState(config, model, positions, frozenset({hashlib.sha256(text).hexdigest()}))


def of_learner(
    config: Config, alive: Callable[[], None] = lambda: None, patience: OutageListener | None = None
) -> ShardState:
    """Return the newest state that a learner has kept, and that its journal confirms.

    Return the state at the end of the journal if no record was learned yet. Raises ConfigError for a model
    that cannot be added, SnapshotError if no state is kept, and the errors of `recover`.
    """
    with closing(context.existing_log(config, patience)) as log:
        identity, snapshots = factories.identity(config), factories.snapshots(config)
        at, snapshot = committed(log, snapshots, identity, alive)
        if snapshot is None:
            at = _unlearned(log, snapshots, identity)
    if at.n < 0:
        where = Path(config.snapshot_folder)
        raise SnapshotError(
            f"{config.model.name!r} has kept no snapshot in {where} yet"
            f"{'' if where.is_dir() else ', which is not a folder here'}: its learner keeps one by "
            "snapshots.every and snapshots.every_events, and when it stops"
        )
    config = restored(at.origin.config)
    refuse_of_shards(config, adds=False)
    model = _model(config)
    if snapshot is not None:
        model.load_state(*snapshot.parts["model"])
    learned = {
        PartitionId(topic, number, at.origin.topic_ids.get(topic, "")): LearnedPosition(
            offset, config.model.name
        )
        for (topic, number), offset in at.positions.items()
    }
    return ShardState(config, model, learned, frozenset({at.digest}))


def _unlearned(log: Log, snapshots: Snapshots, identity: JobIdentity) -> Checkpoint:
    """Return the end of the journal if none of its records has learned anything, else `BEFORE`."""
    journal = log.partitions(identity.journal)[0]
    has_learned = any(entry.record.slices for entry in entries(log, journal))
    return BEFORE if has_learned else standing(log, snapshots, identity)


def merged(states: Sequence[ShardState], config: Config) -> ShardState:
    """Return the sum as a model of this configuration, bit-identical for any order of the states.

    Raises ConfigError, with topic, partition and both shards, for a partition that two have learned, and with
    the key for shards that count differently.
    """
    refuse_of_shards(config)
    positions: dict[PartitionId, LearnedPosition] = {}
    for state in states:
        with told_as(ConfigError, repr(state.name), ConfigError):
            refuse_of_shards(state.config)
        _refuse_others(state, config)
        for place, one in sorted(state.positions.items()):
            if place in positions:
                other = positions[place]
                raise ConfigError(
                    f"topic {place.topic!r}, partition {place.number} is learned by {other.by!r}, up to "
                    f"offset {other.position}, and by {one.by!r}, up to {one.position}: its events would "
                    "count twice; name a shard once, and no sum together with its parts; of two shards that "
                    "read it, let events.partitions of one leave it out, and let that one begin again"
                )
            positions[place] = one
    total = _model(config)
    for number, state in enumerate(sorted(states, key=lambda one: sorted(one.positions))):
        part = _model(config).load_state(*state.model.state())
        total = total.merge(part) if number else part
    return ShardState(config, total, positions, frozenset().union(*(one.digests for one in states)))


def _model(config: Config) -> NaiveBayes:
    return cast("NaiveBayes", factories.model(config))


def _refuse_others(state: ShardState, config: Config) -> None:
    refused = [
        f"{one.key} is {brief(one.before)}, and {brief(one.after)} of the merged model"
        for one in changes(semantic_config_of(state.config), semantic_config_of(config))
        if not one.allowed and not one.key.startswith(_OWN)
    ]
    if refused:
        raise ConfigError(
            f"{state.name!r} counts differently from {config.model.name!r}: {'; '.join(refused)}; give both "
            "the same configuration, except for `events.partitions` and names"
        )


def _refuse_foreign(config: Config, facts: Sequence[StatisticFact]) -> None:
    usual = config.model.event_model
    of_kind = {
        "multinomial": {"word"},
        "bernoulli": {"contains", "texts"},
        "nominal": {"value"},
        "continuous": {"moments"},
    }
    declared = {
        one.name: of_kind[one.event_model or usual if one.kind == "text" else one.kind]
        for one in config.attributes
    }
    # Undeclared attributes have the kind of their values.
    others = set() if declared else of_kind["nominal"] | of_kind["continuous"]
    declared = declared or {"text": of_kind[usual]}
    for what, name in {fact[:2] for fact in facts if fact[0] not in {"events", "class"}}:
        if what not in declared.get(name, others):
            raise SnapshotError(f"{what} {name!r}: the configuration in it has no such attribute")
