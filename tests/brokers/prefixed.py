"""A Kafka log whose topics bear a prefix on the broker and none to the engine: many tests share one broker."""

from __future__ import annotations

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from streamnb.adapters.kafka_python import KafkaLog
from streamnb.engine.ports import Partition


class PrefixedKafkaLog:
    def __init__(self, address, prefix, **options):
        self._prefix = prefix
        self._client = {"bootstrap_servers": address}
        self._log = KafkaLog(self._client, model=prefix, journal_topic=f"{prefix}journal", **options)

    def __getattr__(self, name):
        return getattr(self._log, name)

    def create_topics(self, topics):
        admin = KafkaAdminClient(**self._client)
        settings = {"max.message.bytes": str(4 << 20)}
        admin.create_topics(
            [
                NewTopic(self._prefix + name, number, 1, topic_configs=settings)
                for name, number in topics.items()
            ]
        )
        admin.close()

    def trim(self, partition, before):
        from kafka import TopicPartition

        admin = KafkaAdminClient(**self._client)
        admin.delete_records({TopicPartition(*self._there(partition)): before})
        admin.close()

    def partitions(self, topic):
        return [self._here(found) for found in self._log.partitions(self._prefix + topic)]

    def topic_id(self, topic):
        return self._log.topic_id(self._prefix + topic)

    def offsets(self, partition):
        return self._log.offsets(self._there(partition))

    def read(self, partition, offset, limit):
        return self._records(self._log.read(self._there(partition), offset, limit))

    def seek(self, positions):
        self._log.seek({self._there(partition): offset for partition, offset in positions.items()})

    def poll(self, limit, timeout):
        return self._records(self._log.poll(limit, timeout))

    def commit(self, transaction):
        self._log.commit(
            transaction._replace(
                journal=self._new(transaction.journal),
                outputs=[self._new(output) for output in transaction.outputs],
                positions={self._there(p): offset for p, offset in transaction.positions.items()},
            )
        )

    def append(self, records):
        self._log.append([self._new(record) for record in records])

    def _there(self, partition):
        return Partition(self._prefix + partition.topic, partition.number)

    def _here(self, partition):
        return Partition(partition.topic.removeprefix(self._prefix), partition.number)

    def _new(self, record):
        return record._replace(topic=self._prefix + record.topic)

    def _records(self, records):
        return [record._replace(partition=self._here(record.partition)) for record in records]
