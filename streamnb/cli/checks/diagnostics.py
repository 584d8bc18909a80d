"""What a check found, how bad it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from streamnb.errors import JournalError, StreamnbError


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    """As it should be."""
    WARNING = "warning"
    """It works now, and something would have to happen before it does not."""
    PROBLEM = "problem"
    """It does not work, or loses data as it is."""
    UNKNOWN = "unknown"
    """It could not be found out."""


class Diagnosis(NamedTuple):
    """One thing found.

    Attributes:
        check: what was looked at, such as ``topic journal``.
        state: how bad it is.
        found: what was found.
        do: what to do; empty where there is nothing to do.
    """

    check: str
    state: Severity
    found: str
    do: str = ""


def finding_of(
    check: str, question: Callable[[], Iterable[Diagnosis]], otherwise: Severity = Severity.UNKNOWN
) -> list[Diagnosis]:
    """The findings of a question; one that is `otherwise` where it could not be answered, and says why.

    A journal that cannot be continued is a problem, whatever was asked.
    """
    try:
        return list(question())
    except JournalError as error:
        return [Diagnosis(check, Severity.PROBLEM, str(error))]
    except (StreamnbError, OSError) as error:
        return [Diagnosis(check, otherwise, str(error))]
