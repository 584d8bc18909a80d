"""Parameters of tests that run on both logs."""

from __future__ import annotations

import pytest


def on_logs(names, cases, *, kafka):
    """Every case on the embedded log, and some on Kafka: for what does not depend on where the log lies.

    Args:
        names: of the parameters beside `open_log`, as pytest has them.
        cases: their values, tuples where there is more than one name.
        kafka: those of the cases that run on Kafka, too.
    """
    cases, kafka = list(cases), list(kafka)
    assert set(kafka) <= set(cases)
    several = "," in names
    rows = [
        (log, *case) if several else (log, case)
        for log, part in (("sqlite", cases), ("kafka", kafka))
        for case in part
    ]
    return pytest.mark.parametrize(f"open_log,{names}", rows, indirect=["open_log"])
