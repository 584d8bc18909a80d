"""What befalls a storm's learners and brokers, and when: drawn from the seed, so that it can be had again."""

from __future__ import annotations

import random
from typing import NamedTuple

KILLS = {"serving": 1, "writing": 1, "standby": 1, "both": 2, "heir": 2}
"""What is killed by SIGKILL -> how many learners that takes.

Who serves is killed at any moment, or while it is writing: with a transaction open. An heir is killed while it
recovers, just after the one before it.
"""


class Strike(NamedTuple):
    """One misfortune.

    Attributes:
        at: seconds after the stream began; uniform, so that any step of a learner may be met.
        what: a key of `KILLS`; or "freeze", by SIGSTOP; "broker", by SIGKILL; "leader", of a partition that
            the learner's open transaction needs.
        seconds: how long it stays frozen, or down.
    """

    at: float
    what: str
    seconds: float


def schedule(
    seed: int,
    duration: float,
    *,
    kills: int,
    freezes: int,
    broker_kills: int,
    leader_kills: int,
    session: float,
) -> list[Strike]:
    """At least so many of each. Who is frozen stays so for longer than its session."""
    rng = random.Random(seed)
    whats = []
    while sum(KILLS[what] for what in whats) < kills:
        whats.append(rng.choices(list(KILLS), [5, 3, 1, 2, 2])[0])
    whats += ["freeze"] * freezes + ["broker"] * broker_kills + ["leader"] * leader_kills
    lasts = {"freeze": (session + 1.0, session + 3.0), "broker": (0.0, 3.0), "leader": (0.0, 3.0)}
    return sorted(
        Strike(rng.uniform(0.05, 0.95) * duration, what, rng.uniform(*lasts.get(what, (0.0, 0.5))))
        for what in whats
    )
