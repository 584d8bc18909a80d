"""Records a second of `streamnb convert` on an embedded log: JSON, the same rows as Avro, and as rows of Debezium.

python -m tests.benchmarks.conversion [RECORDS] [TURNS]: by turns; the rate of each, and of decoding without a log.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import io
import json
import random
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import fastavro
from prometheus_client import CollectorRegistry

from streamnb.config import load
from streamnb.conversion.record_converter import RecordConverter
from streamnb.conversion.source_follower import SourceFollower
from streamnb.conversion.source_metrics import SourceMetrics
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.runtime import context
from tests.conversion.stub_registry import StubRegistry, serving

COLUMNS = {
    "id": "string",
    "subject": "string",
    "state": "string",
    "amount": "double",
    "n": "long",
    "open": "boolean",
}
SCHEMA = {"type": "record", "name": "Row", "fields": [{"name": k, "type": v} for k, v in COLUMNS.items()]}
TOPICS = ("events", "labels", "dead-letters", "source")


def rows(n):
    draws, words = random.Random(3), [f"word{i}" for i in range(2000)]
    for i in range(n):
        subject = " ".join(draws.choices(words, k=12))
        state = draws.choice(["ham", "spam"])
        yield {
            "id": f"m-{i}",
            "subject": subject,
            "state": state,
            "amount": draws.random(),
            "n": i,
            "open": i % 2 == 0,
        }


def values(kind, n):
    """The values of one kind."""
    parsed = fastavro.parse_schema(SCHEMA)
    for row in rows(n):
        if kind == "avro":
            stream = io.BytesIO(b"\0\0\0\0\1")
            stream.seek(5)
            fastavro.schemaless_writer(stream, parsed, row)
            yield stream.getvalue()
        elif kind == "debezium":
            yield json.dumps(
                {"op": "c", "before": None, "after": row, "source": {"ts_ms": 1_790_000_000_000}}
            ).encode()
        else:
            yield json.dumps(row).encode()


def config_of(folder, kind, url):
    envelope = "debezium" if kind == "debezium" else "none"
    source = f'{{ name = "s", topic = "source", envelope = "{envelope}", id = "id", label = "state", text = "subject" }}'
    given = ["topics.labels=labels", "events.repeats=skip", f"registry.url={url}", f"sources=[{source}]"]
    return load(None, {}, [*given, f"log.url=sqlite:///{folder}/log.db"])


def converted_seconds(kind, n, url):
    """Seconds of `convert` for a topic of n records, and of the conversion alone."""
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(Path(folder), kind, url)
        written = list(values(kind, n))
        with closing(context.open_log(config)) as log:
            for topic in TOPICS:
                log.create_topic(topic, 1)
            log.append([NewRecord("source", None, value) for value in written])
        follower = SourceFollower(
            config, config.sources[0], SourceMetrics(CollectorRegistry()), lambda _: None
        )
        began = time.perf_counter()
        follower.start()
        while follower.totals["events"] < n:
            time.sleep(0.005)
        whole = time.perf_counter() - began
        follower.close()
        converter = RecordConverter(config.sources[0], config, follower._registry, lambda *_: None)
        records = [Record(Partition("source", 0), i, None, value, 1.79e9) for i, value in enumerate(written)]
        began = time.perf_counter()
        for record in records:
            converter.outputs(record)
        return whole, time.perf_counter() - began


def main(n=50_000, turns=5):
    stub = StubRegistry()
    stub.register("s", {"schema": json.dumps(SCHEMA)})
    found = {"json": [], "avro": [], "debezium": []}
    with serving(stub) as url:
        for _ in range(turns):
            for kind, took in found.items():
                took.append(converted_seconds(kind, n, url))
    for kind, took in found.items():
        whole, alone = (n / statistics.median(each) for each in zip(*took, strict=True))
        against = statistics.median(
            mine[1] / other[1] for mine, other in zip(found["json"], took, strict=True)
        )
        all_of_it = statistics.median(
            mine[0] / other[0] for mine, other in zip(found["json"], took, strict=True)
        )
        print(
            f"{kind:9} {whole:9,.0f} records a second ({all_of_it:.2f} of JSON), "
            f"{alone:9,.0f} without the log ({against:.2f} of JSON)"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
