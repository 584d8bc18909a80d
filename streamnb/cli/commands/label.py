"""`streamnb label`: say what an event is, or say so of all events in a file."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress

from msgspec.structs import replace

from streamnb.cli.timed_batches import parts_of
from streamnb.config import Config
from streamnb.config.config_literals import literal
from streamnb.engine.journal.journal_history import last
from streamnb.engine.ports import Log, NewRecord
from streamnb.errors import ConfigError, LogError, MalformedEvent, Unavailable, UnknownTopic, told_as
from streamnb.events import LabelRecord, Retraction
from streamnb.formats.codec import UNNAMED, decode_label, encode_label
from streamnb.formats.event_files import open_counted
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.terminal_text import warn
from streamnb.runtime import context
from streamnb.values.parameter_checks import pluralize
from streamnb.values.similar_labels import ALIKE, INVISIBLE, folded, is_visible

_AT_ONCE = 1000
_MOST_CLASSES = 10_000  # that are told apart
_PATIENCE = 0.2  # seconds that a label waits for others


def run(options: argparse.Namespace) -> int:
    """Write verdicts to the topic of labels; whoever learns takes them from there."""
    config = context.load_config(options)
    topic, count = labels_topic(config), 0
    found = _looked_at(_of_file(options, config) if options.file else [_given(options, config)])
    try:
        for count in writing(config, found):  # noqa: B007
            pass
    except MalformedEvent as error:
        written = f"labels before it were written to {topic}: {count:,}"
        raise LogError(f"{options.file}, {error.detail}; {written}") from error
    if options.json:
        print(json.dumps({"labels": count, "topic": topic, "log": config.log.url}))
    else:
        print(f"{pluralize(count, 'label')} written to {topic} of {config.log.url}")
    return 0


def labels_topic(config: Config) -> str:
    """The topic of labels. Raises ConfigError where there is none."""
    if not config.topics.labels:
        raise ConfigError(
            "topics.labels is not set: no learner reads labels apart from their events; set it for the "
            'learner too, such as topics.labels = "labels" in its configuration (docs/labels.md)'
        )
    return config.topics.labels


def writing(
    config: Config, verdicts: Iterable[LabelRecord | Retraction], report_unread: Callable[[str], None] = warn
) -> Iterator[int]:
    """Append verdicts, soon after they come, keyed by their events, so that those of one event stay in order.

    Yields, again and again, how many are written. `report_unread` gets a sentence before the first is
    written, if the learner does not read the topic yet. Raises ConfigError if there is no topic of labels.
    """
    topic, count = labels_topic(config), 0
    if missing := context.no_log(config):
        raise LogError(missing)
    with closing(context.open_log(config)) as log:  # begun with events alone, it has no topic for these yet
        log.partitions(topic)
        if unread := _unread(config, log):
            report_unread(unread)
        for part in parts_of(verdicts, _AT_ONCE, _PATIENCE):
            records = [NewRecord(topic, _key(one), encode_label(one)) for one in part]
            with told_as(Unavailable, _unknown(count, len(part)), Unavailable):
                log.append(records)
            count += len(part)
            yield count


def _unread(config: Config, log: Log) -> str:
    """Return why no learner reads the topic of labels by the newest journal record; empty if one does.

    Before the first journal record nobody knows what the learner will read.
    """
    topic, newest = config.topics.labels, None
    with suppress(UnknownTopic):
        newest = last(log, log.partitions(config.topics.journal)[0])
    if newest is None or topic in newest.record.positions:
        return ""
    topics = ", ".join(sorted(newest.record.positions))
    return (
        f"no learner reads the topic {topic}: by journal record {newest.record.n} it reads {topics}; "
        f"start it with topics.labels = {literal(topic)}"
    )


def _key(one: LabelRecord | Retraction) -> bytes | None:
    return one.id.encode() if isinstance(one, LabelRecord) else None


def _unknown(count: int, more: int) -> str:
    """Return what is known of labels that the log has not acknowledged, and what to do."""
    return (
        f"{pluralize(count, 'label')} written, the next {more:,} perhaps: send all of them again, in "
        "their order "
        "and before any others; one that was written already then changes nothing"
    )


def checked(given: LabelRecord | Retraction, config: Config) -> LabelRecord | Retraction:
    """Return the same, as a learner will read it if the log records it now.

    Raises:
        ConfigError: it would be a dead letter, or nothing of its label can be seen.
    """
    with told_as(ConfigError, "this is no label", MalformedEvent, UnicodeEncodeError):
        return _read(encode_label(given), config)


def _read(raw: bytes, config: Config) -> LabelRecord | Retraction:
    """Raises MalformedEvent."""
    found = decode_label(raw, EventSchema(clock=config.events.clock), time.time())
    if isinstance(found, LabelRecord) and found.label is not None and not is_visible(found.label):
        raise MalformedEvent("out-of-range", "$.label", INVISIBLE)
    return found


def _given(options: argparse.Namespace, config: Config) -> LabelRecord | Retraction:
    if options.id is None or (options.label is None) == (not options.withdraw):
        raise ConfigError("expected ID LABEL, or ID --withdraw, or --file FILE; see streamnb label --help")
    if options.withdraw and options.weight != 1.0:
        raise ConfigError("--weight: what is withdrawn has none; leave it out, or give a LABEL")
    source = UNNAMED if options.source is None else options.source
    return checked(LabelRecord(options.id, options.label, source, options.weight, options.ts), config)


def _looked_at(verdicts: Iterable[LabelRecord | Retraction]) -> Iterator[LabelRecord | Retraction]:
    """Yield the same; warn once of a label with blanks at its ends, and once of labels that are alike."""
    met: dict[str, str] = {}
    told: set[str] = set()
    for one in verdicts:
        if isinstance(one, LabelRecord) and one.label is not None:
            label, text = one.label, ""
            other = met.get(folded(label), label)
            if len(met) < _MOST_CLASSES:
                met.setdefault(folded(label), label)
            if other != label:
                text = f"{other!r}, {label!r}: {ALIKE}"
            elif label != label.strip():
                text = f"label {label!r} has blanks at its ends: it is another class than {label.strip()!r}"
            if text and (kind := "alike" if other != label else "blanks") not in told:
                told.add(kind)
                warn(text)
        yield one


def _of_file(options: argparse.Namespace, config: Config) -> Iterator[LabelRecord | Retraction]:
    """Those of a file. Raises ConfigError for flags beside it; MalformedEvent for a line that is none."""
    if options.id is not None or options.withdraw or options.ts is not None or options.weight != 1.0:
        raise ConfigError("--file: each line says its id, label, weight and ts; only --source may go with it")
    with open_counted(options.file) as lines:
        for raw in lines:
            try:
                one = _read(raw, config)
                is_unnamed = isinstance(one, LabelRecord) and one.source == UNNAMED
                yield replace(one, source=options.source) if options.source and is_unnamed else one
            except MalformedEvent as error:
                raise MalformedEvent(error.reason, error.path, f"line {lines.line}: {error}") from error
