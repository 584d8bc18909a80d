"""Command lines for Kafka's own tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from streamnb.config import Config
from streamnb.engine.ports import Difference
from streamnb.engine.topic_plan import Acl
from streamnb.event_logs.kafka.tool_command import ToolCommand

_ANYBODY = "User:NAME"


def principal_of(config: Config, given: str | None = None) -> str | None:
    """Return the principal of the ACLs: the given name, else kafka.username; None if neither is set."""
    name = given or config.kafka.username
    if not name:
        return None
    return name if ":" in name else f"User:{name}"


class KafkaTools:
    """Command lines for one cluster."""

    def __init__(self, line: ToolCommand) -> None:
        self._line = line

    @classmethod
    def from_config(cls, config: Config) -> KafkaTools:
        """Return the tools for the cluster of a configuration."""
        settings = {**config.kafka.client, "bootstrap_servers": config.log.bootstrap}
        return cls(ToolCommand.from_settings(settings))

    def grants(self, acls: Iterable[Acl], principal: str | None) -> Iterator[str]:
        """Yield one line for each resource; without a principal, a placeholder stands in its place."""
        for (resource, name, is_prefix), some in groupby(acls, key=itemgetter(0, 1, 3)):
            does = (acl.operation.title().replace("_", "") for acl in some)  # such as DescribeConfigs
            operations = [word for operation in does for word in ("--operation", operation)]
            allowed = ["--allow-principal", principal or _ANYBODY]
            kind = ["--resource-pattern-type", "prefixed"] if is_prefix else []
            yield self._line("kafka-acls.sh", "--add", *allowed, *operations, *kind, f"--{resource}", name)

    def change(self, topic: str, difference: Difference) -> str:
        """Return the command that changes a topic to the plan."""
        what, planned, found = difference
        if what == "replication":
            return (
                "kafka-reassign-partitions.sh, with a plan that names "
                f"{planned} brokers for each partition of {topic}"
            )
        if what != "partitions":
            return self._line.configure(topic, what, planned)
        if int(planned) > int(found):
            return self._line("kafka-topics.sh", "--alter", "--topic", topic, "--partitions", planned)
        return f"nothing takes partitions away: delete topic {topic} with its records, and create it again"
