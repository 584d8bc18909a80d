"""How the outside is reached: the log, the Kafka cluster it may lie on, and those who ask over HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from streamnb.config.client import CLIENT
from streamnb.config.kinds import ADDRESS, LOG_URL, SECRET, STRING, choice, duration, refused
from streamnb.config.sections import Section
from streamnb.config.values import Secret, parse_address
from streamnb.errors import ConfigError

_SQLITE = "sqlite:///"
_KAFKA = "kafka://"


class LogConfig(Section, frozen=True):
    """Where the log is.

    Attributes:
        url: ``sqlite:///`` and the path of the embedded log's file (four slashes begin an absolute path), or
            ``kafka://`` and some servers of a Kafka cluster.
        client: the library that reads events from a Kafka cluster and writes commits to it.
        session_timeout: seconds without a heartbeat after which a learner may be replaced.
        hang_timeout: seconds after which `run` ends itself where a call does not return; 0 is never.
    """

    url: Annotated[str, LOG_URL] = "sqlite:///streamnb.db"
    client: Annotated[Literal["kafka-python", "librdkafka"], choice("kafka-python", "librdkafka")] = (
        "kafka-python"
    )
    session_timeout: Annotated[float, duration(above_zero=True)] = 10.0
    hang_timeout: Annotated[float, duration()] = 60.0

    @property
    def is_kafka(self) -> bool:
        """Whether the log is Kafka's, and not the embedded one."""
        return self.url.startswith(_KAFKA)

    @property
    def path(self) -> Path:
        """The embedded log's file. Raises ConfigError where the log is Kafka's."""
        if self.is_kafka:
            raise refused("log.url", self.url, "an embedded log, sqlite:///FILE")
        return Path(self.url.removeprefix(_SQLITE))

    @property
    def bootstrap(self) -> list[str]:
        """The servers of the Kafka cluster, ``HOST:PORT``. Raises ConfigError where the log is embedded."""
        if not self.is_kafka:
            raise refused("log.url", self.url, "a Kafka cluster, kafka://HOST:PORT")
        return self.url.removeprefix(_KAFKA).split(",")


class KafkaConfig(Section, frozen=True):
    """How a Kafka cluster is talked to.

    Attributes:
        client: settings that all clients share, named as kafka-python names them.
        username: name for SASL; empty is none.
        password: password for SASL, from the environment alone.
        password_file: the file that holds the password; empty is none.
        transaction_timeout: seconds after which the cluster aborts a transaction that was left open.
        give_up_after: seconds for which a cluster that cannot be reached is waited for; 0 is not at all.
    """

    client: Annotated[dict[str, Any], CLIENT] = msgspec.field(default_factory=dict)
    username: Annotated[str, STRING] = ""
    password: Annotated[Secret, SECRET] = Secret()
    password_file: Annotated[str, STRING] = ""
    transaction_timeout: Annotated[float, duration(above_zero=True)] = 15.0
    give_up_after: Annotated[float, duration()] = 600.0

    def settings(self, log: LogConfig) -> dict[str, Any]:
        """All that a client of kafka-python is made with; the password is among it, so it is not for showing.

        Raises:
            ConfigError: the log is embedded; a username without a password, or a password without a username;
                a password file that cannot be read or is empty.
        """
        return {"bootstrap_servers": log.bootstrap, **self.client, **self._credentials()}

    def _credentials(self) -> dict[str, str]:
        if not self.username:
            if self.password:
                raise ConfigError("kafka.password is set; expected kafka.username beside it")
            if self.password_file:
                raise refused("kafka.password_file", self.password_file, "kafka.username beside it")
            return {}
        password = self.password.reveal() or (_password_in(self.password_file) if self.password_file else "")
        if not password:
            expected = (
                "a password beside it: STREAMNB_KAFKA__PASSWORD in the environment, or kafka.password_file"
            )
            raise refused("kafka.username", self.username, expected)
        return {"sasl_plain_username": self.username, "sasl_plain_password": password}


def _password_in(file: str) -> str:
    """What the file holds, without one line's end; UTF-8."""
    path = Path(file)
    if path.exists() and not (path.is_file() or path.is_dir()):  # who reads a pipe waits for its writer
        raise _no_password(file, "it is not a regular file")
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise _no_password(file, error.strerror or "it cannot be read") from error
    except ValueError:  # the error itself would quote what the file holds
        raise _no_password(file, "it is not UTF-8") from None
    password = re.sub(r"\r?\n\Z", "", text)
    if not password:
        raise _no_password(file, "it is empty")
    return password


def _no_password(file: str, reason: str) -> ConfigError:
    return refused("kafka.password_file", file, f"a file that holds the password ({reason})")


class HttpConfig(Section, frozen=True):
    """Where health and metrics are served.

    Attributes:
        listen: ``HOST:PORT``; empty is nowhere.
    """

    listen: Annotated[str, ADDRESS] = "127.0.0.1:9464"

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, 0 for any that is free; None is nowhere."""
        return parse_address(self.listen)
