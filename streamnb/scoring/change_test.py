"""Sequential tests for a rate that has changed at an unknown time, valid wherever they are stopped.

A test observes a sequence of binary events, with x_i = 1 for an occurrence. Without a change P(x_i = 1 |
past) <= q_i, what is *tolerated*; after the change it is at least r_i > q_i, what is *alarming*. With the
likelihood ratio of both,

    L_i = r_i / q_i  where x_i = 1,    (1 - r_i) / (1 - q_i)  where x_i = 0,

and a prior w_j that the change begins with observation j, the Bayes factor of "it has changed, or will"
against "it never will" after t observations is

    M_t = A_t + sum of w_j over j > t,    A_t = (A_{t-1} + w_t) L_t,    A_0 = 0.

Each update has constant cost. Without a change E[L_i | past] <= 1, so that M is a nonnegative supermartingale
that begins with 1. By Ville's inequality

    P(ever M_t >= 1/alpha) <= alpha,

at any stopping time. A test for a fixed n that is evaluated repeatedly raises a false alarm sooner or later
with certainty (Robbins 1970).

The prior gives the block 2^b <= j < 2^(b+1) the probability 1 / ((b+1)(b+2)), and divides it evenly: a change
at j has to overcome about ln j + 2 ln log2(4j) nats, in place of the 2 ln j of w_j = 1/(j(j+1)), and what is
left of the prior is known without a sum (Rissanen 1983). Everything is made of +, -, *, / of doubles: it is
the same to the last bit on every machine, and however a stream is cut.

Once an alarm is raised the same test is made with both rates exchanged, and by it the alarm ends. Episode k
spends alpha / (k (k + 1)): the chance that *any* alarm of a test is false is at most alpha, for ever, and so
is the chance that any of them is ended while the rate is as alarming as before.

How long an alarm takes: with b = ln(1 / (alpha w_{n+1})) and any 0 < s < 1, the alarm has not come N
observations after a change behind observation n with a probability of at most

    P(sum of ln L_i < b) <= exp(s b) C(s)^N,    C(s) = r (q/r)^s + (1 - r) ((1 - q)/(1 - r))^s < 1

(Chernoff 1952), also where the rate is higher than r, for L grows with x.

References: Ville (1939), Etude critique de la notion de collectif; Wald (1945), Annals of Mathematical
Statistics 16(2); Shiryaev (1963), Theory of Probability and its Applications 8(1); Robbins (1970), Annals of
Mathematical Statistics 41(5); Rissanen (1983), Annals of Statistics 11(2); Ramdas et al. (2023),
"Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38(4).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats
from streamnb.kernels.jit import kernel
from streamnb.values.state_validation import count
from streamnb.values.type_aliases import Flags

HEARD, EVIDENCE, GREATEST, SINCE, OBSERVATIONS, HITS, TOLERATED = range(7)
"""Columns of a test's state: t; A_t; the greatest term of A_t, for the most probable beginning j of a change;
the number of observation j; and from there on the number of observations, of x = 1, and the sum of q."""

KEPT = TOLERATED + 1

_EXPONENTS = np.linspace(0.02, 0.98, 49)


class ChangeObservations(NamedTuple):
    """n observations of one test: rising `places` among all events, x, and the rates 0 < q < r < 1."""

    places: np.ndarray[Any, np.dtype[np.int64]]
    x: Flags
    tolerated: Floats
    alarming: Floats


class ChangeDecision(NamedTuple):
    """An alarm that was raised or ended.

    Attributes:
        place: of the deciding observation.
        is_raised: whether it was raised.
        since: number of the most probable first observation of the change.
        observations: number of observations from there on.
        rate: share of x = 1 among these.
        tolerated: their mean tolerated rate.
        bayes_factor: of changed against unchanged.
        false_alarm: bound on the probability that it is false.
    """

    place: int
    is_raised: bool
    since: int
    observations: int
    rate: float
    tolerated: float
    bayes_factor: float
    false_alarm: float


@kernel
def advance(
    kept: Any, x: Any, tolerated: Any, alarming: Any, numbers: Any, is_back: Any, bound: float
) -> int:
    """Process observations until M reaches `bound`; return its place or -1. `is_back` exchanges the rates."""
    t, a, greatest = kept[HEARD], kept[EVIDENCE], kept[GREATEST]
    size, b = 1.0, 0.0
    while 2.0 * size <= t + 1.0:
        size, b = 2.0 * size, b + 1.0
    found = -1
    for i in range(x.size):
        t += 1.0
        if t >= 2.0 * size:
            size, b = 2.0 * size, b + 1.0
        prior = 1.0 / ((b + 1.0) * (b + 2.0) * size)
        if greatest <= prior:
            greatest = prior
            kept[SINCE], kept[OBSERVATIONS], kept[HITS], kept[TOLERATED] = numbers[i], 0.0, 0.0, 0.0
        q, r = tolerated[i], alarming[i]
        ratio = r / q if x[i] else (1.0 - r) / (1.0 - q)
        if is_back:
            ratio = 1.0 / ratio
        a, greatest = (a + prior) * ratio, greatest * ratio
        kept[OBSERVATIONS] += 1.0
        kept[HITS] += 1.0 if x[i] else 0.0
        kept[TOLERATED] += q
        if a + _beyond(t, size, b, prior) >= bound:
            found = i
            break
    kept[HEARD], kept[EVIDENCE], kept[GREATEST] = t, a, greatest
    return found


@kernel
def _beyond(t: float, size: float, b: float, prior: float) -> float:
    return (2.0 * size - 1.0 - t) * prior + 1.0 / (b + 2.0)


class ChangeTest:
    """A test that raises an alarm and ends it, repeatedly.

    Args:
        false_alarm: alpha, the probability that any of its alarms is false.

    Attributes:
        is_raised: whether an alarm is raised.
        episode: number of the current or next alarm, from 1.
        kept: float64[KEPT], see `HEARD`.
    """

    def __init__(self, false_alarm: float) -> None:
        self._alpha = false_alarm
        self.is_raised, self.episode, self.kept = False, 1, np.zeros(KEPT)

    @property
    def false_alarm(self) -> float:
        """Probability of a false alarm spent by this episode."""
        return share(self._alpha, self.episode)

    @property
    def bayes_factor(self) -> float:
        """M_t, of a change against none; during an alarm, of the way back."""
        t = self.kept[HEARD]
        size, b, prior = _block(t) if t else (1.0, 0.0, 0.5)
        return float(self.kept[EVIDENCE] + _beyond(t, size, b, prior))

    def observe(self, seen: ChangeObservations, numbers: Floats) -> Iterator[ChangeDecision]:
        """Process observations, with the caller's numbers for them; yield the decisions."""
        first = 0
        while first < seen.x.size:
            x, q, r, told = (each[first:] for each in (seen.x, seen.tolerated, seen.alarming, numbers))
            found = advance(self.kept, x, q, r, told, self.is_raised, 1.0 / self.false_alarm)
            if found < 0:
                return
            yield self._decide(int(seen.places[first + found]))
            first += found + 1

    def _decide(self, place: int) -> ChangeDecision:
        n = float(self.kept[OBSERVATIONS])
        found = ChangeDecision(
            place=place,
            is_raised=not self.is_raised,
            since=int(self.kept[SINCE]),
            observations=int(n),
            rate=float(self.kept[HITS]) / n,
            tolerated=float(self.kept[TOLERATED]) / n,
            bayes_factor=self.bayes_factor,
            false_alarm=self.false_alarm,
        )
        self.episode += self.is_raised
        self.is_raised = not self.is_raised
        self.kept[:] = 0.0
        return found

    def state(self) -> dict[str, Any]:
        """Return everything but `kept` as JSON-able values."""
        return {"raised": int(self.is_raised), "episode": self.episode}

    def load(self, state: Mapping[str, Any], kept: Floats) -> None:
        """Continue from a `state` and its `kept`. Raises SnapshotError if they are invalid."""
        heard, evidence, greatest, since, observations, hits, tolerated = kept.tolist()
        is_whole = all(n.is_integer() for n in (heard, since, observations, hits))
        is_right = 0.0 <= hits <= observations <= heard and 0.0 <= tolerated <= observations
        if not (is_whole and is_right and since >= 0.0 and 0.0 <= greatest <= evidence):
            raise SnapshotError(f"a test of a change cannot have heard {kept.tolist()}")
        self.is_raised, self.episode = bool(count(state, "raised")), count(state, "episode")
        self.kept = kept.copy()
        if not self.episode:
            raise SnapshotError("a test of a change has no episode 0")


def share(alpha: float, episode: int) -> float:
    """Return the share of alpha that an episode spends; the shares of all episodes sum to alpha."""
    return alpha / (episode * (episode + 1.0))


def needed(
    tolerated: float,
    alarming: float,
    false_alarm: float,
    miss: float,
    before: int = 0,
    exponents: Sequence[float] | Floats = _EXPONENTS,
) -> int:
    """Return the number of observations after a change until the alarm, except with probability `miss`.

    Args:
        tolerated: q.
        alarming: r.
        false_alarm: alpha of the test.
        miss: the probability that it takes longer.
        before: number of observations before the change.
        exponents: the s to try.
    """
    prior = _block(before + 1.0)[2]
    b = math.log(1.0 / (share(false_alarm, 1) * prior))
    s = np.asarray(exponents)
    rates = (alarming, tolerated), (1.0 - alarming, 1.0 - tolerated)
    c = sum(r * (q / r) ** s for r, q in rates)
    return math.ceil(np.min((s * b + math.log(1.0 / miss)) / -np.log(c)))


def _block(t: float) -> tuple[float, float, float]:
    """Return 2^b, b and w_t, for 2^b <= t < 2^(b+1)."""
    b = math.frexp(t)[1] - 1
    size = math.ldexp(1.0, b)
    return size, float(b), 1.0 / ((b + 1.0) * (b + 2.0) * size)
