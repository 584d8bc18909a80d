"""``streamnb warm``: compile the kernels."""

from __future__ import annotations

import argparse
import json

from streamnb.queries.answers import rehearse_answers
from streamnb.runtime import context, factories


def run(options: argparse.Namespace) -> int:
    """Compile the kernels, or load them from the cache."""
    config = context.load_config(options)
    seconds = factories.warm_up() if options.all else 0.0
    seconds += factories.warm_up(config, rehearse_answers)
    print(json.dumps({"seconds": seconds}) if options.json else f"kernels ready in {seconds:.1f} s")
    return 0
