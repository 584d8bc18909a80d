"""``streamnb run``: the worker, until a signal or the end of the log."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Hashable, Sequence

import msgspec

from streamnb.cli.checks.machine_checks import disk_space
from streamnb.cli.dry_run import dry_run
from streamnb.config import Config
from streamnb.engine.journal.recovery import describe_changes
from streamnb.engine.ports import Log, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.sensor import Committed, Sensor, WorkerState
from streamnb.errors import ConfigError, NotElected, Unavailable
from streamnb.evaluation.data_quality import LOOKED_AT, DataQuality, report_small_weights
from streamnb.events import Event
from streamnb.features.feature_layout import LearnedTypes
from streamnb.formats.terminal_text import counted, emit, printable, warn
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.reports.text_tables import print_informative, print_report, print_summary
from streamnb.runtime import context, factories
from streamnb.runtime.reloading import HangUpSignal, Reload
from streamnb.runtime.shutdown import Stop, warm_up
from streamnb.runtime.standby import Standby
from streamnb.runtime.worker import Worker
from streamnb.telemetry.log_output import OUTPUT
from streamnb.telemetry.worker_observers import OutageReporter, watched
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_MAX_REPORTED = 10  # attributes


def run(options: argparse.Namespace) -> int:
    """Learn from the log until SIGTERM or SIGINT, or until its end; SIGHUP reloads the configuration."""
    config = context.load_config(options, *_forced(options))
    if config.predictions.by == "scorers" and not config.log.is_kafka:
        raise ConfigError(
            f'log.url is {config.log.url}, and predictions.by is "scorers": these need a Kafka cluster, and '
            "no process would predict"
        )
    learner = factories.learner(config)
    if options.dry_run is not None:
        fields = _FieldMonitor(learner, config)
        code = dry_run(config, learner, options.dry_run, fields.met, accepts_loss=options.accept_loss)
        fields.report(is_over=True)
        return code
    stop, hang_up = Stop(), HangUpSignal()
    if unfinished := _learn(config, learner, options, stop, hang_up):
        emit(Message("stopped-early", f"stopped {unfinished}; nothing is lost", phase=unfinished))
        return 0
    _print_end(learner, options)
    return 0


def _forced(options: argparse.Namespace) -> Sequence[str]:
    """Return the settings that an option of the command sets."""
    return [factories.LEARN_ONLY] if options.learn_only else []


def _print_end(learner: EventProcessor, options: argparse.Namespace) -> None:
    """Print the report that was asked for; a service whose log is not for people logs that it stopped.

    Words of events are printed on demand only.
    """
    report = learner.report(time.time())
    if options.json:
        print(msgspec.json.encode(report).decode())
    elif options.details:
        print_report(report)
        print_informative(learner.model)
    elif options.until_end or (OUTPUT.form == "plain" and OUTPUT.quotes):
        print_summary(report)
    else:
        text = f"stopped: {counted(report, report.events)}, {report.learned:,} learned"
        emit(Message("learner-stopped", text, events=report.events, learned=report.learned))


def _print_addresses(config: Config, options: argparse.Namespace) -> None:
    """Print the topics and, without a configuration file, the next commands."""
    topics, url = config.topics, printable(config.log.url)
    written = ", ".join(name for _, name in topics.names if name not in topics.read)
    text = f"{url}: reads {', '.join(topics.read)}, writes {written}"
    emit(Message("topics-used", text, log=url, reads=list(topics.read), writes=written))
    if options.config is None and not options.until_end:
        text = f"feed it: `streamnb replay FILE --log {url}`; see it: `streamnb dashboard --log {url}`"
        emit(Message("next-commands", text, log=url))


def _learn(
    config: Config, learner: EventProcessor, options: argparse.Namespace, stop: Stop, hang_up: HangUpSignal
) -> str:
    """Run a worker to its end; return the phase in which it was stopped if the model was not yet restored.

    Errors of port, log and topics show before kernels are compiled, and these before the election.
    """
    waiting = OutageReporter(config.kafka.give_up_after, stop)
    reload = Reload(config, lambda: context.read_config(options, *_forced(options)), options)
    with watched(config, _FieldMonitor(learner, config), is_brief=options.until_end) as sensor:
        waiting.states.sensor = sensor
        try:
            log = context.open_log(config, waiting)
            _check_snapshots(config)
            factories.check_topics(config, log, accepts_loss=options.accept_loss)
            factories.fetch_snapshot(config, log)  # here: a takeover must not wait for a mirror
            config = factories.fitted(config, log)
            factories.refuse_before_kernels(config, log)
            learner.settings = factories.settings(config)
            if options.refuse_changes:
                factories.refuse_any_change(config, log)
            _print_addresses(config, options)
            worker = stop.worker = factories.worker(
                config,
                learner,
                log,
                sensor,
                accepts_loss=options.accept_loss,
                refuses_changes=options.refuse_changes,
                states=waiting.states,
            )
            try:
                if not stop() and stop.interrupts(lambda: warm_up(config, sensor.heartbeat)):
                    return "while the kernels were prepared"
                if stop():  # a signal came before the worker existed
                    worker.stop()
                standby = Standby(config, emit)
                reload.add(lambda config: lambda: _reconfigure(config, worker, standby, waiting))
                hang_up.begin(reload)
                worker.await_leadership(factories.owner(), _StandbySensor(config, log), standby)
                factories.tune_interpreter()
                worker.run(until_end=options.until_end)
            finally:
                worker.close()
        except Unavailable:
            if not stop():
                raise
            return "while the log could not be reached"
    return "" if worker.is_restored else "before it was the learner, or had recovered"


def _reconfigure(config: Config, worker: Worker, standby: Standby, waiting: OutageReporter) -> None:
    factories.reconfigure(worker, config)
    standby.reconfigure(config)
    waiting.give_up_after = config.kafka.give_up_after


class _FieldMonitor(Sensor):
    """Data quality reports on the first events of the log, then on one of each commit."""

    def __init__(self, learner: EventProcessor, config: Config) -> None:
        self._learner, self._topics = learner, config.topics
        self._repeats = config.events.repeats != "learn"
        self._odd: DataQuality | None = None
        self._small_weights = self._said_of_small = 0
        # A commit is visible once the next events are learned: its own events meet the types before.
        self._types = self._types_after = LearnedTypes((), ())
        self._other_types = Counter[Hashable]()

    def met(self, records: Sequence[Record]) -> None:
        if self._odd is None:  # the schema is known once the learner is elected
            self._odd = DataQuality(
                self._learner.settings.schema,
                counts_refusals=True,
                repeats=self._repeats,
                learned=lambda: self._learner.model.class_weights,
            )
        odd = self._odd
        for record in records[: max(0, LOOKED_AT - odd.n)] or records[-1:]:
            if record.partition.topic in self._topics.events:
                event = odd.look(record.value, record.key, record.timestamp)
                if event is not None:
                    self._look_at_types(event, f"{record.partition} offset {record.offset}")
        if isinstance(model := self._learner.model, CountingModel):
            self._types, self._types_after = self._types_after, model.learned_types

    def _look_at_types(self, event: Event, place: str) -> None:
        """Warn once for each attribute whose values have another type than was learned."""
        model = self._learner.model
        if not isinstance(model, CountingModel):
            return
        for one in model.lookup.other_types(event.x, self._types):
            self._other_types[one.attribute] += 1
            if self._other_types[one.attribute] == 1:
                text = f"{place}: event {event.id}: {one.message}; these are learned as another attribute"
                fields = {"place": place, "id": event.id, "attribute": str(one.attribute)}
                warn(Message("type-changed", text, **fields))

    def report(self, *, is_over: bool = False) -> None:
        if self._odd is not None:
            self._odd.expects_label = not self._topics.labels and not self._learner.model.n_events
            self._odd.report(is_over=is_over)
        if self._small_weights > self._said_of_small and (is_over or not self._said_of_small):
            self._said_of_small = self._small_weights
            report_small_weights(self._small_weights)

    def committed(self, commit: Committed) -> None:
        self.met(commit.records)
        self._small_weights += commit.tally.small_weights
        self.report()

    def entered(self, state: WorkerState) -> None:
        if state is WorkerState.RUNNING and isinstance(self._learner.model, CountingModel):
            self._types = self._types_after = self._learner.model.learned_types  # as recovered
        if state is WorkerState.STOPPED:
            self.report(is_over=True)
            self._report_other_types()

    def _report_other_types(self) -> None:
        """Warn how often attributes had another type in the sampled events."""
        if self._odd is None or not self._other_types:
            return
        found = self._other_types.most_common(_MAX_REPORTED)
        each = ", ".join(f"{name} in {n:,}" for name, n in found)
        more = f" and {left:,} more attributes" if (left := len(self._other_types) - len(found)) else ""
        looked_at = f"of {pluralize(self._odd.n, 'event')} looked at"
        text = f"{looked_at}, another type than was learned has {each}{more}"
        warn(Message("type-changes", text, events=self._odd.n, attributes=len(self._other_types)))


def _check_snapshots(config: Config) -> None:
    """Raise SnapshotError for a folder that cannot be listed; warn if it cannot be written."""
    factories.snapshots(config).list()
    space = disk_space(config.snapshot_folder)
    if not space.is_writable:
        text = f"no snapshot can be kept: {space.folder} cannot be written; let this user write there"
        emit(Message("snapshot-folder-read-only", text, folder=str(space.folder)))


class _StandbySensor:
    """Reports of the reason for standing by and, once, of the changes that a takeover brings."""

    def __init__(self, config: Config, log: Log) -> None:
        self._config, self._log, self._compared = config, log, False

    def __call__(self, reason: NotElected) -> None:
        """Print them. Raises OtherStream if a takeover would be impossible."""
        emit(Message("standing-by", f"standing by: {reason}", reason=str(reason)))
        if self._compared:
            return
        self._compared = True
        if changes := factories.changes_of(self._config, self._log):
            told = describe_changes(changes)
            text = f"a takeover would change the configuration: {told}"
            emit(Message("configuration-would-change", text, changes=told))
