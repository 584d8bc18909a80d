"""What is done about an error: one table of every error of the client, and of each of our own."""

from __future__ import annotations

import gc
import inspect
import logging
import math
import threading
import time
import weakref

import pytest
from kafka import errors

import streamnb.errors as own
from streamnb.event_logs.blocking_call import BlockingCall, SerialThread, call_blocking
from streamnb.event_logs.kafka import error_messages
from streamnb.event_logs.kafka.error_actions import Action, Refusal, classify, meant
from streamnb.event_logs.kafka.error_messages import translate
from tests.support.every_case import failures
from tests.support.program import until

pytestmark = pytest.mark.thorough

RETRY, RESEND, DEPOSED, CORRUPTED, FATAL = Action

# Outside a commit -> inside one -> names; of a class with two names, both.
TABLE = {
    (RETRY, RESEND): """
        RetriableError InvalidMetadataError Cancelled KafkaConnectionError CorrelationIdError KafkaTimeoutError
        MetadataEmptyBrokerList NodeNotReadyError UnknownBrokerIdError StaleMetadata TooManyInFlightRequests
        LeaderNotAvailableError NotLeaderForPartitionError RequestTimedOutError BrokerNotAvailableError
        ReplicaNotAvailableError NetworkExceptionError CoordinatorLoadInProgressError
        CoordinatorNotAvailableError NotCoordinatorError NotEnoughReplicasError
        NotEnoughReplicasAfterAppendError RebalanceInProgressError NotControllerError
        ConcurrentTransactionsError KafkaStorageError FetchSessionIdNotFoundError
        InvalidFetchSessionEpochError ListenerNotFoundError FencedLeaderEpochError UnknownLeaderEpochError
        OffsetNotAvailableError MemberIdRequiredError PreferredLeaderNotAvailableError
        EligibleLeadersNotAvailableError ElectionNotNeededError UnstableOffsetCommitError
        ThrottlingQuotaExceededError UnknownTopicIdError InconsistentTopicIdError FetchSessionTopicIdError
        StaleMemberEpochError ShareSessionNotFoundError InvalidShareSessionEpochError
    """,
    (DEPOSED, RESEND): """
        CommitFailedError IllegalGenerationError UnknownMemberIdError InvalidProducerEpochError
        FencedInstanceIdError ProducerFencedError FencedMemberEpochError
    """,
    (CORRUPTED, RESEND): """
        NoOffsetForPartitionError LogTruncationError OffsetOutOfRangeError CorruptRecordError
        CorruptRecordException
    """,
    (FATAL, FATAL): """
        IllegalArgumentError KafkaConfigurationError UnrecognizedBrokerVersion UnsupportedCodecError
        AuthorizationError UnknownTopicOrPartitionError MessageSizeTooLargeError OffsetMetadataTooLargeError
        InvalidTopicError RecordListTooLargeError InvalidRequiredAcksError InvalidGroupIdError
        InvalidCommitOffsetSizeError TopicAuthorizationFailedError GroupAuthorizationFailedError
        ClusterAuthorizationFailedError InvalidTimestampError UnsupportedSaslMechanismError
        IllegalSaslStateError UnsupportedVersionError IncompatibleBrokerVersion
        UnsupportedForMessageFormatError PolicyViolationError InvalidTransactionTimeoutError
        TransactionalIdAuthorizationFailedError SecurityDisabledError SaslAuthenticationFailedError
        DelegationTokenAuthorizationFailedError UnsupportedCompressionTypeError InvalidRecordError
    """,
    (FATAL, RESEND): """
        KafkaError IllegalStateError KafkaProtocolError InvalidReceiveError QuotaViolationError
        TransactionAbortedError BrokerResponseError NoError UnknownError InvalidFetchRequestError
        StaleControllerEpochError InconsistentGroupProtocolError InvalidSessionTimeoutError
        TopicAlreadyExistsError InvalidPartitionsError InvalidReplicationFactorError
        InvalidReplicationAssignmentError InvalidConfigurationError InvalidRequestError
        OutOfOrderSequenceNumberError DuplicateSequenceNumberError InvalidTxnStateError
        InvalidProducerIdMappingError TransactionCoordinatorFencedError OperationNotAttemptedError
        LogDirNotFoundError UnknownProducerIdError ReassignmentInProgressError
        DelegationTokenAuthDisabledError DelegationTokenNotFoundError DelegationTokenOwnerMismatchError
        DelegationTokenRequestNotAllowedError DelegationTokenExpiredError InvalidPrincipalTypeError
        NonEmptyGroupError GroupIdNotFoundError TopicDeletionDisabledError StaleBrokerEpochError
        GroupMaxSizeReachedError NoReassignmentInProgressError GroupSubscribedToTopicError
        ResourceNotFoundError DuplicateResourceError UnacceptableCredentialError InconsistentVoterSetError
        InvalidUpdateVersionError FeatureUpdateFailedError PrincipalDeserializationFailureError
        SnapshotNotFoundError PositionOutOfRangeError DuplicateBrokerRegistrationError
        BrokerIdNotRegisteredError InconsistentClusterIdError TransactionalIdNotFoundError
        IneligibleReplicaError NewLeaderElectedError OffsetMovedToTieredStorageError
        UnreleasedInstanceIdError UnsupportedAssignorError MismatchedEndpointTypeError
        UnsupportedEndpointTypeError UnknownControllerIdError UnknownSubscriptionIdError
        TelemetryTooLargeError InvalidRegistrationError TransactionAbortableError InvalidRecordStateError
        FencedStateEpochError InvalidVoterKeyError DuplicateVoterError VoterNotFoundError
    """,
}
DECIDED = {name: actions for actions, names in TABLE.items() for name in names.split()}

OURS = {
    "StreamnbError": (FATAL, FATAL),
    "ConfigError": (FATAL, FATAL),
    "RestartRequired": (FATAL, FATAL),
    "AddressTaken": (FATAL, FATAL),
    "MalformedEvent": (FATAL, FATAL),
    "UnlearnError": (FATAL, FATAL),
    "SnapshotError": (CORRUPTED, CORRUPTED),
    "LogError": (FATAL, FATAL),
    "UnknownTopic": (FATAL, FATAL),
    "OutOfRange": (CORRUPTED, CORRUPTED),
    "Unavailable": (RETRY, RESEND),
    "NotElected": (RETRY, RETRY),
    "Fenced": (DEPOSED, DEPOSED),
    "JournalError": (CORRUPTED, CORRUPTED),
    "OtherStream": (CORRUPTED, CORRUPTED),
    "ForeignRecordError": (CORRUPTED, CORRUPTED),
}


def exceptions(module):
    """A module's own errors; a warning is none."""
    return {
        name: kind
        for name, kind in vars(module).items()
        if inspect.isclass(kind)
        and issubclass(kind, Exception)
        and not issubclass(kind, Warning)
        and kind.__module__ == module.__name__
    }


def instance(kind):
    more = {own.MalformedEvent: ("$", "why"), own.RestartRequired: (["model.kind"],)}
    return kind("why", *more.get(kind, ()))


def decisions(error):
    return classify(error, committing=False), classify(error, committing=True)


def test_every_error_there_is_has_been_decided():
    """An error that a new client or we add has to be entered above first."""
    assert exceptions(errors).keys() == DECIDED.keys()
    assert sum(len(names.split()) for names in TABLE.values()) == len(DECIDED)  # none twice
    assert exceptions(own).keys() == OURS.keys()


def test_an_error_of_the_client_and_one_of_our_own_are_decided_as_the_tables_say():
    assert {name: decisions(instance(getattr(errors, name))) for name in DECIDED} == DECIDED
    assert {name: decisions(instance(getattr(own, name))) for name in OURS} == OURS


def test_what_an_error_is_told_as_is_decided_alike():
    """The log's error carries the decision on, so that nobody has to look at the client's again."""

    def is_decided_alike(name):
        error = instance(getattr(errors, name))
        outside, inside = decisions(error)
        assert classify(translate(error), committing=False) is outside
        if inside is FATAL:
            assert classify(translate(error), committing=True) is FATAL

    assert failures(is_decided_alike, DECIDED) == {}


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "full"), AssertionError(), KeyboardInterrupt()])
def test_what_is_no_error_of_a_log_is_a_fault(error):
    assert decisions(error) == (FATAL, FATAL)


def test_a_code_that_the_client_does_not_know_is_that_of_a_broker_that_gives_up():
    unknown = errors.for_code(9999)
    assert decisions(unknown("new")) == (FATAL, RESEND)


def test_what_the_client_wraps_is_decided_as_what_it_is():
    """A producer tells the broker's error as text within a general one."""

    def is_decided_alike(name):
        kind = getattr(errors, name)
        wrapped = errors.KafkaError(f"refused: {kind('why')}")
        assert type(meant(wrapped)) is errors.for_code(kind.errno)
        assert decisions(wrapped) == DECIDED[name]

    numbered = [name for name in DECIDED if getattr(getattr(errors, name), "errno", None) is not None]
    assert failures(is_decided_alike, numbered) == {}


REFUSALS = {
    Refusal.TOPIC: "InitProducerId: [Error 31] ClusterAuthorizationFailedError",
    Refusal.LOGIN: "SaslAuthenticationFailedError: wrong",
    Refusal.MECHANISM: "UnsupportedSaslMechanismError: PLAIN",
    Refusal.NO_LOGIN: "IllegalSaslStateError: 34",
    Refusal.OTHER_HOST: "Hostname mismatch, certificate is not valid for 'b'",
    Refusal.UNTRUSTED: "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate",
    Refusal.UNREADABLE: "[Errno 2] No such file or directory",
    Refusal.TLS: "[SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert",
    Refusal.TLS_WANTED: "Invalid frame length: 352518912",
}


@pytest.mark.parametrize("refusal", Refusal, ids=lambda refusal: refusal.name)
def test_who_cannot_connect_gives_up_where_the_complaint_says_that_waiting_is_vain(refusal):
    complaint = f"Bootstrap connection to b:1 failed: {REFUSALS[refusal]}"
    nobody = errors.KafkaTimeoutError("Unable to bootstrap from ['b:1']")
    assert classify(nobody, committing=False, complaint=complaint) is FATAL
    assert classify(nobody, committing=False) is RETRY
    # A complaint is about connecting: what else went wrong is decided by itself, and so is a commit.
    assert classify(errors.NotCoordinatorError(), committing=False, complaint=complaint) is RETRY
    assert classify(nobody, committing=True, complaint=complaint) is RESEND


@pytest.mark.parametrize(
    "complaint",
    [
        "Bootstrap connection to b:1 failed: [Errno 111] Connection refused",
        "Bootstrap connection to b:1 failed: socket disconnected",
        "Bootstrap connection to b:1 failed: [SSL: UNEXPECTED_EOF_WHILE_READING] EOF",
        "Bootstrap connection to b:1 failed: Handshake failed: Connection reset by peer",
    ],
)
def test_a_broker_that_may_come_back_is_waited_for(complaint):
    nobody = errors.KafkaTimeoutError("Unable to bootstrap from ['b:1']")
    assert classify(nobody, committing=False, complaint=complaint) is RETRY


@pytest.mark.parametrize("cut", ["Timeout during ApiVersions check", "SASL Authentication timed out"])
def test_an_attempt_that_a_deadline_cuts_short_says_less_than_the_one_before(monkeypatch, cut):
    complaints = error_messages._Complaints()
    monkeypatch.setattr(error_messages, "_COMPLAINTS", complaints)
    nobody = errors.KafkaTimeoutError("Unable to bootstrap from ['b:1']")

    def told(reason):
        said = f"Bootstrap connection to b:1 failed: {reason} (backoff 0.1 secs)"
        complaints.handle(logging.makeLogRecord({"msg": said, "levelno": logging.WARNING}))
        return str(translate(nobody))

    assert cut in told(cut)  # where nothing else is known
    ended = told("socket disconnected")
    assert "ends the connection without an answer" in ended
    assert told(cut) == ended
    assert "Connection refused" in told("Connection refused")


# -- a call in a thread of its own --------------------------------------------------------------------------


def test_meanwhile_returns_and_raises_what_the_work_does():
    assert call_blocking(lambda: 7) == 7
    assert call_blocking(threading.get_ident) != threading.get_ident()
    error = KeyError("x")

    def fail():
        raise error

    with pytest.raises(KeyError) as caught:
        call_blocking(fail)
    assert caught.value is error


def test_meanwhile_the_callers_thread_shows_that_it_is_alive():
    release, callers = threading.Event(), []

    def alive():
        callers.append(threading.get_ident())
        if len(callers) == 3:
            release.set()

    assert call_blocking(lambda: release.wait(60.0), alive, math.inf) is True
    assert callers == [threading.get_ident()] * 3


def test_meanwhile_what_alive_raises_ends_the_wait():
    release = threading.Event()

    def alive():
        raise own.Fenced("lost")

    with pytest.raises(own.Fenced) as caught:
        call_blocking(release.wait, alive)
    assert caught.value.__context__ is None
    release.set()


def test_meanwhile_ends_at_its_deadline():
    release = threading.Event()
    with pytest.raises(own.Unavailable, match=r"no answer within 0\.01 s"):
        call_blocking(release.wait, seconds=0.01)
    release.set()


def test_one_thread_does_one_thing_after_another_and_keeps_nothing_of_it():
    """Until it is told to end: the records of a commit must not stay until the next one."""

    class Records:
        """What a commit holds."""

    thread, doers, kept = SerialThread(), [], []
    for _ in range(3):
        records = Records()
        kept.append(weakref.ref(records))

        def work(_=records):
            doers.append(threading.current_thread())

        BlockingCall(work, thread=thread).answer()
        del records, work
    gc.collect()
    assert len(set(doers)) == 1
    assert doers[0] is not threading.current_thread()
    until(lambda: [reference() for reference in kept] == [None] * 3)
    thread.end()
    doers[0].join(60.0)
    assert not doers[0].is_alive()


def test_what_is_given_to_one_thread_waits_its_turn():
    thread, release = SerialThread(), threading.Event()
    first, second = (
        BlockingCall(release.wait, thread=thread),
        BlockingCall(lambda: 7, seconds=60.0, thread=thread),
    )
    assert not first.is_over()
    assert not second.is_over()
    release.set()
    assert second.answer()[0] == 7
    assert first.is_over()
    assert first.answer()[1] <= time.monotonic()
    thread.end()
