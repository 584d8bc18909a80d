"""Kafka's default partitioner, with a shortcut for topics of one partition."""

from __future__ import annotations

from typing import Any

from kafka.partitioner import DefaultPartitioner


class KeyPartitioner(DefaultPartitioner):  # type: ignore[misc]  # kafka-python is untyped here
    """kafka-python's default partitioner, except that with a single partition keys are not hashed."""

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: Any,
        cluster: Any,
    ) -> Any:
        """Return the partition of one record; arguments and errors as in kafka-python's `Partitioner`."""
        partitions = cluster.partitions_for_topic(topic)
        if partitions and len(partitions) == 1:
            return next(iter(partitions))
        return super().partition(topic, key, serialized_key, value, serialized_value, cluster)
