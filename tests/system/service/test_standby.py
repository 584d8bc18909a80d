"""A learner that stands by, on an embedded log."""

from __future__ import annotations

import pytest

from tests.support.program import Program, until


@pytest.fixture
def program(tmp_path):
    program = Program(tmp_path, "sqlite:///log.db")
    yield program
    program.close()


def test_it_says_what_its_takeover_would_change_and_ends_where_it_could_not_take_over(program):
    learner = program.start("run")
    learner.await_word("reads ")
    until(lambda: program.read("journal"))
    standby = program.start("run", "--set", "metrics.every_events=7")
    standby.await_word("standing by: ")
    standby.await_word("a takeover would change the configuration: metrics.every_events: ")
    assert "metrics.window" not in standby.said()
    other = program.start("run", "--set", "model.name=another").finish()
    assert other.process.returncode == 2, other.said()
    assert 'and is "another"' in other.said()
    assert learner.is_going()
    assert standby.stop().said().count("a takeover would change") == 1
    learner.stop()
