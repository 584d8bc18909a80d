"""The service's rate as a share of the rate of loops that only copy, on each log and client, in one table.

python -m tests.benchmarks.shares FILE [--rounds 5] [--only sqlite kafka-python librdkafka]

It runs `measure bench FILE --log ...` on an embedded log, and on a broker of its own with both clients.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from streamnb.reports.text_columns import table
from tests.benchmarks.recovery import broker

COMMITS = {"sqlite": (50_000, 1_000), "kafka-python": (60_000, 5_000), "librdkafka": (150_000, 10_000)}
"""Events of a round, and of a commit."""
HEADER = ("log or client", "contender", "events/s", "processor us/event", "share", "lower quartile", "load")


def rows_of(name, url, file, rounds):
    """Run the rounds of one log; return a row for each contender."""
    events, commit = COMMITS[name]
    command = [sys.executable, "-m", "tests.benchmarks.measure", "bench", str(file), "--log", url, "--json"]
    command += ["--rounds", str(rounds), "--events", str(events), "--set", f"commit.events={commit}"]
    command += ["--set", f"log.client={name}"] if name != "sqlite" else []
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    load = " to ".join(f"{busy:.0f}" for busy in found["environment"]["busy"])
    for result in found["results"]:
        numbers = result["events_per_second"], result["processor_microseconds"]
        shares = result["share"], result["share_lower_quartile"]
        yield name, result["contender"], *(f"{n:,.1f}" for n in numbers), *(f"{n:.2f}" for n in shares), load


def main(arguments=None):
    """Print the table; after each log, so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=COMMITS, default=list(COMMITS))
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        urls = dict.fromkeys(COMMITS, f"sqlite:///{folder}/log.db")
        if set(options.only) != {"sqlite"}:
            cluster = broker(Path(folder))
            if cluster is None:
                return 1
            stack.callback(cluster.stop)
            urls |= dict.fromkeys(("kafka-python", "librdkafka"), f"kafka://{cluster.address}")
        for name in options.only:
            rows += rows_of(name, urls[name], options.file, options.rounds)
            print(table(rows, HEADER), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
