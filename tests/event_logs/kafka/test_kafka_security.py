"""A cluster that wants TLS, a password and ACLs: what works, and that each failure is one line that helps."""

from __future__ import annotations

import json
import re
import shlex
import socket
import time
from base64 import urlsafe_b64encode

import pytest
from kafka import KafkaAdminClient, errors
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)

from streamnb.errors import Fenced, LogError, Unavailable
from streamnb.event_logs.kafka.error_messages import translate
from tests.support.program import Program, until
from tests.support.service import raw_events

pytestmark = [pytest.mark.thorough, pytest.mark.early(7)]

RAWS = raw_events(50, seed=5)
WRONG = "wr0ng-passw0rd"
TLS = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}
ACLS = [
    ("topic", "events", "READ"),
    ("topic", "predictions", "WRITE"),
    ("topic", "metrics", "WRITE"),
    ("topic", "dead_letters", "WRITE"),
    ("topic", "journal", "READ"),
    ("topic", "journal", "WRITE"),
    ("group", None, "READ"),
    ("transactional_id", None, "WRITE"),
]
"""What a learner's user must be allowed: kind, role of the topic (the others bear the learner's name), operation."""


@pytest.fixture
def secrets(secured_broker):
    return [*secured_broker.passwords.values(), WRONG]


@pytest.fixture
def program(secured_broker, secrets, tmp_path):
    """Make a program of a user, with the settings that are right but for those given."""
    made = []

    def make(
        user="streamnb",
        password=None,
        *,
        model=None,
        address=None,
        client=None,
        library="kafka-python",
        **kafka,
    ):
        password = secured_broker.passwords.get(user) if password is None else password
        own = {**TLS, "ssl_cafile": str(secured_broker.ca_path), "bootstrap_timeout_ms": 3000}
        settings = {key: value for key, value in {**own, **(client or {})}.items() if value is not None}
        made.append(
            Program(
                tmp_path,
                address or secured_broker.address,
                environment={"STREAMNB_KAFKA__PASSWORD": password} if password else {},
                secrets=secrets,
                model=model,
                log={"client": library},
                kafka={"username": user, **kafka, "client": settings},
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def admin(secured_broker):
    with KafkaAdminClient(**secured_broker.client("admin")) as client:
        yield client


@pytest.fixture
def grant(secured_broker, admin):
    """Allow users operations, and wait until the broker knows."""

    def allow(model, *acls, user="streamnb"):
        for kind, name, operation in acls:
            secured_broker.grant(kind, name or f"streamnb.{model}", operation, user=user)
        kind, name, operation = acls[-1]
        resource = ResourcePatternFilter(
            ResourceType[kind.upper()], name or f"streamnb.{model}", ACLResourcePatternType.LITERAL
        )
        wanted = ACLFilter(f"User:{user}", None, ACLOperation[operation], ACLPermissionType.ALLOW, resource)
        until(lambda: admin.describe_acls(wanted)[0])

    yield allow
    secured_broker.revoke_all()


@pytest.fixture
def allow_as_told(secured_broker, admin, grant):
    """Create topics, and grant what Kafka's own tool would by the lines that are printed; how many ACLs these are."""
    assert grant

    def allow(operator, *more):
        told = json.loads(operator.run("topics", "create", "--principal", "streamnb", "--json", *more))[
            "acls"
        ]
        count = 0
        for words in map(shlex.split, told):
            *_, kind, name = words
            names = [words[at + 1] for at, word in enumerate(words) if word == "--operation"]
            operations = [re.sub(r"\B(?=[A-Z])", "_", name).lower() for name in names]
            user = words[words.index("--allow-principal") + 1].removeprefix("User:")
            kind = kind.removeprefix("--").replace("-", "_")
            secured_broker.grant(kind, name, *operations, user=user, prefixed="prefixed" in words)
            count += len(operations)
        anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        asked = ACLFilter("User:streamnb", None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
        until(lambda: len(admin.describe_acls(asked)[0]) >= count)
        return count

    return allow


@pytest.fixture
def events(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(raw + b"\n" for raw in RAWS))
    return path


# -- what works -------------------------------------------------------------------------------------------


@pytest.mark.storm_for("librdkafka")
@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
def test_a_model_learns_with_exactly_the_acls_that_topics_create_prints(
    program, grant, allow_as_told, admin, events, library
):
    operator = program("admin")
    assert allow_as_told(operator) == 13
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("shop", "SCRAM-SHA-512", password=WRONG)]
    )
    grant(operator.model, ("topic", operator.topics["events"], "WRITE"), user="shop")
    shop = program("shop", WRONG, model=operator.model, library=library)
    assert "50 events written" in shop.run("replay", events)

    learner = program(model=operator.model, library=library)
    assert "50 events, " in learner.run("run", "--until-end")
    assert [json.dumps(event) for event in learner.read("events")] == [
        json.dumps(json.loads(raw)) for raw in RAWS
    ]
    assert [record["kind"] for record in learner.read("journal")] == ["genesis", "commit"]
    shown = learner.run("topics", "plan")
    assert "hidden" not in shown
    assert "differs" not in shown.lower()

    predictions = learner.topics["predictions"]
    assert f"no permission to READ topic {predictions};" in learner.fail("read", predictions)
    grant(operator.model, ("topic", predictions, "READ"))
    assert learner.ids("predictions") == [json.loads(raw)["id"] for raw in RAWS]


@pytest.mark.storm_for("librdkafka")
@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
def test_scorers_predict_with_exactly_the_acls_that_topics_create_prints(
    program, allow_as_told, events, library
):
    operator, by = program("admin"), ("--set", "predictions.by=scorers")
    assert allow_as_told(operator, *by) == 16
    operator.run("replay", events)
    learner = program(model=operator.model, library=library)
    learner.run("run", "--until-end", *by)
    scorer = learner.start("score", *by)
    until(lambda: len(learner.ids("predictions")) == len(RAWS))
    assert scorer.stop().process.returncode == 0, scorer.said()
    assert learner.ids("predictions") == [json.loads(raw)["id"] for raw in RAWS]


def test_a_password_may_come_from_a_file(program, grant, secured_broker, events):
    operator = program("admin")
    operator.run("topics", "create")
    grant(operator.model, ("topic", operator.topics["events"], "WRITE"))
    file = operator.folder / "password"
    file.write_text(secured_broker.passwords["streamnb"] + "\n")
    assert "50 events written" in program(password="", model=operator.model, password_file=str(file)).run(
        "replay", events
    )
    file.write_text(WRONG)
    from_file = program(password="", model=operator.model, password_file=str(file))
    assert "refuses the log-in" in from_file.fail("replay", events)
    assert "is set" in program().run("config", "show")


@pytest.mark.storm_for("librdkafka")
@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
def test_to_read_is_enough_for_a_dry_run(program, grant, events, library):
    """No group is joined, and no transaction begun: the broker would refuse both."""
    operator = program("admin")
    operator.run("topics", "create")
    operator.run("replay", events)
    grant(operator.model, *(("topic", topic, "READ") for topic in operator.topics.values()))
    reader = program(model=operator.model, library=library)
    assert len(reader.run("run", "--dry-run", 7).splitlines()) == 7
    assert operator.read("journal") == []


def bearer(user, seconds=3600):
    """A token as the broker of the tests takes it: unsigned."""
    claims = {"sub": user, "iat": time.time(), "exp": time.time() + seconds}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join([*(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""])


@pytest.mark.storm_for("librdkafka")
@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
def test_a_bearer_token_comes_from_a_file(program, secrets, events, library):
    """Of an administrator, of somebody without leave, and of nobody any more."""

    def by(token, model=None):
        secrets.append(token)
        client = {"sasl_mechanism": "OAUTHBEARER"}
        one = program("", "", model=model, library=library, client=client, token_file="token")  # noqa: S106  a file
        (one.folder / "token").write_text(f"{token}\n")
        return one

    operator = by(bearer("admin"))
    operator.run("topics", "create")
    assert "50 events written" in operator.run("replay", events)
    assert "50 events, " in operator.run("run", "--until-end")
    assert "no permission to" in by(bearer("nobody"), operator.model).fail("run", "--until-end")
    assert "the broker refuses the log-in: " in by(bearer("admin", -9), operator.model).fail(
        "run", "--until-end"
    )


@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
def test_the_key_of_a_certificate_may_have_a_password(program, secured_broker, secrets, events, library):
    certificate, key = secured_broker.client_certificate("pass-phrase of a key")
    secrets.append("pass-phrase of a key")
    client = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}

    def by(password):
        one = program("admin", library=library, client=client, key_password_file="key-password")  # noqa: S106  a file
        (one.folder / "key-password").write_text(password)
        return one

    operator = by("pass-phrase of a key\n")
    operator.run("topics", "create")
    assert "50 events written" in operator.run("replay", events)
    assert "certificate or key" in by("another").fail("replay", events)


@pytest.fixture
def mortal(secured_broker):
    """The broker, which is up again for whoever comes next."""
    yield secured_broker
    secured_broker.start()


@pytest.mark.storm_for("librdkafka")
@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
def test_a_broker_that_is_down_for_a_while_is_waited_for(program, mortal, events, library):
    """Whatever the client's log says of TLS meanwhile: it is the broker that is gone, not the trust."""
    operator = program("admin", library=library)
    operator.run("topics", "create")
    operator.run("replay", events)
    learner = operator.start("run")
    until(lambda: len(operator.ids("predictions")) == len(RAWS))
    mortal.kill()
    learner.await_word("waiting: ")
    late = operator.start("run", "--until-end")
    late.await_word("waiting: ")
    assert "TLS" not in learner.said() + late.said()
    mortal.start()
    learner.await_word("the log answers again, ")
    operator.run("replay", events)
    until(lambda: len(operator.ids("predictions")) == 2 * len(RAWS))
    learner.stop().output()
    late.output()


# -- who is not let in ------------------------------------------------------------------------------------


def refusals(broker, plain):
    """Name -> settings of a program that cannot come in, and what it says."""
    other_host = f"{socket.gethostname()}:{broker.address.split(':')[1]}"
    no_login = {"sasl_mechanism": None, "security_protocol": "SSL"}
    in_the_clear = {"sasl_mechanism": None, "security_protocol": "PLAINTEXT"}
    log_in = (
        "the broker refuses the log-in: Authentication failed .*; check kafka.username, the password and "
    )
    return {
        "wrong password": ({"password": WRONG}, log_in),
        "unknown user": ({"user": "nobody", "password": WRONG}, log_in),
        "wrong mechanism": (
            {"client": {"sasl_mechanism": "PLAIN"}},
            "the broker takes no log-in of this kind: .*; check kafka.client.sasl_mechanism$",
        ),
        "wrong authority": (
            {"client": {"ssl_cafile": str(broker.wrong_ca_path)}},
            "the broker's certificate is not trusted: unable to get .*; check kafka.client.ssl_cafile$",
        ),
        "no file": (
            {"client": {"ssl_cafile": "/no/such/ca.pem"}},
            "a certificate or key cannot be read: No such file or directory; check kafka.client.ssl_cafile, ",
        ),
        "no certificate": (
            {"client": {"ssl_cafile": __file__}},
            "a certificate or key cannot be read: no certificate or crl found; check kafka.client.ssl_cafile, ",
        ),
        "another host": (
            {"address": other_host},
            "the broker's certificate is another host's: Hostname mismatch, .*; check the host in log.url, ",
        ),
        "in the clear": (
            {"user": "", "password": "", "client": in_the_clear},
            "the broker's port wants TLS; check kafka.client.security_protocol$",
        ),
        "a log-in in the clear": (
            {"client": {"security_protocol": "SASL_PLAINTEXT"}},
            "the broker's port wants TLS; check kafka.client.security_protocol$",
        ),
        "a log-in where there is none": (
            {"address": plain.address, "client": {"security_protocol": "SASL_PLAINTEXT"}},
            "the broker's port takes no log-in: .*; check kafka.client.security_protocol$",
        ),
        "no log-in": (
            {"user": "", "password": "", "client": no_login, "give_up_after": "0s"},
            "the broker ends the connection without an answer; if that lasts, its port wants TLS or a log-in; check ",
        ),
        "TLS where there is none": (
            {"address": plain.address, "give_up_after": "0s"},
            "the broker ends the TLS handshake; if that lasts, its port is one without TLS; check ",
        ),
    }


def test_who_is_not_let_in_is_told_why_at_once(program, secured_broker, broker, events):
    cases = refusals(secured_broker, broker)

    def start(name, *command):
        settings, _ = cases[name]
        patient = {"bootstrap_timeout_ms": 15_000}  # all of them start at once
        return program(**settings | {"client": patient | settings.get("client", {})}).start(*command)

    started = [(start(name, "read", "events"), said) for name, (_, said) in cases.items()]
    said = cases["wrong password"][1]
    started += [(start("wrong password", *command), said) for command in [("run",), ("replay", events)]]
    for command, said in started:
        line, waited = command.complaint()
        assert re.search(f"^streamnb: {said}", line)
        assert not waited


# -- what is not allowed ----------------------------------------------------------------------------------


@pytest.mark.storm_for("librdkafka", "topic-events-read", "topic-predictions-write", "topic-metrics-write")
@pytest.mark.parametrize(
    ("missing", "library"),
    [(acl, "kafka-python") for acl in ACLS] + [(acl, "librdkafka") for acl in ACLS if acl[1] is None],
    ids=lambda part: part if isinstance(part, str) else "-".join(filter(None, part)).lower(),
)
def test_a_learner_that_lacks_one_acl_names_it(program, grant, events, missing, library):
    operator = program("admin")
    operator.run("topics", "create")
    operator.run("replay", events)
    if "journal" in missing:
        operator.run("run", "--until-end")  # an empty journal is not read
        operator.run("replay", events)
    topics, name = operator.topics, f"streamnb.{operator.model}"
    grant(operator.model, *((kind, topics.get(role), leave) for kind, role, leave in set(ACLS) - {missing}))
    kind, role, operation = missing
    line = program(model=operator.model, library=library).fail("run", "--until-end")
    leave = operation if role in {"journal", None} else "READ, WRITE or DESCRIBE"  # of which nothing is left
    what = f"{kind.replace('_', '-')} {topics.get(role, name)}"
    assert f"no permission to {leave} {what}; check the ACLs that `streamnb topics plan --config" in line


@pytest.mark.storm_for("librdkafka")
@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
def test_a_learner_that_may_see_and_not_write_names_that(program, grant, events, library):
    operator = program("admin")
    operator.run("topics", "create")
    operator.run("replay", events)
    topics, predictions = operator.topics, operator.topics["predictions"]
    others = set(ACLS) - {("topic", "predictions", "WRITE")}
    grant(operator.model, *((kind, topics.get(role), leave) for kind, role, leave in others))
    grant(operator.model, ("topic", predictions, "READ"))
    line = program(model=operator.model, library=library).fail("run", "--until-end")
    assert f"no permission to WRITE topic {predictions};" in line
    assert operator.ids("predictions") == []


@pytest.mark.parametrize(
    ("words", "meaning", "said"),
    [
        (("refused.", errors.TopicAuthorizationFailedError({"out"})), LogError, "WRITE topic out;"),
        ((f"refused: {errors.TopicAuthorizationFailedError('out')}",), LogError, "WRITE topic out;"),
        ((f"refused: {errors.GroupAuthorizationFailedError('readers')}",), LogError, "READ group readers;"),
        ((f"refused: {errors.ProducerFencedError()}",), Fenced, "another learner"),
        ((f"refused: {errors.CoordinatorNotAvailableError()}",), Unavailable, "does not answer"),
        (("refused",), LogError, "Kafka: KafkaError: refused"),
    ],
)
def test_an_error_that_the_client_wraps_into_a_general_one_is_what_it_is(words, meaning, said):
    translation = translate(errors.KafkaError(*words), "WRITE")
    assert type(translation) is meaning
    assert said in str(translation)


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (errors.TopicAuthorizationFailedError({"out", "in"}), "topic in, out;"),
        (errors.TopicAuthorizationFailedError("topic 'out'"), "topic out;"),
        (errors.GroupAuthorizationFailedError("readers"), "group readers;"),
        (errors.KafkaError(f"refused: {errors.GroupAuthorizationFailedError('readers')}"), "group readers;"),
        (errors.GroupAuthorizationFailedError(), "group asked for;"),
        (errors.GroupAuthorizationFailedError("Broker: Group authorization failed"), "group asked for;"),
        (errors.TransactionalIdAuthorizationFailedError(), "transactional-id asked for;"),
    ],
)
def test_what_an_error_names_counts_and_else_what_was_asked_for(error, named):
    assert named in str(translate(error, name="asked for"))
    assert "Broker: no" in str(translate(errors.GroupAuthorizationFailedError("Broker: no")))


@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
def test_a_producer_without_leave_writes_nothing_and_says_so(program, grant, events, library):
    operator = program("admin")
    operator.run("topics", "create")
    topic = operator.topics["events"]
    producer = program(model=operator.model, library=library)
    line = producer.fail("replay", events)
    assert f"no permission to READ, WRITE or DESCRIBE topic {topic};" in line
    grant(operator.model, ("topic", topic, "READ"))
    assert f"no permission to WRITE topic {topic};" in producer.fail("replay", events)
    assert operator.read("events") == []
