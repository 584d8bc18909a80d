"""A service quotes no event in its log: a marker stands in every place of records, and in no line, unless asked for."""

from __future__ import annotations

import contextlib
import json
import shutil
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import context
from tests.support.program import Program, until

MARK = "qZmarkZq"
USUAL = 60
"""Events without a fault."""
QUOTING = {
    "dead-letters-found", "fields-not-read", "foreign-record", "ids-repeated", "labels-alike", "labels-like-missing",
    "numbers-as-values", "text-as-value", "type-changed", "type-changes",
}  # fmt: skip
"""Messages that the records bring about."""
FAILURES = {
    "": "",
    "ValueError": f"raise ValueError('could not convert {MARK}')",
    "UnlearnError": f"from streamnb.errors import UnlearnError; raise UnlearnError('never learned as {MARK}')",
    "LogError": f"from streamnb.errors import LogError\n        raise LogError('it fails') from KeyError('{MARK}')",
}
FIRST = f"""
import logging, threading, warnings
from streamnb.engine.processing.event_processor import EventProcessor
process = EventProcessor.process

def fails():
    raise KeyError("{MARK}")

def wrapped(self, records, *rest, **more):
    found = process(self, records, *rest, **more)
    if any(b"the last" in record.value for record in records):
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
        warnings.warn("odd: {MARK}", stacklevel=1)
        try:
            fails()
        except KeyError:
            logging.getLogger("asyncio").exception("task of {MARK}")
        %s
    return found

EventProcessor.process = wrapped
"""


def hostile():
    """Yield key, value and headers of events with the marker in each place."""
    for i in range(USUAL):
        features = {"city": "north", f"{MARK}note": f"{MARK} a note of many words {i}", "amount": f"{i},5"}
        features |= {f"{MARK}size": i if i < USUAL // 2 else f"{MARK}{i}"}
        yield (
            b"one partition",
            {"id": f"e{i}", "text": f"{MARK} lunch {i}", "label": "ab"[i % 2], "features": features},
            (),
        )
    usual = {"id": MARK, "text": "noon", "label": "a"}
    for more in (
        {}, {}, {"label": MARK}, {"label": MARK.lower()}, {"label": f" {MARK} "}, {"label": "null"}, {"label": [MARK]},
        {"id": [MARK]}, {"ts": MARK}, {"ts": f"2026-13-{MARK}"}, {"text": [MARK]}, {"features": MARK},
        {"features": {MARK: MARK}}, {"features": {"city": [MARK]}}, {"features": {"city": {MARK: 1}}}, {MARK: MARK},
        {"weight": MARK}, {"features": {MARK: 1e309}}, {"features": {"length": MARK}},
    ):  # fmt: skip
        yield None, usual | more, ()
    yield MARK.encode(), usual, (("traceparent", MARK.encode()), (MARK, MARK.encode()))
    for i in range(9):
        yield None, {"id": f"r{i}", "features": {f"{MARK}list": {"a": [i]}}}, ()
    yield None, f'{{"id": "{MARK}", '.encode(), ()
    yield None, f'{{"id": "{MARK}", "id": "{MARK}"}}'.encode(), ()
    yield None, MARK.encode() + b"\xff", ()
    yield None, f'"{MARK} \\ud800"'.encode(), ()
    for value in (MARK, MARK.upper(), f"{MARK} "):
        yield MARK.encode(), {"id": f"{MARK}-{value}", "text": value, "label": value}, ()


def labels():
    usual = {"id": "e1", "label": "b", "source": "analyst"}
    for more in (
        {}, {"label": MARK}, {"id": MARK}, {"source": MARK}, {"weight": MARK}, {MARK: MARK}, {"label": [MARK]},
        *({"source": f"{MARK}{i}"} for i in range(300)),
    ):  # fmt: skip
        yield None, usual | more, ()
    yield None, MARK.encode(), ()


def encoded(topic, made):
    for key, value, headers in made:
        yield NewRecord(
            topic, key, value if isinstance(value, bytes) else json.dumps(value).encode(), headers
        )


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def site(request, tmp_path):
    """Return how to make a program; its topics are empty."""
    made = []

    def site_of(*, content=None, **sections):
        is_kafka = request.param == "kafka"
        address = (
            request.getfixturevalue("broker").address if is_kafka else f"sqlite:///{tmp_path / 'log.db'}"
        )
        output = {"format": "json"} | ({} if content is None else {"content": content})
        program = Program(
            tmp_path,
            address,
            log_output=output,
            commit={"events": 5},
            snapshots={"folder": "snapshots"},
            **sections,
        )
        if content is None:
            program.file.write_text(program.file.read_text().replace("content = true\n", ""))
        program.run("topics", "create")
        made.append(program)
        return program

    yield site_of
    for program in made:
        program.close()


def append(program, records, *, foreign=()):
    """Write records; those that are foreign to the journal, as another program would."""
    config = configuration.load(program.file, {}, [])
    with closing(context.existing_log(config)) as log:
        log.append(records)
        if foreign and isinstance(log, SqliteLog):
            with log._store.transaction("IMMEDIATE"):
                log._store.insert(list(foreign), 0.0)
        elif foreign:
            log.append(list(foreign))


def lines_of(command):
    """Return the messages of a process, and all that it wrote."""
    found = [json.loads(line) for line in command.said().splitlines()]
    return found, command.said(0) + command.said()


def last_of(program):
    return encoded(program.topics["events"], [(None, {"id": "z", "text": "the last", "label": "a"}, ())])


def learned(program, marks, *, failure="", code=0):
    """Return the messages of a life that meets all the records, and its successor's, which is told to end."""
    journal = NewRecord(program.topics["journal"], None, MARK.encode())
    append(program, list(encoded(program.topics["events"], hostile())), foreign=[journal])
    if "labels" in program.topics:
        append(program, list(encoded(program.topics["labels"], labels())))
    first = program.start("run", "--until-end").finish()
    assert first.process.returncode == 0, first.said()
    shutil.rmtree(program.folder / "snapshots")  # so that the whole journal is read
    append(program, list(last_of(program)))
    second = program.start("run", "--until-end", first=FIRST % FAILURES[failure]).finish()
    assert second.process.returncode == code, second.said()
    append(program, list(last_of(program)))
    third = program.start("run", "--until-end").finish()
    learner = program.start("run")
    until(lambda: "learner-recovered" in learner.said(), learner.said)
    standby = program.start("run")
    until(lambda: "standing-by" in standby.said(), standby.said)
    messages = []
    for command in (first, second, third, standby.stop(), learner.stop()):
        found, text = lines_of(command)
        messages += found
        said = command.said() if command in (first, second, third) else text  # `--until-end` prints a report
        assert marks or MARK.lower() not in said.lower(), said
    return messages


@pytest.mark.parametrize("failure", FAILURES)
def test_no_line_of_a_learner_quotes_a_record_unless_that_is_asked_for(site, failure):
    program = site(model_keys={"kind": "naive_bayes"})
    found = learned(program, marks=False, failure=failure, code=int(bool(failure)))
    assert {one["event"] for one in found} >= QUOTING | {"thread-failed", "python-warning", "library-message"}
    assert next(one for one in found if one["event"] == "type-changed")["place"]
    failed = [one for one in found if one["event"] == "command-failed"]
    assert [one["cause"].partition(":")[0] for one in failed] == (
        [] if not failure else ["KeyError" if failure == "LogError" else failure]
    )


def test_every_quoting_message_of_a_learner_quotes_if_that_is_asked_for(site):
    found = learned(
        site(content=True, model_keys={"kind": "naive_bayes"}), marks=True, failure="ValueError", code=1
    )
    quoting = {one["event"] for one in found if MARK.lower() in json.dumps(one).lower()}
    named = {"thread-failed", "python-warning", "library-message", "command-failed"}
    assert quoting >= (QUOTING | named) - {"foreign-record", "labels-like-missing"}


@pytest.mark.parametrize("kind", ["mixture", "tenants"])
def test_other_models_and_late_labels_quote_none_either(site, kind):
    more = {"topics": {"labels": f"late-{kind}"}} if kind == "mixture" else {"events": {"entity": "$.text"}}
    program = site(model_keys={"kind": kind}, **more)
    if kind == "mixture":
        program.topics["labels"] = f"late-{kind}"
    assert "dead-letters-found" in {one["event"] for one in learned(program, marks=False)}


def test_a_replica_that_is_asked_about_records_quotes_none(site):
    program = site(model_keys={"kind": "naive_bayes"}, topics={"labels": "asked"})
    append(program, list(encoded(program.topics["events"], hostile())))
    program.start("run", "--until-end").output()
    replica = program.start("serve", "--listen", "127.0.0.1:0")
    until(lambda: "http-served" in replica.said(), replica.said)
    served = next(one for one in lines_of(replica)[0] if one["event"] == "http-served")
    address = f"http://{served['host']}:{served['port']}"
    until(lambda: asked(f"{address}/ready") == 200)
    bodies = [json.dumps(value).encode() if isinstance(value, dict) else value for _, value, _ in hostile()][
        USUAL:
    ]
    for path in ("/predict", "/explain", "/labels", "/events", f"/events/{MARK}", f"/no/{MARK}"):
        for body in (None, *bodies):
            asked(f"{address}{path}?{MARK}={MARK}", body)
    text = lines_of(replica.stop())[1]
    assert replica.process.returncode == 0, text
    assert MARK.lower() not in text.lower(), text


def asked(url, body=None):
    head = {"Content-Type": "application/json", "Idempotency-Key": MARK}
    request = urllib.request.Request(url, body, head)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status
    except urllib.error.HTTPError as error:
        with contextlib.closing(error):
            return error.status
