"""The command line on a Kafka cluster, as a user starts it: each command is a process, and one file configures all."""

from __future__ import annotations

import json
import signal
import time
from functools import partial

from tests.brokers.numbered import NUMBERS
from tests.support import commands

PATIENCE = 120
ROLES = ("events", "predictions", "metrics", "dead_letters", "journal")


def until(condition, said=str):
    """Wait for it, at most as long as any test waits; what it was in the end. A failure tells what was `said`."""
    deadline = time.monotonic() + PATIENCE
    while not (met := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {said()}"
        time.sleep(0.05)
    return met


class Command:
    """A process in the background; files keep what it says, which holds none of the secrets.

    It is waited for with `finish`, which does not ask how it ended.
    """

    def __init__(self, folder, arguments, secrets, begin):
        name = f"said-{next(NUMBERS)}"
        self._files = [folder / f"{name}.out", folder / f"{name}.err"]
        self._secrets = secrets
        out, err = self._files
        self.process = begin(arguments, cwd=folder, out=out, err=err)

    def said(self, file=1):
        """What it has said so far: 0 on standard output, 1 on standard error."""
        text = self._files[file].read_text()
        assert not any(secret in text for secret in self._secrets)
        return text

    def is_going(self):
        return self.process.poll() is None

    def await_word(self, word):
        """Until it has said it on standard error."""
        until(lambda: word in self.said() or not self.is_going())
        assert word in self.said(), self.said()

    def finish(self, patience=PATIENCE):
        self.process.wait(patience)
        self.said(0)
        self.said()
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def output(self):
        """Of a command that has done what it should."""
        self.finish()
        assert self.process.returncode == 0, self.said()
        return self.said(0)

    def complaint(self, code=1):
        """The one line with which it failed; and those that say what it had waited for before."""
        self.finish()
        lines = self.said().splitlines()
        complaints = [line for line in lines if line.startswith("streamnb: ")]
        assert self.process.returncode == code, self.said()
        assert complaints == lines[-1:], self.said()
        assert "Traceback" not in self.said()
        return complaints[0], [line for line in lines if line.startswith("waiting: ")]


class Program:
    """The commands of one model, whose topics nobody else uses.

    Args:
        folder: where they work.
        address: of the broker; or the URL of an embedded log.
        environment: beyond the test's own.
        secrets: what must never be said.
        model: whose model and topics; else a new one.
        begin: how a command begins, see `commands`.
        model_keys: more of the section of the model, such as its kind.
        sections: more of the configuration, such as ``kafka={"give_up_after": "3s"}``; a list is one of tables.
    """

    def __init__(
        self,
        folder,
        address,
        *,
        environment=None,
        secrets=(),
        model=None,
        begin=commands.begin,
        model_keys=None,
        **sections,
    ):
        self.folder = folder
        self.model = model or f"model-{next(NUMBERS)}"
        self.topics = {role: f"{self.model}-{role.replace('_', '-')}" for role in ROLES}
        self.file = folder / f"streamnb-{next(NUMBERS)}.toml"
        self._environment = environment or {}
        self._secrets = secrets
        self._begin = begin
        self._started = []
        own = {
            "log": {"url": address if "://" in str(address) else f"kafka://{address}"},
            "model": {"name": self.model} | (model_keys or {}),
            "topics": self.topics,
            "http": {"listen": ""},
            "log_output": {"format": "plain", "content": True},
        }
        lists = {name: tables for name, tables in sections.items() if isinstance(tables, list)}
        plain = {name: section for name, section in sections.items() if name not in lists}
        self.file.write_text(
            _toml({name: own.get(name, {}) | plain.get(name, {}) for name in own | plain}, lists)
        )

    def start(self, *arguments, first=""):
        """In the background. What stands in `first` is executed there before."""
        begin = partial(self._begin, environment=self._environment, first=first)
        command = Command(self.folder, [*arguments, "--config", self.file], self._secrets, begin)
        self._started.append(command)
        return command

    def run(self, *arguments):
        """Of a command that ends by itself, its output."""
        return self.start(*arguments).output()

    def fail(self, *arguments, code=1):
        """Of a command that fails at once, the one line that says why."""
        line, waited = self.start(*arguments).complaint(code)
        assert not waited
        return line

    def read(self, role):
        """The records of a topic."""
        return [json.loads(line) for line in self.run("read", self.topics[role]).splitlines()]

    def ids(self, role):
        return [record["id"] for record in self.read(role)]

    def close(self):
        for command in self._started:
            command.kill()


def _toml(sections, lists):
    lines = []
    for name, tables in lists.items():
        for table in tables:
            lines += [f"[[{name}]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    for name, section in sections.items():
        tables = {key: value for key, value in section.items() if isinstance(value, dict)}
        lines.append(f"[{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in section.items() if key not in tables]
        for key, table in tables.items():
            lines.append(f"[{name}.{key}]")
            lines += [f"{setting} = {json.dumps(value)}" for setting, value in table.items()]
    return "\n".join(lines) + "\n"
