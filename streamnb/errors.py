"""Every error streamnb raises on purpose.

StreamnbError
|-- ConfigError          a configuration that cannot be run, with the key at fault
|   `-- RestartRequired  a change that a running process cannot take over
|-- AddressTaken         another process listens at the address; it may end
|-- MalformedEvent       a record that is not an event; becomes a dead letter, never stops the stream
|-- UnlearnError         unlearning what was never learned; nothing was changed
|-- SnapshotError        bytes that are not a readable snapshot
|-- LogError             the log cannot do what was asked
|   |-- UnknownTopic     a topic that does not exist
|   |-- OutOfRange       the requested records were deleted, or do not exist yet
|   |-- Unavailable      the log cannot be reached now; it may come back
|   |-- NotElected       another learner is alive: wait, or give up
|   `-- Fenced           another learner has taken over: stop at once
`-- JournalError         the journal disagrees with itself, the snapshot or the log: refuse to start
    |-- OtherStream      (a ConfigError, too) the journal cannot be continued under this configuration
    `-- ForeignRecord    bytes in the journal's topic that are not a journal record

UndeclaredTextWarning    (a UserWarning) an event learned in Python has a text that is treated as one value
SmallWeightWarning       (a UserWarning) a weight learned in Python is below 1/1024, and counts 1/1024
OtherTypeWarning         (a UserWarning) an event predicted in Python has another type than what was learned
OddValuesWarning         (a UserWarning) columns or labels learned in Python look unintended
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class StreamnbError(Exception):
    """The root of all errors raised on purpose; users can read its message."""


class ConfigError(StreamnbError):
    """A configuration that cannot be run; the message names the key and both values."""


class RestartRequired(ConfigError):  # noqa: N818
    """A change of the configuration that a running process cannot take over.

    Attributes:
        keys: the changed keys that need a restart.
    """

    def __init__(self, why: str, keys: Sequence[str]) -> None:
        super().__init__(why)
        self.keys = tuple(keys)


class AddressTaken(StreamnbError):  # noqa: N818
    """Another process listens at the address; a later attempt may succeed."""


class MalformedEvent(StreamnbError):  # noqa: N818  it names a thing, not only a failure
    """A record that is not an event.

    Attributes:
        reason: one of `streamnb.events.REASONS`, a bounded set fit for a metric label.
        path: JSON path of the offending value, such as ``$.features.age``; ``$`` is the whole record.
        detail: what was expected and what was found, for a human.
        remedy: advice that the dead letter has in addition to reason and path, or "".
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
    """The requested records have been deleted, are damaged, or lie beyond the end."""


class Unavailable(LogError):  # noqa: N818
    """The log cannot be reached now, and may come back; the request may have been carried out."""


class NotElected(LogError):  # noqa: N818
    """Another learner is alive; this one may take over when that one stops."""


class Fenced(LogError):  # noqa: N818
    """Another learner has taken over. Nothing of this commit was written; the process must stop."""


class JournalError(StreamnbError):
    """The journal disagrees with itself, with the snapshot or with the log, so the learner cannot start."""


class OtherStream(JournalError, ConfigError):  # noqa: N818
    """The journal cannot be continued under this configuration; another attempt does not help."""


class ForeignRecordError(JournalError):
    """Bytes that look like no journal record of any version: another program wrote them."""


class UndeclaredTextWarning(UserWarning):
    """An attribute without a declaration looks like a text, and is treated as one value."""


class SmallWeightWarning(UserWarning):
    """A weight above 0 and below 1/1024: it counts 1/1024 example, more than its value."""


class OtherTypeWarning(UserWarning):
    """An event to be predicted has a value of another type than its attribute had when it was learned."""


class OddValuesWarning(UserWarning):
    """A column of strings that look like numbers, or labels that differ only by case or blanks."""


def why(error: Exception) -> str:
    """Return the message of an error. Python's own message for half a surrogate pair names a codec."""
    is_half = isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed"
    return "a lone surrogate is not text" if is_half else str(error)


@contextmanager
def told_as(made: type[StreamnbError], what: object, *kinds: type[Exception]) -> Iterator[None]:
    """Raise `made` for an error of these kinds, with `what` it concerns and the reason as its message."""
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
