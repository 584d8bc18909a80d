"""`convert` as a process ends when it must: after an error that only a person can mend, and at a signal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest

from streamnb.cli import main
from streamnb.config import load
from streamnb.engine.ports import NewRecord
from streamnb.runtime import context
from tests.conversion.stub_registry import StubRegistry, serving
from tests.support.service import read_topic

pytestmark = pytest.mark.slow
SCHEMA = {"schema": json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]})}
ONE, TWO = b"\0\0\0\0\1\2", b"\0\0\0\0\1\4"


def written(folder, url, *values):
    """The path of a configuration, whose source has these values."""
    path = folder / "streamnb.toml"
    path.write_text(
        f'[log]\nurl = "sqlite:///{folder}/log.db"\n[http]\nlisten = ""\n[registry]\nurl = "{url}"\ntimeout = "2s"\n'
        '[[sources]]\nname = "crm"\ntopic = "tickets"\ndrop = ["z"]\n'
    )
    assert main(["topics", "create", "--config", str(path)]) == 0
    with closing(context.open_log(load(path, {}, []))) as log:
        log.create_topic("tickets", 1)
    append(path, *values)
    return path


def append(path, *values):
    with closing(context.existing_log(load(path, {}, []))) as log:
        log.append([NewRecord("tickets", value[-1:], value) for value in values])


def events(path):
    with closing(context.existing_log(load(path, {}, []))) as log:
        return [json.loads(record.value)["features"]["n"] for record in read_topic(log, "events")]


def command(path, *flags):
    return [sys.executable, "-m", "streamnb", "convert", "--config", path, *flags]


def converted(path):
    """The end of `convert --until-end`."""
    return subprocess.run(
        command(path, "--until-end"), check=False, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("is_known", [False, True])
def test_until_end_ends_with_an_error_that_only_a_person_can_mend(tmp_path, is_known):
    """A schema that is another one than before, which the position remembers."""
    stub = StubRegistry()
    stub.register("s", SCHEMA)
    with serving(stub) as url:
        path = written(tmp_path, url, ONE)
        assert converted(path).returncode == 0
        append(path, TWO)
        if is_known:
            stub.schemas[1] = {"schema": SCHEMA["schema"].replace('"n"', '"m"')}
        found = converted(path)
    assert (found.returncode, "is another schema than before" in found.stderr) == (int(is_known), is_known)
    assert "Traceback" not in found.stderr
    assert events(path) == ([1] if is_known else [1, 2])


@pytest.mark.parametrize("is_hanging", [False, True])
def test_a_signal_ends_it_while_the_registry_is_away(tmp_path, is_hanging):
    """One that refuses connections, or accepts them and never answers; the lease is free at once after it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        if not is_hanging:
            server.close()
        path = written(tmp_path, f"http://127.0.0.1:{number}", ONE)
        with subprocess.Popen(command(path), stderr=subprocess.PIPE, text=True) as process:
            next(line for line in process.stderr if "waits: registry" in line)
            began = time.monotonic()
            os.kill(process.pid, signal.SIGTERM)
            process.communicate(timeout=60)
        assert time.monotonic() - began < 5.0
    assert process.returncode == 0
    stub = StubRegistry()
    stub.register("s", SCHEMA)
    began = time.monotonic()
    with serving(stub) as url:
        path.write_text(path.read_text().replace(f"http://127.0.0.1:{number}", url))
        assert converted(path).returncode == 0
    assert time.monotonic() - began < 15.0  # a lease that was not given up lasts 30
    assert events(path) == [1]


@pytest.mark.parametrize("error", [OSError("the disk is full"), SystemExit(3)])
def test_an_error_that_no_record_explains_is_named(tmp_path, monkeypatch, capsys, error):
    def fail(_):
        raise error

    monkeypatch.setattr("streamnb.conversion.record_converter.json_decoded", fail)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    path = written(tmp_path, "http://127.0.0.1:9", b"{}")
    assert main(["convert", "--until-end", "--config", str(path)]) != 0
    assert f"source crm was ended: {type(error).__name__}: {error}" in capsys.readouterr().err
