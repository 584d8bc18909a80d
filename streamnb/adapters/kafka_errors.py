"""The client's errors as errors of the log, each one line that a user can act on."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

from kafka import errors

from streamnb.errors import Fenced, LogError, OutOfRange, Unavailable, UnknownTopic

__all__ = ["listen", "translate", "translated"]

_RULES: tuple[tuple[tuple[type[Exception], ...], type[LogError], str], ...] = (
    (
        (errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError, errors.LogTruncationError),
        OutOfRange,
        "records asked for are gone, or not there yet: {}",
    ),
    ((errors.UnknownTopicOrPartitionError, errors.InvalidTopicError), UnknownTopic, "no such topic: {}"),
    (
        (errors.AuthorizationError,),
        LogError,
        "no permission: {}; `streamnb topics plan` lists the ACLs that are needed",
    ),
    (
        (
            errors.SaslAuthenticationFailedError,
            errors.UnsupportedSaslMechanismError,
            errors.IllegalSaslStateError,
            errors.SecurityDisabledError,
        ),
        LogError,
        "the broker refuses the user name, the password or the mechanism: {}",
    ),
    (
        (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError),
        LogError,
        "a record is larger than its topic's max.message.bytes allows: {}",
    ),
    (
        (errors.ProducerFencedError, errors.InvalidProducerEpochError, errors.FencedInstanceIdError),
        Fenced,
        "another learner has taken over: {}",
    ),
)
"""Errors of the client -> the error of the log, and how it is said. The first that fits counts."""

_RECENTLY = 30.0


class _LastWords(logging.Handler):
    """Keeps what the client last complained of: its exceptions say that time is up, and its log says why."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._words = ""
        self._at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self._words, self._at = record.getMessage(), time.monotonic()

    def recent(self) -> str:
        """The last complaint, empty where there is none of late."""
        return self._words if time.monotonic() - self._at < _RECENTLY else ""


_LAST_WORDS = _LastWords()


def listen() -> None:
    """Hear the client's log.

    With a handler of its own it is no longer printed where nobody has configured logging.
    """
    logger = logging.getLogger("kafka")
    if _LAST_WORDS not in logger.handlers:
        logger.addHandler(_LAST_WORDS)


def translate(error: Exception) -> LogError:
    """The error of the log that an error of the client is."""
    for kinds, meaning, text in _RULES:
        if isinstance(error, kinds):
            return meaning(text.format(_said(error)))
    words = _LAST_WORDS.recent()
    if "certificate" in words.lower() or "ssl" in words.lower():
        return LogError(f"the TLS handshake with the broker fails: {words}")
    if isinstance(error, errors.RetriableError | errors.BrokerNotAvailableError):
        return Unavailable(
            f"the Kafka cluster does not answer: {_said(error)}{f' ({words})' if words else ''}"
        )
    return LogError(f"Kafka: {_said(error)}")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise the client's errors as errors of the log."""
    try:
        yield
    except errors.KafkaError as error:
        raise translate(error) from error


def _said(error: Exception) -> str:
    """The error in one line, its kind first."""
    text = " ".join(str(argument) for argument in error.args) or getattr(error, "description", "") or ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
