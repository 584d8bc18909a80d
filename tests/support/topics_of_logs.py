"""What nobody does to an embedded log but its owner by hand: topics grow and go. And what commits have noted.

A log of Kafka has its broker's administration for it (`tests/brokers/prefixed.py`); on an embedded one it is SQL.
"""

from __future__ import annotations

from streamnb.engine.ports import Partition
from streamnb.event_logs.sqlite.sqlite_store import OFFSET_BITS


def add_partitions(log, name, partitions):
    """Give a topic more partitions, so many altogether."""
    if hasattr(log, "add_partitions"):
        log.add_partitions(name, partitions)
        return
    store = log._store
    with store.transaction("IMMEDIATE"):
        _, present = store.topic(name)
        store.db.execute("UPDATE topics SET partitions = ? WHERE name = ?", (partitions, name))
        store._insert_partitions(name, range(present, partitions))


def delete_topic(log, name):
    """Delete a topic and all its records."""
    if hasattr(log, "delete_topic"):
        log.delete_topic(name)
        return
    store = log._store
    with store.transaction("IMMEDIATE"):
        for number in range(store.topic(name)[1]):
            extent = store.offset_range(Partition(name, number))
            delete_records(store, extent, extent.next)
        store.db.execute("DELETE FROM partitions WHERE topic = ?", (name,))
        store.db.execute("DELETE FROM topics WHERE name = ?", (name,))


def made_anew(open_log, topic):
    """A topic is deleted and made again, with one partition."""
    log = open_log()
    known = log.topic_id(topic)
    delete_topic(log, topic)
    log.create_topic(topic, 1)
    assert open_log().topic_id(topic) != known


def noted_positions(log):
    """The positions last committed."""
    return log.positions() if hasattr(log, "positions") else log._store.positions()


def trim(log, partition, before):
    """Drop the records below an offset, as retention does: the offsets of the others do not change."""
    if hasattr(log, "trim"):
        log.trim(partition, before)
        return
    store = log._store
    with store.transaction("IMMEDIATE"):
        extent = store.offset_range(partition)
        delete_records(store, extent, before)
        update = "UPDATE partitions SET earliest = max(earliest, ?) WHERE partition_id = ?"
        store.db.execute(update, (before, extent.partition_id))


def delete_records(store, extent, before):
    """Inside a transaction: those below an offset."""
    start = extent.partition_id << OFFSET_BITS
    store.db.execute("DELETE FROM records WHERE place >= ? AND place < ?", (start, start + before))


def set_on_both(log, *pragmas):
    """On the connection of the log, and on the one of its commits, which the first commit opens."""
    store, another = log._store, log._store.another

    def prepared():
        other = another()
        for pragma in pragmas:
            other._pragma(pragma)
        return other

    for pragma in pragmas:
        store._pragma(pragma)
    store.another = prepared
