"""Map each error to an action; `error_messages` holds the messages.

Outside a commit a failed call has changed nothing that matters, so the question is whether a retry can help.
Inside a commit the outcome of nearly every failure is unknown. This includes the loss of the transactional
id, which a broker also takes from a learner that was unreachable for too long. After any error, a producer of
kafka-python raises another, general error at the next call.
"""

from __future__ import annotations

import re
from enum import Enum, StrEnum

from kafka import errors

from streamnb.errors import Fenced, JournalError, NotElected, OutOfRange, SnapshotError, Unavailable


class Action(Enum):
    """Action after an error."""

    RETRY = "retry"
    """Wait, then call again."""
    RESEND = "resend"
    """The outcome of a commit is unknown: resolve it, and send the same bytes again if they are missing."""
    DEPOSED = "deposed"
    """Another learner has replaced this one: exit."""
    CORRUPTED = "corrupted"
    """Log, journal or snapshot disagree with what was learned: refuse to continue."""
    FATAL = "fatal"
    """Missing permission, wrong configuration, size limit or program fault: exit, because a retry cannot
    help.
    """


class Refusal(StrEnum):
    """Patterns of connection errors that a retry cannot fix."""

    TOPIC = "InitProducerId.* ClusterAuth"
    LOGIN = "SaslAuthenticationFailed"
    MECHANISM = "UnsupportedSaslMechanism"
    NO_LOGIN = "IllegalSaslState"
    OTHER_HOST = "(Hostname|IP address) mismatch"
    UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
    UNREADABLE = r"No such file|Permission denied|Is a directory|\[X509|\[SSL\]"
    TLS = r"\[SSL: (?!UNEXPECTED_EOF)"
    TLS_WANTED = "Invalid frame length: 352518"  # 0x1503, a TLS alert and the bytes after it


NO_SUCH_TOPIC = (errors.UnknownTopicOrPartitionError, errors.InvalidTopicError)


_Errors = tuple[type[BaseException], ...]


def _named(names: str) -> _Errors:
    return tuple(getattr(errors, name) for name in names.split())


_CORRUPTED: _Errors = (
    *(OutOfRange, JournalError, SnapshotError),
    *_named("OffsetOutOfRangeError NoOffsetForPartitionError LogTruncationError CorruptRecordError"),
)
"""Records already learned, or to be read next, are missing or damaged."""

_DEPOSED: _Errors = (
    Fenced,
    *_named("ProducerFencedError InvalidProducerEpochError FencedInstanceIdError FencedMemberEpochError"),
    *_named("IllegalGenerationError UnknownMemberIdError CommitFailedError"),
)
"""The broker or the group has replaced this learner; inside a commit only `Fenced` proves it."""

_WAITED_FOR: _Errors = (
    *(Unavailable, NotElected),
    *_named("RetriableError BrokerNotAvailableError RebalanceInProgressError MemberIdRequiredError"),
    *_named("StaleMemberEpochError UnknownBrokerIdError"),  # the latter for a partition without a leader
)
"""The cluster does not answer now, or the group is not stable."""

_VAIN = NO_SUCH_TOPIC + _named("""
    AuthorizationError SaslAuthenticationFailedError UnsupportedSaslMechanismError IllegalSaslStateError
    SecurityDisabledError MessageSizeTooLargeError RecordListTooLargeError InvalidRecordError
    InvalidTimestampError InvalidRequiredAcksError PolicyViolationError OffsetMetadataTooLargeError
    InvalidCommitOffsetSizeError InvalidGroupIdError InvalidTransactionTimeoutError UnsupportedVersionError
    UnsupportedForMessageFormatError UnsupportedCompressionTypeError UnsupportedCodecError
    UnrecognizedBrokerVersion KafkaConfigurationError IllegalArgumentError""")
"""Errors of a commit that a retry cannot fix. All other client errors leave the outcome unknown."""

_REFUSED = re.compile("|".join(Refusal))
_WRAPPED = re.compile(r"\[Error (-?\d+)\] \w+(?:: (.*))?$")


def classify(error: BaseException, *, committing: bool, complaint: str = "") -> Action:
    """Return the action for an error of the client or of streamnb.

    Args:
        error: the exception.
        committing: whether a commit attempt raised it.
        complaint: reason in the client's log why it cannot connect; its exceptions do not contain it.
    """
    said, error = decisive(error, complaint), meant(error)
    if committing:
        return _of_attempt(error)
    if isinstance(error, _CORRUPTED):
        return Action.CORRUPTED
    if isinstance(error, _DEPOSED):
        return Action.DEPOSED
    if isinstance(error, NO_SUCH_TOPIC) or not isinstance(error, _WAITED_FOR):
        return Action.FATAL
    refused = isinstance(error, errors.KafkaError) and _REFUSED.search(said)
    return Action.FATAL if refused else Action.RETRY


def _of_attempt(error: BaseException) -> Action:
    if isinstance(error, Unavailable):
        return Action.RESEND
    if isinstance(error, errors.KafkaError):
        return Action.FATAL if isinstance(error, _VAIN) else Action.RESEND
    return classify(error, committing=False)


def meant(error: BaseException) -> BaseException:
    """Return the error, or the broker's error if the client wrapped it into the text of a general one."""
    if type(error) is errors.KafkaError and (wrapped := _WRAPPED.search(whole(error))):
        code, text = wrapped.groups()
        return errors.for_code(int(code))(*filter(None, [text]))  # type: ignore[no-any-return]
    return error


def whole(error: BaseException) -> str:
    """Return the error as one line that begins with its class name."""
    text = " ".join(str(argument) for argument in error.args) or getattr(error, "description", "") or ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def decisive(error: BaseException, complaint: str) -> str:
    """Return the most informative text: the error, or the complaint if no broker could be reached."""
    said = whole(error)
    return complaint if "Unable to bootstrap" in said and complaint else said
