"""The test's side of the processes that run learners: to start them, to wait for what becomes of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

PATIENCE = 60  # seconds after which a test that waits has failed
ENDED = "ended"
ZYGOTE = Path(__file__).with_name("zygote.py")


class Life:
    """One process; `order` is what it was told."""

    def __init__(self, nursery, order):
        self.order = order
        self.code = None  # as subprocess has it: minus the signal's number where one ended it
        self._nursery = nursery
        self._pid = None
        self._is_stopped = False

    @property
    def name(self):
        return self.order["name"]

    def said(self):
        return self._file("said").read_text()

    def came(self):
        """What came of it: {"digests", "consumed"} or {"error", "says"}; empty where it was killed."""
        file = self._file("json")
        return json.loads(file.read_text()) if file.exists() else {}

    def trace(self):
        """Every call of a seam: (seam, number, text)."""
        return [tuple(json.loads(line)) for line in self._file("trace").read_text().splitlines()]

    def progress(self):
        return self._file("progress").read_text().splitlines() if self._file("progress").exists() else []

    def ended(self):
        """Wait for its end; its exit code."""
        self._await(lambda: self.code is not None, "does not end")
        return self.code

    def stopped(self):
        """Wait until it is stopped, or has ended; whether it is stopped."""
        self._await(lambda: self._is_stopped or self.code is not None, "is not stopped")
        return self._is_stopped

    def told(self, line):
        """Wait until its progress says this, or it has ended; whether it does."""
        deadline = time.monotonic() + PATIENCE
        while line not in self.progress():
            if self.code is not None:
                return line in self.progress()
            assert time.monotonic() < deadline, f"{self.name} does not come to {line!r}:\n{self.said()}"
            time.sleep(0.02)
        return True

    def go_on(self):
        self._send(signal.SIGCONT)

    def stop(self):
        self._send(signal.SIGTERM)

    def kill(self):
        self._send(signal.SIGKILL)
        return self.ended()

    def _send(self, number):
        self._await(lambda: self._pid is not None, "does not start")
        with self._nursery.news:
            if self.code is None:
                with contextlib.suppress(ProcessLookupError):  # it has ended, and the news is on its way
                    os.kill(self._pid, number)

    def _await(self, condition, says):
        with self._nursery.news:
            met = self._nursery.news.wait_for(condition, PATIENCE)
        assert met, f"{self.name} {says}:\n{self.said()}"

    def _file(self, ending):
        return Path(self.order["folder"]) / f"{self.name}.{ending}"

    def learn(self, event):
        self._pid = event.get("started", self._pid)
        self._is_stopped = event.get("stopped", self._is_stopped)
        self.code = event.get(ENDED, self.code)


class Nursery:
    """Starts lives through one zygote; may be used by many threads.

    Args:
        zygote: the file that is run.
        kind: of the lives.
    """

    def __init__(self, zygote=ZYGOTE, kind=Life):
        self.news = threading.Condition()
        self._kind = kind
        self._lives = {}
        self._numbers = count()
        self._process = subprocess.Popen(
            [sys.executable, zygote],
            # One thread: those of linear algebra would not live through a fork.
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert "ready" in json.loads(self._process.stdout.readline())
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def start(self, **order):
        number = next(self._numbers)
        life = self._kind(self, order | {"number": number})
        with self.news:
            self._lives[number] = life
            self._process.stdin.write(json.dumps(life.order).encode() + b"\n")
            self._process.stdin.flush()
        return life

    def close(self):
        self._process.stdin.close()
        self._listener.join()
        self._process.stdout.close()
        self._process.wait()

    def _listen(self):
        for line in self._process.stdout:
            event = json.loads(line)
            with self.news:
                self._lives[event["number"]].learn(event)
                self.news.notify_all()
