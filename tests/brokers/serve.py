"""One broker for trying things out (`make kafka`), until Ctrl-C; its data stays for the next time."""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from tests.brokers.cluster import Cluster
from tests.brokers.jars import CannotStartError

FOLDER = Path(__file__).resolve().parents[2] / ".kafka"
TO_TRY = """\
Apache Kafka listens on {address}. Its data and its log are in {folder}; Ctrl-C stops it. To try:

  streamnb topics create --log kafka://{address}
  streamnb replay FILE --log kafka://{address}
  streamnb run --log kafka://{address}
"""


def main(folder=FOLDER):
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore SIGINT otherwise
        signal.signal(number, signal.default_int_handler)
    print("starting Apache Kafka ...", flush=True)
    try:
        cluster = Cluster(folder, port=int(os.environ.get("KAFKA_PORT", "9092"))).start()
    except (CannotStartError, ValueError) as error:
        print(f"no broker: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # a broker that was starting dies with this process
    print(TO_TRY.format(address=cluster.address, folder=folder), flush=True)
    return serve(cluster)


def serve(cluster):
    (node,) = cluster.nodes
    with contextlib.suppress(KeyboardInterrupt):
        node.wait()
        print(f"the broker has ended; its log {node.log} ends:\n{node.tail()}", file=sys.stderr)
        return 1
    print("stopping ...", flush=True)
    cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
