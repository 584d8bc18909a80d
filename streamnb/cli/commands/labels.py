"""`streamnb labels withdraw`: retract all labels of one source."""

from __future__ import annotations

import argparse
import json

from streamnb.cli.commands.label import checked, writing
from streamnb.errors import ConfigError
from streamnb.events import Retraction
from streamnb.formats.codec import IN_EVENT
from streamnb.runtime import context


def run(options: argparse.Namespace) -> int:
    """Write the retraction; the learner applies it to waiting events while it continues to learn."""
    config = context.load_config(options)
    if options.source == IN_EVENT:
        raise ConfigError(f"--source: {IN_EVENT!r} is what labels inside events are called; they stay")
    max(writing(config, [checked(Retraction(options.source, options.since), config)]))
    if options.json:
        print(json.dumps({"withdrawn": options.source, "since": options.since, "log": config.log.url}))
    else:
        since = "" if options.since is None else f" since {options.since:.0f}"
        print(f"labels of {options.source}{since} no longer count; written to {config.topics.labels}")
    return 0
