"""A command of tests.benchmarks.measure on a broker of its own (`make bench`), where this machine can start one.

python -m tests.brokers.measured latency --rate 200
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.brokers.cluster import Cluster
from tests.brokers.jars import CannotStartError, ToolMissingError

MEASURE = [sys.executable, "-m", "tests.benchmarks.measure"]


def main(arguments):
    with tempfile.TemporaryDirectory() as folder:
        print("starting Apache Kafka ...", file=sys.stderr, flush=True)
        try:
            cluster = Cluster(Path(folder)).start()
        except ToolMissingError as error:
            print(f"left out: {arguments[0]} on Apache Kafka: {error}", file=sys.stderr)
            return 0
        except CannotStartError as error:
            print(f"no broker: {error}", file=sys.stderr)
            return 1
        try:
            command = [*MEASURE, *arguments, "--log", f"kafka://{cluster.address}"]
            return subprocess.call(command)
        finally:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
