"""How many events `POST /events` of `streamnb serve` takes, and how many a bare endpoint takes next to it.

The bare endpoint finds the events in the body, checks nothing, and appends their bytes to a SQLite file (a durable
transaction for each request) or produces them to Kafka (acks=all). The two take turns; a ratio is the median of turns.
The second ratio is that of events for each second of processor time, which other work on the machine disturbs less.
On Kafka, requests with a key are also compared with a bare endpoint that produces the events and a record for the key
in one transaction: no endpoint that keeps keys can be faster.

python -m tests.benchmarks.sent_events [--kafka] [--seconds 1] [--turns 11] [--sizes 1 100] [--clients 1] [--other FOLDER]
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack, closing
from pathlib import Path

from tests.benchmarks.recovery import broker
from tests.support.fed import Programs, text, until_ready

BARE_PORT, TRANSACTION_PORT = 18092, 18093
BARE = f"""
import sqlite3, sys, threading
import msgspec, uvicorn
from fastapi import FastAPI, Request, Response

address, port, lock, app = sys.argv[1], int(sys.argv[2]), threading.Lock(), FastAPI()
decode = msgspec.json.Decoder(dict[str, list[msgspec.Raw]]).decode
if port == {TRANSACTION_PORT}:
    from kafka import KafkaProducer
    shared = dict(bootstrap_servers=address.removeprefix("kafka://"), acks="all", retry_backoff_ms=2)
    producer = KafkaProducer(transactional_id="bare", **shared)
    producer.init_transactions()
    def append(events):
        producer.begin_transaction()
        sent = [producer.send("bare", event) for event in events]
        producer.send("bare-keys", b"written", events[0][:40])
        producer.flush()
        places = [each.get().offset for each in sent]
        producer.commit_transaction()
        return places
elif address.startswith("kafka://"):
    from kafka import KafkaProducer
    producer = KafkaProducer(bootstrap_servers=address.removeprefix("kafka://"), acks="all")
    def append(events):
        sent = [producer.send("bare", event) for event in events]
        producer.flush()
        return [each.get().offset for each in sent]
else:
    db = sqlite3.connect(address, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE bare (n INTEGER PRIMARY KEY, event BLOB)")
    def append(events):
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO bare (event) VALUES (?)", [(event,) for event in events])
        last = db.execute("SELECT max(n) FROM bare").fetchone()[0]
        db.execute("COMMIT")
        return list(range(last - len(events) + 1, last + 1))

@app.post("/events")
async def send(request: Request):
    events = [bytes(event) for event in decode(await request.body())["events"]]
    return Response(msgspec.json.encode(append(events)), media_type="application/json")

uvicorn.run(app, port=port, log_level="error", access_log=False)
"""  # noqa: S608


def bodies(size, rng=random.Random(3)):  # noqa: B008  one for all
    """Bodies of that many events each, without end."""
    n = 0
    while True:
        events = [{"id": f"{n + i}-{size}", "text": text(rng)} for i in range(size)]
        yield json.dumps({"events": events}).encode()
        n += size


def processor_seconds(process):
    """Processor time of a process, by all its threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rates(process, port, size, clients, seconds, *, with_keys):
    """Events that an endpoint has answered for: in a second, and in a second of its processor time."""
    sent = [0] * clients
    ready = [[next(made) for _ in range(200)] for made in [bodies(size)] for _ in range(clients)]

    def client(number):
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            while time.monotonic() < until:
                key = {"Idempotency-Key": str(uuid.uuid4())} if with_keys else {}
                body = ready[number][sent[number] % 200]
                connection.request("POST", "/events", body, {"Content-Type": "application/json", **key})
                answer = connection.getresponse()
                said = answer.read()
                assert answer.status == 200, said
                sent[number] += 1

    began, spent = time.monotonic(), processor_seconds(process)
    until = began + seconds
    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n = size * sum(sent)
    return n / (time.monotonic() - began), n / max(0.01, processor_seconds(process) - spent)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kafka", action="store_true", help="on a broker of its own, not on an embedded log")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--clients", type=int, nargs="+", default=[1])
    parser.add_argument("--other", type=Path, help="another checkout of streamnb, by turns")
    options = parser.parse_args()
    trees = {"serve": Path(__file__).parents[2]} | ({"other": options.other} if options.other else {})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = f"sqlite:///{folder / 'log.db'}"
        if options.kafka:
            cluster = broker(folder)
            stack.callback(cluster.stop)
            log = f"kafka://{cluster.address}"
            from kafka import KafkaAdminClient
            from kafka.admin import NewTopic

            with KafkaAdminClient(bootstrap_servers=cluster.address) as admin:
                admin.create_topics([NewTopic("bare", 1, 1), NewTopic("bare-keys", 1, 1)])
        flags = ["--log", log, "--set", "topics.requests=requests"]
        programs = stack.enter_context(closing(Programs(folder, *flags)))
        programs.run("topics", "create")
        ports = {}
        for name, port in [
            ("bare", BARE_PORT),
            *([("transaction", TRANSACTION_PORT)] if options.kafka else []),
        ]:
            address = log if options.kafka else str(folder / "bare.db")
            ports[name] = programs.start_python("-c", BARE, address, str(port))[0], port
            until_ready(port)
        for name, tree in trees.items():
            ports[name] = programs.answering("serve", "--rate", "100000", tree=tree, path="/live")
        for size in options.sizes:
            for clients in options.clients:
                for with_keys in (False, True):
                    measure(ports, size, clients, options, with_keys=with_keys)
    return 0


def measure(ports, size, clients, options, *, with_keys):
    """Print the rates and ratios of one kind of request."""
    found = {name: [] for name in ports}
    if not with_keys:
        found.pop("transaction", None)
    for _ in range(options.turns):
        for name, all_rates in found.items():
            process, port = ports[name]
            all_rates.append(rates(process, port, size, clients, options.seconds, with_keys=with_keys))
    what = f"{size} a request, {clients} at once, {'with a key' if with_keys else 'without a key'}"
    peers = {name: found.pop(name) for name in ("bare", "transaction") if name in found}
    for (name, own), (peer, bare) in itertools.product(found.items(), peers.items()):
        by_time, by_processor = (
            sorted(one[way] / other[way] for one, other in zip(own, bare, strict=True)) for way in (0, 1)
        )
        print(
            f"{name}, {what}: {statistics.median(each for each, _ in own):.0f} events a second, "
            f"{statistics.median(by_time):.2f} ({by_time[0]:.2f} to {by_time[-1]:.2f}) of "
            f"{peer} {statistics.median(each for each, _ in bare):.0f}; {statistics.median(by_processor):.2f} by processor "
            f"time; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
