"""The driver: Spark plans batches of a Kafka stream, and each becomes a delta before it counts as done."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamnb.config import Config, log_output
from streamnb.engine.ports import Partition
from streamnb.errors import JournalError, StreamnbError, told_as
from streamnb.formats.terminal_text import emit, note
from streamnb.models.naive_bayes.partials import Partial
from streamnb.runtime import context, factories
from streamnb.runtime.next_commands import repeated
from streamnb.spark.deltas import Deltas, DeltaState, Places, refuse_unfit
from streamnb.spark.partition_worker import MAKES, READS, PartitionTask
from streamnb.telemetry.log_output import OUTPUT, cause_of
from streamnb.values.messages import Message


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until killed, or, with ``--once``, until all current records are learned; any death is safe."""
    options = _parser().parse_args(arguments)
    with OUTPUT.attached():
        OUTPUT.configure(log_output(*context.layers(options)), is_service=True)
        try:
            config = context.load_config(options)
            refuse_unfit(config)
            learn(config, options)
        except StreamnbError as error:
            fields = {"cause": cause_of(error), "command": repeated("streamnb doctor", options), "code": 1}
            note(Message("command-failed", str(error), **fields))
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="streamnb.spark", description=__doc__)
    made.add_argument("--config", metavar="FILE", help="TOML configuration")
    made.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="set one key")
    made.add_argument("--log", metavar="URL", help="log.url, such as kafka://127.0.0.1:9092")
    made.add_argument("--most", type=int, metavar="N", help="records of a batch, at most; else all there are")
    made.add_argument("--every", default="1 second", help="interval between batches (1 second)")
    made.add_argument("--once", action="store_true", help="learn what is there, and end")
    text = "an option of Spark's Kafka source and sink, such as kafka.security.protocol=SSL"
    made.add_argument("--kafka", metavar="KEY=VALUE", action="append", default=[], help=text)
    return made


def learn(config: Config, options: argparse.Namespace) -> None:
    """Run the stream. Raises StreamnbError."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415  so that this module imports without Spark
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with closing(context.open_log(config)) as log:
        factories.check_topics(config, log)
        config = factories.fitted(config, log)
        topic_ids = log.topic_ids(config.topics.events)
    deltas = Deltas(config.snapshot_folder.resolve(), config.snapshots.keep)
    servers = {"kafka.bootstrap.servers": ",".join(config.log.bootstrap)}
    kafka = servers | dict(one.partition("=")[::2] for one in options.kafka)
    with deltas.held():
        driver = Driver(deltas, deltas.begin(config, topic_ids), config, kafka)
        spark = SparkSession.builder.appName(f"streamnb {config.model.name}").getOrCreate()
        source = spark.readStream.format("kafka").options(
            **kafka,
            **{"kafka.isolation.level": "read_committed", "subscribe": ",".join(config.topics.events)},
            startingOffsets="earliest",
            failOnDataLoss="true",
            **({} if options.most is None else {"maxOffsetsPerTrigger": options.most}),
        )
        stream = source.load().writeStream.foreachBatch(driver.batch)
        stream = stream.option("checkpointLocation", deltas.checkpoint.as_uri())
        when: dict[str, Any] = {"availableNow": True} if options.once else {"processingTime": options.every}
        try:
            stream.trigger(**when).start().awaitTermination()
        except StreamingQueryException as error:
            raise driver.failure or JournalError(f"Spark has ended: {str(error)[:2000]}") from error
        driver.save()


@dataclass
class Driver:
    """State of the driver between two batches; `kafka` are options of Spark's source and sink."""

    deltas: Deltas
    state: DeltaState
    config: Config
    kafka: Mapping[str, str]
    failure: StreamnbError | None = None

    def __post_init__(self) -> None:
        self._saved_at, self._since = time.monotonic(), 0

    def batch(self, frame: Any, number: int) -> None:
        """Process one batch of Spark's, which may repeat the last one."""
        try:
            self._batch(frame, number)
        except StreamnbError as error:
            self.failure = error
            raise

    def _batch(self, frame: Any, number: int) -> None:
        now, places = planned(self.deltas.checkpoint, number)
        if self.deltas.is_learned(self.state, number, places):
            return  # its outputs were written, too
        part = PartitionTask(str(self.deltas.path), number, now, places)
        made = frame.select(*READS).mapInArrow(part, MAKES).persist()
        try:
            found = made.where("partial is not null").select("key", "partial").toArrow()
            refused = sum(map(int, found.column("key").to_pylist()))
            partials = [Partial.from_bytes(one) for one in found.column("partial").to_pylist()]
            outputs = made.where("partial is null").drop("partial")
            outputs.write.format("kafka").options(**self.kafka).option("includeHeaders", "true").save()
        finally:
            made.unpersist()
        before = self.state.tested
        self.state = self.deltas.advance(self.state, partials, places)
        tested = self.state.tested
        events, right = tested.events - before.events, tested.right - before.right
        records = sum(past - first for first, past in places.values())
        told = f"batch {number}: {records:,} records, {refused:,} refused, {events:,} learned"
        emit(
            Message(
                "spark-batch",
                f"{told}, {right / max(1, events):.2%} of these predicted right",
                batch=number,
                records=records,
                refused=refused,
                events=events,
                right=right,
            )
        )
        self._since += events
        pace = factories.commit_policy(self.config)
        if self._since >= pace.snapshot_events or time.monotonic() - self._saved_at >= pace.snapshot_seconds:
            self.save()

    def save(self) -> None:
        """Save a full state."""
        self.deltas.save(self.state)
        self._saved_at, self._since = time.monotonic(), 0


def planned(checkpoint: Path, number: int) -> tuple[float, Places]:
    """Return the time of a batch, in seconds since the epoch, and its ranges, as planned by Spark.

    A batch is planned once: a repetition has the same records. The records do not show the end of a batch,
    because aborted records and transaction markers have offsets, too. Raises JournalError.
    """
    now, ends = _offsets(checkpoint / "offsets" / str(number))
    before = checkpoint / "sources" / "0" / "0" if number == 0 else checkpoint / "offsets" / str(number - 1)
    _, begins = _offsets(before)
    return now, {place: (begins.get(place, 0), past) for place, past in ends.items()}


def _offsets(path: Path) -> tuple[float, dict[Partition, int]]:
    """Read a file of Spark's: a version, metadata of the batch (absent for a source), and offsets."""
    unread = OSError, ValueError, IndexError, KeyError, AttributeError, TypeError
    with told_as(JournalError, f"{path} cannot be read", *unread):
        version, *told = path.read_text().lstrip("\0").splitlines()
        offsets = json.loads(told[-1])
        found = {
            Partition(topic, int(n)): at for topic, numbers in offsets.items() for n, at in numbers.items()
        }
        now = json.loads(told[0])["batchTimestampMs"] / 1000.0 if len(told) > 1 else 0.0
        is_known = version == "v1" and all(type(at) is int and at >= 0 for at in found.values())
    if not is_known:
        raise JournalError(f"{path} is not what Spark 4.2 writes of a batch: {version}, {told[-1][:200]}")
    return now, found
