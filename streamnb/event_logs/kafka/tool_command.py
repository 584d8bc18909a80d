"""Command lines for Kafka's own tools, as a user would type them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

COMMAND_CONFIG = "admin.properties"
"""Placeholder name in these lines for the tools' file of client settings."""


class ToolCommand:
    """Builder of the command lines for one cluster.

    Args:
        servers: ``HOST:PORT``, several with commas between.
        is_secured: whether the tools need a file of settings to log in.
    """

    def __init__(self, servers: str, *, is_secured: bool) -> None:
        self._cluster = ["--bootstrap-server", servers]
        if is_secured:
            self._cluster += ["--command-config", COMMAND_CONFIG]

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> ToolCommand:
        """Return the builder for the cluster of a kafka-python client."""
        servers = settings["bootstrap_servers"]
        named = servers if isinstance(servers, str) else ",".join(servers)
        return cls(named, is_secured=settings.get("security_protocol", "PLAINTEXT") != "PLAINTEXT")

    def __call__(self, tool: str, *arguments: str) -> str:
        """Return one command line."""
        return shlex.join([tool, *self._cluster, *arguments])

    def configure(self, topic: str, key: str, value: str) -> str:
        """Return the command line that sets one setting of a topic."""
        entity = ("--entity-type", "topics", "--entity-name", topic)
        return self("kafka-configs.sh", "--alter", *entity, "--add-config", f"{key}={value}")
