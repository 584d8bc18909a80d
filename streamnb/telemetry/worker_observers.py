"""Observers of a worker (terminal, watchdog, Prometheus, probes), and waiting for an unreachable log."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from streamnb.config import Config
from streamnb.engine.ports import OutageListener
from streamnb.engine.sensor import Committed, Sensor, Sensors, WorkerState
from streamnb.errors import AddressTaken, Unavailable
from streamnb.events import MetricsReport
from streamnb.formats.terminal_text import counted, printable
from streamnb.telemetry.watchdog import Watchdog
from streamnb.values.parameter_checks import pluralize

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
        yield Sensors(*watchdogs, Ticker(), *more, *_served(config, stack, is_brief=is_brief))


def _served(config: Config, stack: ExitStack, *, is_brief: bool) -> Sequence[Sensor]:
    if config.http.address is None:
        return ()
    from streamnb.telemetry.http_endpoints import Endpoints, Health  # noqa: PLC0415  only `run` needs it
    from streamnb.telemetry.prometheus_sensor import PrometheusSensor  # noqa: PLC0415

    health, metrics = Health(), PrometheusSensor()
    try:
        endpoints = Endpoints(config.http.address, health, metrics.web_app())
    except AddressTaken as error:
        if not is_brief:
            raise
        print(f"streamnb: {error}; continuing without metrics and health", file=sys.stderr)
        return ()
    endpoints.start()
    stack.callback(endpoints.close)
    print(f"metrics and health at http://{endpoints.shown}/metrics, /live and /ready", file=sys.stderr)
    return health, metrics


class Ticker(Sensor):
    """Progress line on standard error, once a second."""

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
            print(f"recovered {pluralize(events, 'record')} in {seconds:.1f} s", file=sys.stderr)

    def reported(self, report: MetricsReport) -> None:
        """Keep the scores for the line of this commit, and of those after it."""
        self._report = report

    def followed(self, behind: int) -> None:
        """Keep how far behind the learner a scorer's model is."""
        self._behind = behind

    def unsaved(self, reason: str) -> None:
        """Print that no snapshot was kept."""
        print(f"no snapshot was kept: {printable(reason)}", file=sys.stderr)

    def noted(self, text: str) -> None:
        """Print the text."""
        print(printable(text), file=sys.stderr)

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
        if now - self._printed_at < _TICK_SECONDS or (self._report is None and self._behind is None):
            return
        seconds, self._printed_at = now - self._printed_at, now
        print(self._line(commit.n, seconds), file=sys.stderr)
        self._consumed = self._predicted = 0

    def _line(self, n: int, seconds: float) -> str:
        if self._report is None:
            rate = f"{self._predicted / seconds:,.0f} predictions/s"
            return f"{rate} by journal record {n}, {self._behind:,} behind the learner"
        window = self._report.window
        accuracy = f"accuracy {window.accuracy:.4f}"
        scores = f"{accuracy}  log loss {window.log_loss:.4f} of the last {window.events:,}"
        if not window.events:
            apart = self._report.verdicts
            waiting = apart and f"{pluralize(apart.pending, 'event')} without a label so far"
            scores = waiting or "no label scored yet"
        return (
            f"{counted(self._report, self._total)} ({self._consumed / seconds:,.0f}/s)  {scores}  "
            f"dead letters {self._report.dead_letters}  journal {n}"
        )

    def _print_alerts(self) -> None:
        for (monitor, kind, state), count in self._alerts.items():
            times = f", {pluralize(count, 'time')}" if count > 1 else ""
            print(f"monitor {printable(monitor)} ({kind}): {state}{times}", file=sys.stderr)
        self._alerts.clear()


class OutageReporter(OutageListener, Sensor):
    """Waits for an unreachable log, and prints it; gives up after a time, or on a stop request.

    It observes the worker's states, to restore the state before the wait. With `give_up_after` of 0 seconds
    it gives up at once.
    """

    def __init__(self, give_up_after: float, stopping: Callable[[], bool] = lambda: False) -> None:
        self._give_up_after, self._stopping = give_up_after, stopping
        self._state = WorkerState.STARTING
        self._waits = False
        self.sensor = Sensor()
        """Sensor that is informed of the wait; may be replaced."""

    def entered(self, state: WorkerState) -> None:
        """Note what the worker is doing."""
        if state is not WorkerState.WAITING:
            self._state = state

    def unreachable(self, error: Unavailable, seconds: float) -> None:
        """Print once that the log is unreachable; raise `error` after the timeout."""
        self.sensor.heartbeat()
        if self._stopping():
            raise error
        if seconds >= self._give_up_after:
            waited = f", given up after {seconds:.0f} s" if self._give_up_after else ""
            raise Unavailable(f"{error}{waited}")
        if not self._waits:
            self._waits = True
            print(f"waiting: {printable(error)}", file=sys.stderr)
            self.sensor.entered(WorkerState.WAITING)

    def waiting(self) -> None:
        """Pass it on."""
        self.sensor.heartbeat()

    def reachable(self, seconds: float) -> None:
        """Print that the log answers again."""
        if self._waits:
            self._waits = False
            print(f"the log answers again, after {seconds:.0f} s", file=sys.stderr)
            self.sensor.entered(self._state)
