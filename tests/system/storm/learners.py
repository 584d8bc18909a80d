"""Learners that compete for one model, as processes, and the supervisor that starts whoever ends again."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tests.support.program import Command, Program

TURN_SECONDS = 0.05
SOON_SECONDS = 0.5  # the longest that a learner that is well takes to say how it is
STOP_SECONDS = 90.0
RECOVERED = re.compile(r"\brecovered [\d,]+ records?", re.MULTILINE)
NO_FAULTS = re.compile(
    r"lost the election|has taken over|does not end before commit|the election is not over"
)
"""How a learner may end by itself: it was deposed, or could not know that it was not."""


class Learners:
    """So many `streamnb run` on one configuration, each in a seat that is never left empty for long.

    Attributes:
        killed: what a learner did when it was killed -> how often.
        ended: the last words of those that ended by themselves -> how often.
        faults: what no learner should have done.
        recoveries: learners that came to know what had been learned, and went on.
    """

    def __init__(self, program: Program, number: int = 2) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.killed: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.faults: list[str] = []
        self.recoveries = 0
        self._seats = [program.start("run") for _ in range(number)]
        self._killed_now: set[int] = set()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self._supervisor.start()

    @property
    def seats(self) -> range:
        return range(len(self._seats))

    def state(self, seat: int) -> str:
        """As the learner says itself; "silent" where it says nothing, as before it listens."""
        found = re.search(r"http://[\d.:]+", self._seats[seat].said())
        if found is None:
            return "silent"
        try:
            with urlopen(f"{found[0]}/ready", timeout=SOON_SECONDS) as page:  # noqa: S310  it is the learner's
                said = page.read()
        except HTTPError as error:
            with error:
                said = error.read()
        except (URLError, OSError):
            return "silent"
        return json.loads(said)["state"]

    def in_state(self, *wanted: str) -> int | None:
        """The seat of one that is in the first of these states that any is in."""
        states = {seat: self.state(seat) for seat in self.seats}
        found = [seat for state in wanted for seat in self.seats if states[seat] == state]
        return found[0] if found else None

    def kill(self, *seats: int, state: str = "") -> list[str]:
        """By SIGKILL, as near to one moment as can be; what they did, which is asked where it is not known.

        The supervisor starts them again.
        """
        with self._lock:
            victims = {seat: self._seats[seat] for seat in seats if self._seats[seat].is_going()}
            states = [state or self.state(seat) for seat in victims]
            self._killed_now |= {victim.process.pid for victim in victims.values()}
            for victim in victims.values():
                victim.process.send_signal(signal.SIGKILL)
            for victim in victims.values():
                victim.process.wait()
            self.killed.update(states)
        return states

    def freeze(self, seat: int) -> Command:
        """By SIGSTOP; `thaw` what it returns."""
        learner = self._seats[seat]
        learner.process.send_signal(signal.SIGSTOP)
        return learner

    @staticmethod
    def thaw(learner: Command) -> None:
        if learner.is_going():
            learner.process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """Start nobody again."""
        self._stopping.set()
        self._supervisor.join()

    def stop(self) -> None:
        """Let them end; each has to end well."""
        self.leave()
        for learner in self._seats:
            learner.process.send_signal(signal.SIGTERM)
        for learner in self._seats:
            try:
                learner.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.faults.append("a learner did not stop")
            self._take_note(learner)

    def _supervise(self) -> None:
        while not self._stopping.wait(TURN_SECONDS):
            with self._lock:
                for seat, learner in enumerate(self._seats):
                    if not learner.is_going():
                        self._take_note(learner)
                        self._seats[seat] = self._program.start("run")

    def _take_note(self, learner: Command) -> None:
        said = learner.said()
        self.recoveries += RECOVERED.search(said) is not None
        code = learner.process.returncode
        if code == -signal.SIGKILL and learner.process.pid in self._killed_now:
            return
        if code == -signal.SIGTERM and self._stopping.is_set():
            return  # it had not begun to listen to that
        words = (said.splitlines() or [""])[-1]
        if code:
            self.ended[re.sub(r"\d+", "N", words)] += 1
        if "Traceback" in said or (code and not NO_FAULTS.search(words)):
            self.faults.append(f"a learner ended with {code}: {said[-2000:]}")


def await_state(learners: Learners, seconds: float, *wanted: str) -> int | None:
    """The seat of the first to be in one of these states; None where nobody is in time."""
    deadline = time.monotonic() + seconds
    while (seat := learners.in_state(*wanted)) is None and time.monotonic() < deadline:
        time.sleep(TURN_SECONDS / 5)
    return seat
