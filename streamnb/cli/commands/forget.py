"""``streamnb forget``: retrain the model without some events, and install it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path

from streamnb.cli.commands.rebuild import print_progress, retrain
from streamnb.config import Config
from streamnb.engine.ports import Log, Record, between
from streamnb.engine.retraining.label_resolution import Chosen
from streamnb.errors import ConfigError
from streamnb.events import Event
from streamnb.features.attributes import some_of
from streamnb.formats.row_events import DELETED
from streamnb.formats.terminal_text import emit
from streamnb.runtime import context, factories
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_FEW = 5
_MOST_NAMES = 100
_AT_ONCE = 1000


class WithIds:
    """Predicate for events by id; `unmet` holds the ids that no event had so far, in order."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.unmet = dict.fromkeys(ids)
        self.ids = frozenset(self.unmet)

    def __call__(self, event: Event, record: Record) -> bool:  # noqa: ARG002  as other choices
        """Return whether the event has one of the ids."""
        self.unmet.pop(event.id, None)
        return event.id in self.ids

    @property
    def description(self) -> str:
        """Message about unmet ids; empty if there are none."""
        if not self.unmet:
            return ""
        shown = (one if one == one.strip() else repr(one) for one in self.unmet)
        few = ", ".join(islice(shown, _FEW)) + (", ..." if len(self.unmet) > _FEW else "")
        return f"{len(self.unmet):,} of {len(self.ids):,} ids name no event that was learned from: {few}"


class WithValue:
    """Predicate for events by the value of an attribute; `names` holds the first attributes seen."""

    def __init__(self, field: str, value: str) -> None:
        self._field, self._value, self._is_met = field, value, False
        self.names: dict[str, None] = {}

    def __call__(self, event: Event, record: Record) -> bool:  # noqa: ARG002  as other choices
        """Return whether the attribute of the event has the value."""
        if len(self.names) < _MOST_NAMES:
            self.names.update(dict.fromkeys(event.x))
        if self._field not in event.x:
            return False
        self._is_met = True
        return _is(event.x[self._field], self._value)

    @property
    def description(self) -> str:
        """Message about an attribute that no event has; empty if one has it."""
        if self._is_met:
            return ""
        return f"; no event has an attribute {self._field!r}, but some have {some_of(list(self.names))}"


def run(options: argparse.Namespace) -> int:
    """Retrain the model without the selected events; return 1 if there are none."""
    config = context.load_config(options)
    chosen = None if options.deleted else _chosen(options)
    with closing(context.existing_log(config)) as log:
        chosen = chosen or _of_deleted_rows(config, log)
        rebuilding, n = retrain(factories.begun_configuration(config, log), log, chosen)
    if isinstance(chosen, WithIds) and chosen.unmet:
        emit(Message("ids-not-found", chosen.description, ids=sorted(chosen.unmet)))
    if not rebuilding.forgotten:
        message = (
            f"none of {pluralize(rebuilding.events, 'event')} up to journal record {rebuilding.to} is one of "
            "these, or they were forgotten before: nothing was changed"
        )
        message += chosen.description if isinstance(chosen, WithValue) else ""
        emit(Message("nothing-forgotten", message, events=rebuilding.events, journal=rebuilding.to))
        return int(not isinstance(chosen, WithIds) or len(chosen.unmet) == len(chosen.ids))
    print_progress(options, rebuilding, n, f"{pluralize(rebuilding.forgotten, 'event')} forgotten; ")
    return 0


def with_ids(file: str) -> WithIds:
    """Return a predicate for the ids of a file, one a line."""
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        lines = content.decode("utf-8-sig").split("\n")  # an id may hold what else ends a line
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}: line {line} is not UTF-8; expected ids, one a line") from None
    return WithIds(filter(None, (line.removesuffix("\r") for line in lines)))


def _of_deleted_rows(config: Config, log: Log) -> Chosen:
    """Return a predicate of the events whose rows were deleted, as `convert` noted. Raises ConfigError."""
    if not any(source.deletes == "forget" for source in config.sources):
        raise ConfigError('--deleted: no [[sources]] has deletes = "forget", which notes deleted rows')
    ids = {
        (record.key or b"").decode()
        for partition, (first, end) in log.offset_ranges(config.topics.labels).items()
        for record in between(log, partition, first, end, _AT_ONCE)
        if any(name == DELETED for name, _ in record.headers)
    }
    return lambda event, _: event.id in ids


def _chosen(options: argparse.Namespace) -> Chosen:
    """Return the predicate of the flags. Raises ConfigError for a malformed flag."""
    if options.ids is not None:
        return with_ids(options.ids)
    if options.key is not None:
        key = options.key.encode()
        return lambda _, record: record.key == key
    field, equals, value = options.where.partition("=")
    if not (field and equals):
        raise ConfigError(f"--where: expected FIELD=VALUE, got {options.where!r}")
    return WithValue(field, value)


def _is(found: object, value: str) -> bool:
    if isinstance(found, str):
        return found == value
    try:
        return found == float(value)
    except ValueError:
        return str(found).lower() == value
