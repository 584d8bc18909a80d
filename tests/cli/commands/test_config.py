"""`config lint` says how soon monitors raise their alarms, as the tests of a change bound it."""

from __future__ import annotations

import json

import pytest

from streamnb.cli import main
from streamnb.engine.processing.monitors import delays
from streamnb.engine.settings import MonitorSettings

MONITORS = """
[[monitors]]
name = "errors"
kind = "error-rate"
tolerated = 0.01
alarming = 0.05
[[monitors]]
name = "spam\\n\\u202e"
kind = "class-rate"
label = "spam"
tolerated = [0.1, 0.3]
alarming = [0.05, 0.4]
[[monitors]]
name = "quiet"
kind = "no-events"
after = "10m"
"""
LINES = [
    "monitor errors, above: 653 observations after a change at the beginning, and 1,337 after one behind a million",
    "monitor spam\\n\\u202e, below: {0[0]:,} observations after a change at the beginning, and {0[1]:,} after one behind a million",
    "monitor spam\\n\\u202e, above: 1,054 observations after a change at the beginning, and 2,217 after one behind a million",
]
"""The figures that the manual has; the other one is computed."""


@pytest.fixture
def shown(tmp_path, capsys):
    """What the command prints."""
    (tmp_path / "own.toml").write_text(MONITORS)

    def shown(*words):
        assert main(["config", *words, "--config", str(tmp_path / "own.toml")]) == 0
        return capsys.readouterr().out

    return shown


def test_lint_says_how_soon_each_monitor_of_a_rate_raises_its_alarm_in_each_direction(shown):
    spam = MonitorSettings("spam", "class-rate", (0.1, 0.3), (0.05, 0.4), label="spam")
    below = [delays(spam, before)["below"] for before in (0, 1_000_000)]
    lines = shown("lint").splitlines()
    assert lines[:-1] == [line.format(below) for line in LINES]
    assert lines[-1].startswith("valid (hash ")
    told = json.loads(shown("lint", "--json"))["delays"]
    assert told == {
        "errors": {"above": [653, 1337]},
        "spam\n\u202e": {"below": below, "above": [1054, 2217]},
        "quiet": {},
    }


def test_the_log_is_a_flag_as_it_is_elsewhere(shown):
    assert 'url = "sqlite:///other.db"' in shown("show", "--log", "sqlite:///other.db")


def test_check_says_only_that_it_is_valid(shown):
    assert shown("check").startswith("valid (hash ")


def test_serve_says_that_it_answers_elsewhere(capsys):
    assert main(["serve", "--set", "http.listen=127.0.0.1:9999"]) == 2
    assert "--set http.listen: this is the address of `run`; --listen is" in capsys.readouterr().err
