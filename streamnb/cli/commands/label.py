"""`streamnb label`: say what an event is, or say so of all events in a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from contextlib import closing

from msgspec.structs import replace

from streamnb.adapters.event_files import open_counted
from streamnb.cli import wiring
from streamnb.cli.evaluation.event_files import parts_of
from streamnb.config import Config
from streamnb.engine.ports import NewRecord
from streamnb.errors import ConfigError, LogError, MalformedEvent
from streamnb.events import Verdict, Withdrawal
from streamnb.model.attributes.parameters import of
from streamnb.wire.codec import UNNAMED, decode_label, encode_verdict

_AT_ONCE = 1000
_PATIENCE = 0.2  # seconds that a label waits for others


def run(options: argparse.Namespace) -> int:
    """Write verdicts to the topic of labels; whoever learns takes them from there."""
    config = wiring.load_config(options)
    topic = labels_topic(config)
    found = _of_file(options) if options.file else iter([_given(options)])
    writer = _Writer(config, topic)
    try:
        with closing(writer.log):
            writer.write(found)
    except MalformedEvent as error:
        written = f"labels before it were written to {topic}: {writer.count:,}"
        raise LogError(f"{options.file}, {error.detail}; {written}") from error
    count = writer.count
    if options.json:
        print(json.dumps({"labels": count, "topic": topic, "log": config.log.url}))
    else:
        print(f"{of(count, 'label')} written to {topic} of {config.log.url}")
    return 0


def labels_topic(config: Config) -> str:
    """The topic of labels. Raises ConfigError where there is none."""
    if not config.topics.labels:
        raise ConfigError(
            "topics.labels is not set: no learner reads labels apart from their events; set it for the "
            'learner too, such as topics.labels = "labels" in its configuration (docs/labels.md)'
        )
    return config.topics.labels


class _Writer:
    """Appends verdicts, keyed by their events, so that those of one event stay in order.

    Attributes:
        log: where.
        count: how many were written.
    """

    def __init__(self, config: Config, topic: str) -> None:
        if missing := wiring.no_log(config):
            raise LogError(missing)
        self.log = wiring.open_log(config)  # where events came before labels, it has no topic for these yet
        self.count = 0
        self._topic = topic
        self.log.partitions(topic)

    def write(self, verdicts: Iterable[Verdict | Withdrawal]) -> None:
        """All of them, soon after they come; where the iterator raises those before."""
        for part in parts_of(verdicts, _AT_ONCE, _PATIENCE):
            self.log.append([NewRecord(self._topic, _key(one), encode_verdict(one)) for one in part])
            self.count += len(part)


def _key(one: Verdict | Withdrawal) -> bytes | None:
    return one.id.encode() if isinstance(one, Verdict) else None


def labels_writer(config: Config) -> _Writer:
    """What appends verdicts to the topic of labels. Raises ConfigError where there is none."""
    return _Writer(config, labels_topic(config))


def append_verdict(config: Config, verdict: Verdict | Withdrawal) -> None:
    """Write one."""
    writer = labels_writer(config)
    with closing(writer.log):
        writer.write([verdict])


def checked(given: Verdict | Withdrawal) -> Verdict | Withdrawal:
    """The same, as a learner will read it. Raises ConfigError where it would be a dead letter."""
    try:
        return decode_label(encode_verdict(given))
    except (MalformedEvent, UnicodeEncodeError) as error:
        raise ConfigError(f"this is no label: {error}") from error


def _given(options: argparse.Namespace) -> Verdict | Withdrawal:
    if options.id is None or (options.label is None) == (not options.withdraw):
        raise ConfigError("expected ID LABEL, or ID --withdraw, or --file FILE; see streamnb label --help")
    source = UNNAMED if options.source is None else options.source
    return checked(Verdict(options.id, options.label, source, options.weight, options.ts))


def _of_file(options: argparse.Namespace) -> Iterator[Verdict | Withdrawal]:
    """Those of a file. Raises ConfigError for flags beside it; MalformedEvent for a line that is none."""
    if options.id is not None or options.withdraw or options.ts is not None or options.weight != 1.0:
        raise ConfigError("--file: each line says its id, label, weight and ts; only --source may go with it")
    with open_counted(options.file) as lines:
        for raw in lines:
            try:
                one = decode_label(raw)
                is_unnamed = isinstance(one, Verdict) and one.source == UNNAMED
                yield replace(one, source=options.source) if options.source and is_unnamed else one
            except MalformedEvent as error:
                raise MalformedEvent(error.reason, error.path, f"line {lines.line}: {error}") from error
