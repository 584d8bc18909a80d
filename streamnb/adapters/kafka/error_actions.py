"""What is to be done about an error, decided in one place; how it is told is in `error_texts`.

Outside a commit a call that failed has changed nothing that matters, so what counts is whether asking again
can help. Inside a commit the outcome of nearly every failure is unknown, losing the transactional id among
them: a broker takes the id away from a learner that was out of its sight for too long, too, and a producer of
kafka-python that met with any error raises another, general one at the next call.
"""

from __future__ import annotations

import re
from enum import Enum, StrEnum

from kafka import errors

from streamnb.errors import Fenced, JournalError, NotElected, OutOfRange, SnapshotError, Unavailable


class Action(Enum):
    """What is to be done about an error."""

    RETRY = "retry"
    """Wait, and call again."""
    RESEND = "resend"
    """The outcome of a commit is unknown: settle it, then send the same bytes again if they are not there."""
    DEPOSED = "deposed"
    """Another learner has taken over: exit."""
    CORRUPTED = "corrupted"
    """Log, journal or snapshot are not what was learned: refuse, for going on would be a guess."""
    FATAL = "fatal"
    """Permissions, configuration, sizes, faults of the program: exit, for calling again does not mend it."""


class Refusal(StrEnum):
    """Patterns of what a client says that cannot connect, and that waiting does not mend."""

    TOPIC = "InitProducerId.* ClusterAuth"
    LOGIN = "SaslAuthenticationFailed"
    MECHANISM = "UnsupportedSaslMechanism"
    NO_LOGIN = "IllegalSaslState"
    OTHER_HOST = "(Hostname|IP address) mismatch"
    UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
    UNREADABLE = r"No such file|Permission denied|Is a directory|\[X509|\[SSL\]"
    TLS = r"\[SSL: (?!UNEXPECTED_EOF)"
    TLS_WANTED = "Invalid frame length: 352518"  # 0x1503, an alert of TLS, and what follows


NO_SUCH_TOPIC = (errors.UnknownTopicOrPartitionError, errors.InvalidTopicError)


_Errors = tuple[type[BaseException], ...]


def _named(names: str) -> _Errors:
    return tuple(getattr(errors, name) for name in names.split())


_CORRUPTED: _Errors = (
    *(OutOfRange, JournalError, SnapshotError),
    *_named("OffsetOutOfRangeError NoOffsetForPartitionError LogTruncationError CorruptRecordError"),
)
"""Records that were learned, or are next, are gone or damaged."""

_DEPOSED: _Errors = (
    Fenced,
    *_named("ProducerFencedError InvalidProducerEpochError FencedInstanceIdError FencedMemberEpochError"),
    *_named("IllegalGenerationError UnknownMemberIdError CommitFailedError"),
)
"""The broker, or the group, has gone on without this learner; inside a commit only `Fenced` says so."""

_WAITED_FOR: _Errors = (
    *(Unavailable, NotElected),
    *_named("RetriableError BrokerNotAvailableError RebalanceInProgressError MemberIdRequiredError"),
    *_named("StaleMemberEpochError UnknownBrokerIdError"),  # the latter of a partition without a leader
)
"""Of a cluster that does not answer now, or of a group that has not settled."""

_VAIN = NO_SUCH_TOPIC + _named("""
    AuthorizationError SaslAuthenticationFailedError UnsupportedSaslMechanismError IllegalSaslStateError
    SecurityDisabledError MessageSizeTooLargeError RecordListTooLargeError InvalidRecordError
    InvalidTimestampError InvalidRequiredAcksError PolicyViolationError OffsetMetadataTooLargeError
    InvalidCommitOffsetSizeError InvalidGroupIdError InvalidTransactionTimeoutError UnsupportedVersionError
    UnsupportedForMessageFormatError UnsupportedCompressionTypeError UnsupportedCodecError
    UnrecognizedBrokerVersion KafkaConfigurationError IllegalArgumentError""")
"""Errors of a commit that sending again does not mend. All others of a client leave the outcome unknown."""

_REFUSED = re.compile("|".join(Refusal))
_WRAPPED = re.compile(r"\[Error (-?\d+)\] \w+(?:: (.*))?$")


def classify(error: BaseException, *, committing: bool, complaint: str = "") -> Action:
    """What is to be done about an error of the client, or about one of our own.

    Args:
        error: what was raised.
        committing: whether it was raised by an attempt to commit.
        complaint: what the client said last of why it cannot connect; its exceptions say that it cannot.
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
    """The error itself; where the client wraps the broker's into the text of a general one, the broker's."""
    if type(error) is errors.KafkaError and (wrapped := _WRAPPED.search(whole(error))):
        code, text = wrapped.groups()
        return errors.for_code(int(code))(*filter(None, [text]))  # type: ignore[no-any-return]
    return error


def whole(error: BaseException) -> str:
    """The error in one line, its kind first."""
    text = " ".join(str(argument) for argument in error.args) or getattr(error, "description", "") or ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def decisive(error: BaseException, complaint: str) -> str:
    """What says most about why it failed: the error, or where it is that nobody answers, the complaint."""
    said = whole(error)
    return complaint if "Unable to bootstrap" in said and complaint else said
