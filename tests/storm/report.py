"""A storm's report as text."""

from __future__ import annotations

from typing import Any


def told(report: dict[str, Any]) -> str:
    """A few lines for people."""
    states = ", ".join(f"{number} {state}" for state, number in sorted(report["kills_by_state"].items()))
    met = ", ".join(f"{number} {state}" for state, number in sorted(report["kills_by_transaction"].items()))
    lines = [
        f"storm of seed {report['seed']} on {report['nodes']} broker(s), {report['seconds']:,.0f} s:",
        f"  {report['events']:,} events, {report['dead_letters']:,} of them dead letters, "
        f"in {report['commits']:,} commits, at most {report['longest_gap_seconds']} s apart",
        f"  {report['kills']} learners killed ({states}; transactions then: {met}), {report['freezes']} frozen, "
        f"{report['recoveries']} recoveries",
        f"  {report['broker_kills']} brokers killed, {report['leader_kills']} of them the leader of an open transaction",
        f"  {report['lost']} lost, {report['repeated']} repeated, verify: {report['verify']}",
        *(f"  FAULT: {fault}" for fault in report["faults"]),
        "  nothing was lost, nothing repeated, and the counts are those of a recount"
        if not report["faults"]
        else f"  {len(report['faults'])} fault(s)",
    ]
    return "\n".join(lines)
