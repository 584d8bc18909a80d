"""`streamnb labels withdraw`: nothing counts any more of what one source said."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing

from streamnb.cli import wiring
from streamnb.cli.commands.label import append_verdict, checked, newest_report
from streamnb.cli.printable import printable
from streamnb.config import Config
from streamnb.errors import ConfigError
from streamnb.events import Withdrawal
from streamnb.model.attributes.nearest import did_you_mean
from streamnb.wire.codec import IN_EVENT


def run(options: argparse.Namespace) -> int:
    """Write the withdrawal; whoever learns works through the events that wait, while it goes on."""
    config = wiring.load_config(options)
    if options.source == IN_EVENT:
        raise ConfigError(f"--source: {IN_EVENT!r} is what labels inside events are called; they stay")
    append_verdict(config, checked(Withdrawal(options.source, options.since)))
    _say_if_unknown(config, options.source)
    if options.json:
        print(json.dumps({"withdrawn": options.source, "since": options.since, "log": config.log.url}))
    else:
        since = "" if options.since is None else f" since {options.since:.0f}"
        print(f"what {options.source} said{since} no longer counts; written to {config.topics.labels}")
    return 0


def _say_if_unknown(config: Config, source: str) -> None:
    """Of a source that has said nothing, as far as the newest report knows."""
    with closing(wiring.existing_log(config)) as log:
        report = newest_report(log, config)
    known = {} if report is None or report.verdicts is None else report.verdicts.sources
    if known and source not in known:
        told = f"no label of source {source} was read yet{did_you_mean(source, known)}"
        print(f"streamnb: {printable(told)}", file=sys.stderr)
