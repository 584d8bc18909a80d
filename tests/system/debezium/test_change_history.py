"""A table that changes under a real Debezium engine teaches what its own rows say, through kills of all processes."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

from streamnb.config import load
from streamnb.runtime import context
from tests.brokers.numbered import NUMBERS
from tests.brokers.prefixed import PrefixedKafkaLog
from tests.support.service import read_topic
from tests.system.debezium.postgres import TOPIC, Engine, Postgres

pytestmark = pytest.mark.storm
TABLE = """\
create table tickets(
    id bigserial primary key, subject text, amount numeric(10,2), free numeric, n int, day date, at timestamptz,
    moment timestamp, clock time, tags text[], state text
);
"""
OUTPUTS = ("events", "predictions", "metrics", "dead-letters", "journal", "labels")
STEPS = 150


def statements(draws, rows):
    """One change of the table, as SQL; `rows` has the ids that exist."""
    kind = draws.choice(["insert"] * 5 + ["label"] * 5 + ["other", "delete", "both"])
    label = draws.choice(["'ham'", "'spam'", "'spam'", "null"])
    if kind == "insert" or not rows:
        rows.append(max(rows, default=0) + 1)
        text = "'" + " ".join(draws.choices(["cheap", "pills", "meeting", "invoice"], k=3)) + "'"
        text = f"repeat({text}, 900)" if draws.random() < 0.1 else text  # a long value is left out of updates
        values = [
            rows[-1], text, draws.choice(["null", "12.34", "-0.05", "'NaN'"]), draws.choice(["null", "1.5", "'NaN'", "1e20"]),
            draws.randrange(9), draws.choice(["'2026-01-02'", "'infinity'"]), draws.choice(["now()", "'infinity'"]),
            draws.choice(["'2026-01-02 03:04:05.000006'", "null"]), "'03:04:05.1'", "array['a']", label,
        ]  # fmt: skip
        return f"insert into tickets values ({', '.join(map(str, values))});"
    place = draws.randrange(len(rows))
    row = rows[place]
    if kind == "label":
        return f"update tickets set state = {label} where id = {row};"
    if kind == "other":
        return f"update tickets set n = n + 1 where id = {row};"
    if kind == "delete":
        del rows[place]
        return f"delete from tickets where id = {row};"
    return f"begin; update tickets set state = 'x' where id = {row}; update tickets set state = {label} where id = {row}; commit;"


def streamnb(config, *arguments):
    return [sys.executable, "-m", "streamnb", *arguments, "--config", str(config)]


@pytest.fixture(params=["sqlite", "kafka", "librdkafka"])
def config(request, tmp_path):
    """The path of a configuration, whose topics exist."""
    address = f"sqlite:///{tmp_path}/log.db"
    if request.param != "sqlite":
        address = f"kafka://{request.getfixturevalue('broker').address}"
    prefix = f"d{next(NUMBERS)}."
    names = {name.replace("-", "_"): f"{prefix}{name}" for name in OUTPUTS}
    path = tmp_path / "streamnb.toml"
    client = "librdkafka" if request.param == "librdkafka" else "kafka-python"
    path.write_text(
        f'[log]\nurl = "{address}"\nclient = "{client}"\n[http]\nlisten = ""\n[events]\nrepeats = "skip"\n'
        f'[model]\nkind = "naive_bayes"\nname = "{prefix}m"\n[snapshots]\nfolder = "{tmp_path}/snapshots"\n[topics]\n'
        + "".join(f'{key} = "{name}"\n' for key, name in names.items())
        + f'[[sources]]\nname = "crm"\ntopic = "{prefix}{TOPIC}"\nenvelope = "debezium"\nlabel = "state"\ntext = "subject"\n'
    )
    subprocess.run(streamnb(path, "topics", "create"), check=True, capture_output=True)
    loaded = load(path, {}, [])
    if request.param == "sqlite":
        with closing(context.open_log(loaded)) as log:
            log.create_topic(loaded.sources[0].topic, 2)
    else:
        with closing(PrefixedKafkaLog(request.getfixturevalue("broker").address, "")) as log:
            log.create_topic(loaded.sources[0].topic, 2)
    return path


@pytest.mark.parametrize(
    ("mode", "has_schemas", "identity"),
    [("precise", True, "default"), ("string", False, "full"), ("double", True, "full")],
)
def test_the_model_is_that_of_the_table(config, tmp_path, mode, has_schemas, identity):
    draws, rows = random.Random(f"{mode}{config.read_text()}"), []
    loaded = load(config, {}, [])
    lock = threading.Lock()
    log = context.open_log(loaded)
    source = loaded.sources[0].topic

    def append(records):
        with lock, closing(context.existing_log(loaded)) as own:
            own.append([record._replace(topic=source) for record in records])

    postgres = Postgres(tmp_path).start()
    try:
        postgres.sql(TABLE + f"alter table tickets replica identity {identity};")
        for _ in range(20):
            postgres.sql(statements(draws, rows))
        engine = Engine(
            tmp_path, postgres, append,
            **{"decimal.handling.mode": mode, "converter.schemas.enable": str(has_schemas).lower()},
        )  # fmt: skip
        engine.start()
        for marker in (50_000, 50_001):  # the second one is no row of the snapshot
            postgres.sql(f"insert into tickets(id, n) values ({marker}, 0);")
            until(lambda marker=marker: has_row(log, source, marker))
        converting = start(config)
        kills = {step: draws.choice(["engine", "converter"]) for step in draws.sample(range(STEPS), 6)}
        for step in range(STEPS):
            postgres.sql(statements(draws, rows))
            if kills.get(step) == "engine":
                engine.kill()
                engine.start()
            elif kills.get(step) == "converter":
                time.sleep(draws.uniform(0, 3))
                os.kill(converting.pid, signal.SIGKILL)
                converting.wait()
                converting = start(config)
        postgres.sql("insert into tickets(id, subject, state) values (100000, 'the end', null);")
        until(lambda: has_row(log, source, 100_000))
        engine.kill()
        converting.kill()
        converting.wait()
        subprocess.run(
            streamnb(config, "convert", "--until-end"), check=True, capture_output=True, timeout=120
        )
        subprocess.run(streamnb(config, "run", "--until-end"), check=True, capture_output=True, timeout=300)
        expected = dict(postgres.sql("select id, state from tickets where state is not null;"))
    finally:
        postgres.stop()
    assert read_topic(log, loaded.topics.dead_letters) == []
    assert labels_that_hold(read_topic(log, loaded.topics.labels)) == expected
    found = json.loads(
        subprocess.run(streamnb(config, "inspect", "--json"), check=True, capture_output=True).stdout
    )
    assert {one["label"]: one["events"] for one in found["classes"] if one["events"]} == Counter(
        expected.values()
    )
    events = [json.loads(record.value) for record in read_topic(log, loaded.topics.events[0])]
    assert {int(event["id"]) for event in events} >= {*rows, 100000}
    check_values(events, mode, has_schemas=has_schemas)
    log.close()


def labels_that_hold(found):
    """The newest label of each event by its time, and by its place among labels of one time."""
    held = {}
    for record in found:
        label = json.loads(record.value)
        if label["ts"] >= held.get(label["id"], (0.0, None))[0]:
            held[label["id"]] = label["ts"], label["label"]
    return {event_id: label for event_id, (_, label) in held.items() if label is not None}


def check_values(events, mode, *, has_schemas):
    """Each type of column has the values that the table has, where the connector sends enough to know them."""
    found = {}
    for event, (name, value) in itertools.chain.from_iterable(
        ((event, pair) for pair in event["features"].items()) for event in events
    ):
        assert event
        found.setdefault(name, set()).add(value)
    assert found["n"] <= set(range(STEPS))
    assert "id" not in found
    amounts = {"precise": {12.34, -0.05}, "double": {12.34, -0.05}, "string": {"12.34", "-0.05", "NAN"}}[mode]
    assert found["amount"] <= amounts
    assert len(found["amount"]) > 1
    if has_schemas:
        assert found["day"] == {"2026-01-02T00:00:00+00:00"}
        assert found["moment"] == {"2026-01-02T03:04:05.000006+00:00"}
        assert found["clock"] == {"03:04:05.100000"}
        assert "infinity" not in found["at"]


def start(config):
    return subprocess.Popen(streamnb(config, "convert"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def has_row(log, source, number):
    return any(record.key and b"%d" % number in record.key for record in read_topic(log, source))


def until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.1)
