"""A storm on an embedded log whose labels come late: nothing is amiss."""

from __future__ import annotations

import pytest

from tests.system.storm.embedded import NoCluster
from tests.system.storm.plans import short_late
from tests.system.storm.weathered import weathered

pytestmark = [pytest.mark.storm, pytest.mark.early(12)]


def test_a_storm_whose_labels_come_late(tmp_path):
    report = weathered(NoCluster(tmp_path), tmp_path, short_late)
    assert report["verdicts"] == report["events"] >= 5_000
    assert report["kills"] >= 6
    assert report["takeovers"] >= 1
