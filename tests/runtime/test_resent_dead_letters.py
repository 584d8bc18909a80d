"""Which dead letters were sent: none twice, and those that wait are offered again, however both are mixed."""

from __future__ import annotations

import random

import pytest

from streamnb.engine.ports import Forwarded
from streamnb.errors import LogError
from streamnb.runtime import resent_dead_letters
from streamnb.runtime.resent_dead_letters import ResentDeadLetters

SEND, WAIT, NEVER = range(3)


def walk(at, offsets, fate_of, end=None):
    """One walk: the letters that it sent, those that it let wait, and what is kept then."""
    letters, sent, waiting = ResentDeadLetters(at), [], []
    seen = [offset for offset in offsets if offset >= letters.start and (end is None or offset < end)]
    for offset in seen:
        if letters.has(offset):
            letters.send()
        elif fate_of(offset) == SEND:
            letters.send()
            sent.append(offset)
        elif fate_of(offset) == WAIT:
            letters.wait(offset)
            waiting.append(offset)
    return sent, waiting, *letters.at(seen[-1] + 1 if seen else letters.start)


@pytest.mark.parametrize("seed", range(300))
def test_a_letter_is_sent_once_and_offered_until_then(seed):
    """Over several walks, of which each decides otherwise, and may end early; letters leave gaps."""
    rng = random.Random(seed)
    offsets = [offset for offset in range(30) if rng.random() < 0.7]
    never = {offset for offset in offsets if rng.random() < 0.2}
    at, sent = None, set()
    for _ in range(5):
        share, end = rng.random(), rng.choice([40, rng.randrange(31)])
        sends = {offset for offset in offsets if rng.random() < share}
        fates = {o: NEVER if o in never else SEND if o in sends else WAIT for o in offsets}
        now, waiting, at, given_up = walk(at, offsets, fates.get, end)
        open_letters = {o for o in offsets if o not in sent | never and o < end}
        assert set(now) == open_letters & sends
        assert set(waiting) == open_letters - sends
        assert given_up == 0
        sent |= set(now)
        kept = ResentDeadLetters(at)
        assert all(map(kept.has, sent))
        assert not any(map(kept.has, waiting))


def test_what_waits_among_very_many_takes_little_room():
    """A million letters that cannot be read before one that can, and the other way round."""
    for wait in (lambda o: o != 999_999, lambda o: o == 0, lambda o: o % 2 == 0):
        _, waiting, at, given_up = walk(
            None, range(1_000_000), lambda o, wait=wait: WAIT if wait(o) else SEND
        )
        assert (len(at.note) < 4096, given_up) == (True, 0)
        again, still, *_ = walk(at, range(at.offset, 1_000_000), lambda _: SEND)
        assert (again, still) == (waiting, [])


def test_where_the_note_is_full_the_oldest_are_given_up_and_none_is_sent_twice(monkeypatch):
    monkeypatch.setattr(resent_dead_letters, "_MOST_NOTE", 100)
    fates = random.Random(7).choices([SEND, WAIT], k=2000)
    sent, waiting, at, given_up = walk(None, range(2000), fates.__getitem__)
    assert len(at.note) <= 100
    assert 0 < given_up < len(waiting)
    again, *_ = walk(at, range(2000), lambda _: SEND)
    assert again == waiting[given_up:]
    assert not set(again) & set(sent)


@pytest.mark.parametrize("note", ["x", "{}", "caf\u00e9", "c$@<e3IG8;"])
def test_a_note_of_somebody_else_is_refused(note):
    with pytest.raises(LogError, match="something other than `streamnb dlq replay` has written it"):
        ResentDeadLetters(Forwarded(3, note))
