"""``streamnb dashboard``: the live page of a running learner."""

from __future__ import annotations

import argparse
import os

from streamnb.cli.commands.serve import run as serve

_NICE = 10


def run(options: argparse.Namespace) -> int:
    """As `serve`, which has the same page; where processors are few, a learner beside it comes first."""
    os.nice(_NICE)
    return serve(options)
