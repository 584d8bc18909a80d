"""A storm's report as text."""

from __future__ import annotations

from typing import Any


def told(report: dict[str, Any]) -> str:
    """A few lines for people."""
    states = ", ".join(f"{number} {state}" for state, number in sorted(report["kills_by_state"].items()))
    met = ", ".join(f"{number} {state}" for state, number in sorted(report["kills_by_transaction"].items()))
    brokers = f"{report['nodes']} broker(s) by {report['client']}"
    place = "an embedded log" if report["log"] == "sqlite" else brokers
    happy = "nothing was lost, nothing repeated, and the counts are those of a recount"
    return f"""\
storm of seed {report["seed"]} on {place}, {report["seconds"]:,.0f} s, model {report["kind"]}:
  {report["events"]:,} events and {report["verdicts"]:,} verdicts, {report["dead_letters"]:,} of them dead letters
  {report["commits"]:,} commits, at most {report["longest_gap_seconds"]} s apart
  {report["kills"]} learners killed ({states}; their transactions: {met})
  {report["freezes"]} learners frozen, {report["takeovers"]} takeovers
  {report["broker_kills"]} brokers killed, {report["leader_kills"]} of them in mid-transaction
  {report["lost"]} lost, {report["repeated"]} repeated, verify: {report["verify"]}
  """ + "\n  ".join([f"FAULT: {fault}" for fault in report["faults"]] or [happy])
