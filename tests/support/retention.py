"""What retention does to a topic: its oldest records are gone, and the offsets of the others do not change."""

from __future__ import annotations


def trim(log, partition, before):
    """Drop the records below an offset: of an embedded log by SQL, of a broker's by its administration."""
    if hasattr(log, "trim"):
        log.trim(partition, before)
        return
    store = log._store
    with store.transaction("IMMEDIATE"):
        extent = store.extent(partition)
        store._delete_records(extent, before)
        update = "UPDATE partitions SET earliest = max(earliest, ?) WHERE partition_id = ?"
        store.db.execute(update, (before, extent.partition_id))
