"""``read --follow``: whatever comes to a topic, as it comes."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice

import pytest

from streamnb.cli.commands.read import followed
from streamnb.engine.ports import NewRecord, between
from streamnb.errors import OutOfRange
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from tests.support.topics_of_logs import add_partitions, made_anew


def kept(log, partition):
    first, end = log.offsets(partition)
    return [record.value for record in between(log, partition, first, end, 1000)]


def numbered(numbers):
    return [NewRecord("events", b"%d" % number, b"%d" % number, ()) for number in numbers]


def values(records):
    return sorted(int(record.value) for record in records)


@pytest.mark.parametrize("start", [None, 0, 3])
def test_what_comes_is_printed_once_whatever_was_there_before(open_log, start):
    """In each partition, also in those that are added meanwhile."""
    writer, reader = open_log(events=2), open_log()
    writer.append(numbered(range(20)))
    came = followed(reader, "events", start)
    before = (
        []
        if start is None
        else [value for one in reader.partitions("events") for value in kept(reader, one)[start:]]
    )
    assert values(islice(came, len(before))) == sorted(map(int, before))
    for batch, partitions in ((range(20, 21), 2), (range(21, 50), 2), (range(50, 90), 4)):
        if partitions > 2:
            add_partitions(writer, "events", partitions)
        writer.append(numbered(batch))
        assert values(islice(came, len(batch))) == list(batch)


def test_a_topic_that_is_made_anew_is_not_waited_for(open_log):
    log = open_log(events=1)
    log.append(numbered(range(3)))
    came = followed(open_log(), "events", 0)
    assert values(islice(came, 3)) == [0, 1, 2]
    made_anew(open_log, "events")
    with pytest.raises(OutOfRange, match="events was recreated while it was read: start again"):
        next(came)


def test_lines_come_one_by_one_up_to_the_limit(tmp_path):
    with SqliteLog(tmp_path / "log.db") as log:
        log.create_topic("events", 1)
        log.append([NewRecord("events", None, b'{"id": "old"}', ())])
        command = [
            sys.executable,
            "-m",
            "streamnb",
            "read",
            "events",
            "--follow",
            "--from",
            "0",
            "--limit",
            "3",
        ]
        said = subprocess.Popen(
            [*command, "--log", f"sqlite:///{tmp_path / 'log.db'}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with said:
            assert said.stdout.readline() == b'{"id": "old"}\n'  # though the process goes on
            for i in range(5):
                log.append([NewRecord("events", None, b'{"id": "%d"}' % i, ())])
            assert said.stdout.read() == b'{"id": "0"}\n{"id": "1"}\n'
            assert (said.wait(60), said.stderr.read()) == (0, b"")
