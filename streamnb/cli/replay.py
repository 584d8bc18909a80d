"""``streamnb replay``: a file of events becomes a stream."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from itertools import islice

from streamnb.adapters.sqlite_log import SqliteLog
from streamnb.cli import wiring
from streamnb.cli.files import events_of
from streamnb.engine.ports import NewRecord
from streamnb.errors import MalformedEvent
from streamnb.wire.codec import decode_event
from streamnb.wire.schema import EventSchema

__all__ = ["run", "write_events"]

_AT_ONCE = 1000


def run(options: argparse.Namespace) -> int:
    """Write the events of a file to a topic, at a rate or as fast as the log takes them."""
    flags = [f"log.url={options.log}"] if options.log else []
    config = wiring.load_config(options, *flags)
    topic = options.topic or config.topics.events
    started = time.monotonic()
    with wiring.open_log(config) as log:
        if topic not in log.topics():
            log.create_topic(topic, config.topics.partitions)
        count = write_events(log, topic, events_of(options.file), wiring.schema(config), options.rate)
    seconds = time.monotonic() - started
    if options.json:
        print(json.dumps({"events": count, "topic": topic, "log": config.log.url, "seconds": seconds}))
    else:
        print(f"{count:,} events written to {topic} of {config.log.url} in {seconds:.1f} s")
    return 0


def write_events(
    log: SqliteLog, topic: str, events: Iterable[bytes], schema: EventSchema, rate: float | None = None
) -> int:
    """Append raw events, keyed by their ids, at most `rate` a second; how many.

    Events that are malformed are written as they are, without a key: to refuse them is the learner's affair.
    """
    records = iter(NewRecord(topic, _key(raw, schema), raw) for raw in events)
    started = time.monotonic()
    count = 0
    while part := list(islice(records, _AT_ONCE if rate is None else max(1, min(_AT_ONCE, int(rate / 10))))):
        log.append(part)
        count += len(part)
        if rate is not None:
            time.sleep(max(0.0, started + count / rate - time.monotonic()))
    return count


def _key(raw: bytes, schema: EventSchema) -> bytes | None:
    try:
        return decode_event(raw, schema).id.encode()
    except MalformedEvent:
        return None
