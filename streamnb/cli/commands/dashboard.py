"""``streamnb dashboard``: the live page of a running learner."""

from __future__ import annotations

import argparse
import os

from streamnb.cli.commands.serve import run as serve

_NICE = 10


def run(options: argparse.Namespace) -> int:
    """Serve the page with a lower priority than the learner; load a model only for requests that need it."""
    os.nice(_NICE)
    return serve(options, rests=True)
