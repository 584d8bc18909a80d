"""Which partition a record goes to: the one of Kafka's own default, found sooner where there is no choice."""

from __future__ import annotations

from typing import Any

from kafka.partitioner import DefaultPartitioner


class KeyPartitioner(DefaultPartitioner):  # type: ignore[misc]  # kafka-python is untyped here
    """kafka-python's default; a key is not hashed, in Python, where its topic has a single partition."""

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: Any,
        cluster: Any,
    ) -> Any:
        """The partition of one record; arguments and errors are those of kafka-python's `Partitioner`."""
        partitions = cluster.partitions_for_topic(topic)
        if partitions and len(partitions) == 1:
            return next(iter(partitions))
        return super().partition(topic, key, serialized_key, value, serialized_value, cluster)
