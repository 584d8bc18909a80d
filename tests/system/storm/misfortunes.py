"""Carries a schedule out: who is struck is found at the moment, since nobody knows it before."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from kafka.errors import KafkaError

from tests.brokers.cluster import Cluster
from tests.system.storm.embedded import NoCluster, NoTransactions
from tests.system.storm.learners import Learners, await_state
from tests.system.storm.schedule import Strike
from tests.system.storm.transactions import OPEN, Transactions

SOON_SECONDS = 15.0  # until somebody serves again
MEET_SECONDS = 30.0
MOMENT_SECONDS = 0.1
ARRIVAL_SECONDS = 0.02
SERVING = ("running", "recovering", "waiting")

Say = Callable[[str], None]


class Misfortunes:
    """What happens to one cluster and the learners on it.

    Attributes:
        freezes: learners frozen for longer than their session.
        broker_kills: nodes killed by SIGKILL, leaders among them.
        leader_kills: of them, leaders that a transaction which was open at that moment needed.
        transactions: state of the model's transaction after its learner was killed -> how often.
    """

    def __init__(
        self,
        cluster: Cluster | NoCluster,
        learners: Learners,
        transactions: Transactions | NoTransactions,
        say: Say,
    ) -> None:
        self._cluster = cluster
        self._learners = learners
        self._transactions = transactions
        self._say = say
        self._moments = random.Random(0)
        self._quiet = threading.RLock()  # one befalls the learners at a time
        self._brokers = ThreadPoolExecutor(1, "brokers")  # learners are struck while brokers are down, too
        self._pending: list[Future] = []
        self.freezes = self.broker_kills = self.leader_kills = 0
        self.transactions: Counter[str] = Counter()

    def strike(self, schedule: list[Strike]) -> None:
        """All of it; returns when every broker is up again."""
        began = time.monotonic()
        for strike in schedule:
            time.sleep(max(0.0, began + strike.at - time.monotonic()))
            if strike.what in {"broker", "leader"}:
                self._pending.append(self._brokers.submit(getattr(self, f"_{strike.what}"), strike))
            else:
                with self._quiet:
                    getattr(self, f"_{strike.what}")(strike)
        for struck in self._pending:
            struck.result()
        self._brokers.shutdown()

    # -- learners -----------------------------------------------------------------------------------------

    def _serving(self, _: Strike) -> None:
        self._kill(self._who(*SERVING))

    def _writing(self, strike: Strike) -> None:
        """Whoever serves, when the broker says that its transaction is open."""
        if not self._in_transaction(lambda seat: self._note(self._learners.kill(seat, state="running"))):
            self._serving(strike)

    def _standby(self, _: Strike) -> None:
        self._kill(self._who("standby"))

    def _both(self, _: Strike) -> None:
        self._kill(*self._learners.seats)

    def _heir(self, strike: Strike) -> None:
        """Whoever serves, and then whoever recovers after it, a moment after that began."""
        self._serving(strike)
        heir = await_state(self._learners, SOON_SECONDS, "recovering", "running")
        time.sleep(strike.seconds)
        self._kill(self._who(*SERVING) if heir is None else heir)

    def _freeze(self, strike: Strike) -> None:
        seat = self._who(*SERVING)
        frozen = self._learners.freeze(seat)
        self.freezes += 1
        self._say(
            f"learner {seat} frozen for {strike.seconds:.1f} s, transaction {self._transactions.state()}"
        )
        time.sleep(strike.seconds)
        self._learners.thaw(frozen)

    def _who(self, *states: str) -> int:
        """Whoever is in one of these states, waited for where nobody is: to kill one that only starts proves little.

        Who was waited for is let be for a moment, or all would be struck in their first one.
        """
        seat = self._learners.in_state(*states)
        if seat is None:
            seat = await_state(self._learners, SOON_SECONDS, *states)
            time.sleep(self._moments.uniform(0.0, 1.0))
        return 0 if seat is None else seat

    def _kill(self, *seats: int) -> None:
        time.sleep(self._moments.uniform(0.0, MOMENT_SECONDS))  # who just answered is in no transaction
        self._note(self._learners.kill(*seats))

    def _note(self, states: list[str]) -> None:
        """What they did, and what the model's transaction was left at, which nobody settles within a session."""
        state = self._transactions.state()
        if set(SERVING).intersection(states):
            self.transactions[state] += 1
        self._say(f"killed {', '.join(states)}; transaction {state}")

    def _in_transaction(self, act: Callable[[int], None]) -> bool:
        """Act on the seat of a learner whose transaction is open; whether one was met.

        It is frozen for the moment of looking and acting; twice, because its last request may be under way.
        """
        deadline = time.monotonic() + MEET_SECONDS
        while self._transactions.are_told and time.monotonic() < deadline:
            seat = self._learners.in_state("running")
            if seat is None:
                time.sleep(0.1)
                continue
            time.sleep(self._moments.uniform(0.0, MOMENT_SECONDS))
            frozen = self._learners.freeze(seat)
            try:
                if self._transactions.state() == OPEN:
                    time.sleep(ARRIVAL_SECONDS)
                    if self._transactions.state() == OPEN:
                        act(seat)
                        return True
            except KafkaError:
                pass  # the cluster does not answer: there is nothing to be met
            finally:
                self._learners.thaw(frozen)
        return False

    # -- brokers ------------------------------------------------------------------------------------------

    def _broker(self, strike: Strike) -> None:
        self._fell(self._cluster.nodes[0].number, strike)

    def _leader(self, strike: Strike) -> None:
        """By turns the coordinator of the transactions and the leader of the journal, in mid-transaction.

        The learner is frozen for a moment, so that a transaction that is open then is open when the leader dies.
        """
        coordinating = self.leader_kills % 2 == 0
        found = []

        def fell_the_leader(_: int) -> None:
            found.append(self._transactions.leader(coordinating=coordinating))
            self._cluster.nodes[found[0] - 1].kill()

        with self._quiet:
            met = self._in_transaction(fell_the_leader)
        if met:
            self.leader_kills += 1
            role = "coordinates the transactions" if coordinating else "leads the journal"
            self._fell(found[0], strike, f", which {role}, with a transaction open")
        else:
            self._say("no transaction was met")

    def _fell(self, number: int, strike: Strike, why: str = "") -> None:
        self._cluster.nodes[number - 1].kill()
        self.broker_kills += 1
        self._say(f"killed broker {number}{why}")
        time.sleep(strike.seconds)
        self._cluster.start()
        self._say(f"broker {number} is up again")
