"""Observers of a worker (terminal, watchdog, Prometheus, probes), and waiting for an unreachable log."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from streamnb.config import Config
from streamnb.engine.ports import OutageListener
from streamnb.engine.sensor import Committed, Sensor, Sensors, WorkerState
from streamnb.engine.worker_states import WorkerStates
from streamnb.errors import AddressTaken, Unavailable
from streamnb.events import MetricsReport
from streamnb.formats.terminal_text import counted, emit, note
from streamnb.telemetry.log_output import OUTPUT
from streamnb.telemetry.open_telemetry import open_telemetry, wanted_signals
from streamnb.telemetry.watchdog import Watchdog
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from streamnb.telemetry.http_endpoints import Health

_TICK_SECONDS = 1.0


@contextmanager
def watched(config: Config, *more: Sensor, is_brief: bool = False) -> Iterator[Sensor]:
    """Yield a sensor for a watchdog, the terminal, `more`, and HTTP if it is configured.

    With `is_brief`, continue without HTTP if the address is taken.
    """
    with ExitStack() as stack:
        watchdogs: Sequence[Watchdog] = ()
        if config.log.hang_timeout:
            watchdogs = (Watchdog(config.log.hang_timeout),)
            watchdogs[0].start()
            stack.callback(watchdogs[0].close)
        yield Sensors(*watchdogs, Ticker(), *more, *_published(config, stack, is_brief=is_brief))


def _published(config: Config, stack: ExitStack, *, is_brief: bool) -> Sequence[Sensor]:
    """Return the sensors of metrics and traces, if HTTP or OpenTelemetry takes them."""
    wanted = wanted_signals()
    if config.http.address is None and not wanted:
        return ()
    from streamnb.telemetry.prometheus_sensor import PrometheusSensor  # noqa: PLC0415  only `run` needs it

    metrics = PrometheusSensor()
    traces = open_telemetry(wanted, stack, metrics.registry) if wanted else ()
    health = served_health(config, stack, metrics.web_app(), is_brief=is_brief)
    return metrics, *traces, *(() if health is None else (health,))


def served_health(
    config: Config, stack: ExitStack, metrics: WSGIApplication, *, is_brief: bool
) -> Health | None:
    """Serve health and metrics until `stack` ends, and return the health; None if nothing is served.

    Raises AddressTaken, unless the process `is_brief`: then it continues without them.
    """
    if config.http.address is None:
        return None
    from streamnb.telemetry.http_endpoints import Endpoints, Health  # noqa: PLC0415  not all commands serve

    health = Health()
    try:
        endpoints = Endpoints(config.http.address, health, metrics)
    except AddressTaken as error:
        if not is_brief:
            raise
        text = f"{error}; continuing without metrics and health"
        note(Message("metrics-not-served", text, error=str(error)))
        return None
    endpoints.start()
    stack.callback(endpoints.close)
    text = f"metrics and health at http://{endpoints.shown}/metrics, /live and /ready"
    emit(Message("metrics-served", text, address=endpoints.shown))
    return health


class Ticker(Sensor):
    """Progress messages, as often as the log output has them, and alerts, at most once a second."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()
        self._consumed = self._predicted = 0  # since the last line
        self._behind: int | None = None
        self._total = 0
        self._report: MetricsReport | None = None
        self._alerts: Counter[tuple[str, str, str]] = Counter()  # since the last line
        self._alerted = -math.inf

    def entered(self, state: WorkerState) -> None:
        """Print the remaining alerts at the end."""
        if state is WorkerState.STOPPED:
            self._print_alerts()

    def recovered(self, seconds: float, events: int) -> None:
        """Print the number of recovered records."""
        self._total, self._printed_at = events, time.monotonic()
        if events:
            text = f"recovered {pluralize(events, 'record')} in {seconds:.1f} s"
            emit(Message("learner-recovered", text, records=events, seconds=seconds))

    def reported(self, report: MetricsReport) -> None:
        """Keep the scores for the line of this commit, and of those after it."""
        self._report = report

    def followed(self, behind: int) -> None:
        """Keep how far behind the learner a scorer's model is."""
        self._behind = behind

    def unsaved(self, reason: str) -> None:
        """Print that no snapshot was kept."""
        emit(Message("snapshot-not-kept", f"no snapshot was kept: {reason}", reason=reason))

    def noted(self, message: Message) -> None:
        """Print the message."""
        emit(message)

    def committed(self, commit: Committed) -> None:
        """Print the progress line if it is due."""
        self._consumed += commit.consumed
        self._total += commit.consumed
        self._predicted += commit.tally.predicted.total()
        self._alerts.update(commit.tally.alerts)
        now = time.monotonic()
        if self._alerts and now - self._alerted >= _TICK_SECONDS:
            self._print_alerts()
            self._alerted = now
        if now - self._printed_at < OUTPUT.progress_seconds or (
            self._report is None and self._behind is None
        ):
            return
        seconds, self._printed_at = now - self._printed_at, now
        emit(self._line(commit.n, seconds))
        self._consumed = self._predicted = 0

    def _line(self, n: int, seconds: float) -> Message:
        if self._report is None:
            rate = self._predicted / seconds
            text = f"{rate:,.0f} predictions/s by journal record {n}, {self._behind:,} behind the learner"
            return Message("scorer-progress", text, rate=rate, journal=n, behind=self._behind)
        window = self._report.window
        accuracy = f"accuracy {window.accuracy:.4f}"
        scores = f"{accuracy}  log loss {window.log_loss:.4f} of the last {window.events:,}"
        if not window.events:
            apart = self._report.verdicts
            waiting = apart and f"{pluralize(apart.pending, 'event')} without a label so far"
            scores = waiting or "no label scored yet"
        letters, rate = self._report.dead_letters, self._consumed / seconds
        return Message(
            "learner-progress",
            f"{counted(self._report, self._total)} ({rate:,.0f}/s)  {scores}  "
            f"dead letters {letters}  journal {n}",
            records=self._total,
            rate=rate,
            accuracy=window.accuracy if window.events else None,
            log_loss=window.log_loss if window.events else None,
            dead_letters=letters,
            journal=n,
        )

    def _print_alerts(self) -> None:
        for (monitor, kind, state), count in self._alerts.items():
            times = f", {pluralize(count, 'time')}" if count > 1 else ""
            text = f"monitor {monitor} ({kind}): {state}{times}"
            emit(Message("monitor-alert", text, monitor=monitor, kind=kind, state=state, count=count))
        self._alerts.clear()


class OutageReporter(OutageListener):
    """Waits for an unreachable log, and prints it; gives up after a time, or on a stop request.

    Meanwhile the state is WAITING. With `give_up_after` of 0 seconds it gives up at once.

    Attributes:
        give_up_after: seconds of the timeout; may be replaced.
        states: states of the worker that waits; may be replaced.
    """

    def __init__(self, give_up_after: float, stopping: Callable[[], bool] = lambda: False) -> None:
        self.give_up_after, self._stopping = give_up_after, stopping
        self.states = WorkerStates()

    def unreachable(self, error: Unavailable, seconds: float) -> None:
        """Print once that the log is unreachable; raise `error` after the timeout."""
        self.states.sensor.heartbeat()
        if self._stopping():
            raise error
        if seconds >= self.give_up_after:
            waited = f", given up after {seconds:.0f} s" if self.give_up_after else ""
            raise Unavailable(f"{error}{waited}")
        if self.states.state not in {WorkerState.WAITING, WorkerState.STOPPED}:
            emit(Message("log-unreachable", f"waiting: {error}", error=str(error)))
            self.states.enter(WorkerState.WAITING)

    def waiting(self) -> None:
        """Send a heartbeat."""
        self.states.sensor.heartbeat()

    def reachable(self, seconds: float) -> None:
        """Print that the log answers again."""
        if self.states.state is WorkerState.WAITING:
            text = f"the log answers again, after {seconds:.0f} s"
            emit(Message("log-reachable", text, seconds=seconds))
            self.states.resume()
