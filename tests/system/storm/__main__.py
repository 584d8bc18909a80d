"""Storms on real brokers of their own: ``make storm``, or with options ``python -m tests.system.storm --help``."""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
from itertools import chain
from pathlib import Path
from typing import Any

from tests.brokers.cluster import Cluster
from tests.brokers.jars import CannotStartError
from tests.system.storm.course import Plan, rage
from tests.system.storm.embedded import NoCluster
from tests.system.storm.plans import chains, full, late, mixture, replicated, short, short_late, tenants
from tests.system.storm.report import told


def main() -> int:
    parser = argparse.ArgumentParser(prog="storm", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="of events and schedule; else any")
    parser.add_argument("--short", action="store_true", help="only what the tests run")
    parser.add_argument("--chains", action="store_true", help="only the storms on chains of entities")
    parser.add_argument("--late", action="store_true", help="only those whose labels come late")
    parser.add_argument("--mixture", action="store_true", help="only those of the default model")
    parser.add_argument("--tenants", action="store_true", help="only those of models of tenants")
    parser.add_argument("--replicas", action="store_true", help="only those that replicas follow")
    parser.add_argument("--log", choices=("kafka", "sqlite"), help="only those on one log")
    parser.add_argument(
        "--folder", type=Path, default=None, help="keep everything there, the brokers' logs too"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # learners and brokers end, too
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    chosen = {"short": [short(seed), short_late(seed)], "chains": chains(seed), "late": late(seed)}
    chosen |= {"mixture": mixture(seed), "tenants": tenants(seed)}
    chosen["replicas"] = [replicated(seed), replicated(seed, "sqlite")]
    given = [plans for name, plans in chosen.items() if getattr(options, name)]
    whole = [full(seed), *(plans for name, plans in chosen.items() if name != "short")]
    plans = given[0] if given else list(chain.from_iterable(whole))
    plans = [plan for plan in plans if options.log in (None, plan.log)]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            reports = [
                _one(plan, (options.folder or Path(scratch)) / f"storm-{i}") for i, plan in enumerate(plans)
            ]
        except CannotStartError as error:
            print(f"no broker: {error}", file=sys.stderr)
            return 2
    print(json.dumps({"seed": seed, "storms": reports}, indent=2))
    for report in reports:
        print(told(report), file=sys.stderr)
    return int(any(report["faults"] for report in reports))


def _one(plan: Plan, folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True)
    if plan.log == "sqlite":
        return rage(NoCluster(folder), folder, plan, _tell)
    cluster = Cluster(folder / "brokers", nodes=plan.nodes).start()
    try:
        return rage(cluster, folder, plan, _tell)
    finally:
        cluster.kill()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
