"""Errors of librdkafka as those of kafka-python: what is to be done about one is decided in one place."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from kafka import errors

from streamnb.adapters.kafka.librdkafka_settings import LOGGER

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
"""Errors that the client finds by itself. All others of its own leave open what they mean."""


class _Forbidden(logging.Handler):
    """Keeps which topics a transaction may not write: only librdkafka's log says so."""

    _SAID = re.compile(r'Failed to add partition "(.+)" \[\d+\] to transaction: .*Topic authorization failed')

    def __init__(self) -> None:
        super().__init__()
        self._topics: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        if found := self._SAID.search(record.getMessage()):
            self._topics.add(found[1])

    def taken(self) -> set[str]:
        """What was kept since this was called last."""
        topics, self._topics = self._topics, set()
        return topics


_FORBIDDEN = _Forbidden()
LOGGER.addHandler(_FORBIDDEN)


def as_kafka_python(error: Any, *named: Any) -> errors.KafkaError:
    """The error of kafka-python that a KafkaError of librdkafka is.

    Args:
        error: the KafkaError.
        named: what it is about, in place of what it says; see `error_texts.translate`.
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
        # A fatal error that comes up where a callback is called, too, comes out as this one's cause.
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise as_kafka_python(error.__cause__.args[0]) from error
    except BufferError as error:  # its queue is full
        raise errors.KafkaTimeoutError(str(error)) from error
