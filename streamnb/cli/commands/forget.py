"""``streamnb forget``: a model that never saw some events, learned anew and taken up."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from streamnb.cli import wiring
from streamnb.cli.commands.rebuild import learned_anew, tell
from streamnb.engine.rebuilding.truths import Chosen
from streamnb.errors import ConfigError

__all__ = ["run", "with_ids"]


def run(options: argparse.Namespace) -> int:
    """Learn the model anew without the events that the flags name; 1 where there is none."""
    config, chosen = wiring.load_config(options), _chosen(options)
    with closing(wiring.existing_log(config)) as log:
        rebuilding, n = learned_anew(config, log, chosen)
    if not rebuilding.forgotten:
        print(
            f"none of {rebuilding.events:,} events up to journal record {rebuilding.to} is one of these, "
            "or they were forgotten before: nothing was changed",
            file=sys.stderr,
        )
        return 1
    tell(options, rebuilding, n, f"{rebuilding.forgotten:,} events forgotten; ")
    return 0


def with_ids(file: str) -> Chosen:
    """The events with the ids of a file, one a line."""
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        lines = content.decode("utf-8-sig").split("\n")  # an id may hold what else ends a line
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}: line {line} is not UTF-8; expected ids, one a line") from None
    ids = {line.removesuffix("\r") for line in lines} - {""}
    return lambda event, _: event.id in ids


def _chosen(options: argparse.Namespace) -> Chosen:
    """The events that the flags name. Raises ConfigError for a flag that names none."""
    if options.ids is not None:
        return with_ids(options.ids)
    if options.key is not None:
        key = options.key.encode()
        return lambda _, record: record.key == key
    field, equals, value = options.where.partition("=")
    if not (field and equals):
        raise ConfigError(f"--where: expected FIELD=VALUE, got {options.where!r}")
    return lambda event, _: field in event.x and _is(event.x[field], value)


def _is(found: object, value: str) -> bool:
    if isinstance(found, str):
        return found == value
    try:
        return found == float(value)
    except ValueError:
        return str(found).lower() == value
