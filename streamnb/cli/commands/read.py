"""``streamnb read``: the records of one topic, as JSON lines."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice

import msgspec

from streamnb.config import Config, TopicsConfig
from streamnb.engine.ports import Log, Partition, Record, between
from streamnb.errors import ConfigError, OutOfRange, UnknownTopic
from streamnb.formats.terminal_text import note
from streamnb.runtime import context
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import did_you_mean

_AT_ONCE = 1000
_OPTIONAL = frozenset({"labels", "alerts", "tenants", "requests"})
_TURN_SECONDS = 0.2


def run(options: argparse.Namespace) -> int:
    """Print the records of a topic, partition by partition, or follow it; nothing is created or changed."""
    config = context.load_config(options)
    topic = _configured(config, options.topic)
    with closing(context.existing_log(config)) as log:
        if options.follow:
            records = followed(log, topic, options.start)
        else:
            records = records_of(log, topic, defaultdict(lambda: options.start or 0))
            records = latest(records) if options.latest else records
        is_empty = not (options.start or options.follow)
        try:
            for record in islice(records, options.limit):
                is_empty = False
                sys.stdout.buffer.write(_line(record) + b"\n")
                if options.follow:
                    sys.stdout.buffer.flush()
        except UnknownTopic as error:
            known = [name for _, name in config.topics.names]
            if topic in known:
                raise
            if (role := topic.replace("-", "_")) in _OPTIONAL:
                more = "; [[monitors]] set it" * (role == "alerts")
                raise ConfigError(f"topics.{role} is not set{more}") from error
            raise UnknownTopic(
                f"topic {topic!r} does not exist, nor does the configuration name it"
                f"{did_you_mean(topic, known)}; it names {', '.join(known)}"
            ) from error
        if is_empty and topic == config.topics.predictions:
            text = f"{topic} has no record yet: does `streamnb run` run?"
            note(Message("topic-empty", text, topic=topic))
    sys.stdout.flush()  # here, because a closed pipe would be an error at the interpreter's exit
    return 0


def _configured(config: Config, given: str) -> str:
    """Return the topic of a role such as "alerts", unless the configuration names a topic so.

    Raises ConfigError for a role with several topics.
    """
    role, names = given.replace("-", "_"), config.topics.names
    if given in {name for _, name in names} or role not in TopicsConfig.__struct_fields__:
        return given
    found = [name for key, name in names if key == role]
    if len(found) > 1:
        raise ConfigError(f"topics.{role} names several topics: read one of {', '.join(found)}")
    return found[0] if found else given


def records_of(log: Log, topic: str, start: Mapping[Partition, int]) -> Iterator[Record]:
    """Yield the records of each partition from its start to its current end."""
    for partition in log.partitions(topic):
        earliest, end = log.offsets(partition)
        yield from between(log, partition, max(start[partition], earliest), end, _AT_ONCE)


def latest(records: Iterable[Record]) -> Iterator[Record]:
    """Return the last record of each key unless it is a tombstone, and all records without a key."""
    last: dict[object, Record] = {}
    for record in records:
        last[(record.partition, record.offset) if record.key is None else record.key] = record
    return (record for record in last.values() if record.value)


def followed(log: Log, topic: str, start: int | None) -> Iterator[Record]:
    """Yield records from an offset, or from the current end, without end."""
    known, partitions = log.topic_id(topic), log.partitions(topic)
    reached = {one: log.offsets(one)[1] if start is None else start for one in partitions}
    return _coming(log, topic, known, reached)


def _coming(log: Log, topic: str, known: str | None, reached: dict[Partition, int]) -> Iterator[Record]:
    while True:
        if log.topic_id(topic) != known:
            raise OutOfRange(f"{topic} was recreated while it was read: start again")
        for partition in log.partitions(topic):
            earliest, end = log.offsets(partition)
            at = max(reached.get(partition, 0), earliest)
            yield from between(log, partition, at, end, _AT_ONCE)
            reached[partition] = max(at, end)
        time.sleep(_TURN_SECONDS)


def _line(record: Record) -> bytes:
    """Return the record's own JSON; if it is not JSON or has headers, an object of all its parts."""
    if not record.headers and _is_json_line(record.value):
        return record.value
    return msgspec.json.encode(
        {
            "partition": record.partition.number,
            "offset": record.offset,
            "key": None if record.key is None else record.key.decode(errors="replace"),
            "headers": {name: value.decode(errors="replace") for name, value in record.headers},
            "value": record.value.decode(errors="replace"),
        }
    )


def _is_json_line(value: bytes) -> bool:
    if b"\n" in value or b"\r" in value:
        return False
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
