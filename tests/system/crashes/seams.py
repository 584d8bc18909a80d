"""Seams: calls between two steps, before or after each of which a process can be killed or stopped.

The production code has no hooks for it: functions are replaced in the process that is to die, before it begins.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sqlite3
import threading
from collections import Counter
from pathlib import Path

SNAPSHOT_CALLS = [
    "open", "write", "pwrite", "writev", "ftruncate", "fsync", "fdatasync", "rename", "replace", "link", "unlink",
    "mkdir", "close",
]  # fmt: skip
PRODUCER_CALLS = [
    "init_transactions",
    "begin_transaction",
    "send_offsets_to_transaction",
    "commit_transaction",
]


class Seams:
    """Counts the calls of each seam, and does what a point says when it is reached.

    Args:
        point: None, or {"seam", "call", "when", "does"}: the number of the call from 0, "before", "after" or
            "midway", and the name of a signal for this process.
        trace: None, or a file to which every call is written.
    """

    def __init__(self, point, trace):
        self._point = point and (point["seam"], point["call"], point["when"])
        self._signal = point and getattr(signal, f"SIG{point['does']}")
        self._counts = Counter()
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if trace else None
        self._note = os.write  # itself, whatever is replaced later
        self._kept = []

    def at(self, seam, call, when):
        if self._point == (seam, call, when):
            self._point = None
            # To this thread: one for the process stops it only once another thread has taken notice of it.
            signal.pthread_kill(threading.get_ident(), self._signal)

    def begins(self, seam, text=""):
        """A call begins; its number."""
        call = self._counts[seam]
        self._counts[seam] += 1
        if self._trace is not None:
            self._note(self._trace, json.dumps([seam, call, text]).encode() + b"\n")
        self.at(seam, call, "before")
        return call

    def around(self, seam, function):
        """The function, as a seam; `seam` may be a function of the arguments, None for calls that are none."""

        @functools.wraps(function)
        def call_it(*args, **kwargs):
            name = seam(*args, **kwargs) if callable(seam) else seam
            if name is None:
                return function(*args, **kwargs)
            call = self.begins(name)
            answer = function(*args, **kwargs)
            self.at(name, call, "after")
            return answer

        return call_it

    def replace(self, owner, name, seam):
        setattr(owner, name, self.around(seam, getattr(owner, name)))

    # -- where they are -------------------------------------------------------------------------------------

    def of_sqlite(self):
        """Every statement of every connection made from now on; see `SQL`."""
        connect = sqlite3.connect

        def begins(statement):
            seam = "sql of the end" if self._counts["close"] else "sql"
            if threading.current_thread() is not threading.main_thread():
                seam = "sql of commits"
            self.begins(seam, " ".join(statement.split())[:40])

        def connected(*args, **kwargs):
            connection = connect(*args, **kwargs)
            connection.set_trace_callback(begins)
            return connection

        sqlite3.connect = connected

    def of_snapshots(self, folder):
        """Every call of the operating system that touches the folder of the snapshots."""
        ours = set()  # descriptors
        folder = Path(folder).absolute()
        parent, inside = os.fspath(folder.parent), os.fspath(folder)

        def replace(name):
            function = getattr(os, name)
            seam = f"os.{name}"

            @functools.wraps(function)
            def call_it(first, *args, **kwargs):
                if isinstance(first, int):
                    is_ours = first in ours
                else:  # making the folder touches the one it lies in
                    is_ours = os.fsdecode(first) == parent or os.fsdecode(first).startswith(inside)
                if not is_ours:
                    return function(first, *args, **kwargs)
                call = self.begins(seam)
                if name == "write" and self._point == (seam, call, "midway"):
                    half = function(first, args[0][: len(args[0]) // 2])
                    self.at(seam, call, "midway")
                    return half  # the rest is written by another call, as after any write that is cut short
                answer = function(first, *args, **kwargs)
                if name == "open":
                    ours.add(answer)
                elif name == "close":
                    ours.discard(first)
                self.at(seam, call, "after")
                return answer

            setattr(os, name, call_it)

        for name in SNAPSHOT_CALLS:
            replace(name)

    def of_the_engine(self):
        """Recovery, the loading of a snapshot, and learning down to the batch."""
        from streamnb.engine.processing import event_processor, event_stages
        from streamnb.persistence.snapshot_folder import SnapshotFolder
        from streamnb.runtime import worker_recovery

        self.replace(worker_recovery, "recover", "recover")
        self.replace(SnapshotFolder, "newest", "find snapshot")
        self.replace(event_processor.EventProcessor, "load", "load snapshot")
        self.replace(event_processor.EventProcessor, "process", "process")
        self.replace(event_stages, "decode_events", "decode")

    def of_the_log(self, log):
        """Calls of the port, on this object."""

        def read(partition, *_):
            return "read journal" if partition.topic == "journal" else "read slice"

        def begun(begin):
            def begin_commit(transaction):
                name = "commit" if transaction.n else "genesis"
                call = self.begins(name)
                under_way = begin(transaction)

                def settle():
                    settled = self.begins("settle")
                    seconds = under_way.await_outcome()
                    self.at("settle", settled, "after")
                    self.at(name, call, "after")
                    return seconds

                return under_way._replace(await_outcome=settle)

            return begin_commit

        self.replace(log, "read", read)
        log.begin_commit = begun(log.begin_commit)
        for name in ("acquire", "seek", "poll", "close"):
            self.replace(log, name, name)

    def of_kafka(self, library):
        """The steps of an election, a takeover and a commit; see `election` and `transactions`."""
        from kafka import KafkaProducer
        from kafka.producer.future import FutureRecordMetadata
        from kafka.producer.record_accumulator import RecordAccumulator

        from streamnb.event_logs.kafka.kafka_clients import Clients
        from streamnb.event_logs.kafka.kafka_python_client import KafkaPython
        from streamnb.event_logs.kafka.kafka_transactions import Transactions
        from streamnb.event_logs.kafka.leader_election import Election
        from tests.brokers.prefixed import PRODUCERS

        def send(_, place, *__, **___):
            return "send journal" if place.topic.endswith("journal") else "send"

        if library is KafkaPython:
            for name in (*PRODUCER_CALLS, "flush"):
                self.replace(KafkaProducer, name, name)
            self.replace(RecordAccumulator, "append", send)  # by whichever way a record comes there
            self.replace(FutureRecordMetadata, "succeeded", "delivery")
        else:  # its producer is written in C
            for name in (*PRODUCER_CALLS, "deliver"):
                self.replace(PRODUCERS[library], name, name)
        self.replace(Clients, "member", "join")
        self.replace(Election, "win", "win")
        self.replace(Election, "prove", "prove")
        self.replace(Transactions, "begin_anew", "begin_anew")
