"""``streamnb replay``: write a file of events to a topic."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain

import msgspec

from streamnb.cli.timed_batches import parts_of
from streamnb.engine.ports import Log, NewRecord
from streamnb.errors import ConfigError, LogError
from streamnb.evaluation.data_quality import LOOKED_AT, DataQuality
from streamnb.evaluation.event_input import columns_of, decoded, files_named, files_of, origin_of
from streamnb.evaluation.input_files import settled_files
from streamnb.features.schema_inference import ENOUGH
from streamnb.formats.codec import record_key
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.json_paths import parse_path
from streamnb.formats.terminal_text import note
from streamnb.runtime import context
from streamnb.runtime.shutdown import Stop
from streamnb.telemetry.worker_observers import OutageReporter
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_AT_ONCE = 1000
_PATIENCE = 0.2  # seconds that an event waits for a batch to fill
_LOOKED_AT_BYTES = 16 << 20


def run(options: argparse.Namespace) -> int:
    """Write the events of files to a topic, at a rate or as fast as the log takes them."""
    config = context.load_config(options, *([f"topics.events={options.topic}"] if options.topic else []))
    topic = config.topics.events[0]
    if options.topic not in (None, topic):
        raise ConfigError(f"--topic: expected the name of one topic, got {options.topic!r}")
    stop = Stop()
    started = time.monotonic()
    count = 0
    schema = context.schema(config)
    keyed = _keyed_by(schema, options.key)
    columns = columns_of(options, schema, has_content_ids=True)
    odd = DataQuality(
        schema,
        origin_of(options.file, columns),
        expects_label=not config.topics.labels,
        counts_refusals=True,
        key_path=options.key,
        repeats=config.events.repeats != "learn",
        labels_topic=config.topics.labels,
    )
    events = _settled(files_of(options), columns, odd)
    events = _checked_as_they_come(events, odd) if "-" in files_of(options) else _looked_at(events, odd)
    try:
        with closing(context.open_log(config, OutageReporter(config.kafka.give_up_after, stop))) as log:
            for count in writing(log, topic, events, keyed, options.rate, stop):  # noqa: B007
                pass
    except LogError as error:
        if not stop():
            surely = f"; {pluralize(count, 'event')} were surely written to {topic}" if count else ""
            raise LogError(f"{error}{surely}") from error
    seconds = time.monotonic() - started
    if stop.signal:
        text = f"stopped after {pluralize(count, 'event')} written to {topic}"
        note(Message("replay-stopped", text, events=count, topic=topic))
        return 128 + stop.signal
    if not count:
        raise LogError(f"{files_named(options)} holds no event: nothing was written to {topic}")
    if options.json:
        print(json.dumps({"events": count, "topic": topic, "log": config.log.url, "seconds": seconds}))
    else:
        print(f"{pluralize(count, 'event')} written to {topic} of {config.log.url} in {seconds:.1f} s")
    return 0


def _settled(paths: list[str], columns: CsvColumns, odd: DataQuality) -> Iterator[bytes]:
    """Yield the events of files; they are first read with the first event, as a pipe may pause."""
    columns, files = settled_files(paths, columns)
    odd.origin = origin_of(paths[0], columns)
    yield from chain.from_iterable(files)


def _looked_at(events: Iterator[bytes], odd: DataQuality) -> Iterator[bytes]:
    """Yield the events after a report on the first of them; no log is created for a missing file.

    Raises ConfigError if all are dead letters, or none has a label but a field of misspelt case.
    """
    first: list[bytes] = []
    size = 0
    for raw in events:
        odd.look(raw, recorded=time.time())
        first.append(raw)
        size += len(raw)
        if len(first) == LOOKED_AT or size > _LOOKED_AT_BYTES:
            odd.has_more = True  # perhaps
            break
    if _report_rest(odd):
        raise ConfigError("so nothing was written")
    return chain(first, events)


def _is_refused(odd: DataQuality) -> bool:
    return odd.refuses_all or (odd.expects_label and odd.is_label_misspelt)


def _report_rest(odd: DataQuality) -> bool:
    """Print the final data quality report; return whether nothing may be written.

    A few events without a label are reported only for a table, whose column may have another name.
    """
    is_refused = _is_refused(odd)
    odd.expects_label = odd.expects_label and (odd.n >= ENOUGH or odd.is_table)
    odd.report(is_over=True)
    return is_refused


def _checked_as_they_come(events: Iterator[bytes], odd: DataQuality) -> Iterator[bytes]:
    """Yield the events and report on them as they pass.

    The first are held back while all are dead letters or, if few, a label is misspelt. Raises ConfigError,
    as for a file, if this remains so.
    """
    held: list[bytes] = []
    size, is_checked = 0, False
    for raw in events:
        if odd.n < LOOKED_AT:
            odd.look(raw, recorded=time.time())
        else:
            odd.has_more = True
        if is_checked:
            odd.report()
            yield raw
            continue
        held.append(raw)
        size += len(raw)
        if _is_refused(odd):
            if size <= _LOOKED_AT_BYTES and len(held) < (LOOKED_AT if odd.refuses_all else ENOUGH):
                continue
            break
        is_checked = True
        odd.report()
        yield from held
    if _report_rest(odd) and not is_checked:
        raise ConfigError("so nothing was written")


def write_events(log: Log, topic: str, events: Iterable[bytes], schema: EventSchema) -> int:
    """Append raw events at full speed, keyed as by `writing`; return their number."""
    return max(writing(log, topic, events, schema), default=0)


def writing(
    log: Log,
    topic: str,
    events: Iterable[bytes],
    schema: EventSchema,
    rate: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[int]:
    """Append raw events at most `rate` a second, until they end or `stopped`; yield the number acknowledged.

    The key is the entity if the schema has a path for it, so that its events stay in order, else the id.
    Malformed events are written without a key: the learner rejects them.
    """
    most = _AT_ONCE if rate is None else max(1, min(_AT_ONCE, int(rate / 10)))
    started = time.monotonic()
    count = 0
    for part in parts_of(events, most, _PATIENCE, stopped):
        read = [decoded(raw, schema) for raw in part]
        keys = [None if one is None else record_key(one, schema) for one in read]
        log.append([NewRecord(topic, key, raw) for key, raw in zip(keys, part, strict=True)])
        count += len(part)
        yield count
        while rate is not None and not stopped() and (early := started + count / rate - time.monotonic()) > 0:
            time.sleep(min(early, _PATIENCE))


def _keyed_by(schema: EventSchema, path: str | None) -> EventSchema:
    """Return the schema with another entity path, and without attributes, which do not matter here."""
    if path is None:
        return schema
    parse_path(path)  # raises for an empty path
    return msgspec.structs.replace(schema, attributes=(), open_features=False, entity_path=path)
