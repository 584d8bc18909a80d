"""``streamnb dashboard``: the live page of a running learner."""

from __future__ import annotations

from streamnb.cli.commands.serve import run

__all__ = ["run"]
