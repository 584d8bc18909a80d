"""``streamnb demo``: a real and a synthetic stream through the embedded log, without any set-up."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
from river.datasets import ImageSegments

from streamnb import config as configuration
from streamnb.cli.commands.replay import write_events
from streamnb.cli.commands.sample import tickets
from streamnb.config import Config
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import ConfigError
from streamnb.formats.codec import encode_event
from streamnb.formats.snapshot_container import part_digest
from streamnb.reports.text_tables import print_report
from streamnb.runtime import context, factories
from streamnb.values.parameter_checks import pluralize

_PARTS = 5


def run(options: argparse.Namespace) -> int:
    """Stream, learn and print scores; the digest of a replay proves that nothing was lost."""
    folder = Path(options.folder or tempfile.mkdtemp(prefix="streamnb-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()  # check that the folder is writable
    if found := sorted(folder.glob("*.db")):
        raise ConfigError(f"--folder: {found[0]} is a log already; the demo starts with logs of its own")
    factories.warm_up(Config())
    quiet = options.json
    try:
        # A real stream from River: 2,310 outdoor image segments, 18 measurements, 7 classes.
        segments = [{"id": str(i), "features": x, "label": y} for i, (x, y) in enumerate(ImageSegments())]
        real = _stream(folder, "image-segments", segments, quiet=quiet)
        made = _stream(folder, "tickets", list(tickets(options.events, 0)), quiet=quiet)
        if quiet:
            print(json.dumps({"image_segments": real, "tickets": made}))
        else:
            _show_ways_on(folder, kept=options.folder is not None)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)
    return 0


def _stream(folder: Path, name: str, events: Sequence[dict[str, Any]], *, quiet: bool) -> dict[str, Any]:
    config = configuration.load(None, {}, [f"log.url=sqlite:///{folder / name}.db", f"model.name={name}"])
    learner = factories.learner(config)
    worker = factories.worker(config, learner, context.open_log(config))
    if not quiet:
        print(f"\n{name}: {pluralize(len(events), 'event')} through {config.log.url}")
    worker.start("demo")
    with closing(worker), closing(context.open_log(config)) as producer:
        size = -(-len(events) // _PARTS)
        for start in range(0, len(events), size):
            part = map(encode_event, events[start : start + size])
            write_events(producer, config.topics.events[0], part, context.schema(config))
            worker.run(until_end=True)
            window = learner.progressive.window()
            if not quiet:
                print(
                    f"  {learner.consumed:7,} events   accuracy of the last {window.events:,}: "
                    f"{window.accuracy:.3f}   log loss {window.log_loss:.3f}"
                )
    report = learner.report(time.time())
    if not quiet:
        print()
        print_report(report)
        _show_proof(config, learner)
    return cast("dict[str, Any]", msgspec.to_builtins(report))


def _show_proof(config: Config, learner: EventProcessor) -> None:
    """Recover from the journal without snapshots, and compare the bytes of the model."""
    with closing(context.open_log(config)) as log:
        config = factories.begun_configuration(config, log)
        again = factories.learner(config)
        checkpoint = recover(log, NoSnapshots(), again, factories.identity(config))
        published = log.offsets(Partition(config.topics.predictions, 0))[1]
    digests = [part_digest(*who.parts()["model"]) for who in (learner, again)]
    same = "the same bytes" if digests[0] == digests[1] else "OTHER BYTES"
    print(
        f"\n{pluralize(published, 'prediction')} published in {pluralize(checkpoint.n, 'commit')}; "
        f"replaying the journal from nothing gives {same} ({digests[1][:16]})"
    )


def _show_ways_on(folder: Path, *, kept: bool) -> None:
    print("\nTry it on your own events:  streamnb evaluate FILE.jsonl")
    if kept:
        url = shlex.quote(f"sqlite:///{folder}/tickets.db")
        print(f"The logs are in {folder}:  streamnb inspect --log {url} --set model.name=tickets")
