"""Replicas follow a storm on either log: at each journal record they hold what the learners held."""

from __future__ import annotations

import pytest

from tests.system.storm.embedded import NoCluster
from tests.system.storm.plans import replicated
from tests.system.storm.replicas import differences
from tests.system.storm.weathered import weathered

pytestmark = [pytest.mark.thorough, pytest.mark.early(2)]


@pytest.mark.storm
@pytest.mark.parametrize("log", ["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def test_replicas_hold_what_learners_hold_and_write_only_what_they_were_sent(log, request, tmp_path):
    cluster = NoCluster(tmp_path) if log == "sqlite" else request.getfixturevalue("lone_broker")
    report = weathered(cluster, tmp_path, lambda seed: replicated(seed, log, events=1_500))
    assert report["kills"] >= 4
    assert report["replica_kills"] >= 3


def test_a_state_that_is_another_is_found():
    """Negative control; and where nothing was compared, that is said."""
    one, other = {"model": "a", "late": "b"}, {"model": "a", "late": "c"}
    assert list(differences({3: [("the learner", one), ("replica-1", one)]})) == []
    (found,) = differences({3: [("the learner", one), ("replica-1", one), ("replica-2", other)]})
    assert found == "at journal record 3, the learner and replica-2 hold another late"
    assert list(differences({3: [("the learner", one)], 4: [("replica-1", other)]}))
    assert list(differences({3: [("replica-1", one), ("replica-2", one)]}))
