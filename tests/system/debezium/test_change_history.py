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
from streamnb.conversion.record_converter import RecordConverter
from streamnb.conversion.schema_registry import SchemaRegistry
from streamnb.engine.ports import Partition, Record
from streamnb.runtime import context
from tests.brokers.numbered import NUMBERS
from tests.brokers.prefixed import PrefixedKafkaLog
from tests.conversion.apicurio import Registry, until
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
        + f'[[sources]]\nname = "crm"\ntopic = "{prefix}{TOPIC}"\nenvelope = "debezium"\nlabel = "state"\ntext = "subject"\ndeletes = "forget"\n'
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


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    started = Registry(tmp_path_factory.mktemp("registry")).start()
    yield started
    started.stop()


def converter(form, registry):
    """The settings of a converter: JSON with or without schemas, or Avro with one of three places of the id."""
    if form in {"schemas", "bare"}:
        return {"converter.schemas.enable": str(form == "schemas").lower()}
    more = {
        "headers": {},  # the defaults
        "long": {"headers.enabled": "false"},
        "frames": {"headers.enabled": "false", "as-confluent": "true", "use-id": "contentId"},
    }[form]
    settings = {"url": f"{registry.root}/apis/registry/v2", "auto-register": "true", **more}
    return {f"converter.apicurio.registry.{name}": value for name, value in settings.items()}


@pytest.mark.parametrize(
    ("mode", "form", "identity"),
    [
        ("precise", "schemas", "default"),
        ("string", "bare", "full"),
        ("double", "schemas", "full"),
        ("precise", "frames", "full"),
        ("double", "headers", "default"),
    ],
)
def test_the_model_is_that_of_the_table(config, registry, tmp_path, mode, form, identity):
    draws, rows = random.Random(f"{mode}{config.read_text()}"), []
    config.write_text(f'{config.read_text()}[registry]\nurl = "{registry.url}"\n')
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
            tmp_path, postgres, append, **{"decimal.handling.mode": mode}, **converter(form, registry)
        )  # fmt: skip
        engine.start()
        for marker in (50_000, 50_001):  # the second one is no row of the snapshot
            postgres.sql(f"insert into tickets(id, subject, n) values ({marker}, 'marker {marker}', 0);")
            until(lambda marker=marker: has_row(log, source, b"marker %d" % marker))
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
        until(lambda: has_row(log, source, b"the end"))
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
    check_model(
        config, expected, {record.key for record in read_topic(log, loaded.topics.labels) if record.headers}
    )
    events = [json.loads(record.value) for record in read_topic(log, loaded.topics.events[0])]
    assert {int(event["id"]) for event in events} >= {*rows, 100000}
    check_values(events, mode, has_schemas=form != "bare")
    log.close()


def check_model(config, expected, gone):
    """The model has the labels of the table, and after `forget` those of rows whose id was never deleted."""
    assert classes(config) == Counter(expected.values())
    again = answer(config, "forget", "--deleted")
    kept = [label for event_id, label in expected.items() if event_id.encode() not in gone]
    assert again["forgotten"] >= len(gone) > 0
    assert again["learned"] == len(kept)
    assert classes(config) == Counter(kept)


def answer(config, *arguments):
    found = subprocess.run(streamnb(config, *arguments, "--json"), check=True, capture_output=True)
    return json.loads(found.stdout)


def classes(config):
    """The number of events of each class of the model."""
    found = answer(config, "inspect")["classes"]
    return {one["label"]: one["events"] for one in found if one["events"]}


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


def has_row(log, source, text):
    return any(text in record.value for record in read_topic(log, source))


CELLS = {
    "amount": ("numeric(10,2)", "12.34"),
    "free": ("numeric", "-1.5"),
    "dbl": ("double precision", "0.1"),
    "day": ("date", "2026-01-02"),
    "at": ("timestamptz", "2026-01-02 03:04:05.000006+02"),
    "moment": ("timestamp", "2026-01-02 03:04:05.000006"),
    "moment3": ("timestamp(3)", "2026-01-02 03:04:05.006"),
    "clock": ("time", "03:04:05.1"),
    "clock3": ("time(3)", "03:04:05.1"),
    "span": ("interval", "1 day 2 hours"),
    "blob": ("bytea", "abc"),
    "u": ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
    "j": ("json", '{"a": 1}'),
    "flag": ("boolean", "true"),
    "money": ("money", "12.50"),
    "kind": ("kinds", "warm"),
    "tags": ("text[]", "{a}"),
}
FEATURES = {
    "dbl": 0.1, "day": "2026-01-02T00:00:00+00:00", "at": "2026-01-02T01:04:05.000006Z", "span": 93_600.0,
    "moment": "2026-01-02T03:04:05.000006+00:00", "moment3": "2026-01-02T03:04:05.006000+00:00", "blob": "abc",
    "clock": "03:04:05.100000", "clock3": "03:04:05.100000", "u": "123e4567-e89b-12d3-a456-426614174000",
    "j": '{"a": 1}', "flag": True, "kind": "warm",
}  # fmt: skip
DECIMALS = {
    "precise": {"amount": 12.34, "free": -1.5, "money": 12.5},
    "double": {"amount": 12.34, "free": -1.5, "money": 12.5},
    "string": {"amount": "12.34", "free": "-1.5", "money": "12.50"},
}
MODES = {
    "adaptive": {},
    "adaptive_time_microseconds": {},
    "connect": {"moment": "2026-01-02T03:04:05+00:00"},  # milliseconds
    "isostring": {"moment": "2026-01-02T03:04:05.000006Z", "moment3": "2026-01-02T03:04:05.006Z"},
    "microseconds": {},
    "nanoseconds": {},
}
AVRO = ("headers", "long", "frames")
ENDLESS = ("day", "at", "moment", "moment3")
NAN = {"amount": "NAN", "free": "NAN"}


@pytest.mark.parametrize("temporal", MODES)
def test_all_modes_and_converters_give_the_same_features(registry, tmp_path, temporal):
    """Of rows of the snapshot and later ones; an infinite time is missing in each mode, as NaN is."""
    draws = random.Random(temporal)
    decimals = dict(zip(("schemas", *AVRO), draws.sample([*DECIMALS, *DECIMALS], 4), strict=True))
    postgres = Postgres(tmp_path).start()
    names, values = ", ".join(CELLS), ", ".join(f"'{text}'" for _, text in CELLS.values())
    endless = ", ".join(ENDLESS)
    insert = f"""insert into tickets(id, {names}) values (%d, {values}); insert into tickets(id, amount, free, dbl, {endless})
        values (%d, 'NaN', 'NaN', 'NaN', 'infinity', 'infinity', 'infinity', '-infinity');"""
    try:
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in CELLS.items())
        postgres.sql("create type kinds as enum ('warm', 'cold');")
        postgres.sql(f"create table tickets(id int primary key, {columns}, state text); {insert % (1, 2)}")
        for n, (form, decimal) in enumerate(decimals.items()):
            found, folder = [], tmp_path / form
            folder.mkdir()
            engine = Engine(
                folder, postgres, found.extend,
                **{"decimal.handling.mode": decimal, "time.precision.mode": temporal, "slot.name": form},
                **converter(form, registry),
            )  # fmt: skip
            engine.start()
            until(lambda found=found, n=n: len(found) == 2 + 2 * n)
            postgres.sql(insert % (3 + 2 * n, 4 + 2 * n))
            until(lambda found=found, n=n: len(found) == 4 + 2 * n)
            engine.kill()
            events = converted(found, registry)
            assert len(events) == len(found)
            for event in events:
                is_whole = int(event["id"]) % 2
                whole = {**FEATURES, **MODES[temporal], **DECIMALS[decimal]}
                endless = NAN if decimal == "string" else {}
                assert event["features"] == (whole if is_whole else endless), (form, decimal, event["id"])
    finally:
        postgres.stop()


def converted(records, registry):
    """The events of records, by the converter alone."""
    source = '{ name = "s", topic = "t", envelope = "debezium", label = "state" }'
    given = [
        "topics.labels=labels",
        "events.repeats=skip",
        f"registry.url={registry.url}",
        f"sources=[{source}]",
    ]
    config = load(None, {}, given)
    made = RecordConverter(config.sources[0], config, SchemaRegistry(config.registry), lambda *_: None)
    outputs = [
        output
        for n, record in enumerate(records)
        for output in made.outputs(
            Record(Partition("t", 0), n, record.key, record.value, 0.0, record.headers)
        )
    ]
    assert {output.topic for output in outputs} <= {"events"}, outputs
    return [json.loads(output.value) for output in outputs]
