"""Kafka's own tools, as far as the broker's libraries have them, by the command line that a message prints."""

from __future__ import annotations

import shlex
import subprocess

from tests.brokers.broker import JAVA
from tests.brokers.jars import libraries

CLASSES = {"kafka-configs.sh": "kafka.admin.ConfigCommand"}


def run_tool(line):
    """Run a printed command line; it must succeed."""
    tool, *arguments = shlex.split(line)
    command = [*JAVA, "-cp", libraries(), CLASSES[tool], *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
