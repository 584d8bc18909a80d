"""Convert errors of librdkafka to errors of kafka-python, so that one table maps errors to actions."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from kafka import errors

from streamnb.event_logs.kafka.librdkafka_settings import LOGGER

_OWN = {
    KafkaError._ALL_BROKERS_DOWN: errors.KafkaConnectionError,
    KafkaError._AUTHENTICATION: errors.SaslAuthenticationFailedError,
    KafkaError._AUTO_OFFSET_RESET: errors.OffsetOutOfRangeError,
    KafkaError._BAD_COMPRESSION: errors.CorruptRecordError,
    KafkaError._BAD_MSG: errors.CorruptRecordError,
    KafkaError._FENCED: errors.ProducerFencedError,
    KafkaError._INVALID_ARG: errors.IllegalArgumentError,
    KafkaError._LOG_TRUNCATION: errors.LogTruncationError,
    KafkaError._MSG_TIMED_OUT: errors.KafkaTimeoutError,
    KafkaError._RESOLVE: errors.KafkaConnectionError,
    KafkaError._SSL: errors.KafkaConnectionError,
    KafkaError._TIMED_OUT: errors.KafkaTimeoutError,
    KafkaError._TIMED_OUT_QUEUE: errors.KafkaTimeoutError,
    KafkaError._TRANSPORT: errors.KafkaConnectionError,
    KafkaError._UNKNOWN_PARTITION: errors.UnknownTopicOrPartitionError,
    KafkaError._UNKNOWN_TOPIC: errors.UnknownTopicOrPartitionError,
    KafkaError._WAIT_COORD: errors.CoordinatorNotAvailableError,
}
"""Errors that the client detects locally. All other local errors have no specific meaning."""


class _Forbidden(logging.Handler):
    """Log handler that keeps the topics without write permission, which only librdkafka's log names."""

    _SAID = re.compile(r'Failed to add partition "(.+)" \[\d+\] to transaction: .*Topic authorization failed')

    def __init__(self) -> None:
        super().__init__()
        self._topics: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if found := self._SAID.search(record.getMessage()):
            self._topics.add(found[1])

    def taken(self) -> set[str]:
        """Return and clear the topics kept so far."""
        topics, self._topics = self._topics, set()
        return topics


_FORBIDDEN = _Forbidden()
LOGGER.addHandler(_FORBIDDEN)


def as_kafka_python(error: Any, *named: Any) -> errors.KafkaError:
    """Return the kafka-python error for a KafkaError of librdkafka.

    Args:
        error: the KafkaError.
        named: arguments for the error in place of its text; see `error_messages.translate`.
    """
    code = error.code()
    kind = errors.for_code(code) if code > 0 else _OWN.get(code, errors.KafkaError)
    if kind is errors.TopicAuthorizationFailedError and not named and (topics := _FORBIDDEN.taken()):
        named = (topics,)
    return kind(*named) if named else kind(error.str())


@contextlib.contextmanager
def raised_as_kafka_python() -> Iterator[None]:
    """Raise librdkafka's errors as kafka-python's."""
    try:
        yield
    except KafkaException as error:
        raise as_kafka_python(error.args[0]) from error
    except SystemError as error:
        # A fatal error during a callback arrives as the cause of this error.
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise as_kafka_python(error.__cause__.args[0]) from error
    except BufferError as error:  # its queue is full
        raise errors.KafkaTimeoutError(str(error)) from error
