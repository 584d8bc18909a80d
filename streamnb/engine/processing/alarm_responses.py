"""What an alarm does beside being told: learning pauses, or what a model cannot take back begins anew.

renew   once, when the alarm is raised: see `StreamModel.renew`.
pause   the same, for what learns fast has learned from what raised the alarm; and while it is raised, and no
        longer than is said, labels are heard, and scored, and weigh nothing.

A monitor hears an event once it was learned, with those of the same batch. So what it asks for is done before
the next record whose number is a multiple of `EVERY`, wherever the stream is cut, and the journal says where
in its commit that was. A replay does what the journal says: a model that is learned anew predicts otherwise,
and would raise other alarms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.engine.settings import MonitorSettings
from streamnb.events import ActionReport
from streamnb.formats.journal_record import AppliedAction
from streamnb.values.state_validation import count, state_errors, tally

PAUSE, RENEW = "pause", "renew"
EVERY = 100
"""Records between two looks at what is asked for."""
BEGINNING = 1000
"""Alarms of the first records do nothing more than tell: who has just begun to learn is often wrong."""


class AlarmResponse:
    """What is done, and what is asked for.

    Attributes:
        is_paused: whether labels weigh nothing now.
        is_asked: whether the model is to be renewed at the next look.
        passed_over: labels that weighed nothing for that.
        renewed: how often the model was.
    """

    def __init__(self) -> None:
        self.is_paused = self.is_asked = False
        self.passed_over = self.renewed = 0
        self._since: dict[str, int] = {}  # monitor -> records consumed when its pause began
        self._told: Sequence[AppliedAction] | None = None
        self._acted: list[AppliedAction] = []
        self._began: int | None = None  # the place in this commit from which on it is paused

    @property
    def is_busy(self) -> bool:
        """Whether there is something to look for, also where no monitor asks any more."""
        return self.is_paused or self.is_asked or bool(self._since or self._told)

    @property
    def is_told(self) -> bool:
        """Whether there is something to tell."""
        return any(self.state().values())

    @staticmethod
    def ahead(consumed: int) -> int:
        """How many records there are up to the next look."""
        return EVERY - consumed % EVERY

    def begin(self, told: Sequence[AppliedAction] | None) -> None:
        """A commit begins; in a replay, with what the journal says was done in it."""
        self._told, self._acted, self._began = told, [], None

    def asked_by(self, action: str, consumed: int) -> str:
        """Take down what an alarm asks for, raised once so many records were consumed; what it will do."""
        does = action if consumed > BEGINNING else ""
        self.is_asked |= bool(does)
        return does

    def look(self, place: int, consumed: int, raised: Sequence[MonitorSettings]) -> bool:
        """Before a record, at a place of its commit and of the stream: whether the model is renewed now.

        `raised` are the monitors that ask for a pause.
        """
        is_renewed = False
        if consumed % EVERY == 0:
            self._since = {one.name: self._since.get(one.name, consumed) for one in raised}
            self.is_paused = any(
                (since := self._since[one.name]) > BEGINNING and consumed - since < one.pause_records
                for one in raised
            )
            is_renewed, self.is_asked = self.is_asked, False
        if self._told is not None:
            pauses = [one for one in self._told if one.action == PAUSE]
            self.is_paused = any(one.first <= place < one.stop for one in pauses)
            is_renewed = AppliedAction(RENEW, place, place) in self._told
        if is_renewed:
            self.renewed += 1
            self._acted.append(AppliedAction(RENEW, place, place))
        if self.is_paused and self._began is None:
            self._began = place
        elif not self.is_paused:
            self._end(place)
        return is_renewed

    def acted(self, n: int) -> tuple[AppliedAction, ...]:
        """What was done in the commit, which was one of `n` records."""
        self._end(n)
        return tuple(self._acted)

    def _end(self, place: int) -> None:
        if self._began is not None:
            self._acted.append(AppliedAction(PAUSE, self._began, place))
        self._began = None

    def report(self) -> ActionReport:
        """What was done so far."""
        return ActionReport(self.is_paused, self.passed_over, self.renewed)

    def state(self) -> dict[str, Any]:
        """All of it, as JSON-able values."""
        return {
            "paused": self.is_paused,
            "asked": self.is_asked,
            "passed_over": self.passed_over,
            "renewed": self.renewed,
            "since": self._since,
        }

    @classmethod
    def from_state(cls, meta: Mapping[str, Any]) -> AlarmResponse:
        """The object that `state` described. Raises SnapshotError where it is none."""
        made = cls()
        with state_errors("actions"):
            made.is_paused, made.is_asked = bool(meta["paused"]), bool(meta["asked"])
            made.passed_over, made.renewed = count(meta, "passed_over"), count(meta, "renewed")
            made._since = dict(tally(meta, "since"))
        return made
