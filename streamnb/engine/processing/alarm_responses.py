"""Responses to an alarm: learning pauses, or adaptive members are reset.

renew   once, when the alarm is raised: see `StreamModel.reset_adaptive`.
pause   the same reset, as fast members have learned from the faulty events. While the alarm is raised, up to
        a maximum number of records, labels are scored but not learned.

A monitor observes an event after it was learned with its batch. So a response takes effect before the next
record whose number is a multiple of `EVERY`, however the stream is cut, and the journal records its position
in the commit. A replay follows the journal: a retrained model predicts otherwise and would raise other
alarms.
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
"""Records between two checks for requested responses."""
BEGINNING = 1000
"""Alarms within this many first records only alert: a model that has just begun is often wrong."""


class AlarmResponse:
    """Active and requested responses.

    Attributes:
        is_paused: labels are not learned now.
        is_asked: the model will be reset at the next check.
        passed_over: number of labels not learned because of a pause.
        renewed: number of resets.
    """

    def __init__(self) -> None:
        self.is_paused = self.is_asked = False
        self.passed_over = self.renewed = 0
        self._since: dict[str, int] = {}  # monitor -> records consumed when its pause began
        self._told: Sequence[AppliedAction] | None = None
        self._acted: list[AppliedAction] = []
        self._began: int | None = None  # index in this commit at which the pause began

    @property
    def is_busy(self) -> bool:
        """True if a check is needed even without a requesting monitor."""
        return self.is_paused or self.is_asked or bool(self._since or self._told)

    @property
    def is_told(self) -> bool:
        """True if there is a response to report."""
        return any(self.state().values())

    @staticmethod
    def ahead(consumed: int) -> int:
        """Return the number of records up to the next check."""
        return EVERY - consumed % EVERY

    def begin(self, told: Sequence[AppliedAction] | None) -> None:
        """Begin a commit; in a replay, with its journalled responses."""
        self._told, self._acted, self._began = told, [], None

    def asked_by(self, action: str, consumed: int) -> str:
        """Record the response that an alarm requests after `consumed` records; return it."""
        does = action if consumed > BEGINNING else ""
        self.is_asked |= bool(does)
        return does

    def look(self, place: int, consumed: int, raised: Sequence[MonitorSettings]) -> bool:
        """Check before a record; return if the model must be reset now.

        Args:
            place: index of the record in its commit.
            consumed: number of records before it in the stream.
            raised: monitors that request a pause.
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
        """Return the responses during a commit of `n` records."""
        self._end(n)
        return tuple(self._acted)

    def _end(self, place: int) -> None:
        if self._began is not None:
            self._acted.append(AppliedAction(PAUSE, self._began, place))
        self._began = None

    def report(self) -> ActionReport:
        """Return the responses so far."""
        return ActionReport(self.is_paused, self.passed_over, self.renewed)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "paused": self.is_paused,
            "asked": self.is_asked,
            "passed_over": self.passed_over,
            "renewed": self.renewed,
            "since": self._since,
        }

    @classmethod
    def from_state(cls, meta: Mapping[str, Any]) -> AlarmResponse:
        """Restore from a `state`; raise SnapshotError if it is invalid."""
        made = cls()
        with state_errors("actions"):
            made.is_paused, made.is_asked = bool(meta["paused"]), bool(meta["asked"])
            made.passed_over, made.renewed = count(meta, "passed_over"), count(meta, "renewed")
            made._since = dict(tally(meta, "since"))
        return made
