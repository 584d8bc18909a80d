"""One law over many cases: every case is tried, and those in which it does not hold are told together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest


def failures(law, cases, at_once=1):
    """Try every case; name of a case -> what went wrong there.

    Args:
        law: is called with each case, and raises where it does not hold.
        cases: texts, or tuples whose parts make up the name.
        at_once: cases that are tried at a time, in threads of their own.
    """

    def outcome(case):
        try:
            law(case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  all of them are shown together
            return f"{type(error).__name__}: {error}"
        return None

    cases = list(cases)
    assert cases, "a law over no cases says nothing"
    if at_once == 1:  # what a thread of its own would not see: warnings are errors in the test's own alone
        outcomes = [outcome(case) for case in cases]
    else:
        with ThreadPoolExecutor(at_once) as pool:
            outcomes = list(pool.map(outcome, cases))
    return {_name(case): found for case, found in zip(cases, outcomes, strict=True) if found is not None}


def _name(case):
    return " ".join(map(str, case)) if isinstance(case, tuple) else str(case)
