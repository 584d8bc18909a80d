"""Monitors: they raise an alarm if an error rate, a class rate, calibration or a silence is out of bounds.

A monitor of a rate runs one change test for each direction (`streamnb.scoring.change_test`). Two tests share
its probability of a false alarm. It observes events one by one, in stream order, so its results do not depend
on how the stream is cut into batches.

A monitor of silence compares the times of commits, which are journalled. It raises its alarm in a commit only
if the learner has checked that no records wait (`asked`), and the journal records that check. So a learner
that was down does not report the records that it has not read yet as a silence.

A monitor of new classes reports each new class once, and has no alarm that ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from streamnb.engine.settings import MonitorSettings
from streamnb.events import MonitorReport
from streamnb.kernels.array_types import Floats
from streamnb.scoring.change_test import KEPT, ChangeObservations, ChangeTest, needed
from streamnb.values.state_validation import LARGE, checked, real, state_errors
from streamnb.values.type_aliases import Array

SILENCES = ("no-events", "no-labels")
NEW_CLASS = "new-class"
TELL = "tell"
_OMITTED = ("action", TELL), ("pause_records", 10_000)  # from a state, as they have no effect
_TESTS = "tests"
_DIGITS = 12  # of a mean in an alert: sums round in the last digits
_CERTAIN = 0.999  # beyond this nothing is more frequent than tolerated

Places = np.ndarray[Any, np.dtype[np.int64]]
Truths = np.ndarray[Any, np.dtype[np.bool_]]
Found = tuple[int, dict[str, Any]]
"""Index of the event, and the fields of an `Alert` that a monitor knows."""


class MonitoredBatch:
    """Outcomes of n events, in order.

    Args:
        served: predictions made now, None by an empty model; empty for earlier predictions.
        labels: resolved labels, or None.
        right: int8[n], if the prediction was correct; -1 if unknown.
        confidence: float64[n], probability of the predicted label.
        numbers: records consumed at each event.
    """

    def __init__(
        self,
        served: Sequence[str | None],
        labels: Sequence[str | None],
        right: np.ndarray[Any, np.dtype[np.int8]],
        confidence: Floats,
        numbers: Sequence[int],
    ) -> None:
        self.served, self.labels, self.right, self.confidence = served, labels, right, confidence
        self.numbers = np.array(numbers, dtype=np.float64)

    @cached_property
    def judged(self) -> tuple[Places, Truths]:
        """Indexes of predicted and labelled events, and the mask of errors."""
        places = np.flatnonzero(self.right >= 0)
        return places, self.right[places] == 0

    def of_class(self, settings: MonitorSettings) -> tuple[Places, Truths]:
        """Return the indexes of events with a prediction or label, and the mask of a class."""
        named = self.labels if settings.of == "labels" else self.served
        found = np.array([-1 if one is None else one == settings.label for one in named], dtype=np.int8)
        places = np.flatnonzero(found >= 0)
        return places, found[places] == 1


def _directions_of(settings: MonitorSettings, direction: str, x: Truths, said: Floats) -> ChangeObservations:
    """Return the observations of the test of a direction, given n outcomes `x`.

    For calibration an outcome is an error, and `said` its predicted probability. Outcomes whose rate cannot
    exceed the tolerance are left out.
    """
    tolerated, alarming = settings.tolerated, settings.alarming
    if direction in {"below", "underconfident"}:
        x, said = ~x, 1.0 - said
        tolerated, alarming = (tuple(1.0 - rate for rate in rates[:1]) for rates in (tolerated, alarming))
    if settings.kind != "calibration":
        rates = (np.full(x.size, rates[-1]) for rates in (tolerated, alarming))
        return ChangeObservations(np.arange(x.size), x, *rates)
    least = said + settings.tolerated[0]
    places = np.flatnonzero(least < _CERTAIN)
    most = np.minimum(said + settings.alarming[0], 0.5 + 0.5 * least)
    return ChangeObservations(places, x[places], least[places], most[places])


def directions(settings: MonitorSettings) -> tuple[str, ...]:
    """Return the directions that a monitor of a rate tests; none for another kind."""
    if settings.kind in {*SILENCES, NEW_CLASS}:
        return ()
    if settings.kind == "calibration":
        return ("overconfident", "underconfident")
    return ("above",) if len(settings.tolerated) == 1 else ("below", "above")


def delays(settings: MonitorSettings, before: int) -> dict[str, int]:
    """Return for each direction the maximum observations before the first alarm; see `change_test.needed`.

    For calibration this assumes that the confidence leaves space for the alarming error: sqrt(1 - d^2) bounds
    C(1/2) of any two rates at distance d, with its maximum around 1/2.
    """
    told = directions(settings)
    if not told:
        return {}
    alpha, miss = settings.false_alarm / len(told), settings.miss
    tolerated, alarming = settings.tolerated, settings.alarming
    if settings.kind == "calibration":
        d = alarming[0] - tolerated[0]
        n = needed(0.5 - d / 2.0, 0.5 + d / 2.0, alpha, miss, before, exponents=(0.5,))
        return dict.fromkeys(told, n)
    rates = {"below": (1.0 - tolerated[0], 1.0 - alarming[0]), "above": (tolerated[-1], alarming[-1])}
    return {name: needed(*rates[name], alpha, miss, before) for name in told}


class _Monitor:
    """Tests of a rate, one for each direction; a monitor of new classes has none."""

    is_raised = False  # without tests

    def __init__(self, settings: MonitorSettings) -> None:
        self.settings = settings
        names = directions(settings)
        self.tests = {name: ChangeTest(settings.false_alarm / len(names)) for name in names}

    def observe(self, seen: MonitoredBatch) -> Iterator[Found]:
        """Yield the findings of some events; a monitor without tests finds nothing."""
        if not self.tests:
            return
        settings = self.settings
        places, x = seen.of_class(settings) if settings.kind == "class-rate" else seen.judged
        numbers, said = seen.numbers[places], 1.0 - seen.confidence[places]
        for direction, test in self.tests.items():
            heard = _directions_of(settings, direction, x, said)
            for found in test.observe(heard, numbers[heard.places]):
                more = found._asdict()
                more["tolerated"] = round(found.tolerated, _DIGITS)
                state = "raised" if more.pop("is_raised") else "cleared"
                place = int(places[more.pop("place")])
                yield place, _named(settings, state) | {"direction": direction} | more

    def report(self) -> MonitorReport:
        """Return the status, in the direction with the stronger evidence."""
        if not self.tests:
            return MonitorReport(self.settings.name, self.settings.kind, self.is_raised)
        test = max(self.tests.values(), key=lambda one: (one.is_raised, one.bayes_factor))
        return MonitorReport(self.settings.name, self.settings.kind, test.is_raised, test.bayes_factor)

    def state(self) -> dict[str, Any]:
        return {"tests": [test.state() for test in self.tests.values()]} if self.tests else {}

    def load(self, state: Mapping[str, Any], kept: Iterator[Floats]) -> None:
        for test, one in zip(self.tests.values(), state["tests"] if self.tests else (), strict=True):
            test.load(one, next(kept))


class _SilenceMonitor(_Monitor):
    """Time since the last event or label; `_since` is None before the first check."""

    _since: float | None = None

    def is_due(self, now: float) -> bool:
        """Return if the silence is long enough to check, or the clock was put back."""
        if self.is_raised or self._since is None:
            return not self.is_raised
        return not 0.0 <= now - self._since < self.settings.after

    def passed(self, now: float, asked: float, *, is_heard: bool) -> Iterator[dict[str, Any]]:
        """Yield the finding of a commit; see `Monitors.passed`."""
        seconds = 0.0 if self._since is None else now - self._since
        if is_heard:
            self._since = now
            if self.is_raised:
                self.is_raised = False
                yield _named(self.settings, "cleared") | {"seconds": max(0.0, seconds)}
        elif self.is_due(now) and self.settings.after <= asked:
            if seconds >= self.settings.after:
                self.is_raised = True
                yield _named(self.settings, "raised") | {"seconds": seconds}
            else:  # first check, or the clock was set back
                self._since = now

    def state(self) -> dict[str, Any]:
        return {"raised": self.is_raised, "since": self._since}

    def load(self, state: Mapping[str, Any], _: Iterator[Floats]) -> None:
        found = state["raised"], state["since"]
        self.is_raised, self._since = msgspec.convert(found, tuple[bool, float | None])


class Monitors:
    """Set of monitors.

    Args:
        settings: of each; names are unique.
    """

    def __init__(self, settings: Sequence[MonitorSettings] = ()) -> None:
        self._monitors = [(_SilenceMonitor if one.kind in SILENCES else _Monitor)(one) for one in settings]
        self._silences = [one for one in self._monitors if isinstance(one, _SilenceMonitor)]

    def __len__(self) -> int:
        return len(self._monitors)

    def observe(self, seen: MonitoredBatch) -> list[Found]:
        """Return the findings of events, in their order."""
        found = [one for monitor in self._monitors for one in monitor.observe(seen)]
        return sorted(found, key=lambda one: one[0])  # the sort is stable

    @property
    def tell_classes(self) -> bool:
        """True if a monitor reports new classes."""
        return any(one.settings.kind == NEW_CLASS for one in self._monitors)

    def discovered(self, label: str) -> Iterator[dict[str, Any]]:
        """Yield the findings of a new class."""
        for one in self._monitors:
            if one.settings.kind == NEW_CLASS:
                yield _named(one.settings, "discovered") | {"label": label}

    def overdue(self, now: float) -> list[float]:
        """Return the silences, in seconds, of the monitors that are due for a check."""
        return [one.settings.after for one in self._silences if one.is_due(now)]

    def passed(self, now: float, asked: float, *, events: bool, labels: bool) -> Iterator[dict[str, Any]]:
        """Yield the findings of a commit; silences of up to `asked` seconds may raise an alarm."""
        for one in self._silences:
            yield from one.passed(now, asked, is_heard=events if one.settings.kind == "no-events" else labels)

    @property
    def act(self) -> bool:
        """True if an alarm has a response, not only an alert."""
        return any(one.settings.action != TELL for one in self._monitors)

    def raised(self, action: str) -> list[MonitorSettings]:
        """Return the raised monitors whose response is `action`."""
        raised = (one.settings for one in self._monitors if one.report().raised)
        return [settings for settings in raised if settings.action == action]

    def reports(self) -> tuple[MonitorReport, ...]:
        """Return the status of each monitor."""
        return tuple(one.report() for one in self._monitors)

    def choose(self, settings: Sequence[MonitorSettings]) -> None:
        """Replace the monitors; those with unchanged settings keep their state."""
        before = {one.settings: one for one in self._monitors}
        chosen = Monitors(settings)
        self._monitors = [before.get(one.settings, one) for one in chosen._monitors]
        self._silences = [one for one in self._monitors if isinstance(one, _SilenceMonitor)]

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as JSON values and arrays; equal streams give equal bytes."""
        states = [{"settings": _described(one.settings), **one.state()} for one in self._monitors]
        kept = [test.kept for one in self._monitors for test in one.tests.values()]
        return {"monitors": states}, {_TESTS: np.stack(kept) if kept else np.zeros((0, KEPT))}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Monitors:
        """Restore from a `state`; raise SnapshotError if it is invalid."""
        with state_errors("monitors", ValueError, msgspec.ValidationError):
            states = meta["monitors"]
            made = cls([msgspec.convert(one["settings"], MonitorSettings) for one in states])
            n = sum(len(one.tests) for one in made._monitors)
            kept = iter(checked(arrays, {_TESTS: real("n", KEPT, low=0.0, high=LARGE)}, n=n)[_TESTS])
            for one, state in zip(made._monitors, states, strict=True):
                one.load(state, kept)
        return made


def _described(settings: MonitorSettings) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings))
    return {name: value for name, value in found.items() if (name, value) not in _OMITTED}


def _named(settings: MonitorSettings, state: str) -> dict[str, Any]:
    acts = settings.action != TELL and state != "cleared"
    named = {"monitor": settings.name, "kind": settings.kind, "state": state}
    return named | ({"action": settings.action} if acts else {})
