"""A record goes where Kafka's own default would send it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import DefaultPartitioner

from streamnb.event_logs.kafka.kafka_clients import KeyPartitioner


class Cluster:
    """What a partitioner asks of the client's metadata."""

    def __init__(self, partitions):
        self._partitions = set(partitions)

    def topics(self):
        return {"t"}

    def partitions_for_topic(self, _):
        return set(self._partitions)

    def available_partitions_for_topic(self, _):
        return set(self._partitions)


@given(st.binary(max_size=40), st.sets(st.integers(0, 50), min_size=1, max_size=9))
def test_a_key_goes_where_the_default_sends_it(key, partitions):
    asked = ("t", key, key, b"v", b"v", Cluster(partitions))
    assert KeyPartitioner().partition(*asked) == DefaultPartitioner().partition(*asked)


@given(st.sets(st.integers(0, 50), min_size=1, max_size=9))
def test_without_a_key_it_goes_to_one_that_there_is(partitions):
    assert KeyPartitioner().partition("t", None, None, b"v", b"v", Cluster(partitions)) in partitions
