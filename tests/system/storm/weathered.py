"""A storm as a test: nothing may be amiss afterwards."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from tests.system.storm.course import rage
from tests.system.storm.report import told


def weathered(cluster, folder, make):
    """A storm of any seed after which nothing is amiss; its report."""
    report = rage(cluster, folder, replace(make(random.SystemRandom().randrange(1 << 32)), forks=True), print)
    print(told(report), json.dumps(report))  # noqa: T201  for whoever looks into a failure
    assert report["faults"] == []
    assert (report["lost"], report["repeated"]) == (0, 0)
    return report
