"""A command that a message suggests can be pasted: it is of the log and the configuration at hand."""

from __future__ import annotations

import argparse
import shlex

from streamnb.cli import main
from streamnb.cli.parser import build_parser
from streamnb.runtime.next_commands import repeated

GIVEN = ["--config", "my own.toml", "--log", "sqlite:///a b.db", "--set", "model.alpha=2", "--set", "x=$HOME"]
OPTIONS = argparse.Namespace(config=GIVEN[1], log=GIVEN[3], set=[GIVEN[5], GIVEN[7]])


def leaves(parser, path=()):
    """Every command, with its first action where it has any, and the options that it takes."""
    nested = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not nested:
        whats = [f" {a.choices[0]}" for a in parser._actions if a.dest == "action"]
        yield (
            f"{' '.join(path)}{''.join(whats)}",
            {name for a in parser._actions for name in a.option_strings},
        )
    for action in nested:
        for name, made in action.choices.items():
            yield from leaves(made, (*path, name))


def test_each_command_that_reads_a_log_is_repeated_with_what_was_given_and_no_other_is():
    reading = set()
    for command, flags in leaves(build_parser()):
        said = repeated(f"{command} and streamnb {command}: more", OPTIONS)
        if "--log" in flags and command not in {"init", "evaluate", "compare"}:
            reading.add(command)
            assert said == f"{command} and streamnb {command} {shlex.join(GIVEN)}: more"
        else:
            assert said == f"{command} and streamnb {command}: more"
    assert {"run", "topics plan", "snapshot diff", "labels withdraw", "doctor"} <= reading


def test_what_no_command_is_meant_by_stays():
    for text in ("see streamnb label --help", "`streamnb` is asked", "streamnb runs", "my-streamnb.run"):
        assert repeated(text, OPTIONS) == text
    assert repeated("streamnb run", argparse.Namespace()) == "streamnb run"


def test_an_error_and_a_finding_suggest_the_log_at_hand(tmp_path, capsys):
    given = ["--log", f"sqlite:///{tmp_path}/log of mine.db", "--set", f"snapshots.folder={tmp_path}/s"]
    assert main(["predict", "hello", *given]) == 1
    assert f"streamnb run {shlex.join(given)}" in capsys.readouterr().err
    main(["doctor", *given])
    assert f"streamnb topics create {shlex.join(given)}" in capsys.readouterr().out
