"""`make fuzz` for some seconds, and what it found once."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from streamnb.errors import StreamnbError
from tests.system.hostile import fuzz

pytestmark = pytest.mark.thorough


def test_no_bytes_stop_a_reader_or_a_learner():
    assert fuzz.fuzz(4.0, seed=random.SystemRandom().randrange(10**6)) == []


@pytest.mark.parametrize("case", fuzz.CORPUS or [("journal", b"")], ids=str)
def test_what_was_found_once_is_read_or_refused(case):
    name, raw = case
    with suppress(StreamnbError):
        fuzz.readers()[name][0](raw)


def test_a_reader_that_raises_something_else_is_found(monkeypatch):
    """Negative control."""

    def read(raw):
        raise KeyError(raw)

    monkeypatch.setattr(fuzz, "readers", lambda: {"broken": (read, [b"seed"])})
    assert {type(error) for _, _, error in fuzz.fuzz(0.1, seed=1)} == {KeyError}


def test_a_reader_that_takes_memory_is_found(monkeypatch):
    """Negative control."""
    used = [0.0]
    monkeypatch.setattr(
        fuzz, "readers", lambda: {"large": (lambda _: used.append(used[-1] + 300), [b"seed"])}
    )
    monkeypatch.setattr(fuzz, "peak_memory", lambda: used[-1])
    assert {why for _, _, why in fuzz.fuzz(0.1, seed=1)} == {"it took too much memory"}
