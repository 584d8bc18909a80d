"""Sources: topics of other systems whose records become events, as ``[[sources]]`` tables declare them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from streamnb.config.config_literals import Secret
from streamnb.config.config_sections import Section, missing_keys, read_entries, tables
from streamnb.config.connections import secret_in
from streamnb.config.validators import (
    COLUMNS,
    HOOK_NAME,
    NAME,
    NO_TOPIC,
    REGISTRY_URL,
    SECRET,
    STRING,
    TOPIC,
    duration,
)
from streamnb.errors import ConfigError

MOST = 50
"""Sources of one stream: each has a thread and a connection to the log."""
_EXAMPLE = 'a table such as { name = "tickets", topic = "crm.public.tickets", envelope = "debezium" }'
_ROLES = ("id", "label", "text", "ts", "drop")


class SourceConfig(Section, frozen=True):
    """One topic that is converted.

    Attributes:
        name: names the source in metrics and messages, its position in the log, and its labels' source.
        topic: the topic.
        envelope: what surrounds the content of a record.
        id: columns that form an event's id.
        label: the column of the label.
        text: the column of the text.
        ts: the column of the event time.
        drop: columns that do not become features.
        deletes: whether the deletion of a row retracts its label, and notes the row for `forget --deleted`.
    """

    name: Annotated[str, HOOK_NAME]
    topic: Annotated[str, TOPIC]
    envelope: Literal["none", "cloudevents", "debezium"] = "none"
    id: Annotated[tuple[str, ...], COLUMNS] = ()
    label: Annotated[str | None, NAME] = None
    text: Annotated[str | None, NAME] = None
    ts: Annotated[str | None, NAME] = None
    drop: Annotated[tuple[str, ...], COLUMNS] = ()
    deletes: Literal["withdraw", "forget", "keep"] = "withdraw"


class RegistryConfig(Section, frozen=True):
    """The schema registry of framed records.

    Attributes:
        url: its address; empty for none.
        username: name of basic authentication; empty for none.
        password: its password, from the environment alone.
        password_file: the file that holds the password; empty for none.
        ca_file: certificates that sign the registry's; empty for the system's.
        timeout: seconds for which a request waits.
        predictions: topic to which predictions are copied as Avro; empty for none.
    """

    url: Annotated[str, REGISTRY_URL] = ""
    username: Annotated[str, STRING] = ""
    password: Annotated[Secret, SECRET] = Secret()
    password_file: Annotated[str, STRING] = ""
    ca_file: Annotated[str, STRING] = ""
    timeout: Annotated[float, duration(above_zero=True)] = 10.0
    predictions: Annotated[str, NO_TOPIC] = ""

    def login(self) -> str:
        """Return name and password with a colon between them, or "". Raises ConfigError for a bad file."""
        if not self.username:
            return ""
        of_file = self.password_file
        secret = (
            secret_in(of_file, "registry.password_file", "password") if of_file else self.password.reveal()
        )
        return f"{self.username}:{secret}"


def _read_one(key: str, table: object) -> SourceConfig:
    values = read_entries(SourceConfig, key, table, _EXAMPLE)
    if missing := missing_keys(key, values, ("name", "topic")):
        raise ConfigError(f"{missing}; expected {_EXAMPLE}")
    source = SourceConfig(**values)
    roles = [name for role in _ROLES[:-1] for name in _names(getattr(source, role))]
    if twice := sorted({name for name in roles if roles.count(name) > 1}):
        raise ConfigError(f"{key}: column {twice[0]} has two roles")
    if source.envelope == "debezium" and source.label is None:
        raise ConfigError(f'{key}.label is missing: envelope = "debezium" makes labels of one column')
    if source.envelope != "debezium" and "deletes" in values:
        raise ConfigError(f'{key}.deletes has a meaning only with envelope = "debezium"')
    return source


def _names(role: Any) -> tuple[str, ...]:
    return () if role is None else (role,) if isinstance(role, str) else role


def _check(key: str, sources: tuple[Any, ...]) -> None:
    if len(sources) > MOST:
        raise ConfigError(f"{key} has {len(sources)} tables; expected {MOST} at most")


SOURCES = tables("sources", _read_one, _check)
