"""Connections: the log, its Kafka cluster, HTTP, and standard error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from streamnb.config.config_literals import Secret, parse_address
from streamnb.config.config_sections import Section
from streamnb.config.kafka_client_settings import CLIENT
from streamnb.config.validators import ADDRESS, LOG_URL, SECRET, STRING, duration, refused
from streamnb.errors import ConfigError

_SQLITE = "sqlite:///"
_KAFKA = "kafka://"
_BEARER = "OAUTHBEARER"


class LogConfig(Section, frozen=True):
    """The location of the log.

    Attributes:
        url: ``sqlite:///`` and the path of the embedded log's file (four slashes begin an absolute path), or
            ``kafka://`` and some servers of a Kafka cluster.
        client: the library that reads events from a Kafka cluster and writes commits to it.
        session_timeout: seconds without a heartbeat after which a learner may be replaced.
        hang_timeout: seconds after which `run` ends itself if a call does not return; 0 is never.
    """

    url: Annotated[str, LOG_URL] = "sqlite:///streamnb.db"
    client: Literal["kafka-python", "librdkafka"] = "kafka-python"
    session_timeout: Annotated[float, duration(above_zero=True)] = 10.0
    hang_timeout: Annotated[float, duration()] = 60.0

    @property
    def is_kafka(self) -> bool:
        """True if the log is on Kafka."""
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
    """Connection to a Kafka cluster.

    Attributes:
        client: settings that all clients share, named as kafka-python names them.
        username: name for SASL; empty is none.
        password: password for SASL, from the environment alone.
        password_file: the file that holds the password; empty is none.
        token_file: the file that holds a bearer token, read at each log-in; empty is none.
        key_password_file: the file that holds the password of ``client.ssl_keyfile``; empty is none.
        transaction_timeout: seconds after which the cluster aborts a transaction that was left open.
        give_up_after: seconds to wait for a cluster that cannot be reached; 0 does not wait.
    """

    client: Annotated[dict[str, Any], CLIENT] = msgspec.field(default_factory=dict)
    username: Annotated[str, STRING] = ""
    password: Annotated[Secret, SECRET] = Secret()
    password_file: Annotated[str, STRING] = ""
    token_file: Annotated[str, STRING] = ""
    key_password_file: Annotated[str, STRING] = ""
    transaction_timeout: Annotated[float, duration(above_zero=True)] = 15.0
    give_up_after: Annotated[float, duration()] = 600.0

    def settings(self, log: LogConfig) -> dict[str, Any]:
        """Return all settings of a kafka-python client, including the password: do not print them.

        Instead of a token provider, ``sasl_oauth_token_file`` names the token file.

        Raises:
            ConfigError: the log is embedded; only one of username and password is set, or only one of bearer
                token and its mechanism; a file of secrets cannot be read or is empty.
        """
        made = {"bootstrap_servers": log.bootstrap, **self.client, **self._credentials()}
        if self.key_password_file:
            made["ssl_password"] = secret_in(self.key_password_file, "kafka.key_password_file", "password")
        return made

    def _credentials(self) -> dict[str, str]:
        if bool(self.token_file) != (self.client.get("sasl_mechanism") == _BEARER):
            expected = f'kafka.client.sasl_mechanism = "{_BEARER}" and a kafka.token_file, both or neither'
            raise refused("kafka.token_file", self.token_file, expected)
        if self.token_file:
            secret_in(self.token_file, "kafka.token_file", "token")
            return {"sasl_oauth_token_file": self.token_file}
        if not self.username:
            if self.password:
                raise ConfigError("kafka.password is set; expected kafka.username with it")
            if self.password_file:
                raise refused("kafka.password_file", self.password_file, "kafka.username with it")
            return {}
        password = self.password.reveal() or (
            secret_in(self.password_file, "kafka.password_file", "password") if self.password_file else ""
        )
        if not password:
            expected = (
                "a password with it: STREAMNB_KAFKA__PASSWORD in the environment, or kafka.password_file"
            )
            raise refused("kafka.username", self.username, expected)
        return {"sasl_plain_username": self.username, "sasl_plain_password": password}


def secret_in(file: str, key: str, what: str) -> str:
    """Return the secret in the file that a key names. Raises ConfigError without quoting the file."""

    def nothing(reason: str) -> ConfigError:
        return refused(key, file, f"a file that holds the {what} ({reason})")

    path = Path(file)
    if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe would block
        raise nothing("it is not a regular file")
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise nothing(error.strerror or "it cannot be read") from error
    except ValueError:  # the error itself would quote what the file holds
        raise nothing("it is not UTF-8") from None
    secret = re.sub(r"\r?\n\Z", "", text)
    if not secret:
        raise nothing("it is empty")
    return secret


class HttpConfig(Section, frozen=True):
    """The address of health checks and metrics.

    Attributes:
        listen: ``HOST:PORT``; empty for none.
    """

    listen: Annotated[str, ADDRESS] = "127.0.0.1:9464"

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, 0 for any that is free; None is nowhere."""
        return parse_address(self.listen)


class LogOutputConfig(Section, frozen=True):
    """Messages on standard error.

    Attributes:
        format: "plain" is sentences, "text" lines of time, level, event name and sentence, "json" JSON lines;
            "auto" is "text" for a service without a terminal, and "plain" otherwise.
        level: the least level of a message that is written.
        progress: seconds between two progress messages; by default 1 in plain format, and 60 otherwise.
        content: whether messages of a service quote events also without a terminal.
    """

    format: Literal["auto", "plain", "text", "json"] = "auto"
    level: Literal["info", "warning", "error"] = "info"
    progress: Annotated[float | None, duration()] = None
    content: bool = False
