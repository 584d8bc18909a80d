"""``streamnb dashboard``: the live page of a running learner."""

from __future__ import annotations

import argparse
import os

from streamnb.cli.commands.serve import run as serve

_NICE = 10


def run(options: argparse.Namespace) -> int:
    """As `serve`, which has the same page. A learner beside it comes first where processors are few.

    So it has a lower priority, and no model unless somebody asks for one.
    """
    os.nice(_NICE)
    return serve(options, rests=True)
