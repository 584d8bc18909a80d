"""A learner on an embedded log of its own, which is fed, and other programs beside it."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

WORDS = [f"w{i}" for i in range(2000)]
PATIENCE = 120
FED_SECONDS = 1800
QUIET = ["--set", "http.listen="]
"""Of commands that answer elsewhere, if at all; `serve` and `dashboard` take no such key."""


def text(rng, words=WORDS):
    return " ".join(rng.choices(words, k=15))


def write_events(path, n, words=WORDS):
    rng = random.Random(1)
    with path.open("w") as file:
        for i in range(n):
            label = rng.choice(["spam", "ham"])
            file.write(json.dumps({"id": f"m{i}", "text": text(rng, words), "label": label}) + "\n")


class Programs:
    """Programs that begin in one folder, and end together.

    Args:
        folder: where their log is, and what they say.
        flags: of all commands.
    """

    def __init__(self, folder, *flags):
        self.folder = folder
        self.flags = ["--log", f"sqlite:///{folder / 'log.db'}", *flags]
        self._started = []

    def run(self, *command, **more):
        """A command that ends by itself."""
        streamnb = [sys.executable, "-m", "streamnb", *command, *QUIET, *self.flags]
        return subprocess.run(streamnb, check=True, capture_output=True, **more)

    def start(self, *command, tree=None):
        """A command in the background, of the streamnb in another folder perhaps, and the file with what it says."""
        quiet = [] if command[0] in {"serve", "dashboard"} else QUIET
        return self.start_python("-m", "streamnb", *command, *quiet, *self.flags, tree=tree)

    def start_python(self, *arguments, tree=None):
        said = self.folder / f"said-{len(self._started)}"
        environment = os.environ | ({} if tree is None else {"PYTHONPATH": str(tree)})
        with said.open("wb") as file:
            program = subprocess.Popen(
                [sys.executable, *arguments], stderr=file, stdout=file, env=environment, cwd=self.folder
            )
        self._started.append(program)
        return program, said

    def answering(self, *command, tree=None, path="/ready"):
        """`serve`, or the like, once it answers there: it, and its port."""
        program, said = self.start(*command, "--listen", "127.0.0.1:0", tree=tree)
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(r"127\.0\.0\.1:(\d+)", said.read_text())):
            assert program.poll() is None, said.read_text()
            assert time.monotonic() < deadline, "it does not answer"
            time.sleep(0.1)
        port = int(found[1])
        until_ready(port, path)
        return program, port

    def close(self):
        for program in self._started[::-1]:
            end(program)


def end(program):
    program.terminate()
    program.wait()


def until_ready(port, path="/ready"):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
                connection.request("GET", path)
                if connection.getresponse().status in (200, 404):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"nobody is ready at port {port}")


@contextmanager
def fed_learner(rate, *flags, words=WORDS):
    """Programs with a learner among them that is fed so many events a second, for half an hour at most."""
    with tempfile.TemporaryDirectory() as scratch, closing(Programs(Path(scratch), *flags)) as programs:
        programs.run("topics", "create")
        write_events(programs.folder / "events.jsonl", rate * FED_SECONDS, words)
        programs.start("run")
        programs.start("replay", str(programs.folder / "events.jsonl"), "--rate", str(rate))
        yield programs
