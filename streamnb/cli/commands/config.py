"""``streamnb config check|lint|show``."""

from __future__ import annotations

import argparse
import json
import tomllib

from streamnb.cli import wiring
from streamnb.config import config_hash, given, show, without_effect


def run(options: argparse.Namespace) -> int:
    """Load the configuration, build what can be built without touching a log, and show it where asked to.

    `lint` also reads the files that it names, and tells what has no effect; 1 where there is any.
    """
    config = wiring.load_config(options)
    wiring.learner(config)
    idle: list[str] = []
    if options.action == "lint":
        if config.log.is_kafka:
            config.kafka.settings(config.log)
            wiring.library(config)
        idle = without_effect(config, given(*wiring.layers(options)))
    text = show(config)
    digest = config_hash(config)
    if options.json:
        answer = {"valid": True, "hash": digest}
        answer |= {"config": tomllib.loads(text)} if options.action == "show" else {}
        print(json.dumps(answer | ({"without_effect": idle} if options.action == "lint" else {})))
    elif options.action == "show":
        print(text)
    else:
        print("\n".join([*idle, f"valid (hash {digest[:16]})"]))
    return 1 if idle else 0
