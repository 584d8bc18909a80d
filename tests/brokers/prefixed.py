"""A Kafka log whose topics bear a prefix on the broker and none to the engine: many tests share one broker.

Beyond the port it has what a test needs of a cluster's operator (topics, partitions, retention, positions)
and of a stranger (a transaction left open), under the names that the embedded log gives them.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial

from confluent_kafka import Producer
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from streamnb.engine.ports import HANDED_ON, Partition
from streamnb.event_logs.kafka import kafka_python_client, librdkafka_client
from streamnb.event_logs.kafka.kafka_log import KafkaLog
from streamnb.event_logs.kafka.kafka_python_client import KafkaPython
from streamnb.event_logs.kafka.librdkafka_client import Librdkafka

LIBRARIES = {"kafka": KafkaPython, "librdkafka": Librdkafka}
PRODUCERS = {
    KafkaPython: kafka_python_client._KafkaPythonTransactionalProducer,
    Librdkafka: librdkafka_client._LibrdkafkaTransactionalProducer,
}
LARGEST = 4 << 20  # bytes of a batch of records


class PrefixedKafkaLog:
    """A `KafkaLog`; `again(**options)` opens another like it and can be sent to another process."""

    def __init__(self, address, prefix, *, library=KafkaPython, **options):
        self._library = library
        options["library"] = library
        self._address = address
        self._prefix = prefix
        self._client = {"bootstrap_servers": address}
        topics = {"journal_topic": f"{prefix}journal", "requests_topic": f"{prefix}requests"}
        self._log = KafkaLog(self._client, model=prefix, **topics, **options)
        self.again = partial(PrefixedKafkaLog, address, prefix, **options)

    def __getattr__(self, name):
        return getattr(self._log, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._log.close()

    @property
    def transactional_producer(self):
        """The class whose calls are the steps of a commit."""
        return PRODUCERS[self._library]

    @contextlib.contextmanager
    def nothing_fetched(self):
        """What is written meanwhile is not at hand when it is polled: librdkafka would fetch it at once."""
        if self._library is not Librdkafka:
            yield
            return
        consumer = self._log._records._reader._consumer
        consumer.pause(consumer.assignment())
        yield
        consumer.resume(consumer.assignment())

    @property
    def transactional_id(self):
        """The group has the same name."""
        return f"streamnb.{self._prefix}"

    def sizes(self, topics):
        """By the engine's names."""
        found = self._log.sizes([self._prefix + name for name in topics])
        return {name.removeprefix(self._prefix): size for name, size in found.items()}

    def losses(self, topics):
        found = self._log.losses({self._prefix + name: role for name, role in topics.items()})
        return [loss._replace(topic=loss.topic.removeprefix(self._prefix)) for loss in found]

    def retention(self, topics):
        found = self._log.retention([self._prefix + name for name in topics])
        return {name.removeprefix(self._prefix): seconds for name, seconds in found.items()}

    def missing(self, partition, *extent):
        return self._log.missing(self._there(partition), *extent)

    # The operator's side

    def create_topics(self, topics):
        settings = {"max.message.bytes": str(LARGEST)}
        with self._admin() as admin:
            admin.create_topics(
                [NewTopic(self._prefix + name, n, 1, topic_configs=settings) for name, n in topics.items()]
            )
            admin.wait_for_topics([self._prefix + name for name in topics])
            self._until_seen(admin, topics, there=True)

    def create_topic(self, name, partitions):
        self.create_topics({name: partitions})

    def add_partitions(self, name, partitions):
        with self._admin() as admin:
            admin.create_partitions({self._prefix + name: partitions})

    def delete_topic(self, name):
        with self._admin() as admin:
            admin.delete_topics([self._prefix + name])
            self._until_seen(admin, [name], there=False)

    def _until_seen(self, admin, topics, *, there):
        """The broker's own view of its topics follows the controller's, which has answered."""
        names = [self._prefix + name for name in topics]
        while any(bool(found["error_code"]) == there for found in admin.describe_topics(names)):
            time.sleep(0.02)

    def trim(self, partition, before):
        with self._admin() as admin:
            admin.delete_records({TopicPartition(*self._there(partition)): before})

    def positions(self):
        """What commits have noted: not the offset of the journal, which a member commits to prove itself."""
        with self._admin() as admin:
            offsets = admin.list_group_offsets(self.transactional_id)[self.transactional_id]
        noted = {self._here(Partition(*place)): found.offset for place, found in offsets.items()}
        return {partition: offset for partition, offset in noted.items() if partition.topic != "journal"}

    @contextlib.contextmanager
    def _admin(self):
        with contextlib.closing(KafkaAdminClient(**self._client)) as admin:
            yield admin

    # The stranger's side

    def begin(self, records, **settings):
        """Write the records in a transaction of a stranger's, and leave it open."""
        named = {"transactional_id": f"{self._prefix}stranger"} | settings
        return OpenTransaction(self._address, [self._new(record) for record in records], **named)

    # The port's side

    def partitions(self, topic):
        return [self._here(found) for found in self._log.partitions(self._prefix + topic)]

    def topic_id(self, topic):
        return self._log.topic_id(self._prefix + topic)

    def topic_ids(self, topics):
        found = self._log.topic_ids([self._prefix + topic for topic in topics])
        return {name.removeprefix(self._prefix): topic_id for name, topic_id in found.items()}

    def offsets(self, partition):
        return self._log.offsets(self._there(partition))

    def offset_ranges(self, topic):
        found = self._log.offset_ranges(self._prefix + topic)
        return {self._here(partition): extent for partition, extent in found.items()}

    def read(self, partition, offset, limit):
        return self._records(self._log.read(self._there(partition), offset, limit))

    def seek(self, positions):
        self._log.seek({self._there(partition): offset for partition, offset in positions.items()})

    def poll(self, limit, timeout):
        return self._records(self._log.poll(limit, timeout))

    def lag(self):
        return {self._here(partition): records for partition, records in self._log.lag().items()}

    def held_up(self, partitions):
        return self._log.held_up([self._there(partition) for partition in partitions])

    def commit(self, transaction):
        self.begin_commit(transaction).await_outcome()

    def begin_commit(self, transaction):
        return self._log.begin_commit(self._prefixed(transaction))

    def _prefixed(self, transaction):
        return transaction._replace(
            journal=self._new(transaction.journal),
            outputs=[self._new(output) for output in transaction.outputs],
            positions={self._there(p): offset for p, offset in transaction.positions.items()},
        )

    def append(self, records):
        self._log.append([self._new(record) for record in records])

    def append_requests(self, requests):
        told = [one._replace(records=[self._new(record) for record in one.records]) for one in requests]
        return [
            one if one.places is None else one._replace(places=[(self._here(p), at) for p, at in one.places])
            for one in self._log.append_requests(told)
        ]

    def owner(self):
        return self._log.owner()

    def forwarded(self, topic, by=HANDED_ON):
        return {self._here(p): at for p, at in self._log.forwarded(self._prefix + topic, by).items()}

    def forward(self, records, since, until, by=HANDED_ON):
        places = ({self._there(p): at for p, at in found.items()} for found in (since, until))
        self._log.forward([self._new(record) for record in records], *places, by)

    def _there(self, partition):
        return Partition(self._prefix + partition.topic, partition.number)

    def _here(self, partition):
        return Partition(partition.topic.removeprefix(self._prefix), partition.number)

    def _new(self, record):
        return record._replace(topic=self._prefix + record.topic)

    def _records(self, records):
        return [record._replace(partition=self._here(record.partition)) for record in records]


class OpenTransaction:
    """Records on the broker whose fate is not decided yet; of librdkafka, a client that is not streamnb's."""

    def __init__(self, address, records, transactional_id):
        settings = {"bootstrap.servers": address, "transactional.id": transactional_id, "linger.ms": 0}
        self._producer = Producer(settings)
        self._producer.init_transactions(30)
        self._producer.begin_transaction()
        for record in records:
            self._producer.produce(
                record.topic, record.value, record.key, headers=list(record.headers) or None
            )
        assert self._producer.flush(30) == 0

    def commit(self):
        self._producer.commit_transaction(30)

    def abort(self):
        self._producer.abort_transaction(30)
