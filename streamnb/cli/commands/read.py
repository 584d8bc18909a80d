"""``streamnb read``: the records of one topic, as JSON lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import msgspec

from streamnb.cli import wiring
from streamnb.engine.ports import Log, Record

_AT_ONCE = 1000


def run(options: argparse.Namespace) -> int:
    """Print what a topic holds, partition by partition; nothing is created or changed."""
    config = wiring.load_config(options)
    with closing(wiring.existing_log(config)) as log:
        for record in islice(_records(log, options.topic, options.start), options.limit):
            sys.stdout.buffer.write(_line(record) + b"\n")
    sys.stdout.flush()  # here, where a reader that has gone is no error in the interpreter's end
    return 0


def _records(log: Log, topic: str, start: int) -> Iterator[Record]:
    """The records of each partition from offset `start` on, up to where it ends when its turn comes."""
    for partition in log.partitions(topic):
        earliest, end = log.offsets(partition)
        offset = max(start, earliest)
        while offset < end and (records := log.read(partition, offset, min(_AT_ONCE, end - offset))):
            yield from records
            offset = records[-1].offset + 1


def _line(record: Record) -> bytes:
    """The record's own JSON; where it is none, or has headers, an object that shows all of it."""
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
