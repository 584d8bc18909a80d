"""A command of tests/benchmarks/measure.py on a broker of its own (`make bench`), where this machine can start one.

python tests/brokers/measured.py latency --rate 200
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import Cluster
from jars import CannotStartError, ToolMissingError

MEASURE = Path(__file__).parents[1] / "benchmarks" / "measure.py"


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
            command = [sys.executable, MEASURE, *arguments, "--log", f"kafka://{cluster.address}"]
            return subprocess.call(command)
        finally:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
