"""``streamnb config check|show``."""

from __future__ import annotations

import argparse
import json
import tomllib

from streamnb.cli import wiring
from streamnb.config import config_hash, show


def run(options: argparse.Namespace) -> int:
    """Load the configuration, build what can be built without touching a log, and show it where asked to."""
    config = wiring.load_config(options)
    wiring.learner(config)
    text = show(config)
    digest = config_hash(config)
    if options.json:
        answer = {"valid": True, "hash": digest}
        print(json.dumps(answer | {"config": tomllib.loads(text)} if options.action == "show" else answer))
    else:
        print(text if options.action == "show" else f"valid (hash {digest[:16]})")
    return 0
