"""Sentences about an evaluation: the model and its settings, and rows that are grouped by label."""

from __future__ import annotations

import argparse
import shlex

import msgspec

from streamnb.config import Config
from streamnb.config.config_literals import literal
from streamnb.scoring.baselines import BaselineScores
from streamnb.values.parameter_checks import pluralize

_SECTIONS = ("events", "model", "posterior", "classes", "memory", "labels", "decision")
"""Those that may change a prediction."""


def model_and_settings(config: Config, given: str | None) -> str:
    """Return the model's kind and each setting that is not the default; or the name of a `given` model."""
    if given is not None:
        return given
    defaults, told = Config(), []
    for one, several in (("attribute", "attributes"), ("hypothesis", "hypotheses")):
        if declared := getattr(config, several):
            told += [f"{pluralize(len(declared), one, several)} declared"]
    for name in _SECTIONS:
        usual = msgspec.to_builtins(getattr(defaults, name))
        for key, value in msgspec.to_builtins(getattr(config, name)).items():
            if value != usual[key] and (name, key) != ("model", "kind"):
                told.append(f"{name}.{key}={literal(value)}")
    return f"{config.model.kind}, {', '.join(told) or 'default settings'}"


def grouping_warning(scores: BaselineScores | None, options: argparse.Namespace) -> str:
    """Return why the accuracy misleads if rows are grouped by label, and the command that shuffles them."""
    if scores is None or not scores.is_grouped:
        return ""
    expected = round(scores.expected_label_runs)
    runs = pluralize(scores.label_runs, "run")
    text = (
        f"the rows are grouped by label: equal labels make {runs}, and in random order about {expected:,}. A "
        "model learns that labels repeat, so this accuracy does not hold for events in another order."
    )
    if options.file is None or options.shuffle is not None:
        return text
    return f"{text} In random order:\n  {again(options, '--shuffle')}"


def again(options: argparse.Namespace, *more: str) -> str:
    """Return the current command with more options, without an order of rows if they shuffle.

    It runs in bash and zsh as it is printed, control characters of names included; FILE stands for the source
    of standard input.
    """
    given = list(options.given)
    for flag in ("--order",) if "--shuffle" in more else ():
        if flag in given:
            place = given.index(flag)
            del given[place : place + 2]
        given = [one for one in given if not one.startswith(f"{flag}=")]
    command = " ".join(["streamnb", *map(_quoted, [*given, *more])])
    return f"{command} < FILE" if "-" in {options.file, *options.more} else command


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    escaped = "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in plain)
    return f"$'{escaped}'"
