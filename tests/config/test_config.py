from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import kafka
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamnb.config as public
from streamnb import Nominal
from streamnb.config import (
    KEYS,
    AttributeConfig,
    Config,
    HypothesisConfig,
    Secret,
    changes,
    config_hash,
    load,
    restored,
    semantic_config_of,
    show,
    variable,
)
from streamnb.config.config_literals import (
    BYTES,
    SECONDS,
    format_duration,
    format_size,
    literal,
    parse_address,
    parse_duration,
    parse_size,
)
from streamnb.config.config_sections import members
from streamnb.config.kafka_client_settings import ELSEWHERE, OWN, SETTINGS
from streamnb.config.unused_settings import _READ_WHERE
from streamnb.config.validators import COSTS, NEW_PRIORS, Validator
from streamnb.engine.settings import MonitorSettings
from streamnb.errors import ConfigError
from streamnb.events import DETECTORS
from streamnb.runtime import factories
from streamnb.values.parameter_checks import nearest
from tests.support.every_case import failures

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "config").glob("*.toml"))
WATCHERS = (
    "drift detectors, with commas between them or as a list, none of them twice, of adwin, page_hinkley, ddm, "
    "eddm, hddm_a, hddm_w, fhddm"
)
OF_EM = {"model.unlabelled_weight", "model.unlabelled_window", "model.revisits"}
OF_LOGISTIC = {"model.C", "model.features"}
OF_CHAINS = {"model.transition_m", "model.entities", "model.time_to_live"}
OF_NETWORK = {"model.parents", "model.cells"}
OF_TENANTS = {"model.tenants", "model.memory", "model.shared"}
OPTIONAL = {
    "kafka.password",
    "registry.password",
    "decision.reject",
    "events.entity",
    "model.m",
    "model.p",
    "memory.budget",
    "log_output.progress",
    "posterior.switching_rate",
    *OF_EM,
    *OF_LOGISTIC,
    *OF_CHAINS,
    *OF_NETWORK,
    *OF_TENANTS,
}
VARIABLE = "STREAMNB_KAFKA__PASSWORD"


def loaded(text, tmp_path, environ=None, overrides=()):
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, environ or {}, overrides)


def message(tmp_path, text="", environ=None, overrides=()):
    with pytest.raises(ConfigError) as caught:
        loaded(text, tmp_path, environ, overrides)
    return str(caught.value).replace(f"{tmp_path}/", "")


def at(config, key):
    value = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


# Units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0), ("100ms", 0.1), ("0.1s", 0.1), ("35ms", 0.035), ("5m", 300.0), ("1h", 3600.0),
        ("2d", 172800.0), ("1.5h", 5400.0), ("0s", 0.0), ("0", 0.0), ("1e-3s", 0.001),
    ],
)  # fmt: skip
def test_durations_are_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", "30", "s", "-1s", "1 s", "1S", "1M", "1us", "1w", ".5s", "1.s", "1s ", "inf", "infs",
        "1e999s", "١s",
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused(text):
    assert parse_duration(text) is None


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_a_duration_survives_being_written(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(1, 10**6), st.sampled_from(sorted(SECONDS)))
def test_a_written_duration_is_short(amount, unit):
    text = f"{amount}{unit}"
    assert len(format_duration(parse_duration(text))) <= len(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0s"), (0.1, "100ms"), (60.0, "1m"), (90.0, "90s"), (0.0001, "0.0001s")]
)
def test_durations_are_written_with_the_longest_whole_unit(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 512 * 2**20), ("1MB", 10**6), ("64KiB", 65536), ("10GiB", 10 * 2**30), ("1.5KiB", 1536),
        ("7B", 7), ("2TB", 2 * 10**12), ("1TiB", 2**40), ("3KB", 3000), ("4GB", 4 * 10**9), ("0", 0), ("0B", 0),
    ],
)  # fmt: skip
def test_sizes_are_bytes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "512", "MiB", "-1B", "0.3B", "1mib", "1mb", "1K", "1Gi", "1 MiB", "9999999999TiB"]
)
def test_what_is_no_size_is_refused(text):
    assert parse_size(text) is None


@given(
    st.one_of(
        st.integers(0, 2**63 - 1),
        st.builds(lambda n, unit: n * BYTES[unit], st.integers(0, 999), st.sampled_from(sorted(BYTES))),
    )
)
def test_a_size_survives_being_written(size):
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"), [(1 << 20, "1MiB"), (10**6, "1MB"), (1536, "1536B"), (0, "0B"), (3 << 40, "3TiB")]
)
def test_sizes_are_written_in_the_largest_whole_unit(size, text):
    assert format_size(size) == text


# Literals


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@given(VALUES)
def test_a_literal_is_read_back_by_the_standard_library(value):
    assert tomllib.loads(f"value = {literal(value)}") == {"value": value}


# Defaults, and layers over them


def test_defaults():
    config = load(None, {}, [])
    assert config == Config()
    assert (config.log.url, config.log.session_timeout) == ("sqlite:///streamnb.db", 10.0)
    assert (config.events.max_bytes, config.commit.interval, config.snapshots.every) == (2**20, 0.1, 600.0)
    assert (config.model.alpha, config.model.m, config.attributes) == (1.0, None, ())
    assert (config.model.kind, config.weighs, config.hypotheses) == ("mixture", True, ())


def test_each_layer_covers_the_one_before(tmp_path):
    text = "[commit]\nevents = 2\ninterval = '2s'\n[metrics]\nwindow = 2\n"
    environ = {"STREAMNB_COMMIT__EVENTS": "3", "STREAMNB_COMMIT__INTERVAL": "3s", "PATH": "/bin"}
    config = loaded(text, tmp_path, environ, ["commit.events=4", "commit.events=5"])
    assert (config.commit.events, config.commit.interval, config.metrics.window) == (5, 3.0, 2)
    assert config.metrics.every_events == 1000


SPOKEN = [
    ("log.url", "sqlite:////var/lib/a=b.db", "sqlite:////var/lib/a=b.db"),
    ("log.session_timeout", "1m", 60.0),
    ("topics.dead_letters", "refused.events", "refused.events"),
    ("topics.partitions", "12", 12),
    ("topics.events", "clicks", ("clicks",)),
    ("topics.events", "z,a, m", ("z", "a", "m")),
    ("topics.replication", "10", 10),
    ("topics.retention", "1h", 3600.0),
    ("log.url", "kafka://localhost:9092", "kafka://localhost:9092"),
    ("kafka.client", '{ security_protocol = "SSL", ssl_check_hostname = false }', {"security_protocol": "SSL", "ssl_check_hostname": False}),
    ("kafka.username", "true", "true"),
    ("kafka.password_file", "a file", "a file"),
    ("kafka.give_up_after", "0", 0.0),
    ("http.listen", "[::1]:9464", "[::1]:9464"),
    ("http.listen", "", ""),
    ("log_output.format", "json", "json"),
    ("log_output.progress", "0", 0.0),
    ("log_output.content", "true", True),
    ("events.id", '$.meta["message id"]', '$.meta["message id"]'),
    ("events.max_bytes", "64KiB", 65536),
    ("model.name", "true", "true"),
    ("model.alpha", "2", 2.0),
    ("model.alpha", "1e-3", 0.001),
    ("model.m", "0.5", 0.5),
    ("model.event_model", "bernoulli", "bernoulli"),
    ("model.prune.max_attributes", "1_000", 1000),
    ("commit.interval", "0", 0.0),
    ("attributes", '[{name="text", kind="text"}]', (AttributeConfig("text", "text", "$.text"),)),
]  # fmt: skip

OF_ONE_MODEL = {"model.alpha", "model.m", "model.p", "model.event_model"}  # default hypotheses have their own


@pytest.mark.parametrize(("key", "text", "value"), SPOKEN)
def test_variables_and_flags_are_read_by_the_type_of_their_key(key, text, value):
    single = ["model.kind=naive_bayes"] if key in OF_ONE_MODEL else []
    assert at(load(None, {variable(key): text}, single), key) == value
    assert at(load(None, {}, [f"{key}={text}", *single]), key) == value


def test_given_priors_are_a_table():
    environ = {"STREAMNB_MODEL__PRIOR": "given", "STREAMNB_MODEL__PRIORS": '{ spam = 1, "not spam" = 3.5 }'}
    assert load(None, environ, []).model.priors == {"spam": 1.0, "not spam": 3.5}


def test_higher_layers_replace_tables_whole(tmp_path):
    text = '[model]\nprior = "given"\n[model.priors]\nspam = 1\nham = 2\n'
    assert loaded(text, tmp_path, {}, ["model.priors={ ham = 1 }"]).model.priors == {"ham": 1.0}


def test_bare_zero_is_a_duration(tmp_path):
    assert loaded("[commit]\ninterval = 0\n", tmp_path).commit.interval == 0.0


def test_minus_zero_is_zero():
    minus, zero = (
        load(None, {}, ["model.kind=naive_bayes", f"model.alpha={text}"]) for text in ("-0.0", "0")
    )
    assert str(minus.model.alpha) == "0.0"
    assert config_hash(minus) == config_hash(zero)


def test_an_m_estimate_takes_the_place_of_the_default_alpha():
    model = load(None, {}, ["model.kind=naive_bayes", "model.m=2", "model.p=0.25"]).model
    assert (model.m, model.p) == (2.0, 0.25)


@pytest.mark.parametrize(
    "name",
    [
        "STREAMNB_SERVICE_HOST", "STREAMNB_SERVICE_PORT", "STREAMNB_SERVICE_PORT_METRICS", "STREAMNB_PORT",
        "STREAMNB_PORT_9100_TCP", "STREAMNB_PORT_9100_TCP_ADDR", "STREAMNB_SCORE_SERVICE_HOST",
    ],
)  # fmt: skip
def test_variables_that_kubernetes_sets_are_passed_over(name):
    assert load(None, {name: "tcp://10.0.0.1:9100"}, []) == Config()


def test_paths_of_log_and_snapshots():
    config = load(None, {}, ["log.url=sqlite:////var/lib/x.db"])
    assert config.log.path == Path("/var/lib/x.db")
    assert config.snapshot_folder == Path("/var/lib/x.db.snapshots")
    assert Config().log.path == Path("streamnb.db")
    assert load(None, {}, ["snapshots.folder=/srv/s"]).snapshot_folder == Path("/srv/s")


# Kafka and HTTP


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("kafka://localhost:9092", ["localhost:9092"]),
        ("kafka://kafka-1:9092,kafka_2.example.org:19092", ["kafka-1:9092", "kafka_2.example.org:19092"]),
        ("kafka://[::1]:9092,127.0.0.1:65535", ["[::1]:9092", "127.0.0.1:65535"]),
    ],
)
def test_a_kafka_cluster_is_some_servers(url, servers):
    log = load(None, {}, [f"log.url={url}"]).log
    assert log.is_kafka
    assert log.bootstrap == servers
    with pytest.raises(
        ConfigError, match=r'^log.url is "kafka://.+"; expected an embedded log, sqlite:///FILE$'
    ):
        _ = log.path


def test_the_embedded_log_has_no_servers():
    assert not Config().log.is_kafka
    with pytest.raises(ConfigError, match=r"expected a Kafka cluster, kafka://HOST:PORT$"):
        _ = Config().log.bootstrap


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:0", ("localhost", 0)), ("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:9464", ("::1", 9464)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)), ("a-b.c_d.:80", ("a-b.c_d.", 80)), ("h:09092", ("h", 9092)),
    ],
)  # fmt: skip
def test_an_address_is_host_and_port(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "", ":", "localhost", "localhost:", ":9464", "9464", "localhost:65536", "localhost:-1", "localhost:+1",
        "localhost:１", "localhost:http", "localhost:1 ", " localhost:1", "a b:1", "http://localhost:1", "a:1:2",
        "::1:9464", "[::1]", "[::1]9464", "[]:1", "[localhost]:1", "[127.0.0.1]:1", "1.2.3:1", "256.1.1.1:1",
        "-a:1", "a-:1", "a..b:1", ".a:1", "a/b:1", "u@h:1", "ä:1", f"{'a' * 64}:1", f"{'a.' * 130}:1", "h:1\n",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(text):
    assert parse_address(text) is None


def test_http_is_served_somewhere_or_nowhere():
    assert Config().http.address == ("127.0.0.1", 9464)
    assert load(None, {}, ["http.listen=[::]:80"]).http.address == ("::", 80)
    assert load(None, {}, ["http.listen="]).http.address is None


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("default", "default.snapshots"), ("Spam 2.0 ä", "Spam 2.0 ä.snapshots"), ("a/b", "a%2Fb.snapshots"),
        ("a%2Fb", "a%252Fb.snapshots"), ("..", "...snapshots"), ("../x\0", "..%2Fx%00.snapshots"),
    ],
)  # fmt: skip
def test_snapshots_of_a_model_on_kafka_lie_in_one_folder_named_after_it(tmp_path, name, folder):
    given = {"name": name}
    config = loaded(f"model = {literal(given)}\n[log]\nurl = 'kafka://h:1'", tmp_path)
    assert config.snapshot_folder == Path(folder)
    assert len(config.snapshot_folder.parts) == 1


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_models_have_two_folders(one, other):
    kafka_log = msgspec.structs.replace(Config().log, url="kafka://h:1")
    folders = [
        Config(log=kafka_log, model=msgspec.structs.replace(Config().model, name=name)).snapshot_folder
        for name in (one, other)
    ]
    assert (folders[0] == folders[1]) == (one == other)


def test_a_folder_given_holds_the_snapshots_of_a_kafka_log_too():
    given = load(None, {}, ["log.url=kafka://h:1", "snapshots.folder=/srv/s"])
    assert given.snapshot_folder == Path("/srv/s")


def test_topics_of_events_keep_their_order_and_are_told_apart_by_key(tmp_path):
    topics = loaded("[topics]\nevents = ['b', 'a']", tmp_path).topics
    assert topics.events == ("b", "a")
    assert topics.names == [
        ("events", "b"), ("events", "a"), ("predictions", "predictions"), ("metrics", "metrics"),
        ("dead_letters", "dead-letters"), ("journal", "journal"),
    ]  # fmt: skip
    assert Config().topics.events == ("events",)


def test_monitors_have_a_topic_and_none_is_there_without_them(tmp_path):
    assert ("alerts", "alerts") not in Config().topics.names
    made = loaded("monitors = [{name='a', kind='no-events', after='1m'}]", tmp_path)
    assert made.topics.names[-1] == ("alerts", "alerts")
    assert restored(semantic_config_of(made)).topics.alerts == "alerts"
    assert factories.settings(made).monitors == (MonitorSettings("a", "no-events", after=60.0),)
    own = loaded("monitors = [{name='a', kind='no-events', after='1m'}]\n[topics]\nalerts = 'mine'", tmp_path)
    assert own.topics.names[-1] == ("alerts", "mine")
    assert [
        change.key
        for change in changes(semantic_config_of(Config()), semantic_config_of(own))
        if not change.allowed
    ] == []


# The client of Kafka


CLIENTS = [kafka.KafkaConsumer, kafka.KafkaProducer, kafka.KafkaAdminClient]
SHARED = set.intersection(*(set(client.DEFAULT_CONFIG) for client in CLIENTS))
OBJECTS = {"api_version", "kafka_client", "metric_reporters", "selector", "socket_options", "ssl_context"}
DEPRECATED = {"socks5_proxy"}


def test_every_setting_that_all_clients_of_kafka_python_share_has_its_place():
    assert kafka.__version__.startswith("3.0.")
    assert set(SETTINGS) <= SHARED
    assert set(SETTINGS) | (set(ELSEWHERE) | OWN) & SHARED | OBJECTS | DEPRECATED == SHARED
    assert not set(SETTINGS) & (set(ELSEWHERE) | OWN)
    assert not set(ELSEWHERE) & OWN


def test_what_is_kept_from_the_table_exists():
    of_any = set.union(*(set(client.DEFAULT_CONFIG) for client in CLIENTS))
    assert set(ELSEWHERE) | OWN <= of_any


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_accepts_the_default_of_kafka_python(name):
    default = kafka.KafkaConsumer.DEFAULT_CONFIG[name]
    if default is not None:
        assert SETTINGS[name].read(name, default) == default


def test_no_default_of_kafka_python_is_passed_on():
    config = load(None, {}, ["log.url=kafka://a:1,b:2"])
    assert config.kafka.settings(config.log) == {"bootstrap_servers": ["a:1", "b:2"]}


def client_errors():
    client = "kafka.client"
    yield "3", f"{client} is not a table; expected settings of kafka-python = strings, integers or booleans"
    yield "{ ssl_ca_file = 'x' }", f"{client}.ssl_ca_file is unknown; did you mean ssl_cafile?"
    yield "{ ssl_context = 'x' }", f"{client}.ssl_context is unknown; did you mean ssl_certfile?"
    yield "{ zzzzzz = 'x' }", f"{client}.zzzzzz is unknown"
    yield "{ ssl_cafile = 3 }", f"{client}.ssl_cafile is 3; expected a string that is not empty"
    yield "{ ssl_check_hostname = 'no' }", f'{client}.ssl_check_hostname is "no"; expected true or false'
    yield "{ ssl_check_hostname = 0 }", f"{client}.ssl_check_hostname is 0; expected true or false"
    yield (
        "{ bootstrap_timeout_ms = 1.5 }",
        f"{client}.bootstrap_timeout_ms is 1.5; expected an integer from 1 to 2147483647",
    )
    yield (
        "{ security_protocol = 'TLS' }",
        f'{client}.security_protocol is "TLS"; expected "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL"',
    )
    for name in sorted(OWN):
        yield f"{{ {name} = 'x' }}", f"{client}.{name} has no place here; expected to be left to streamnb"
    for name, instead in ELSEWHERE.items():
        yield f"{{ {name} = 'x' }}", f"{client}.{name} has no place here; expected {instead}"


def test_a_setting_that_is_none_of_the_users_is_refused(tmp_path):
    def is_refused(case):
        table, expected = case
        assert message(tmp_path, f"[kafka]\nclient = {table}") == f"config.toml: {expected}"
        assert message(tmp_path, "", {}, [f"kafka.client={table}"]) == f"flag --set: {expected}"

    assert failures(is_refused, client_errors()) == {}


@pytest.mark.parametrize(
    "name", ["bootstrap_servers", "group_id", "transactional_id", "isolation_level", "enable_auto_commit",
             "auto_offset_reset", "acks", "enable_idempotence", "client_id", "sasl_plain_password", "ssl_password",
             "sasl_oauth_token_provider"],
)  # fmt: skip
def test_what_the_promises_rest_on_and_what_is_secret_is_no_setting(name):
    assert name in ELSEWHERE or name in OWN


# The secret


def credentials(environ, *overrides):
    config = load(None, environ, ["log.url=kafka://h:1", *overrides])
    return config.kafka.settings(config.log)


def test_the_password_of_the_environment_is_for_the_client():
    settings = credentials({VARIABLE: " geheim\n"}, "kafka.username=me")
    assert settings == {
        "bootstrap_servers": ["h:1"], "sasl_plain_username": "me", "sasl_plain_password": " geheim\n"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"geheim", "geheim"), (b"geheim\n", "geheim"), (b"geheim\r\n", "geheim"), (b"geheim\n\n", "geheim\n"),
        (b" ge heim ", " ge heim "), ("schlüssel\n".encode(), "schlüssel"), (b"a\r\nb", "a\r\nb"), (b"a\r", "a\r"),
    ],
)  # fmt: skip
def test_the_password_of_a_file_is_all_of_it_but_for_one_lines_end(tmp_path, content, password):
    file = tmp_path / "password"
    file.write_bytes(content)
    settings = credentials({}, "kafka.username=me", f"kafka.password_file={file}")
    assert settings["sasl_plain_password"] == password


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"), (b"", "it is empty"), (b"\n", "it is empty"),
        (b"geheim\xff", "it is not UTF-8"),
    ],
)  # fmt: skip
def test_a_password_file_that_holds_none_is_refused_when_the_password_is_needed(
    tmp_path, monkeypatch, content, reason
):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("password").write_bytes(content)
    config = load(None, {}, ["log.url=kafka://h:1", "kafka.username=me", "kafka.password_file=password"])
    with pytest.raises(ConfigError) as caught:
        config.kafka.settings(config.log)
    assert str(caught.value) == (
        f'kafka.password_file is "password"; expected a file that holds the password ({reason})'
    )


def test_a_token_and_the_password_of_a_key_come_from_files(tmp_path):
    for name in ("token", "key"):
        (tmp_path / name).write_text(f"geheim-{name}\n")
    bearer = "kafka.client={ sasl_mechanism = 'OAUTHBEARER', ssl_keyfile = 'k.pem' }"
    assert credentials({}, bearer, f"kafka.token_file={tmp_path}/token", f"kafka.key_password_file={tmp_path}/key") == {
        "bootstrap_servers": ["h:1"], "sasl_mechanism": "OAUTHBEARER", "ssl_keyfile": "k.pem",
        "sasl_oauth_token_file": f"{tmp_path}/token", "ssl_password": "geheim-key",
    }  # fmt: skip
    for overrides, expected in [
        (
            [bearer],
            'kafka.token_file is ""; expected kafka.client.sasl_mechanism = "OAUTHBEARER" and a kafka.token_file, both or neither',
        ),
        ([f"kafka.token_file={tmp_path}/token"], "both or neither"),
        (
            [bearer, "kafka.token_file=nowhere"],
            'kafka.token_file is "nowhere"; expected a file that holds the token (No such file or directory)',
        ),
        (
            ["kafka.key_password_file=nowhere"],
            'kafka.key_password_file is "nowhere"; expected a file that holds the password (No such',
        ),
    ]:
        with pytest.raises(ConfigError) as caught:
            credentials({}, *overrides)
        assert expected in str(caught.value)


def test_what_is_given_in_vain_is_told(tmp_path):
    """Keys that nothing reads, and a layer that another hides; of a right configuration nothing."""
    text = "[labels]\nwindow = '1d'\n[posterior]\nseed = 3\n[kafka]\nusername = 'me'\ngive_up_after = '1m'\n"
    path = tmp_path / "c.toml"
    path.write_text(text)

    def idle(*flags, **environ):
        layers = path, environ, [f"log.url={flags[0]}", *flags[1:]]
        return [
            told.replace(f"{tmp_path}/", "")
            for told in public.without_effect(load(*layers), public.given(*layers))
        ]

    assert idle("kafka://h:1", "topics.labels=labels") == []
    assert idle("sqlite:///l.db", "model.kind=naive_bayes", STREAMNB_LABELS__WINDOW="2d") == [
        "c.toml: labels.window has no effect: environment variable STREAMNB_LABELS__WINDOW gives it, too",
        'environment variable STREAMNB_LABELS__WINDOW: labels.window has no effect: topics.labels is not set, and events.repeats is "learn"',
        "c.toml: posterior.seed has no effect: the model weighs no hypotheses",
        "c.toml: kafka.username has no effect: log.url is not a Kafka cluster",
    ]  # fmt: skip
    (vain,) = idle("kafka://h:1", "topics.labels=labels", "topics.tenants=tenants")
    assert vain == 'flag --set: topics.tenants has no effect: model.kind is not "tenants"'
    assert idle("sqlite:///l.db", "events.repeats=skip") == [
        "c.toml: kafka.username has no effect: log.url is not a Kafka cluster"
    ]


def test_keys_that_are_read_in_some_places_alone_are_keys():
    for beginnings, _, _ in _READ_WHERE:
        assert all(any(key.startswith(one) for key in KEYS) for one in beginnings)


@pytest.mark.parametrize(
    ("environ", "overrides", "expected"),
    [
        ({}, ["kafka.username=me"], 'kafka.username is "me"; expected a password with it: STREAMNB_KAFKA__PASSWORD in the environment, or kafka.password_file'),
        ({VARIABLE: ""}, ["kafka.username=me"], 'kafka.username is "me"; expected a password with it: STREAMNB_KAFKA__PASSWORD in the environment, or kafka.password_file'),
        ({VARIABLE: "geheim"}, [], "kafka.password is set; expected kafka.username with it"),
        ({}, ["kafka.password_file=f"], 'kafka.password_file is "f"; expected kafka.username with it'),
    ],
)  # fmt: skip
def test_a_name_and_a_password_go_together(environ, overrides, expected):
    with pytest.raises(ConfigError) as caught:
        credentials(environ, *overrides)
    assert str(caught.value) == expected


def test_the_password_comes_from_one_place(tmp_path):
    error = message(tmp_path, "[kafka]\npassword_file = 'f'", {VARIABLE: "geheim"})
    assert error == 'config.toml: kafka.password_file is "f"; expected no kafka.password with it'
    assert not loaded("[kafka]\npassword_file = 'f'", tmp_path, {VARIABLE: ""}).kafka.password


NO_PLACE = f"kafka.password has no place here; expected {VARIABLE} in the environment, or kafka.password_file"


@pytest.mark.parametrize(
    ("text", "environ", "override", "expected"),
    [
        ("[kafka]\npassword = 'geheim'", {}, None, f"config.toml: {NO_PLACE}"),
        ("[kafka]\npassword = { geheim = 1 }", {}, None, f"config.toml: {NO_PLACE}"),
        ("", {}, "kafka.password=geheim", f"flag --set: {NO_PLACE}"),
        ("", {}, "kafka.password:geheim", "flag --set kafka.password: expected section.key=value"),
        ("", {VARIABLE: "geheim\udcff"}, None, f"environment variable {VARIABLE}: kafka.password is not UTF-8; expected a string"),
        ("[kafka]\npasword = 'geheim'", {}, None, "config.toml: kafka.pasword is unknown; did you mean kafka.password?"),
        ("[kafka]\nclient = 'geheim'", {}, None, None),
        ("[kafka.client]\nsasl_plain_password = 'geheim'", {}, None, None),
        ("[kafka.client]\nssl_password = 'geheim'", {}, None, None),
        ("[kafka.client]\nsasl_password = 'geheim'", {}, None, None),
        ("", {"STREAMNB_KAFKA__CLIENT": "{ ssl_password = 'geheim' "}, None, None),
        ("[log]\nurl = 'kafka://me:geheim@host:9092'", {}, None, None),
        ("[log]\nurl = 'kafka://me:ge@/geheim@host:9092'", {}, None, None),
        ("", {}, "log.url=kafka://me:geheim@host:9092", None),
        ("[kafka.client]\nproxy_url = 'socks5://me:geheim@host:1080'", {}, None, None),
        ("[http]\nlisten = 'http://me:geheim@host:9092'", {}, None, None),
    ],
)  # fmt: skip
def test_a_secret_where_it_has_no_place_is_refused_without_being_quoted(
    tmp_path, text, environ, override, expected
):
    error = message(tmp_path, text, environ, [] if override is None else [override])
    assert "geheim" not in error
    assert expected in (None, error)


def test_a_contradiction_does_not_quote_the_password(tmp_path):
    environ = {VARIABLE: "geheim"}
    assert "geheim" not in message(tmp_path, "[kafka]\npassword_file = 'f'", environ)
    assert "geheim" not in message(tmp_path, "[model]\np = 0.5", environ)


def test_a_configuration_does_not_show_its_password(tmp_path):
    config = loaded("[kafka]\nusername = 'me'", tmp_path, {VARIABLE: "geheim"})
    assert config.kafka.password.reveal() == "geheim"
    assert "geheim" not in f"{config!r} {config} {config.kafka.password} {config.kafka.password!s:>20}"
    assert "geheim" not in show(config)
    assert "# password is set, and not shown\n" in show(config)
    with pytest.raises(TypeError):
        msgspec.json.encode(config)


def test_the_password_is_no_part_of_the_hash():
    assert config_hash(load(None, {VARIABLE: "geheim"}, [])) == config_hash(Config())


def test_what_show_writes_is_read_back_but_for_the_password(tmp_path):
    config = loaded("[kafka]\nusername = 'me'", tmp_path, {VARIABLE: "geheim"})
    again = loaded(show(config), tmp_path)
    assert again != config
    assert again.kafka.password == Secret()
    assert loaded(show(config), tmp_path, {VARIABLE: "geheim"}) == config


def test_secrets_are_compared_by_what_they_hide():
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("a") != "a"
    assert not Secret()


# Attributes


def test_attributes_have_a_path_by_name():
    text = '[{name="text",kind="text"},{name="body",kind="text"},{name="a b",kind="nominal"},{name="n",kind="continuous"}]'
    paths = [attribute.path for attribute in load(None, {}, [f"attributes={text}"]).attributes]
    assert paths == ["$.text", "$.features.body", '$.features["a b"]', "$.features.n"]


def test_a_nominal_attribute_named_text_is_a_feature():
    attributes = load(None, {}, ['attributes=[{name="text",kind="nominal"}]']).attributes
    assert attributes[0].path == "$.features.text"


def test_paths_are_kept_in_one_form():
    assert load(None, {}, ['events.id=$["meta"]["m id"]']).events.id == '$.meta["m id"]'


def test_attributes_keep_their_order_and_their_smoothing():
    text = '[{name="b",kind="nominal",m=2,p=0.5},{name="a",kind="text",alpha=0,event_model="bernoulli",path="$.a"}]'
    assert load(None, {}, [f"attributes={text}", "model.kind=naive_bayes"]).attributes == (
        AttributeConfig("b", "nominal", "$.features.b", m=2.0, p=0.5),
        AttributeConfig("a", "text", "$.a", alpha=0.0, event_model="bernoulli"),
    )


# Errors of a file


DURATION = 'a duration with its unit (ms, s, m, h, d), such as "30s"'
POSITIVE = 'a duration above 0 with its unit (ms, s, m, h, d), such as "30s"'
SIZE = 'a size above 0 with its unit (B, KB, KiB, MB, MiB, GB, GiB, TB, TiB), such as "512MiB"'
PATH = """a JSON path of at most 256 characters, such as $.user.age or $.user["e mail"]"""
URL = "sqlite:///FILE or kafka://HOST:PORT[,HOST:PORT ...]"
ADDRESS = 'HOST:PORT, such as "127.0.0.1:9464" or "[::1]:9464", or "" for none'
TOPIC = "1 to 249 letters, digits, dots, underscores and hyphens"
TOPICS_ = f"topics, with commas between them or as a list, none of them twice, each {TOPIC}"
WEIGHTS = "a table of label = weight, finite, none below 0 and not all 0"
LIST = "[[attributes]] tables, or a list of tables"
TEXT_ATTRIBUTE = '{name="t", kind="text"}'

LASTING = "no half_life of the Bernoulli likelihood; presence is one that forgets"
FILE_ERRORS = [
    # unknown keys, at every level
    ("[log]\nsesion_timeout = '1s'", "log.sesion_timeout is unknown; did you mean log.session_timeout?"),
    ("[logs]\nurl = 'x'", "logs is unknown; did you mean log?"),
    ("url = 'x'", "url is unknown; did you mean log.url?"),
    ("'log.url' = 'x'", "log.url is unknown; did you mean log.url?"),
    ("zzzzzz = 1", "zzzzzz is unknown"),
    ("[model.prun]\nevery = 1", "model.prun is unknown; did you mean model.prune?"),
    ("[model.prune]\nmincount = 1", "model.prune.mincount is unknown; did you mean model.prune.min_count?"),
    ("[[attribute]]\nname = 'x'", "attribute is unknown; did you mean attributes?"),
    ("[[attributes]]\nnmae = 'x'", "attributes[0].nmae is unknown; did you mean attributes[0].name?"),
    # sections
    ("log = 3", "log is 3; expected a table"),
    ("[model]\nprune = true", "model.prune is true; expected a table"),
    # log
    ("[log]\nurl = 'kafka://'", f'log.url is "kafka://"; expected {URL}'),
    ("[log]\nurl = 'kafka://host'", f'log.url is "kafka://host"; expected {URL}'),
    ("[log]\nurl = 'kafka://host:0'", f'log.url is "kafka://host:0"; expected {URL}'),
    ("[log]\nurl = 'kafka://a:1,'", f'log.url is "kafka://a:1,"; expected {URL}'),
    ("[log]\nurl = 'kafka://a:1, b:1'", f'log.url is "kafka://a:1, b:1"; expected {URL}'),
    ("[log]\nurl = 'kafka://a:1/topic'", f'log.url is "kafka://a:1/topic"; expected {URL}'),
    ("[log]\nurl = 'kafka://me:pw@host:1'", f'log.url is "kafka://***@host:1"; expected {URL}'),
    ("[log]\nurl = 'redis://host:1'", f'log.url is "redis://host:1"; expected {URL}'),
    ("[log]\nurl = 'sqlite:///'", f'log.url is "sqlite:///"; expected {URL}'),
    ("[log]\nurl = 'sqlite:///folder/'", f'log.url is "sqlite:///folder/"; expected {URL}'),
    ("[log]\nurl = 'sqlite:///:memory:'", f'log.url is "sqlite:///:memory:"; expected {URL}'),
    ("[log]\nurl = 3", f"log.url is 3; expected {URL}"),
    ("[log]\nsession_timeout = 30", f"log.session_timeout is 30; expected {POSITIVE}"),
    ("[log]\nsession_timeout = 0", f"log.session_timeout is 0; expected {POSITIVE}"),
    ("[log]\nsession_timeout = false", f"log.session_timeout is false; expected {POSITIVE}"),
    # topics
    ("[topics]\njournal = 'a b'", f'topics.journal is "a b"; expected {TOPIC}'),
    ("[topics]\njournal = 'a,b'", f'topics.journal is "a,b"; expected {TOPIC}'),
    ("[topics]\njournal = '..'", f'topics.journal is ".."; expected {TOPIC}'),
    ("[topics]\njournal = ''", f'topics.journal is ""; expected {TOPIC}'),
    (f"[topics]\njournal = '{'x' * 250}'", f'topics.journal is "{"x" * 76}...; expected {TOPIC}'),
    ("[topics]\nevents = 'a b'", f'topics.events is "a b"; expected {TOPICS_}'),
    ("[topics]\nevents = ''", f'topics.events is ""; expected {TOPICS_}'),
    ("[topics]\nevents = []", f"topics.events is []; expected {TOPICS_}"),
    ("[topics]\nevents = 3", f"topics.events is 3; expected {TOPICS_}"),
    ("[topics]\nevents = ['a', 3]", f'topics.events is ["a", 3]; expected {TOPICS_}'),
    ("[topics]\nevents = ['a,b']", f'topics.events is ["a,b"]; expected {TOPICS_}'),
    ("[topics]\nevents = 'a,,b'", f'topics.events is "a,,b"; expected {TOPICS_}'),
    ("[topics]\nevents = 'a,b,a'", f'topics.events is "a,b,a"; expected {TOPICS_}'),
    ("[topics]\nevents = ['a', 'a']", f'topics.events is ["a", "a"]; expected {TOPICS_}'),
    ("[topics]\nevents = 'x,metrics'", 'topics.events is "metrics"; expected another name than topics.metrics has'),
    ("[topics]\nmetrics = 'events'", 'topics.metrics is "events"; expected another name than topics.events has'),
    ("[topics]\nevents = 'metrics'", 'topics.events is "metrics"; expected another name than topics.metrics has'),
    ("[topics]\npartitions = 0", "topics.partitions is 0; expected an integer from 1 to 1000"),
    ("[topics]\npartitions = 1001", "topics.partitions is 1001; expected an integer from 1 to 1000"),
    ("[topics]\npartitions = 1.0", "topics.partitions is 1.0; expected an integer from 1 to 1000"),
    ("[topics]\npartitions = true", "topics.partitions is true; expected an integer from 1 to 1000"),
    ("[topics]\nreplication = 11", "topics.replication is 11; expected an integer from 0 to 10"),
    ("[topics]\nreplication = -1", "topics.replication is -1; expected an integer from 0 to 10"),
    ("[topics]\nretention = 7", f"topics.retention is 7; expected {POSITIVE}"),
    ("[topics]\nretention = '0s'", f'topics.retention is "0s"; expected {POSITIVE}'),
    # kafka and http
    ("[kafka]\nusername = 3", "kafka.username is 3; expected a string"),
    ("[kafka]\ntransaction_timeout = 0", f"kafka.transaction_timeout is 0; expected {POSITIVE}"),
    ("[kafka]\ngive_up_after = 10", f"kafka.give_up_after is 10; expected {DURATION}"),
    ("[kafka]\ngive_up = '10s'", "kafka.give_up is unknown; did you mean kafka.give_up_after?"),
    ("[http]\nlisten = 9464", f"http.listen is 9464; expected {ADDRESS}"),
    ("[http]\nlisten = ':9464'", f'http.listen is ":9464"; expected {ADDRESS}'),
    ("[http]\nlisten = 'none'", f'http.listen is "none"; expected {ADDRESS}'),
    # events
    ("[events]\nid = 'id'", f'events.id is "id"; expected {PATH}'),
    ("[events]\nid = '$'", f'events.id is "$"; expected {PATH}'),
    ("[events]\nts = '$.a[0]'", f'events.ts is "$.a[0]"; expected {PATH}, or "" for none'),
    (f"[events]\nts = '$.{'x' * 255}'", f'events.ts is "$.{"x" * 74}...; expected {PATH}, or "" for none'),
    ("[events]\nmax_bytes = 1048576", f"events.max_bytes is 1048576; expected {SIZE}"),
    ("[events]\nmax_bytes = 0", f"events.max_bytes is 0; expected {SIZE}"),
    ("[events]\nmax_bytes = '1M'", f'events.max_bytes is "1M"; expected {SIZE}'),
    # model
    ("[model]\nname = ''", 'model.name is ""; expected a string that is not empty'),
    ("[model]\nalpha = -1", "model.alpha is -1; expected a finite number of 0 or more"),
    ("[model]\nalpha = inf", "model.alpha is inf; expected a finite number of 0 or more"),
    ("[model]\nalpha = nan", "model.alpha is nan; expected a finite number of 0 or more"),
    ("[model]\nalpha = '1'", 'model.alpha is "1"; expected a finite number of 0 or more'),
    ("[model]\nalpha = 2026-01-01", "model.alpha is 2026-01-01; expected a finite number of 0 or more"),
    ("[model]\nalpha = 0.5\nm = 2", "model.m is 2.0 and model.alpha is 0.5; expected one of them"),
    ("[model]\np = 0.5", "model.p is 0.5; expected model.m with it"),
    ("[model]\nm = 1\np = 1", "model.p is 1; expected a number between 0 and 1, both excluded"),
    ("[model]\nevent_model = 'gauss'", 'model.event_model is "gauss"; expected "multinomial" or "bernoulli"'),
    ("[model]\nprior = 'flat'", 'model.prior is "flat"; expected "learned", "uniform" or "given"'),
    ("[model]\nprior = {a = 1}", 'model.prior is { a = 1 }; expected "learned", "uniform" or "given"'),
    ("[model]\nprior = 'given'", 'model.prior is "given"; expected weights in model.priors with it'),
    ("[model.priors]\na = 1", 'model.priors is { a = 1.0 }; expected model.prior = "given" with it'),
    ("[model.priors]\na = -1", f"model.priors is {{ a = -1 }}; expected {WEIGHTS}"),
    ("[model.priors]\na = -1\nb = 2", f"model.priors is {{ a = -1, b = 2 }}; expected {WEIGHTS}"),
    ("[model.priors]\na = 'x'", f'model.priors is {{ a = "x" }}; expected {WEIGHTS}'),
    ("[model.priors]\na = 0", f"model.priors is {{ a = 0 }}; expected {WEIGHTS}"),
    ("[model.priors]\na = 1e308\nb = 1e308", f"model.priors is {{ a = 1e+308, b = 1e+308 }}; expected {WEIGHTS}"),
    ("[model]\npriors = 1", f"model.priors is 1; expected {WEIGHTS}"),
    ("[model.prune]\nevery = -1", "model.prune.every is -1; expected an integer of 0 or more"),
    # the rest
    ("[commit]\nevents = 0", "commit.events is 0; expected an integer of 1 or more"),
    ("[commit]\ninterval = 0.1", f"commit.interval is 0.1; expected {DURATION}"),
    ("[snapshots]\nfolder = 1", "snapshots.folder is 1; expected a string"),
    ("[snapshots]\nevery = '0s'", f'snapshots.every is "0s"; expected {POSITIVE}'),
    ("[snapshots]\nkeep = 0", "snapshots.keep is 0; expected an integer of 1 or more"),
    ("[metrics]\nwindow = [1]", "metrics.window is [1]; expected an integer from 1 to 10000000"),
    ("[predictions]\nevidence = 101", "predictions.evidence is 101; expected an integer from 0 to 100"),
    ("[drift]\ndetectors = ['kswin']", f'drift.detectors is ["kswin"]; expected {WATCHERS}'),
    ("[drift]\ndetectors = 'ddm, ddm'", f'drift.detectors is "ddm, ddm"; expected {WATCHERS}'),
    ("[drift]\ndetectors = 'adwin,'", f'drift.detectors is "adwin,"; expected {WATCHERS}'),
    ("[drift]\ndetectors = [['ddm']]", f'drift.detectors is [["ddm"]]; expected {WATCHERS}'),
    ("[drift]\ndetectors = false", f"drift.detectors is false; expected {WATCHERS}"),
    ("[drift]\ndetectors = { ddm = 1 }", f"drift.detectors is {{ ddm = 1 }}; expected {WATCHERS}"),
    # attributes
    ("attributes = 'text'", f'attributes is "text"; expected {LIST}'),
    ("[attributes]\nname = 'a'", f'attributes is {{ name = "a" }}; expected {LIST}'),
    ("attributes = ['text']", 'attributes[0] is "text"; expected a table with name and kind'),
    ("attributes = [{kind='text'}]", "attributes[0].name is missing; expected a string that is not empty"),
    (
        "attributes = [{name='n', kind='nominal', values=['a', 'b', 'a']}]",
        'attributes[0].values is ["a", "b", "a"]; expected a list of strings, booleans or finite numbers, none of them twice',
    ),
    (
        "attributes = [{name='n', kind='nominal', values=[1, 1.0]}]",
        "attributes[0].values is [1, 1.0]; expected a list of strings, booleans or finite numbers, none of them twice",
    ),
    (
        "attributes = [{name='n', kind='nominal', values=[]}]",
        "attributes[0].values is []; expected a list of strings, booleans or finite numbers, none of them twice",
    ),
    ("attributes = [{name='n', kind='nominal', n_values=0}]", "attributes[0].n_values is 0; expected an integer from 1 to 2147483648"),
    (
        "attributes = [{name='n', kind='nominal', values=['a'], n_values=2}]",
        "attributes[0].n_values is 2; expected attributes[0].values or attributes[0].n_values",
    ),
    ("attributes = [{name='n', kind='continuous', values=[1]}]", 'attributes[0].values is ["1"]; expected no values for a continuous attribute'),
    ("attributes = [{name='f', kind='continuous', min=2, max=2}]", "attributes[0].max is 2.0; expected more than attributes[0].min, 2"),
    ("attributes = [{name='n', kind='nominal', max=2}]", "attributes[0].max is 2.0; expected no max for a nominal attribute"),
    ("attributes = [{name='t', kind='text', n_values=2}]", "attributes[0].n_values is 2; expected no n_values for a text attribute"),
    (f"attributes = [{TEXT_ATTRIBUTE}, {{name='n'}}]", 'attributes[1].kind is missing; expected "text", "nominal" or "continuous"'),
    ("attributes = [{name='n', kind='number'}]", 'attributes[0].kind is "number"; expected "text", "nominal" or "continuous"'),
    (f"attributes = [{TEXT_ATTRIBUTE}, {TEXT_ATTRIBUTE}]", 'attributes[1].name is "t"; expected another name than attributes[0] has'),
    ("attributes = [{name='n', kind='nominal', alpha=1, m=2}]", "attributes[0].m is 2.0 and attributes[0].alpha is 1.0; expected one of them"),
    ("attributes = [{name='n', kind='nominal', p=0.5}]", "attributes[0].p is 0.5; expected attributes[0].m with it"),
    ("attributes = [{name='n', kind='continuous', alpha=1}]", "attributes[0].alpha is 1.0; expected no alpha for a continuous attribute"),
    (
        "attributes = [{name='n', kind='nominal', event_model='bernoulli'}]",
        'attributes[0].event_model is "bernoulli"; expected no event_model for a nominal attribute',
    ),
    ("attributes = [{name='n', kind='nominal', path='n'}]", f'attributes[0].path is "n"; expected {PATH}'),
    (
        """attributes = [{name='n', kind='nominal', path='$["label"]'}]""",
        'attributes[0].path is "$.label"; expected another path than events.label has',
    ),
    # hypotheses
    ("hypotheses = {}", f"hypotheses is {{}}; expected {LIST.replace('attributes', 'hypotheses')}"),
    ("hypotheses = ['presence']", 'hypotheses[0] is "presence"; expected a table such as { likelihood = ..., alpha = ... }'),
    ("hypotheses = [{}, {likelyhood='presence'}]", "hypotheses[1].likelyhood is unknown; did you mean hypotheses[1].likelihood?"),
    (
        "hypotheses = [{likelihood='gaussian'}]",
        'hypotheses[0].likelihood is "gaussian"; expected "multinomial", "presence", "bernoulli" or "complement"',
    ),
    ("hypotheses = [{alpha=0}]", "hypotheses[0].alpha is 0; expected a finite number above 0"),
    ("hypotheses = [{m=0.0}]", "hypotheses[0].m is 0.0; expected a finite number above 0"),
    ("hypotheses = [{weight=-1}]", "hypotheses[0].weight is -1; expected a finite number of 0 or more"),
    ("hypotheses = [{alpha=1, m=2}]", "hypotheses[0].m is 2.0 and hypotheses[0].alpha is 1.0; expected one of them"),
    ("hypotheses = [{p=0.5}]", "hypotheses[0].p is 0.5; expected hypotheses[0].m with it"),
    ("hypotheses = [{half_life=7}]", 'hypotheses[0].half_life is 7; expected a duration above 0 with its unit (ms, s, m, h, d), such as "30s"'),
    ("hypotheses = [{name='x'}, {}, {name='x'}]", 'hypotheses[2].name is "x"; expected another name than hypotheses[0] has'),
    ("hypotheses = [{likelihood='bernoulli', half_life='36h'}]", f'hypotheses[0].half_life is "36h"; expected {LASTING}'),
    ("hypotheses = [{half_life='1d'}]\n[model]\nevent_model = 'bernoulli'", f'hypotheses[0].half_life is "1d"; expected {LASTING}'),
    ("hypotheses = [{alpha=1}, {}]\n[model]\nalpha = 0", "model.alpha is 0.0; expected a finite number above 0, for hypotheses[1] to take"),
    ("hypotheses = [{}]\n[model]\nm = 0", "model.m is 0.0; expected a finite number above 0, for hypotheses[0] to take"),
    ("hypotheses = [{prior='given'}]", 'hypotheses[0].prior is "given"; expected weights in model.priors with it'),
    (
        "hypotheses = [{}]\nattributes = [{name='t', kind='text', event_model='bernoulli'}]",
        'attributes[0].event_model is "bernoulli"; expected no event_model with hypotheses, which define how texts are read',
    ),
    (
        "hypotheses = [{}]\nattributes = [{name='n', kind='nominal', alpha=0}]",
        "attributes[0].alpha is 0.0; expected a finite number above 0 with hypotheses",
    ),
    ("[posterior]\nprediction = 'best'", 'posterior.prediction is "best"; expected "mixture", "map" or "gibbs"'),
    ("[posterior]\nswitching_rate = 1.0", "posterior.switching_rate is 1.0; expected a number of 0 or more, and below 1"),
    ("[posterior]\nseed = -1", "posterior.seed is -1; expected an integer of 0 or more"),
    ("[predictions]\nhypotheses = 1", "predictions.hypotheses is 1; expected true or false"),
    ("[predictions]\nunseen = 1", "predictions.unseen is 1; expected true or false"),
    (
        "[classes]\naliases = {a = 'b', b = 'c'}",
        'classes.aliases is { a = "b", b = "c" }; expected a table of label = the label that it is read as, such as { spma = "spam" }, or = "" for none; what one is read as is not read as another',
    ),
    # decision
    ("[decision]\nreject = -1", "decision.reject is -1; expected a finite number of 0 or more"),
    ("[decision.costs]\na = 1", f"decision.costs is {{ a = 1 }}; expected {COSTS.expected}"),
    ("[decision.costs]\na = { b = -1 }", f"decision.costs is {{ a = {{ b = -1 }} }}; expected {COSTS.expected}"),
    ("[decision]\npriors = 'given'", f'decision.priors is "given"; expected {NEW_PRIORS.expected}'),
    ("[decision]\nwindow = 7", 'decision.window is 7; expected decision.priors = "windowed" with it'),
    (
        "[decision]\npriors = 'windowed'",
        'decision.priors is "windowed"; expected others with hypotheses that learn fast, as the default ones: they follow by themselves',
    ),
    ("[decision]\nnovelty = nan", "decision.novelty is nan; expected 0, or a number from 0.001 to 0.5"),
    ("[decision]\nnovelty = 0.0009", "decision.novelty is 0.0009; expected 0, or a number from 0.001 to 0.5"),
    ("[decision]\nnovelty = -0.01", "decision.novelty is -0.01; expected 0, or a number from 0.001 to 0.5"),
    (
        "[decision]\nnovelty = 0.01\n[model]\nkind = 'semi_supervised'",
        'decision.novelty is 0.01; expected 0 with model.kind = "semi_supervised": only naive Bayes and mixtures know how likely an event is',
    ),
    ("[decision]\npriors = {}", f"decision.priors is {{}}; expected {NEW_PRIORS.expected}"),
    ("[model]\ntenants = 5", 'model.tenants is 5; expected model.kind = "tenants" with it'),
    (
        "[decision]\npriors = 'uniform'\n[model]\nkind = 'hidden_markov'",
        'decision.priors is "uniform"; expected "learned" with model.kind = "hidden_markov", which has no prior of classes to be corrected',
    ),
    (
        "[decision]\npriors = 'uniform'\n[model]\nkind = 'logistic_regression'\n[[attributes]]\nname = 'x'\nkind = 'continuous'",
        'decision.priors is "uniform"; expected "learned" with model.kind = "logistic_regression", which has no prior of classes to be corrected',
    ),
    (
        "[decision]\npriors = { a = 1 }\n[model]\nprior = 'uniform'",
        'decision.priors is { a = 1.0 }; expected "learned", or model.prior = "learned" for all of the model',
    ),
    # monitors
    (
        "monitors = [{kind='no-events'}]",
        (
            'monitors[0].name is missing; expected a table such as { name = "silent", kind = "no-events", '
            'after = "10m" }; monitors[0].after is missing, which kind = "no-events" needs'
        ),
    ),
    (
        "monitors = [{name='a', kind='no-events', after='1m', action='pause'}]",
        'monitors[0].action = "pause" has no meaning with kind = "no-events"; expected kind = "error-rate" or "class-rate" or "calibration"; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='error-rate', tolerated=0.1, alarming=0.2, action='renew', pause_records=5}]",
        'monitors[0].pause_records has no meaning without action = "pause"; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='new-class', action='renew'}]\nmodel.kind='naive_bayes'",
        'monitors[0].action is "renew"; expected a model.kind = "mixture" that learns more than counts, such as the default one',
    ),
    ("monitors = [{name='a', kind='no-events'}]", 'monitors[0].after is missing, which kind = "no-events" needs; monitors[0] is "a"'),
    ("monitors = [{name='a', kind='error-rate', tolerated=0.1}]", 'monitors[0].alarming is missing, which kind = "error-rate" needs; monitors[0] is "a"'),
    (
        "monitors = [{name='a', kind='error-rate', tolerated=9e-7, alarming=0.2}]",
        'monitors[0].tolerated is 9e-07; expected a number from 1e-6 to 0.999999, or a list of two: the lower and the upper bound; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='error-rate', tolerated=0.1, alarming=0.2, false_alarm=5e-324}]",
        'monitors[0].false_alarm is 5e-324; expected a number from 1e-6 to 0.999999; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='class-rate', label='x', tolerated=[0.1, 0.2], alarming=[0.0999999, 0.3]}]",
        'monitors[0].alarming is [0.0999999, 0.3]; expected 1e-06 or more away from monitors[0].tolerated; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='error-rate', tolerated=0.1, alarming=0.2, after='1m'}]",
        'monitors[0].after has no meaning with kind = "error-rate"; expected kind = "no-events" or "no-labels"; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='error-rate', tolerated=0.2, alarming=0.2}]",
        'monitors[0].alarming is 0.2; expected more than monitors[0].tolerated, or two numbers outside of it; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='error-rate', tolerated=[0.1, 0.2], alarming=[0.05, 0.3]}]",
        'monitors[0].tolerated is [0.1, 0.2]; expected one number; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='class-rate', label='x', tolerated=[0.1, 0.2], alarming=0.3}]",
        'monitors[0].alarming is [0.3]; expected as many numbers as monitors[0].tolerated has; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='class-rate', label='x', tolerated=[0.1, 0.2], alarming=[0.1, 0.3]}]",
        'monitors[0].alarming is [0.1, 0.3]; expected more than monitors[0].tolerated, or two numbers outside of it; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='class-rate', label='x', tolerated=[0.2, 0.1], alarming=[0.1, 0.3]}]",
        'monitors[0].tolerated is [0.2, 0.1]; expected the lower and then the upper bound; monitors[0] is "a"',
    ),
    (
        "monitors = [{name='a', kind='no-events', after='1m'}, {name='a', kind='no-labels', after='1m'}]",
        'monitors[1].name is "a"; expected another name than monitors[0] has',
    ),
    (
        "monitors = [" + ", ".join(f"{{name='{i}', kind='no-events', after='1m'}}" for i in range(101)) + "]",
        "monitors has 101 tables; expected 100 at most",
    ),
    (
        "monitors = [{name='a', kind='no-events', after='1m'}]\n[topics]\nlabels = 'alerts'",
        'topics.labels is "alerts"; expected another name than topics.alerts has',
    ),
]  # fmt: skip


def test_an_error_names_the_file_the_key_what_was_found_and_what_was_expected(tmp_path):
    def is_told(case):
        text, expected = case
        assert message(tmp_path, text) == f"config.toml: {expected}"

    assert failures(is_told, FILE_ERRORS) == {}


def test_values_are_told_by_the_texts_that_events_have(tmp_path):
    config = loaded(
        "[model]\nkind='naive_bayes'\n[[attributes]]\nname='n'\nkind='nominal'\nvalues=[1, 2.0, 0.5, true, 'x']",
        tmp_path,
    )
    assert config.attributes[0].values == ("1", "2", "0.5", "true", "x")
    assert factories.model(config).attributes["n"] == Nominal(values=("1", "2", "0.5", "true", "x"))


@pytest.mark.parametrize("how", ["values=['u','v','w']", "n_values=3"])
def test_a_prior_estimate_that_cannot_sum_to_one_over_the_values_stops_the_start(tmp_path, how):
    for model, attribute in (("m=2\np=0.5", ""), ("", ",m=2,p=0.5")):
        config = loaded(
            f"attributes=[{{name='n',kind='nominal',{how}{attribute}}}]\n[model]\nkind='naive_bayes'\n{model}",
            tmp_path,
        )
        with pytest.raises(
            ConfigError, match=r"model: attribute 'n': p = 0.5 for each of 3 values sums to 1.5"
        ):
            factories.model(config)


def test_a_long_name_is_refused_only_where_it_makes_the_path(tmp_path):
    name = "x" * 300
    error = message(tmp_path, f"attributes = [{{name='{name}', kind='nominal'}}]")
    assert error.endswith(f"...; expected {PATH}")
    config = loaded(f"attributes = [{{name='{name}', kind='nominal', path='$.x'}}]", tmp_path)
    assert config.attributes[0].path == "$.x"


def test_what_is_no_file_or_no_toml_is_an_error(tmp_path):
    path = tmp_path / "config.toml"
    for make, expected in [
        (lambda: None, "cannot be read: No such file or directory"),
        (path.mkdir, "cannot be read: Is a directory"),
    ]:
        make()
        with pytest.raises(ConfigError) as caught:
            load(path, {}, [])
        assert str(caught.value) == f"{path}: {expected}"


@pytest.mark.parametrize("content", [b"[log", b"a = 1\na = 2", b"\xff"])
def test_a_file_that_cannot_be_parsed_is_an_error(tmp_path, content):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{re.escape(str(path))}: is not TOML: "):
        load(path, {}, [])


@pytest.mark.parametrize(
    "opening", ["a = " + "[" * 100_000, "a = " + "{a=" * 100_000, "a" + ".a" * 2000 + " = 1"]
)
def test_a_file_that_is_nested_too_deeply_is_an_error(tmp_path, opening):
    path = tmp_path / "config.toml"
    path.write_text(opening)
    with pytest.raises(ConfigError, match=f"^{re.escape(str(path))}: "):
        load(path, {}, [])


@given(
    st.integers(1, 2000), st.sampled_from(["[]", ["{a=", "}"]]), st.sampled_from(["file", "variable", "flag"])
)
def test_no_depth_of_nesting_is_too_much_for_a_message(depth, brackets, origin):
    text = brackets[0] * depth + "1" + brackets[1] * depth
    environ = {"STREAMNB_MODEL__ALPHA": text} if origin == "variable" else {}
    flags = [f"model.alpha={text}"] if origin == "flag" else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        path.write_text(f"model.alpha = {text}" if origin == "file" else "")
        with pytest.raises(ConfigError) as caught:
            load(path, environ, flags)
    assert len(str(caught.value)) < 400


def test_a_password_in_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    file = str(tmp_path / "pipe")
    config = load(None, {}, ["log.url=kafka://h:1", "kafka.username=me", f"kafka.password_file={file}"])
    with pytest.raises(ConfigError, match="it is not a regular file"):
        config.kafka.settings(config.log)


# Errors of variables and flags


def test_an_error_names_the_variable(tmp_path):
    environ = {"STREAMNB_COMMIT__INTERVAL": "100"}
    assert message(tmp_path, "", environ) == (
        f'environment variable STREAMNB_COMMIT__INTERVAL: commit.interval is "100"; expected {DURATION}'
    )


@pytest.mark.parametrize(
    "name", ["STREAMNB_LOG_URL", "STREAMNB_LOG__URLS", "STREAMNB_log__url", "STREAMNB_LOG"]
)
def test_an_unknown_variable_is_an_error(tmp_path, name):
    expected = f"environment: {name} is unknown; did you mean STREAMNB_LOG__URL?"
    assert message(tmp_path, "", {name: "sqlite:///x.db"}) == expected


def test_a_variable_of_a_key_named_like_a_service_link_is_not_passed_over(tmp_path):
    assert message(tmp_path, "", {"STREAMNB_HTTP__PORT": "1"}).startswith(
        "environment: STREAMNB_HTTP__PORT is unknown"
    )


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("log.url", "flag --set log.url: expected section.key=value"),
        ("log.ulr=x", "flag --set: log.ulr is unknown; did you mean log.url?"),
        ("log={}", "flag --set: log is unknown; did you mean log.url?"),
        ("=x", "flag --set:  is unknown"),
        ("model.prune={}", "flag --set: model.prune is unknown; did you mean model.prune.every?"),
        ("model.priors.spam=1", "flag --set: model.priors.spam is unknown; did you mean model.priors?"),
        ("commit.events=", 'flag --set: commit.events is ""; expected an integer of 1 or more'),
        ("commit.events=many", 'flag --set: commit.events is "many"; expected an integer of 1 or more'),
        ("commit.events=1\nx = 2", r'flag --set: commit.events is "1\nx = 2"; expected an integer of 1 or more'),
        ("commit.events=true", "flag --set: commit.events is true; expected an integer of 1 or more"),
        ("topics.metrics=events", 'flag --set: topics.metrics is "events"; expected another name than topics.events has'),
        ("snapshots.folder=\udcff", "flag --set: snapshots.folder is not UTF-8; expected a string"),
    ],
)  # fmt: skip
def test_an_error_names_the_flag(tmp_path, override, expected):
    assert message(tmp_path, "", {}, [override]) == expected


def test_a_value_that_a_higher_layer_hides_is_refused_all_the_same(tmp_path):
    error = message(tmp_path, "[commit]\nevents = 0", {}, ["commit.events=1"])
    assert error == "config.toml: commit.events is 0; expected an integer of 1 or more"


def test_a_contradiction_between_layers_is_blamed_on_a_layer_that_takes_part(tmp_path):
    error = message(tmp_path, "[model]\nalpha = 0.5", {"STREAMNB_MODEL__M": "2"})
    assert (
        error
        == "environment variable STREAMNB_MODEL__M: model.m is 2.0 and model.alpha is 0.5; expected one of them"
    )
    error = message(tmp_path, "[topics]\nevents = 'x'", {}, ["topics.journal=x"])
    assert error == 'flag --set: topics.journal is "x"; expected another name than topics.events has'


def test_the_nearest_key():
    assert nearest("log.sesion_timeout", KEYS) == "log.session_timeout"
    assert nearest("zzzzzz", KEYS) is None


# Writing


TOPICS = st.lists(
    st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in {".", ".."}),
    min_size=5, max_size=8, unique=True,
)  # fmt: skip
SECONDS_ = st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False)
REALS = st.floats(min_value=0, allow_infinity=False, allow_nan=False)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
PATHS = NAMES.map(lambda name: f"$[{msgspec.json.encode(name).decode()}]")
SMOOTHINGS = st.one_of(
    st.just({}),
    st.builds(lambda alpha: {"alpha": alpha}, REALS),
    st.builds(lambda m: {"m": m}, REALS),
    st.builds(lambda m, p: {"m": m, "p": p}, REALS, st.floats(0.001, 0.999)),
)
EVENT_MODELS = st.sampled_from(["multinomial", "bernoulli"])
ATTRIBUTE = st.one_of(
    st.builds(lambda s: {"kind": "nominal", **s}, SMOOTHINGS),
    st.builds(
        lambda values: {"kind": "nominal", "values": values},
        st.lists(
            st.one_of(NAMES, st.booleans(), st.integers(-9, 9)),
            min_size=1,
            max_size=4,
            unique_by=lambda value: value if isinstance(value, str) else msgspec.json.encode(value).decode(),
        ),
    ),
    st.builds(lambda n: {"kind": "nominal", "n_values": n}, st.integers(1, 1 << 31)),
    st.builds(lambda s, e: {"kind": "text", "event_model": e, **s}, SMOOTHINGS, EVENT_MODELS),
    st.builds(lambda path: {"kind": "continuous", "path": path}, PATHS),
    st.builds(lambda least: {"kind": "continuous", "min": least, "max": least + 1.0}, st.floats(-1e6, 1e6)),
)
ATTRIBUTE_LISTS = st.dictionaries(NAMES, ATTRIBUTE, max_size=4).map(
    lambda tables: [{"name": name, **table} for name, table in tables.items()]
)
COUNTS = st.integers(1, 2**63 - 1)
POSITIVE = st.floats(min_value=1e-3, max_value=1e9)
HYPOTHESIS = st.fixed_dictionaries(
    {},
    optional={
        "likelihood": st.sampled_from(["multinomial", "presence", "complement"]),
        "alpha": POSITIVE,
        "prior": st.sampled_from(["learned", "uniform"]),
        "half_life": SECONDS_.map(format_duration),
        "weight": POSITIVE,
    },
)
HYPOTHESIS_LISTS = st.dictionaries(NAMES, HYPOTHESIS, max_size=4).map(
    lambda tables: [{"name": name, **table} for name, table in tables.items()]
)
CLIENT_TABLES = st.fixed_dictionaries(
    {},
    optional={
        "ssl_cafile": NAMES,
        "security_protocol": st.sampled_from(["SSL", "SASL_SSL"]),
        "ssl_check_hostname": st.booleans(),
        "reconnect_backoff_ms": st.integers(1, 10**6),
    },
)


MONITOR_TABLES = [
    {"name": "errors", "kind": "error-rate", "tolerated": 0.01, "alarming": 0.05, "miss": 0.1},
    {"name": "spam", "kind": "class-rate", "label": "s", "of": "labels", "tolerated": [0.1, 0.3], "alarming": [0.05, 0.4]},
    {"name": "sure", "kind": "calibration", "tolerated": 0.05, "alarming": 0.15, "false_alarm": 0.001},
    {"name": "quiet", "kind": "no-labels", "after": "1d"},
]  # fmt: skip


@st.composite
def files(draw):
    """A configuration file, as the values that TOML gives."""
    *events, predictions, metrics, dead_letters, journal = draw(TOPICS)
    topics = {
        "events": draw(st.sampled_from([events, ",".join(events)])),
        "predictions": predictions, "metrics": metrics, "dead_letters": dead_letters, "journal": journal,
        "replication": draw(st.integers(0, 10)), "retention": format_duration(draw(SECONDS_)),
    }  # fmt: skip
    priors = draw(st.dictionaries(TEXT, st.floats(0.1, 1e9), max_size=3))
    hypotheses = draw(HYPOTHESIS_LISTS)
    return {
        "attributes": [] if hypotheses else draw(ATTRIBUTE_LISTS),
        "hypotheses": hypotheses,
        "monitors": draw(st.sampled_from([[], MONITOR_TABLES])),
        "log": {
            "url": draw(st.sampled_from(["sqlite:///" + draw(NAMES) + ".db", "kafka://a:1,[::1]:2"])),
            "client": draw(st.sampled_from(["kafka-python", "librdkafka"])),
            "session_timeout": format_duration(draw(SECONDS_)),
            "hang_timeout": format_duration(draw(REALS)),
        },
        "kafka": {
            "client": draw(CLIENT_TABLES),
            "username": draw(TEXT),
            "password_file": draw(TEXT),
            "give_up_after": format_duration(draw(REALS)),
        },
        "http": {"listen": draw(st.sampled_from(["", "localhost:0", "[::]:65535"]))},
        "topics": {**topics, "partitions": draw(st.integers(1, 1000))},
        "events": {"id": draw(PATHS), "label": "$.no.such.label", "max_bytes": format_size(draw(COUNTS))},
        "model": {
            "name": draw(NAMES),
            "event_model": "multinomial" if hypotheses else draw(EVENT_MODELS),
            "prior": "given" if priors else draw(st.sampled_from(["learned", "uniform"])),
            "priors": priors,
            "prune": {"every": draw(st.integers(0, 10**9)), "min_count": draw(REALS)},
            **({"m": 0.5, "p": 0.25} if hypotheses else {"kind": "naive_bayes", **draw(SMOOTHINGS)}),
        },
        "posterior": {"switching_rate": draw(st.floats(0, 1, exclude_max=True)), "seed": draw(COUNTS)},
        "commit": {"events": draw(COUNTS), "interval": format_duration(draw(REALS))},
        "snapshots": {"folder": draw(TEXT), "every": format_duration(draw(SECONDS_))},
        "metrics": {"window": draw(st.integers(1, 10_000_000))},
        "predictions": {"evidence": draw(st.integers(0, 100)), "hypotheses": draw(st.booleans())},
        "drift": {"detectors": draw(st.lists(st.sampled_from(DETECTORS), unique=True))},
    }


def from_text(text, folder):
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8", newline="")
    return load(path, {}, [])


@given(st.lists(st.sampled_from(DETECTORS), unique=True), st.randoms())
def test_detectors_are_a_list_or_words_with_commas_and_their_order_means_nothing(
    tmp_path_factory, names, order
):
    folder = tmp_path_factory.getbasetemp()
    expected = tuple(name for name in DETECTORS if name in names)
    for _ in range(2):
        flags = [f"drift.detectors={comma.join(names)}" for comma in (",", " , ")]
        table = f"[drift]\ndetectors = {literal(names)}"
        found = [load(None, {}, [flag]) for flag in flags] + [from_text(table, folder)]
        assert [config.drift.detectors for config in found] == [expected] * 3
        order.shuffle(names)


@given(files())
def test_what_show_writes_loads_to_an_equal_configuration(tmp_path_factory, values):
    folder = tmp_path_factory.getbasetemp()
    config = from_text("\n".join(f"{name} = {literal(value)}" for name, value in values.items()), folder)
    again = from_text(show(config), folder)
    assert again == config
    assert show(again) == show(config)
    assert config_hash(again) == config_hash(config)


def flat(table, prefix=""):
    for name, value in table.items():
        if isinstance(value, dict) and prefix + name not in KEYS:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_show_writes_every_key_and_says_which_are_not_set():
    text = show(Config())
    assert set(flat(tomllib.loads(text))) == set(KEYS) - OPTIONAL
    assert "# m is not set\n# p is not set\n" in text
    assert "# password is not set\n" in text
    assert 'events = "events"' in text
    assert 'interval = "100ms"' in text
    assert 'max_bytes = "1MiB"' in text


def test_show_leaves_out_the_alpha_that_an_m_estimate_replaces():
    text = show(load(None, {}, ["model.kind=naive_bayes", "model.m=2"]))
    assert "# alpha is not set\nm = 2.0\n# p is not set\n" in text


# The hash


def test_the_hash_of_the_defaults_is_known():
    # A change here makes every running worker record a change of configuration: it must be meant.
    assert config_hash(Config()) == "e81b707036af656810a996c5125ba3b6608e9e4e0133e0a0e18d43c74fb85124"


CHANGES = {
    "log.url": "sqlite:///y.db", "log.client": "librdkafka", "log.session_timeout": "1s", "log.hang_timeout": "1s", "kafka.client": "{ ssl_cafile = 'x' }",
    "kafka.username": "u", "kafka.password": "w", "kafka.password_file": "f", "kafka.token_file": "t", "kafka.key_password_file": "k", "kafka.transaction_timeout": "1s",
    "kafka.give_up_after": "1s", "topics.events": "e", "topics.predictions": "p", "topics.metrics": "m",
    "topics.dead_letters": "d", "topics.journal": "j", "topics.labels": "l", "topics.alerts": "a", "topics.tenants": "s", "topics.requests": "r", "topics.partitions": "2", "topics.replication": "2",
    "topics.retention": "1d",
    "events.id": "$.i", "events.label": "$.l", "events.ts": "$.t", "events.weight": "$.w", "events.max_bytes": "2MiB", "events.letter_bytes": "9KiB", "events.entity": "$.e", "events.clock": "event", "events.repeats": "skip", "events.partitions": "[1, 0]",
    "attributes": '[{name="text", kind="text"}]', "model.name": "other", "model.kind": "naive_bayes", "model.alpha": "2", "model.m": "2",
    "model.p": "0.5", "model.event_model": "bernoulli", "model.prior": "uniform", "model.priors": "{ a = 1 }",
    "model.unlabelled_weight": "0.5", "model.unlabelled_window": "20", "model.revisits": "2", "model.C": "2", "model.features": "9",
    "model.transition_m": "2", "model.entities": "9", "model.time_to_live": "1h",
    "model.parents": "{ n = ['label'] }", "model.cells": "99",
    "model.memory": "1MiB", "model.tenants": "5", "model.shared": "true",
    "model.prune.every": "1", "model.prune.min_count": "1", "model.prune.drop_most_frequent": "1",
    "model.prune.max_attributes": "1", "hypotheses": "[{ alpha = 2 }]", "posterior.prediction": "map",
    "posterior.switching_rate": "0.1", "posterior.seed": "1", "posterior.memory": "1MiB", "posterior.floor": "false", "posterior.caution": "false", "classes.max": "9", "classes.min_learns": "5", "classes.aliases": "{a='b'}", "memory.budget": "64MiB", "commit.events": "1", "commit.interval": "1s", "snapshots.folder": "f",
    "snapshots.every_events": "1", "snapshots.every": "1s", "snapshots.max_replay": "1s", "snapshots.keep": "1", "snapshots.mirror": "s3://b/p", "metrics.every_events": "1",
    "metrics.every": "2s", "metrics.window": "1", "metrics.interval": "0.5", "predictions.evidence": "1", "predictions.hypotheses": "true", "predictions.unseen": "false", "predictions.top": "3", "predictions.max_bytes": "9KiB", "predictions.traceparent": "true", "predictions.by": "scorers", "decision.costs": "{ a = { b = 2 } }", "decision.reject": "0.5", "decision.priors": "windowed", "decision.window": "7", "decision.novelty": "0.01", "scorers.behind": "1", "drift.detectors": "adwin",
    "monitors": '[{ name = "quiet", kind = "no-events", after = "1m" }]',
    "webhooks": '[{ name = "w", url = "https://x/y", send = "predictions", secret_file = "s", give_up_after = "1h" }]',
    "sources": '[{ name = "s", topic = "t" }]', "registry.url": "http://r:8081", "registry.username": "u", "registry.password": "p", "registry.password_file": "p", "registry.ca_file": "f", "registry.timeout": "1s", "registry.predictions": "p",
    "labels.window": "1d", "labels.memory": "1MiB", "labels.ranks": "{ a = 2 }", "labels.weights": "{ a = 2 }", "labels.allowed": "['a', 'b']", "http.listen": "",
    "log_output.format": "json", "log_output.level": "error", "log_output.progress": "1s", "log_output.content": "true",
}  # fmt: skip
BESIDE = {
    "decision.priors": ["model.kind=naive_bayes"],
    "decision.window": ["decision.priors=windowed", "model.kind=naive_bayes"],
    "model.p": ["model.m=2"],
    "model.priors": ["model.prior=given"],
    **{
        key: ["topics.labels=labels"]
        for key in ("labels.window", "labels.memory", "labels.ranks", "labels.weights", "labels.allowed")
    },
}


def test_every_key_is_tried():
    assert list(CHANGES) == list(KEYS)


def test_the_hash_changes_with_what_shapes_learning_or_outputs_and_with_nothing_else():
    assert failures(changes_the_hash_where_it_should, CHANGES) == {}


def changes_the_hash_where_it_should(key):
    beside = [*BESIDE.get(key, []), *(["model.kind=naive_bayes"] if key in OF_ONE_MODEL else [])]
    beside += ["model.kind=semi_supervised"] if key in OF_EM else []
    beside += ["model.kind=hidden_markov"] if key in {*OF_CHAINS, "events.entity"} else []
    beside += ["model.kind=tenants"] if key in OF_TENANTS else []
    if key in OF_LOGISTIC:
        beside += ["model.kind=logistic_regression", 'attributes=[{name="n", kind="continuous"}]']
    if key in OF_NETWORK:
        beside += ["model.kind=bayesian_network", 'attributes=[{name="n", kind="nominal"}]']
    before = (
        load(None, {}, beside)
        if key != "model.priors"
        else load(None, {}, [*beside, "model.priors={ a = 2 }"])
    )
    after = load(None, {variable(key): CHANGES[key]}, beside)
    assert before != after
    shapes = key.split(".")[0] not in {"log", "kafka", "http", "commit", "snapshots", "scorers", "webhooks", "log_output", "sources", "registry"} and key not in {"labels.allowed",
        "topics.requests", "topics.partitions", "topics.replication", "topics.retention"
    }  # fmt: skip
    assert (config_hash(before) != config_hash(after)) == shapes


def test_the_hash_is_of_meanings_and_not_of_spellings():
    spelled = ["events.max_bytes=1024KiB", 'events.id=$["id"]', "model.alpha=1", "metrics.window=1_000"]
    assert config_hash(load(None, {}, spelled)) == config_hash(Config())
    assert config_hash(load(None, {}, ["topics.events=a,b"])) == config_hash(
        load(None, {}, ["topics.events=a , b"])
    )
    one, other = ("{ a = 1, b = 2 }", "{ b = 2.0, a = 1.0 }")
    given = [load(None, {}, ["model.prior=given", f"model.priors={table}"]) for table in (one, other)]
    assert given[0] == given[1]
    assert config_hash(given[0]) == config_hash(given[1])


# The files and the manual


def test_there_are_files():
    assert [path.name for path in FILES] == [
        "bayesian-network.toml", "bernoulli.toml", "default.toml", "hidden-markov.toml", "hypotheses.toml", "kafka-tls.toml", "kafka.toml", "logistic-regression.toml", "mixed.toml", "semi-supervised.toml", "shard-a.toml", "shard-b.toml", "shards-merged.toml", "sms.toml"
    ]  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_loads(path):
    config = load(path, {}, [])
    assert (config == Config()) == (path.name == "default.toml")
    assert public.without_effect(config, public.given(path, {}, [])) == []
    assert path.read_text().startswith("# ")


def test_the_default_file_gives_every_key_under_a_comment():
    path = ROOT / "config" / "default.toml"
    assert set(flat(tomllib.loads(path.read_text()))) == set(KEYS) - OPTIONAL
    lines = path.read_text().splitlines()
    keys = [i for i, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    assert len(keys) == len(KEYS) - len(OPTIONAL)
    assert all(re.match(r"# \S", lines[i - 1]) for i in keys)


def test_what_the_files_declare():
    sms, mixed, bernoulli = (
        load(ROOT / "config" / f"{name}.toml", {}, []) for name in ("sms", "mixed", "bernoulli")
    )
    assert sms.attributes == (
        AttributeConfig("text", "text", "$.text", alpha=0.1, event_model="multinomial"),
    )
    assert {attribute.kind for attribute in mixed.attributes} == {"text", "nominal", "continuous"}
    assert len({(a.alpha, a.m, a.p) for a in mixed.attributes}) >= 3
    assert bernoulli.model.event_model == "bernoulli"
    assert len({config.log.url for config in (sms, mixed, bernoulli)}) == 3


def test_the_files_for_kafka(tmp_path):
    plain, tls = (load(ROOT / "config" / f"{name}.toml", {VARIABLE: password}, [])
                  for name, password in (("kafka", ""), ("kafka-tls", "geheim")))  # fmt: skip
    assert plain.kafka.settings(plain.log) == {"bootstrap_servers": ["localhost:9092"]}
    assert (plain.topics.partitions, plain.topics.replication) == (3, 0)
    assert tls.kafka.settings(tls.log) == {
        "bootstrap_servers": ["kafka-1:9093", "kafka-2:9093", "kafka-3:9093"],
        "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "ssl_cafile": "ca.pem",
        "sasl_plain_username": "streamnb", "sasl_plain_password": "geheim",
    }  # fmt: skip
    assert tls.topics.replication == 3
    (tmp_path / "password").write_text("geheim\n")
    filed = load(ROOT / "config" / "kafka-tls.toml", {}, [f"kafka.password_file={tmp_path}/password"])
    assert filed.kafka.settings(filed.log) == tls.kafka.settings(tls.log)


MANUAL = (ROOT / "docs" / "configuration.md").read_text()


def rows(text):
    """Key -> (type, default) of every table whose first column is a key in backquotes."""
    return {
        key: (kind.replace("`", ""), default.strip("`"))
        for key, kind, default in re.findall(
            r"^\| `([\w.]+)` \| (.+?) \| (.+?) \| .+ \|$", text, re.MULTILINE
        )
    }


def test_the_manual_and_the_code_agree_on_every_key():
    manual = rows(MANUAL.partition("\n## Attributes\n")[0])
    default = Config()
    code = {
        key: (kind.name, "not set" if key in OPTIONAL else kind.write(at(default, key)))
        for key, kind in KEYS.items()
    }
    assert manual == code


@pytest.mark.parametrize(
    ("chapter", "section"), [("Attributes", AttributeConfig), ("Hypotheses", HypothesisConfig)]
)
def test_the_manual_and_the_code_agree_on_the_keys_of_a_table(chapter, section):
    manual = rows(MANUAL.partition(f"\n## {chapter}\n")[2].partition("\n## ")[0])
    assert {key: kind for key, (kind, _) in manual.items()} == {
        name: kind.name for name, kind in members(section).items() if isinstance(kind, Validator)
    }


def test_the_manual_has_the_defaults_of_a_hypothesis():
    manual = rows(MANUAL.partition("\n## Hypotheses\n")[2])
    default = HypothesisConfig()
    assert {key: default_ for key, (_, default_) in manual.items()} == {
        name: "not set" if at(default, name) is None else kind.write(at(default, name))
        for name, kind in members(HypothesisConfig).items()
    }


def test_the_manual_and_the_code_agree_on_the_settings_of_a_kafka_client():
    chapter = MANUAL.partition("\n## Kafka clients\n")[2].partition("\n## ")[0]
    manual = re.findall(r"^\| `(\w+)` \| (.+?) \|$", chapter, re.MULTILINE)
    assert {name: kind.replace("`", "") for name, kind in manual} == {
        name: kind.name for name, kind in SETTINGS.items()
    }


def test_the_manual_shows_messages_as_they_are(tmp_path):
    shown = re.search(r"```text\n(.+?)```", MANUAL, re.DOTALL)[1].splitlines()
    assert shown == [
        message(tmp_path, "[log]\nsesion_timeout = 1"),
        message(tmp_path, "", {"STREAMNB_COMMIT__INTERVAL": "100"}),
        message(tmp_path, "", {}, ["topics.metrics=events"]),
    ]


# The package


def test_importing_is_light():
    code = "import streamnb.config, sys; print(*sys.modules)"
    loaded_modules = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    roots = {name.partition(".")[0] for name in loaded_modules.split()}
    assert roots.isdisjoint({"numba", "numpy", "river", "kafka", "zstandard", "tqdm", "pandas", "sqlite3"})
    assert not any(name.startswith("streamnb.event_logs") for name in loaded_modules.split())


def test_a_configuration_cannot_be_changed():
    with pytest.raises(AttributeError):
        Config().log.url = "sqlite:///other.db"


def test_a_time_stands_for_attributes_of_its_parts():
    table = '[{name="t", kind="time", parts=["hour", "age"]}, {name="u", kind="time", path="$.at"}]'
    made = load(None, {}, [f"attributes={table}"]).attributes
    assert [(one.name, one.kind, one.path, one.part) for one in made] == [
        ("t.hour", "nominal", "$.features.t", "hour"),
        ("t.age", "continuous", "$.features.t", "age"),
        ("u.hour", "nominal", "$.at", "hour"),
        ("u.weekday", "nominal", "$.at", "weekday"),
        ("u.month", "nominal", "$.at", "month"),
    ]
    for faulty, told in {
        '[{name="t", kind="time", parts=["year"]}]': "expected some of hour, weekday, month, age",
        '[{name="t", kind="continuous", part="hour"}]': 'kind = "nominal" with it',
        '[{name="t", kind="time", alpha=1.0}]': "attributes[0].alpha",
        '[{kind="time"}]': "attributes[0].name is missing",
        '[{name="t.hour", kind="text"}, {name="t", kind="time"}]': "another name",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(told)):
            load(None, {}, [f"attributes={faulty}"])
