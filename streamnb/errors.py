"""Every error streamnb raises on purpose.

StreamnbError
|-- ConfigError          a configuration that cannot be run, with the key at fault
|-- AddressTaken         another process listens where this one is to; it may end
|-- MalformedEvent       a record that is not an event; becomes a dead letter, never stops the stream
|-- UnlearnError         unlearning what was never learned; nothing was changed
|-- SnapshotError        bytes that are not a readable snapshot
|-- LogError             the log cannot do what was asked
|   |-- UnknownTopic     a topic that does not exist
|   |-- OutOfRange       records that were asked for are gone, or do not exist yet
|   |-- Unavailable      the log cannot be reached now; it may come back
|   |-- NotElected       another learner is alive: wait, or give up
|   `-- Fenced           another learner has taken over: stop at once
`-- JournalError         the journal disagrees with itself, the snapshot or the log: refuse to start
    |-- OtherStream      (a ConfigError, too) the journal cannot be continued under this configuration
    `-- ForeignRecord    bytes in the journal's topic that are no journal record

UndeclaredTextWarning    (a UserWarning) what is learned in Python has a text that is taken for one value
SmallWeightWarning       (a UserWarning) a weight that is learned in Python is below 1/1024, and counts 1/1024
OtherTypeWarning         (a UserWarning) what is predicted in Python has another type than what was learned
OddValuesWarning         (a UserWarning) columns or labels that are learned in Python look unintended
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class StreamnbError(Exception):
    """The root of all errors raised on purpose; its message is fit to be shown to a user."""


class ConfigError(StreamnbError):
    """A configuration that cannot be run; the message names the key and both values."""


class AddressTaken(StreamnbError):  # noqa: N818
    """Another process listens at the address; to try again later may help."""


class MalformedEvent(StreamnbError):  # noqa: N818  it is the name of a thing, not only of a failure
    """A record that is not an event.

    Attributes:
        reason: one of `streamnb.events.REASONS`, a bounded set fit for a metric label.
        path: JSON path of the offending value, such as ``$.features.age``; ``$`` is the whole record.
        detail: what was expected and what was found, for a human.
        remedy: what the dead letter says beside reason and path; empty is nothing.
    """

    def __init__(self, reason: str, path: str, detail: str, remedy: str = "") -> None:
        super().__init__(f"{reason} at {path}: {detail}")
        self.reason, self.path, self.detail, self.remedy = reason, path, detail, remedy


class UnlearnError(StreamnbError, ValueError):
    """The example was never learned (with this label and weight); the model is unchanged."""


class SnapshotError(StreamnbError):
    """Bytes that are not a readable snapshot: wrong magic, unknown version, damaged or of another kind."""


class LogError(StreamnbError):
    """The log cannot do what was asked."""


class UnknownTopic(LogError):  # noqa: N818
    """A topic that does not exist in this log."""


class OutOfRange(LogError):  # noqa: N818
    """Records that were asked for have been deleted, are damaged, or lie beyond the end."""


class Unavailable(LogError):  # noqa: N818
    """The log cannot be reached now, and may come back; what was asked for may or may not have been done."""


class NotElected(LogError):  # noqa: N818
    """Another learner is alive; this one may take over when it falls silent."""


class Fenced(LogError):  # noqa: N818
    """Another learner has taken over. Nothing of this commit was written; the process must stop."""


class JournalError(StreamnbError):
    """The journal disagrees with itself, with the snapshot or with the log; starting would be a guess."""


class OtherStream(JournalError, ConfigError):  # noqa: N818
    """The journal cannot be continued under this configuration; to try again does not help."""


class ForeignRecordError(JournalError):
    """Bytes that look like no journal record of any version: somebody else wrote them."""


class UndeclaredTextWarning(UserWarning):
    """An attribute that nothing declares looks like a text, and is taken for one value."""


class SmallWeightWarning(UserWarning):
    """A weight above 0 and below 1/1024: it counts 1/1024 example, which is more than it says."""


class OtherTypeWarning(UserWarning):
    """An event to be predicted has a value of another type than its attribute was learned with."""


class OddValuesWarning(UserWarning):
    """A column of strings that look like numbers, or labels that differ only by case or blanks."""


def why(error: Exception) -> str:
    """Return the message of an error, for people: Python's own of half a surrogate pair names a codec."""
    is_half = isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed"
    return "a lone surrogate is not text" if is_half else str(error)


@contextmanager
def told_as(made: type[StreamnbError], what: object, *kinds: type[Exception]) -> Iterator[None]:
    """Raise `made` for an error of one of these kinds, as what it is about, and why."""
    try:
        yield
    except kinds as error:
        raise made(f"{what}: {getattr(error, 'strerror', None) or why(error)}") from error


@contextmanager
def needs_extra(what: str, extra: str, *modules: str) -> Iterator[None]:
    """Raise ImportError with the extra to install, if one of these modules is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in modules:
            raise
        raise ImportError(f"{what} needs {missing}: pip install 'streamnb[{extra}]'") from error
