"""``streamnb score``: predict events in place of the learner, sharing partitions with other scorers."""

from __future__ import annotations

import argparse
from contextlib import closing

from streamnb.config import Config
from streamnb.engine.sensor import WorkerState
from streamnb.engine.worker_states import SCORER_TRANSITIONS, WorkerStates
from streamnb.errors import ConfigError, Unavailable
from streamnb.runtime import context, factories
from streamnb.runtime.reloading import HangUpSignal, Reload
from streamnb.runtime.shutdown import Stop, warm_up
from streamnb.telemetry.worker_observers import OutageReporter, watched

_LOOK_SECONDS = 1.0  # between looks at the journal


def run(options: argparse.Namespace) -> int:
    """Predict until SIGTERM or SIGINT; SIGHUP reloads the configuration."""
    config = context.load_config(options, factories.LEARN_ONLY)
    if not config.log.is_kafka:
        raise ConfigError(
            f"log.url is {config.log.url}: scorers share the partitions of a Kafka cluster; on an embedded "
            "log `streamnb run` predicts, and `streamnb serve` answers requests"
        )
    from streamnb.event_logs.kafka.kafka_log import KafkaLog  # noqa: PLC0415  only Kafka needs it
    from streamnb.serving.replica import Replica  # noqa: PLC0415
    from streamnb.serving.scorer import Scorer  # noqa: PLC0415

    def reconfigure(config: Config) -> None:
        scorer.commit = config.commit
        waiting.give_up_after = config.kafka.give_up_after

    stop, hang_up = Stop(), HangUpSignal()
    reload = Reload(config, lambda: context.read_config(options, factories.LEARN_ONLY), options)
    waiting = OutageReporter(config.kafka.give_up_after, stop)
    with watched(config) as sensor:
        states = waiting.states = WorkerStates(sensor, SCORER_TRANSITIONS)
        states.begin()
        try:
            log = context.open_log(config, waiting)
            assert isinstance(log, KafkaLog)  # noqa: S101
            with closing(log):
                factories.check_topics(
                    config, log, accepts_loss=options.accept_loss, remedy="`streamnb score --accept-loss`"
                )
                factories.fitted(config, log)  # the batch size depends on limits of the topics
                if stop.interrupts(lambda: warm_up(config, sensor.heartbeat)):
                    return 0
                replica = Replica(config, sensor.noted, look_seconds=_LOOK_SECONDS)
                replica.start()
                try:
                    scorer = Scorer(config, log, replica, states, stop, accepts_loss=options.accept_loss)
                    reload.add(lambda config: lambda: reconfigure(config))
                    hang_up.begin(reload)
                    scorer.run()
                finally:
                    replica.close()
        except Unavailable:
            if not stop():
                raise
        finally:
            states.enter(WorkerState.STOPPED)
    return 0
