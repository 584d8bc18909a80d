"""Fixtures of the tests of commands."""

from __future__ import annotations

import io

import pytest

from streamnb.cli import main


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder, perhaps with bytes on its standard input.

    Return its exit code, and what it printed on both channels.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STREAMNB_LOG__URL", "sqlite:///e.db")
    monkeypatch.setenv("STREAMNB_HTTP__LISTEN", "")
    monkeypatch.setenv("STREAMNB_LOG_OUTPUT__CONTENT", "true")

    def run(*arguments, given=None):
        if given is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = main(list(arguments))
        return code, *capsys.readouterr()

    return run
