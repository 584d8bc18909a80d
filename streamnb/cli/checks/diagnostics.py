"""Results of `doctor` checks: finding, severity, remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from streamnb.errors import JournalError, StreamnbError


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """It works now, but an incident can break it."""
    PROBLEM = "problem"
    """It does not work, or loses data."""
    UNKNOWN = "unknown"
    """The check could not be performed."""


class Diagnosis(NamedTuple):
    """One finding of a check such as ``topic journal``; `do` is the remedy, empty if none is needed."""

    check: str
    state: Severity
    found: str
    do: str = ""


def finding_of(
    check: str, question: Callable[[], Iterable[Diagnosis]], otherwise: Severity = Severity.UNKNOWN
) -> list[Diagnosis]:
    """Return the findings of a check; if it fails, one of severity `otherwise` with the reason.

    A JournalError is always a problem.
    """
    try:
        return list(question())
    except JournalError as error:
        return [Diagnosis(check, Severity.PROBLEM, str(error))]
    except (StreamnbError, OSError) as error:
        return [Diagnosis(check, otherwise, str(error))]
