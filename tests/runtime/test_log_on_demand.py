"""A log that is opened at its first use, again after a failure, and not after the end."""

from __future__ import annotations

from contextlib import closing

import pytest

from streamnb import config as configuration
from streamnb.errors import LogError, Unavailable
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import log_follower
from streamnb.runtime.log_follower import LogOnDemand


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A log on demand, and the logs that it has opened."""
    with closing(SqliteLog(tmp_path / "log.db")) as made:
        made.create_topic("events", 1)
    found, existing = [], log_follower.context.existing_log

    def existing_log(*given):
        found.append(existing(*given))
        return found[-1]

    monkeypatch.setattr(log_follower.context, "existing_log", existing_log)
    return LogOnDemand(configuration.load(None, {}, [f"log.url=sqlite:///{tmp_path / 'log.db'}"])), found


def test_one_log_serves_until_it_fails_and_then_another_is_opened(opened):
    on_demand, found = opened
    assert found == []
    for _ in range(3):
        with on_demand.opened() as log:
            assert log.offset_ranges("events")
    assert len(found) == 1
    with pytest.raises(LogError, match="nowhere"), on_demand.opened() as log:
        log.offset_ranges("nowhere")
    assert found[0]._closed
    with on_demand.opened() as log:
        assert log is found[1]
    with pytest.raises(ZeroDivisionError), on_demand.opened():  # no failure of the log
        _ = 1 / 0
    assert not found[1]._closed


def test_after_the_end_nothing_is_opened(opened):
    on_demand, found = opened
    with on_demand.opened():
        on_demand.stop()  # what is under way goes on
    with pytest.raises(Unavailable, match="stops"), on_demand.opened():
        pass
    on_demand.close()
    on_demand.close()
    assert [log._closed for log in found] == [True]


def test_a_log_that_does_not_answer_is_waited_for_some_seconds():
    outages = log_follower.ShortOutages()
    outages.unreachable(Unavailable("busy"), log_follower.PATIENCE_SECONDS - 1)
    with pytest.raises(Unavailable, match="busy"):
        outages.unreachable(Unavailable("busy"), log_follower.PATIENCE_SECONDS + 1)
