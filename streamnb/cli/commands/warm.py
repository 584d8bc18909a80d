"""``streamnb warm``: compile the kernels."""

from __future__ import annotations

import argparse
import json

from streamnb.cli import opening, wiring
from streamnb.cli.answers import rehearse_answers


def run(options: argparse.Namespace) -> int:
    """Compile the kernels, or find them."""
    config = opening.load_config(options)
    seconds = wiring.warm_up() if options.all else 0.0
    seconds += wiring.warm_up(config, rehearse_answers)
    print(json.dumps({"seconds": seconds}) if options.json else f"kernels ready in {seconds:.1f} s")
    return 0
