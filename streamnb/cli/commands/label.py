"""`streamnb label`: write labels of one event or of a file."""

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
from streamnb.engine.journal.prediction_search import PredictionSearch
from streamnb.engine.labels.source_labels import LIMIT_OF_SOURCES, MOST_SOURCES
from streamnb.engine.ports import Log, NewRecord, Record
from streamnb.errors import ConfigError, LogError, MalformedEvent, Unavailable, UnknownTopic, told_as
from streamnb.events import Event, LabelRecord, Retraction
from streamnb.formats.codec import UNNAMED, decode_event, decode_label, encode_label
from streamnb.formats.event_files import open_counted
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.terminal_text import warn
from streamnb.runtime import context
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize
from streamnb.values.similar_labels import ALIKE, INVISIBLE, folded, is_visible, not_allowed

_AT_ONCE = 1000
_MOST_CLASSES = 10_000  # remembered to detect similar ones
_MOST_PREDICTIONS = 100_000  # searched for the id of one label
_FIELDS = frozenset(LabelRecord.__struct_fields__ + Retraction.__struct_fields__ + ("withdraw",))
_LOOKED_AT = 1000  # lines of a file in which unknown fields are looked for
_MOST_IDS = 100_000  # remembered to count the sources of each
_MOST_SIMILAR = 4  # warnings
_MOST_SPELLINGS = 3  # kept for each label
_PATIENCE = 0.2  # seconds that a label waits for a batch to fill


def run(options: argparse.Namespace) -> int:
    """Write label records to the topic of labels."""
    config = context.load_config(options)
    topic, count = labels_topic(config), 0
    given = _of_file(options, config) if options.file else [_given(options, config)]
    found = _with_counted_sources(_looked_at(given))
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
    if options.id is not None:
        _report_unknown(config, options.id)
    return 0


def _report_unknown(config: Config, id_: str) -> None:
    """Print a warning if no recent event has this id."""
    topics, schema = config.topics, context.schema(config)

    def read(record: Record) -> Event:
        return decode_event(record.value, schema, record.key, record.timestamp)

    with closing(context.existing_log(config)) as log, suppress(UnknownTopic, Unavailable):
        search = PredictionSearch(log, topics.predictions, config.model.name)
        if not search.has_event(id_, _MOST_PREDICTIONS, topics.events, read):
            text = (
                f"no event {id_!r} is among the newest {_MOST_PREDICTIONS:,} predictions, or waits to be "
                "predicted: its label has no effect unless the event comes"
            )
            warn(Message("label-event-not-found", text, id=id_))


def labels_topic(config: Config) -> str:
    """Return the topic of labels. Raises ConfigError if it is not configured."""
    if not config.topics.labels:
        raise ConfigError(
            "topics.labels is not set: no learner reads labels apart from their events; set it for the "
            'learner too, such as topics.labels = "labels" in its configuration (docs/labels.md)'
        )
    return config.topics.labels


def writing(
    config: Config,
    verdicts: Iterable[LabelRecord | Retraction],
    report_unread: Callable[[Message], None] = warn,
) -> Iterator[int]:
    """Append label records, keyed by event id to keep their order, and yield the number written so far.

    `report_unread` receives a message first if the learner does not read the topic yet. Raises ConfigError
    if no topic of labels is configured.
    """
    topic, count = labels_topic(config), 0
    if missing := context.no_log(config):
        raise LogError(missing)
    with closing(context.open_log(config)) as log:  # a log begun with events alone lacks the topic
        log.partitions(topic)
        if unread := _unread(config, log):
            report_unread(unread)
        for part in parts_of(verdicts, _AT_ONCE, _PATIENCE):
            records = [NewRecord(topic, _key(one), encode_label(one)) for one in part]
            with told_as(Unavailable, _unknown(count, len(part)), Unavailable):
                log.append(records)
            count += len(part)
            yield count


def _unread(config: Config, log: Log) -> Message | None:
    """Return a message if the newest journal record shows that the topic of labels is not read."""
    topic, newest = config.topics.labels, None
    with suppress(UnknownTopic):
        newest = last(log, log.partitions(config.topics.journal)[0])
    if newest is None or topic in newest.record.positions:
        return None
    topics = ", ".join(sorted(newest.record.positions))
    n = newest.record.n
    text = (
        f"no learner reads the topic {topic}: by journal record {n} it reads {topics}; "
        f"start it with topics.labels = {literal(topic)}"
    )
    return Message("labels-topic-not-read", text, topic=topic, journal=n)


def _key(one: LabelRecord | Retraction) -> bytes | None:
    return one.id.encode() if isinstance(one, LabelRecord) else None


def _unknown(count: int, more: int) -> str:
    """Return a message about labels that the log has not acknowledged."""
    return (
        f"{pluralize(count, 'label')} written, the next {more:,} perhaps: send all of them again, in "
        "their order and before any others; one that was written already then changes nothing"
    )


def checked(given: LabelRecord | Retraction, config: Config) -> LabelRecord | Retraction:
    """Return the record as a learner reads it. Raises ConfigError for a dead letter or invisible label."""
    with told_as(ConfigError, "this is no label", MalformedEvent, UnicodeEncodeError):
        return _read(encode_label(given), config)


def _read(raw: bytes, config: Config) -> LabelRecord | Retraction:
    found = decode_label(raw, EventSchema(clock=config.events.clock), time.time())
    if isinstance(found, LabelRecord) and found.label is not None and not is_visible(found.label):
        raise MalformedEvent("out-of-range", "$.label", INVISIBLE)
    if isinstance(found, LabelRecord) and found.label is not None:
        label = config.classes.aliases.get(found.label, found.label)
        if why := not_allowed(label, config.labels.allowed):
            raise MalformedEvent("out-of-range", "$.label", why)
    return found


def _given(options: argparse.Namespace, config: Config) -> LabelRecord | Retraction:
    if options.id is None or (options.label is None) == (not options.withdraw):
        raise ConfigError("expected ID LABEL, or ID --withdraw, or --file FILE; see `streamnb label --help`")
    if options.withdraw and options.weight != 1.0:
        raise ConfigError("--weight: what is withdrawn has none; leave it out, or give a LABEL")
    source = UNNAMED if options.source is None else options.source
    return checked(LabelRecord(options.id, options.label, source, options.weight, options.ts), config)


def _looked_at(verdicts: Iterable[LabelRecord | Retraction]) -> Iterator[LabelRecord | Retraction]:
    """Yield the records; warn once about labels with outer blanks, and of the first similar labels."""
    groups: dict[str, list[str]] = {}
    n_similar = n_blanks = 0
    for one in verdicts:
        if isinstance(one, LabelRecord) and (label := one.label) is not None:
            group = groups.get(folded(label), [])
            if len(group) < _MOST_SPELLINGS and label not in group and len(groups) < _MOST_CLASSES:
                group = groups.setdefault(folded(label), group)
                group.append(label)
                if len(group) > 1 and n_similar < _MOST_SIMILAR:
                    n_similar += 1
                    text = f"{', '.join(map(repr, group))}: {ALIKE}"
                    warn(Message("labels-alike", text, label=label))
            if label != label.strip() and len(group) < 2 and not n_blanks:
                n_blanks = 1
                text = f"label {label!r} has blanks at its ends: it is another class than {label.strip()!r}"
                warn(Message("label-has-blanks", text, label=label))
        yield one


def _with_counted_sources(given: Iterable[LabelRecord | Retraction]) -> Iterator[LabelRecord | Retraction]:
    """Yield the records; warn once of an event with too many sources."""
    of_event: dict[str, set[str]] | None = {}
    for one in given:
        if of_event is not None and isinstance(one, LabelRecord):
            sources = of_event.get(one.id, set())
            if len(of_event) < _MOST_IDS:
                of_event[one.id] = sources
            if len(sources | {one.source}) > MOST_SOURCES:
                text = (
                    f"the learner will refuse a label of {one.id!r}, because its source {one.source!r} is "
                    f"one too many: {LIMIT_OF_SOURCES}"
                )
                warn(Message("label-source-refused", text, source=one.source))
                of_event = None
            sources.add(one.source)
        yield one


def _of_file(options: argparse.Namespace, config: Config) -> Iterator[LabelRecord | Retraction]:
    """Yield the records of a file. Raises ConfigError for other flags, MalformedEvent for a bad line."""
    if options.id is not None or options.withdraw or options.ts is not None or options.weight != 1.0:
        raise ConfigError("--file: each line has its id, label, weight and ts; only --source may go with it")
    unknown: set[str] = set()
    with open_counted(options.file) as lines:
        for raw in lines:
            try:
                one = _read(raw, config)
                if lines.line <= _LOOKED_AT and (new := json.loads(raw).keys() - _FIELDS - unknown):
                    unknown |= new
                    named = ", ".join(map(repr, sorted(new)))
                    text = f"{named}: not read; a label has {', '.join(sorted(_FIELDS))}"
                    warn(Message("fields-not-read", text, paths=sorted(new)))
                is_unnamed = isinstance(one, LabelRecord) and one.source == UNNAMED
                yield replace(one, source=options.source) if options.source and is_unnamed else one
            except MalformedEvent as error:
                raise MalformedEvent(error.reason, error.path, f"line {lines.line}: {error}") from error
