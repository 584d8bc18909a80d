"""``streamnb score``: predict events in place of the learner, beside other scorers."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing

from streamnb.cli import wiring
from streamnb.cli.observers import Waiting, watched
from streamnb.cli.printable import printable
from streamnb.cli.stopping import Stop, warm_up
from streamnb.engine.sensor import Committed, Sensor, WorkerState
from streamnb.errors import ConfigError, Unavailable

_TICK_SECONDS = 1.0
_LOOK_SECONDS = 1.0  # where nobody has seen that there is more of the journal


def run(options: argparse.Namespace) -> int:
    """Predict until SIGTERM, SIGINT or SIGHUP."""
    config = wiring.load_config(options, wiring.LEARN_ONLY)
    if not config.log.is_kafka:
        raise ConfigError(
            f"log.url is {config.log.url}: scorers share the partitions of a Kafka cluster; on an embedded "
            "log `streamnb run` predicts, and `streamnb serve` answers questions beside it"
        )
    from streamnb.adapters.kafka.log import KafkaLog  # noqa: PLC0415  only who uses Kafka needs it
    from streamnb.cli.serving.replica import Replica  # noqa: PLC0415
    from streamnb.cli.serving.scorer import Scorer  # noqa: PLC0415

    stop = Stop()
    waiting = Waiting(config.kafka.give_up_after, stop)
    with watched(config, waiting, _Ticker()) as sensor:
        waiting.sensor = sensor
        sensor.entered(WorkerState.STARTING)
        try:
            log = wiring.open_log(config, waiting)
            assert isinstance(log, KafkaLog)  # noqa: S101
            with closing(log):
                wiring.check_topics(config, log)
                wiring.fitted(config, log)  # what is sent at once goes by what topics take
                if stop.interrupts(lambda: warm_up(config, sensor.alive)):
                    return 0
                replica = Replica(config, sensor.noted, look_seconds=_LOOK_SECONDS)
                replica.start()
                try:
                    Scorer(config, log, replica, sensor, stop, accepts_loss=options.accept_loss).run()
                finally:
                    replica.close()
                    sensor.entered(WorkerState.STOPPED)
        except Unavailable:
            if not stop():
                raise
    return 0


class _Ticker(Sensor):
    """Says about once a second how it goes, on standard error."""

    def __init__(self) -> None:
        self._told = time.monotonic()
        self._predicted = self._behind = 0

    def followed(self, behind: int) -> None:
        """Keep it for the next line."""
        self._behind = behind

    def committed(self, commit: Committed) -> None:
        """Say how it goes, where it is time."""
        self._predicted += sum(commit.predicted.values())
        now = time.monotonic()
        if now - self._told >= _TICK_SECONDS:
            rate = self._predicted / (now - self._told)
            text = (
                f"{rate:,.0f} predictions/s by journal record {commit.n}, {self._behind:,} behind the learner"
            )
            print(printable(text), file=sys.stderr)
            self._told, self._predicted = now, 0
