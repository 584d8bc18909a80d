"""Translate the client's errors into log errors, each with a one-line message that a user can act on."""

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
from streamnb.event_logs.kafka.error_actions import (
    NO_SUCH_TOPIC,
    Action,
    Refusal,
    classify,
    decisive,
    meant,
    whole,
)

ANY = "READ, WRITE or DESCRIBE"
"""Permissions of which one suffices: a topic without any of them is as good as hidden."""

_ACLS = "the ACLs that `streamnb topics plan` lists"
_PROTOCOL = "kafka.client.security_protocol"


class _ErrorText(NamedTuple):
    """Message for an error of the client.

    Attributes:
        kind: exception classes, or a pattern of the error text.
        text: message format. `{whole}` is the error text, `{clause}` its last clause, `{leave}` the missing
            permission and `{name}` its resource.
        check: where the user should look.
    """

    kind: tuple[type[Exception], ...] | str
    text: str
    check: str = ""


_TEXTS = (
    _ErrorText(
        (errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError, errors.LogTruncationError),
        "records asked for are gone, or not there yet: {whole}",
    ),
    _ErrorText((errors.CorruptRecordError,), "a record is damaged: {whole}"),
    _ErrorText(
        NO_SUCH_TOPIC,
        "no such topic: {whole}",
        "for a deletion: `streamnb topics create` creates it, `streamnb run --accept-loss` continues",
    ),
    _ErrorText((errors.TopicAuthorizationFailedError,), "no permission to {leave} topic {name}", _ACLS),
    _ErrorText((errors.GroupAuthorizationFailedError,), "no permission to READ group {name}", _ACLS),
    _ErrorText(
        (errors.TransactionalIdAuthorizationFailedError,),
        "no permission to WRITE transactional-id {name}",
        _ACLS,
    ),
    _ErrorText(Refusal.TOPIC, "no permission to {leave} topic {name}", _ACLS),
    _ErrorText((errors.AuthorizationError,), "no permission: {whole}", _ACLS),
    _ErrorText(
        (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError),
        "a record is larger than its topic's max.message.bytes allows: {whole}",
        "`streamnb doctor`, which prints how to raise it; restart `run` to apply the new limit",
    ),
    _ErrorText(
        (errors.InvalidSessionTimeoutError,),
        "the broker does not allow such a session timeout",
        "log.session_timeout, and the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    _ErrorText(
        (errors.InvalidTransactionTimeoutError,),
        "the broker does not allow such a transaction timeout",
        "kafka.transaction_timeout, and the broker's transaction.max.timeout.ms",
    ),
    _ErrorText(
        (errors.InvalidTimestampError,),
        "a topic does not take the time of a record: {whole}",
        "the clocks of this machine and of the brokers (`timedatectl` on each; one may have jumped), and the "
        "topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    ),
    _ErrorText(
        (errors.InvalidRecordError,),
        "a topic does not take the record: {whole}",
        "`streamnb doctor`, and that only the topic of tenants is compacted",
    ),
    _ErrorText(
        (errors.ProducerFencedError, errors.InvalidProducerEpochError, errors.FencedInstanceIdError),
        "another learner has taken over: {whole}",
    ),
    _ErrorText(
        (errors.IllegalGenerationError, errors.UnknownMemberIdError, errors.CommitFailedError),
        "the group has removed this member: {whole}",
    ),
    _ErrorText(
        Refusal.LOGIN,
        "the broker refuses the log-in: {clause}",
        "kafka.username, the password and kafka.client.sasl_mechanism",
    ),
    _ErrorText(
        Refusal.MECHANISM, "the broker takes no log-in of this kind: {clause}", "kafka.client.sasl_mechanism"
    ),
    _ErrorText(Refusal.NO_LOGIN, "the broker's port takes no log-in: {clause}", _PROTOCOL),
    _ErrorText(
        Refusal.OTHER_HOST,
        "the broker's certificate is another host's: {clause}",
        "the host in log.url, and the broker's advertised.listeners",
    ),
    _ErrorText(
        Refusal.UNTRUSTED, "the broker's certificate is not trusted: {clause}", "kafka.client.ssl_cafile"
    ),
    _ErrorText(
        Refusal.UNREADABLE,
        "a certificate or key cannot be read: {clause}",
        "kafka.client.ssl_cafile, ssl_certfile, ssl_keyfile and ssl_crlfile",
    ),
    _ErrorText(
        r"^Bootstrap .*(\[SSL: UNEXPECTED_EOF|Handshake failed: .*reset)",
        "the broker ends the TLS handshake; if that lasts, its port is one without TLS",
        _PROTOCOL,
    ),
    _ErrorText(
        Refusal.TLS, "the TLS handshake with the broker fails: {clause}", f"{_PROTOCOL} and ssl_certfile"
    ),
    _ErrorText(Refusal.TLS_WANTED, "the broker's port wants TLS", _PROTOCOL),
    _ErrorText(
        "^Bootstrap .*socket disconnected",
        "the broker ends the connection without an answer; if that lasts, its port wants TLS or a log-in",
        _PROTOCOL,
    ),
)
"""The first match counts.

No `Refusal` matches a text that a stopped broker may cause, too: a proxy accepts connections in its place.
"""

_MEANINGS = {
    Action.RETRY: Unavailable,
    Action.DEPOSED: Fenced,
    Action.CORRUPTED: OutOfRange,
    Action.FATAL: LogError,
}
_RECENTLY = 10.0
_NOISE = re.compile(r"^.*\] | \(_ssl\.c.*$")  # error numbers, and lines of Python's own source
_NAMES = re.compile(r"[\w.-]+(, [\w.-]+)*")
_CUT_SHORT = re.compile("timed out|Timeout")
_FAILED = re.compile(r"((?:Bootstrap|Connection) .*failed: .*?)(?: \(backoff .*\))?", re.DOTALL)


class _Complaints(logging.Handler):
    """Log handler that keeps why a connection failed: the client's exceptions only report a timeout."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._last = ""
        self._at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the reason. The last attempt is cut short by a deadline, so the previous reason is better."""
        found = _FAILED.fullmatch(record.getMessage())
        if found is None or "Unable to bootstrap" in found[1]:
            return
        if not _CUT_SHORT.search(found[1]) or not self.recent():
            self._last, self._at = found[1], time.monotonic()

    def recent(self) -> str:
        """Return the last recent complaint, or an empty string."""
        return self._last if time.monotonic() - self._at < _RECENTLY else ""


_COMPLAINTS = _Complaints()


def listen() -> None:
    """Attach the complaint handler to the client's log and patch its transports.

    With a handler of its own, the log is no longer printed if logging is not configured.
    """
    logger = logging.getLogger("kafka")
    if _COMPLAINTS not in logger.handlers:
        logger.addHandler(_COMPLAINTS)
        for transport in (KafkaTCPTransport, KafkaSSLTransport):
            transport._sock_recv = _answer_before_end(transport._sock_recv)  # noqa: SLF001  see there


def _answer_before_end(receive: Callable[[Any], tuple[bytes, Any]]) -> Callable[[Any], tuple[bytes, Any]]:
    """Read a response whose connection ends immediately after it.

    kafka-python 3.0.12 drops such a response, and a refused log-in is one. The next read of the connection
    reports its end again.
    """

    def answer(transport: Any) -> tuple[bytes, Any]:
        found, end = receive(transport)
        return found, None if found else end

    return answer


def translate(error: BaseException, leave: str = ANY, name: str = "") -> LogError:
    """Return the log error for an error of the client.

    Args:
        error: the client's exception.
        leave: the operations of which one was needed, for authorization errors.
        name: the resource, used if the error does not name it.
    """
    complaint = _COMPLAINTS.recent()
    action = classify(error, committing=False, complaint=complaint)
    text, deciding = whole(error), decisive(error, complaint)
    clause = _NOISE.sub("", deciding.rsplit(": ", 1)[-1])
    error = meant(error)
    meaning = UnknownTopic if isinstance(error, NO_SUCH_TOPIC) else _MEANINGS[action]
    for kind, form, check in _TEXTS:
        if re.search(kind, deciding) if isinstance(kind, str) else isinstance(error, kind):
            line = form.format(whole=text, clause=clause, leave=leave, name=_names(error, name))
            return meaning(f"{line}; check {check}" if check else line)
    if action is Action.RETRY:
        why = f" ({complaint.rsplit(': ', 1)[-1]})" if complaint else ""
        return meaning(f"the Kafka cluster does not answer: {text}{why}")
    return meaning(f"Kafka: {text}")


@contextlib.contextmanager
def translated(leave: str = ANY, name: str = "") -> Iterator[None]:
    """Raise the client's errors as errors of the log, as `translate` does."""
    try:
        yield
    except errors.KafkaError as error:
        raise translate(error, leave, name) from error


def _names(error: BaseException, otherwise: str) -> str:
    """Return the resources that an error names, or `otherwise` if it names none.

    The error holds a single name or a set, possibly as text; librdkafka's errors hold a sentence.
    """
    named = [found if isinstance(found, set) else {str(found)} for found in error.args]
    found = ", ".join(sorted(re.sub("^topic |[{}']", "", str(name)) for name in set().union(*named)))
    return found if _NAMES.fullmatch(found) else otherwise or found
