"""The models that `compare` ranks: configurations, variants of the first one, and classifiers in its place.

All read the same events in one pass. Configurations may read the columns of a table in several ways: each
way has its own pass over the file, in step with all other ways.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Iterator, Sequence
from typing import Any

from streamnb.config import Config
from streamnb.engine.ports import Log
from streamnb.errors import ConfigError
from streamnb.evaluation.data_quality import DataQuality
from streamnb.evaluation.evaluation_words import model_and_settings
from streamnb.evaluation.event_costs import PrequentialProcessor
from streamnb.evaluation.event_input import columns_of, files_of, origin_of, report_absent, rows_of
from streamnb.evaluation.holdout import Row
from streamnb.evaluation.interruption import Interruption, parts_of
from streamnb.evaluation.log_history import LogHistory, history_of, history_of_rows, run_through
from streamnb.evaluation.user_model import given_model
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.terminal_text import note
from streamnb.runtime import context, factories
from streamnb.values.messages import Message

_AT_ONCE = 1000
_SHARED = (("events", "id"), ("events", "label"), ("classes", "aliases"))
"""Keys that name the events and their labels."""


class Candidate:
    """One model of a comparison.

    Args:
        name: its name on the board.
        config: its configuration.
        path: the file of its configuration.
        sets: settings of this candidate alone, as KEY=VALUE.
        model: MODULE:NAME of a classifier in place of the configured model.

    Attributes:
        seconds: processor time that it has taken.
    """

    def __init__(
        self, name: str, config: Config, path: str | None, sets: Sequence[str] = (), model: str | None = None
    ) -> None:
        self.name, self.config, self.path, self.sets, self.model = name, config, path, sets, model
        self.seconds = 0.0

    def begin(self) -> None:
        """Make the learner, and compile its kernels. Raises ConfigError for a classifier that is refused."""
        given = None if self.model is None else given_model(self.model)
        if given is None:
            factories.warm_up(self.config)
        self.learner = PrequentialProcessor(self.config, given)

    def live(self, past: LogHistory) -> None:
        """Predict and learn one part of the history."""
        started = time.process_time()
        run_through(self.learner, past)
        self.seconds += time.process_time() - started

    def finish(self) -> None:
        """Do the work that is left at the end."""
        while self.learner.has_work:
            self.learner.work()

    @property
    def described(self) -> str:
        """The model with its settings."""
        return model_and_settings(self.config, self.model)

    def rebuild(self, options: argparse.Namespace) -> str:
        """Return the command that installs this configuration in the log; empty for a classifier."""
        if self.model is not None:
            return ""
        given = [("--config", self.path), ("--log", options.log)]
        given += [("--set", one) for one in (*options.set, *self.sets)]
        words = [word for flag, value in given if value is not None for word in (flag, value)]
        return shlex.join(["streamnb", "rebuild", *words])


def candidates_of(options: argparse.Namespace, log: Log | None = None) -> list[Candidate]:
    """Return the models that the options name: files, then ``--against``, then ``--model``.

    Raises ConfigError if there are fewer than two, two are the same, or they do not read the same events.
    """
    paths: list[str | None] = [*options.configs] or [None]
    found = [Candidate(path or "as configured", _loaded(options, path), path) for path in paths]
    first = found[0]
    for sets in options.against:
        name = f"with {', '.join(sets)}"
        found.append(Candidate(name, _loaded(options, first.path, *sets), first.path, sets))
    found += [Candidate(name, first.config, first.path, model=name) for name in options.model]
    if len(found) < 2:
        raise ConfigError(
            "there is one model only: add --config FILE, --against KEY=VALUE or --model MODULE:NAME"
        )
    names = [one.name for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{twice} is given twice")
    for one in found[1:]:
        _refuse_other_events(first, one)
    if log is not None:
        for one in found:
            one.config = factories.begun_configuration(one.config, log)
    return found


def _loaded(options: argparse.Namespace, path: str | None, *sets: str) -> Config:
    own = argparse.Namespace(**{**vars(options), "config": path})
    try:
        return context.load_config(own, *sets)
    except ConfigError as error:  # a file and --set are named by their own errors
        if not sets:
            raise
        raise ConfigError(str(error).replace("flag --set", "--against", 1)) from error


def _refuse_other_events(first: Candidate, other: Candidate) -> None:
    flag = "--against" if other.sets else f"--config {other.path}"
    if other.config.topics != first.config.topics:
        raise ConfigError(f"{flag}: topics.*: all read one history; give its topics by --set")
    for section, name in _SHARED:
        if len({repr(getattr(getattr(one.config, section), name)) for one in (first, other)}) > 1:
            raise ConfigError(f"{flag}: {section}.{name}: all answer one question; give it by --set")


class Passes:
    """The history that candidates live through: one pass over a log, or over a file for each reading of it.

    Args:
        options: of the command.
        candidates: all that are compared.
        interruption: ends the history.
        log: the log; None for a file.

    Raises ConfigError if standard input would be read in several ways.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        candidates: Sequence[Candidate],
        interruption: Interruption,
        log: Log | None = None,
    ) -> None:
        self._options, self._log, self._interruption = options, log, interruption
        self._absent, self._noted = set(options.drop), set[str]()
        self._groups: dict[Any, list[Candidate]] = {}
        for one in candidates:
            self._groups.setdefault(self._columns(one), []).append(one)
        if len(self._groups) > 1 and "-" in files_of(options):
            raise ConfigError(
                "-: these configurations read events in several ways, and standard input can be read only "
                "once: give a file"
            )

    def _columns(self, one: Candidate) -> CsvColumns | None:
        if self._log is not None:
            return None
        return columns_of(self._options, context.schema(one.config), learns=True)

    def __iter__(self) -> Iterator[list[tuple[Candidate, LogHistory]]]:
        """Yield each part of the history with the candidates that read it so."""
        groups = list(self._groups.values())
        if self._log is not None:
            for past in self._interruption.rows(history_of(groups[0][0].config, self._log)):
                yield [(one, past) for one in groups[0]]
            return
        checks: list[tuple[str, DataQuality]] = []
        rows = zip(*(self._rows(group, checks) for group in groups), strict=True)
        for part in parts_of(self._interruption.rows(rows), _AT_ONCE):
            self._report(checks)
            columns = zip(*part, strict=True)
            pasts = [
                (group, history_of_rows(of, group[0].config))
                for group, of in zip(groups, columns, strict=True)
            ]
            yield [(one, past) for group, past in pasts for one in group]
        self._report(checks, is_over=True)
        report_absent(self._absent)

    def _rows(self, group: Sequence[Candidate], checks: list[tuple[str, DataQuality]]) -> Iterator[Row]:
        """Return the rows that a group reads, watched for each of its schemas."""
        schemas: list[EventSchema] = []
        columns, rows = rows_of(self._options, context.schema(group[0].config), self._absent, self._note)
        for one in group:
            schema = context.schema(one.config)
            if schema not in schemas:
                schemas.append(schema)
                checks.append((one.name, self._watch(one.config, schema, columns)))
                rows = checks[-1][1].watched(rows)
        return rows

    def _watch(self, config: Config, schema: EventSchema, columns: CsvColumns) -> DataQuality:
        return DataQuality(
            schema,
            origin_of(self._options.file, columns),
            expects_label=True,
            counts_refusals=True,
            repeats=config.events.repeats != "learn",
            now=time.time(),
        )

    def _report(self, checks: Sequence[tuple[str, DataQuality]], *, is_over: bool = False) -> None:
        for name, odd in checks:
            for message in odd.news(is_over=is_over):
                self._note(message, name if odd is not checks[0][1] else "")

    def _note(self, message: Message, name: str = "") -> None:
        """Print a message once, with the name of the candidate if it is not the first one's."""
        if message not in self._noted:
            self._noted.add(message)
            note(message.reworded(f"{name}: {message}") if name else message)
