"""That kernels are compiled is said where they are, and only there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import threading
from contextlib import suppress

import pytest

from streamnb.cli import main
from streamnb.config import Config
from streamnb.runtime import factories, shutdown

pytestmark = pytest.mark.thorough

ONE = """
import numba, numpy
from streamnb.cli.compilation_progress import Progress, listening
from streamnb.statistics.counter_rng import choose
from streamnb.telemetry.log_output import OUTPUT
with OUTPUT.attached(), listening(Progress()):
    numba.njit(lambda x: x + 1)(1)  # a stranger's
    choose(numpy.zeros(2), 0.5)
"""
SAID = r"compiling kernels \(once; 30 to 80 s of processor time, longer on a busy machine\)"


def run(environment, err):
    said = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment
    return subprocess.Popen([sys.executable, "-c", ONE], env=os.environ | said, stderr=err)


def on_terminal(environment):
    """What it says where standard error is a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    whole = b""
    with os.fdopen(ours, "rb", buffering=0) as said, run(environment, theirs) as process:
        os.close(theirs)
        with suppress(OSError):  # how a terminal ends on Linux
            while part := said.read(1 << 16):
                whole += part
    assert process.returncode == 0, whole
    return whole.decode()


def in_a_file(environment):
    with run(environment, subprocess.PIPE) as process:
        said = process.stderr.read().decode()
    assert process.returncode == 0, said
    return said


def test_a_terminal_has_a_line_and_a_bar_while_kernels_are_compiled(tmp_path):
    folder = {"NUMBA_CACHE_DIR": str(tmp_path)}
    line, bar = on_terminal(folder).split("\r\n", 1)
    assert re.fullmatch(SAID, line)
    assert "0 kernels" in bar
    assert bar.endswith("\r")  # the bar is gone
    assert on_terminal(folder) == ""  # loaded


def test_a_file_has_the_line_alone_and_nothing_where_kernels_are_loaded(tmp_path):
    folder = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert re.fullmatch(SAID + "\n", in_a_file(folder))
    assert in_a_file(folder) == ""


def test_a_command_says_nothing_of_kernels_that_are_loaded():
    command = [sys.executable, "-m", "streamnb", "warm"]
    subprocess.run(command, check=True)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert re.fullmatch(r"kernels ready in [\d.]+ s\n", done.stdout)


def test_the_seconds_are_those_of_all_that_was_compiled(monkeypatch, capsys):
    monkeypatch.setattr(factories, "warm_up", lambda config=None, *_: 40.0 if config is None else 0.5)
    for flags, seconds in ([], 0.5), (["--all"], 40.5):
        assert main(["warm", *flags]) == 0
        assert capsys.readouterr().out == f"kernels ready in {seconds} s\n"


def test_a_learner_whose_kernels_are_compiled_shows_signs_of_life(monkeypatch):
    """Or whoever watches it would take it for stuck: a kernel may take a minute."""
    sign = threading.Event()
    monkeypatch.setattr(shutdown, "_SIGN_SECONDS", 0.01)
    monkeypatch.setattr(factories, "warm_up", lambda _: sign.wait(60) or pytest.fail("no sign"))
    shutdown.warm_up(Config(), sign.set)
