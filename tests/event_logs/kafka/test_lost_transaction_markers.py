"""Transactions whose end a broker has lost: they are over, and their markers are not there."""

from __future__ import annotations

import re

import pytest
from kafka import TopicPartition, errors

from streamnb.errors import LogError
from streamnb.event_logs.kafka.kafka_python_client import send
from streamnb.event_logs.kafka.lost_transaction_markers import commit_again
from streamnb.event_logs.kafka.open_transactions import open_transactions
from tests.brokers.cluster import Cluster
from tests.event_logs.kafka.test_kafka_log import both, connecting, run_with
from tests.support.service import TOPICS

pytestmark = pytest.mark.thorough


class Unverified(Cluster):
    """One node, which takes records of transactions that their coordinator knows nothing of."""

    def _common(self):
        return super()._common() | {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module")
def broker(run_broker, tmp_path_factory):
    yield from run_broker("unverified", lambda: Unverified(tmp_path_factory.mktemp("unverified")))


@pytest.fixture
def connect(broker, request):
    """Open the log of this test once more, with options of its own; closed at the end."""
    yield from connecting(broker, request)


def lose_the_end(*, committed, everywhere=True):
    """Write a commit whose markers nobody will write, but perhaps the journal's, though it is taken for over.

    As after the restart of a lone broker that was killed in between. What the coordinator says is how the
    transaction before ended, which had no records.
    """

    def misfortune(self, _write, transaction, _membership):
        writes = (*transaction.outputs, transaction.journal)
        producer = self._library._clients.transactional(self._id, self._timeout)
        producer.init_transactions()
        manager = producer._transaction_manager
        if committed:
            producer.begin_transaction()
            manager.maybe_add_partition_to_transaction(TopicPartition(transaction.journal.topic, 0))
            producer.commit_transaction()
        producer.begin_transaction()
        for topic in {record.topic for record in writes}:
            places = {TopicPartition(topic, number) for number in producer.partitions_for(topic)}
            manager._partitions_in_transaction.update(places)
        for delivery in [send(producer, record) for record in writes]:
            delivery.get(10)
        producer.close(timeout=0)
        if not everywhere:
            producer = self._library._clients.transactional(self._id, self._timeout)
            commit_again(producer, [TopicPartition(transaction.journal.topic, 0)])
            producer.close(timeout=0)
        raise errors.KafkaTimeoutError("lost")

    return misfortune


def still_open(log):
    """Topic, partition and first offset of what has no end."""
    places = [
        TopicPartition(f"{log._prefix}{topic.replace('_', '-')}", number)
        for topic, count in TOPICS.items()
        for number in range(count)
    ]
    return {
        (*place, found.first) for place, found in open_transactions(log._log._cluster.admin, places).items()
    }


@both
@pytest.mark.parametrize(("n", "everywhere"), [(3, True), (6, True), (6, False)])
def test_a_commit_whose_end_a_broker_has_lost_is_ended_on_each_partition(
    connect, tmp_path, monkeypatch, n, everywhere
):
    lost = lose_the_end(committed=True, everywhere=everywhere)
    commits = run_with(connect, tmp_path, monkeypatch, lost, n=n)
    assert commits.count(n) == 1
    assert not still_open(connect())


@both
def test_what_may_have_been_aborted_is_named_partition_by_partition(connect, tmp_path, monkeypatch):
    with pytest.raises(LogError) as raised:
        run_with(connect, tmp_path, monkeypatch, lose_the_end(committed=False))
    log, said = connect(), str(raised.value)
    assert (
        f"a broker has lost the end of the last transaction of {log.transactional_id}, and does not" in said
    )
    told = re.findall(r"abort --topic (\S+) --partition (\d+) --start-offset (\d+)", said)
    assert {topic.removeprefix(log._prefix) for topic, _, _ in told} >= {"journal", "predictions"}
    assert {(topic, int(number), int(offset)) for topic, number, offset in told} == still_open(log)
