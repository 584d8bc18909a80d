"""The client's errors as errors of the log, each one line that a user can act on."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafka import errors
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from streamnb.errors import Fenced, LogError, OutOfRange, Unavailable, UnknownTopic

__all__ = ["ANY", "listen", "meant", "translate", "translated"]

ANY = "READ, WRITE or DESCRIBE"
"""Leave of which one is enough: a topic that may be used in no way is as good as hidden."""

_ACLS = "the ACLs that `streamnb topics plan` lists"
_PROTOCOL = "kafka.client.security_protocol"
_TLS_ALERT = "Invalid frame length: 352518"  # 0x1503, and what follows


class _Rule(NamedTuple):
    """What an error of the client is.

    Attributes:
        kind: of errors, or a pattern of what is said; the last words of that are `{said}`, all is `{whole}`.
        meaning: the log's error.
        text: how it is said; of `{leave}` one was needed, for what is called `{name}`.
        check: where to look.
    """

    kind: tuple[type[Exception], ...] | str
    meaning: type[LogError]
    text: str
    check: str = ""


_RULES = (
    _Rule(
        (errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError, errors.LogTruncationError),
        OutOfRange,
        "records asked for are gone, or not there yet: {whole}",
    ),
    _Rule(
        (errors.UnknownTopicOrPartitionError, errors.InvalidTopicError),
        UnknownTopic,
        "no such topic: {whole}",
    ),
    _Rule((errors.TopicAuthorizationFailedError,), LogError, "no permission to {leave} topic {name}", _ACLS),
    _Rule((errors.GroupAuthorizationFailedError,), LogError, "no permission to READ group {name}", _ACLS),
    _Rule(
        (errors.TransactionalIdAuthorizationFailedError,),
        LogError,
        "no permission to WRITE transactional-id {name}",
        _ACLS,
    ),
    _Rule("InitProducerId.* ClusterAuth", LogError, "no permission to {leave} topic {name}", _ACLS),
    _Rule((errors.AuthorizationError,), LogError, "no permission: {whole}", _ACLS),
    _Rule(
        (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError),
        LogError,
        "a record is larger than its topic's max.message.bytes allows: {whole}",
    ),
    _Rule(
        (errors.InvalidSessionTimeoutError,),
        LogError,
        "the broker does not allow such a session timeout",
        "log.session_timeout, and the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    _Rule(
        (errors.InvalidTransactionTimeoutError,),
        LogError,
        "the broker does not allow such a transaction timeout",
        "kafka.transaction_timeout, and the broker's transaction.max.timeout.ms",
    ),
    _Rule(
        (errors.InvalidRecordError,),
        LogError,
        "a topic does not take the record: {whole}",
        "`streamnb doctor`, and that no topic is compacted",
    ),
    _Rule(
        (errors.ProducerFencedError, errors.InvalidProducerEpochError, errors.FencedInstanceIdError),
        Fenced,
        "another learner has taken over: {whole}",
    ),
    _Rule(
        "SaslAuthenticationFailed",
        LogError,
        "the broker refuses the log-in: {said}",
        "kafka.username, the password and kafka.client.sasl_mechanism",
    ),
    _Rule(
        "UnsupportedSaslMechanism",
        LogError,
        "the broker takes no log-in of this kind: {said}",
        "kafka.client.sasl_mechanism",
    ),
    _Rule("IllegalSaslState", LogError, "the broker's port takes no log-in: {said}", _PROTOCOL),
    _Rule(
        "(Hostname|IP address) mismatch",
        LogError,
        "the broker's certificate is another host's: {said}",
        "the host in log.url, and the broker's advertised.listeners",
    ),
    _Rule(
        "CERTIFICATE_VERIFY_FAILED",
        LogError,
        "the broker's certificate is not trusted: {said}",
        "kafka.client.ssl_cafile",
    ),
    _Rule(
        r"No such file|Permission denied|Is a directory|\[X509|\[SSL\]",
        LogError,
        "a certificate or key cannot be read: {said}",
        "kafka.client.ssl_cafile, ssl_certfile, ssl_keyfile and ssl_crlfile",
    ),
    _Rule(
        r"^Bootstrap .*(\[SSL: UNEXPECTED_EOF|Handshake failed: .*reset)",
        Unavailable,
        "the broker ends the TLS handshake; if that lasts, its port is one without TLS",
        _PROTOCOL,
    ),
    _Rule(
        r"\[SSL: (?!UNEXPECTED_EOF)",
        LogError,
        "the TLS handshake with the broker fails: {said}",
        f"{_PROTOCOL} and ssl_certfile",
    ),
    _Rule(_TLS_ALERT, LogError, "the broker's port wants TLS", _PROTOCOL),
    _Rule(
        "^Bootstrap .*socket disconnected",
        Unavailable,
        "the broker ends the connection without an answer; if that lasts, its port wants TLS or a log-in",
        _PROTOCOL,
    ),
)
"""The first that fits counts.

What a broker that is down may look like, too, is only `Unavailable`: a proxy takes connections in its place.
"""

_TRANSIENT = (errors.RetriableError, errors.BrokerNotAvailableError, errors.UnknownBrokerIdError)
"""Of a cluster that does not answer now; the last is of a partition without a leader."""

_RECENTLY = 10.0
_WRAPPED = re.compile(r"\[Error (-?\d+)\] \w+(?:: (.*))?$")
_NOISE = re.compile(r"^.*\] | \(_ssl\.c.*$")  # numbers of errors, and lines of Python's own source
_FAILED = re.compile(r"((?:Bootstrap|Connection) .*failed: .*?)(?: \(backoff .*\))?", re.DOTALL)


class _Complaints(logging.Handler):
    """Keeps why the client could not connect: its exceptions say that time is up, and its log says why."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last = ""
        self._at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it; the last attempt before a deadline, which it cuts short, says less than the one before."""
        found = _FAILED.fullmatch(record.getMessage())
        if found is None or "Unable to bootstrap" in found[1]:
            return
        if "timed out" not in found[1] or not self.recent():
            self._last, self._at = found[1], time.monotonic()

    def recent(self) -> str:
        """The last complaint, empty where there is none of late."""
        return self._last if time.monotonic() - self._at < _RECENTLY else ""


_COMPLAINTS = _Complaints()


def listen() -> None:
    """Hear the client's log, and have it say what it knows.

    With a handler of its own the log is no longer printed where nobody has configured logging.
    """
    logger = logging.getLogger("kafka")
    if _COMPLAINTS not in logger.handlers:
        logger.addHandler(_COMPLAINTS)
        for transport in (KafkaTCPTransport, KafkaSSLTransport):
            transport._sock_recv = _answer_before_end(transport._sock_recv)  # noqa: SLF001  see there


def _answer_before_end(receive: Callable[[Any], tuple[bytes, Any]]) -> Callable[[Any], tuple[bytes, Any]]:
    """Read an answer that the end of its connection follows at once.

    kafka-python 3.0.12 drops it, and the refusal of a log-in is such an answer. The end is met again when the
    connection is read next.
    """

    def answer(transport: Any) -> tuple[bytes, Any]:
        found, end = receive(transport)
        return found, None if found else end

    return answer


def translate(error: Exception, leave: str = ANY, name: str = "") -> LogError:
    """The error of the log that an error of the client is.

    Args:
        error: of the client.
        leave: the operations of which one was needed, if it is for want of permission.
        name: what was used, where the error does not name it.
    """
    complaint = _COMPLAINTS.recent()
    whole = _whole(error)
    error = meant(error)
    decisive = complaint if "Unable to bootstrap" in whole and complaint else whole
    said = _NOISE.sub("", decisive.rsplit(": ", 1)[-1])
    for kind, meaning, text, check in _RULES:
        if re.search(kind, decisive) if isinstance(kind, str) else isinstance(error, kind):
            line = text.format(whole=whole, said=said, leave=leave, name=name or _names(error))
            return meaning(f"{line}; check {check}" if check else line)
    if isinstance(error, _TRANSIENT):
        why = f" ({complaint.rsplit(': ', 1)[-1]})" if complaint else ""
        return Unavailable(f"the Kafka cluster does not answer: {whole}{why}")
    return LogError(f"Kafka: {whole}")


def meant(error: Exception) -> Exception:
    """The error itself; where the client wraps the broker's into the text of a general one, the broker's."""
    if type(error) is errors.KafkaError and (wrapped := _WRAPPED.search(_whole(error))):
        code, text = wrapped.groups()
        return errors.for_code(int(code))(*filter(None, [text]))  # type: ignore[no-any-return]
    return error


@contextlib.contextmanager
def translated(leave: str = ANY, name: str = "") -> Iterator[None]:
    """Raise the client's errors as errors of the log, as `translate` does."""
    try:
        yield
    except errors.KafkaError as error:
        raise translate(error, leave, name) from error


def _whole(error: Exception) -> str:
    """The error in one line, its kind first."""
    text = " ".join(str(argument) for argument in error.args) or getattr(error, "description", "") or ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _names(error: Exception) -> str:
    """What an error names: one thing, or a set, which may be text already."""
    named = [found if isinstance(found, set) else {str(found)} for found in error.args]
    return ", ".join(sorted(re.sub("^topic |[{}']", "", str(name)) for name in set().union(*named)))
