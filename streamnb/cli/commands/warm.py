"""``streamnb warm``: compile the kernels."""

from __future__ import annotations

import argparse
import json

from streamnb.cli.wiring import warm_up

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Compile every kernel, or find it in the cache."""
    seconds = warm_up()
    print(json.dumps({"seconds": seconds}) if options.json else f"kernels ready in {seconds:.1f} s")
    return 0
