"""Compare the states at two journal records: what was learned between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.config import Config, changes, restored, semantic_config_of
from streamnb.engine.journal.checkpoint import Checkpoint
from streamnb.engine.journal.journal_history import find
from streamnb.engine.journal.recovery import recover
from streamnb.engine.ports import Log
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.metrics_reports import posterior_of
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.reports.text_columns import table
from streamnb.runtime import factories
from streamnb.values.example_weights import UNIT
from streamnb.values.parameter_checks import brief

Key = tuple[Any, bytes]
"""Name of an attribute, and a word or value of it."""
_ROUNDING = 1e-9
_MOST = 20  # means and deviations that are printed


class StateAt(NamedTuple):
    """A learner as it was at one journal record."""

    checkpoint: Checkpoint
    learner: EventProcessor


def differences(before: StateAt, after: StateAt, top: int) -> dict[str, Any]:
    """Return all differences, with the `top` most changed words and values of each class."""
    then, now = before.learner, after.learner
    old, new = (_CountTable(_statistics(learner) or SufficientStatistics()) for learner in (then, now))
    weights = _moved(then.model.class_weights, now.model.class_weights, 0.0)
    posterior = _moved(_probabilities(then), _probabilities(now))
    return {
        "before": _summary(before),
        "after": _summary(after),
        "configuration": _configuration(before.checkpoint, after.checkpoint),
        "classes": [{"label": str(label), **sides} for label, sides in weights],
        "attributes": _met_and_gone(before, after, old, new),
        "strongest": _strongest(old, new, top),
        "numbers": [
            {"label": str(label), "attribute": str(name), **sides}
            for (label, name), sides in _moved(_numbers(_statistics(then)), _numbers(_statistics(now)))
            if not _are_close(*sides.values())
        ],
        "posterior": [{"hypothesis": str(name), **sides} for name, sides in posterior],
    }


def compared(
    log: Log, config: Config, before: int, after: int, top: int, alive: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Return the differences of the states at two journal records, and the times of the records."""
    old, new = (state_at(log, config, n, alive) for n in (before, after))
    answer = differences(old, new, top)
    for side, n in (("before", before), ("after", after)):
        found = find(log, log.partitions(config.topics.journal)[0], n)
        answer[side]["written"] = None if found is None else found.record.now
    return answer


def state_at(log: Log, config: Config, n: int, alive: Callable[[], None] = lambda: None) -> StateAt:
    """Return the state at a journal record, under its configuration."""
    config = factories.begun_configuration(config, log)
    learner = factories.learner(config)
    found = recover(log, factories.snapshots(config), learner, factories.identity(config), alive, at=n)
    return StateAt(found, learner)


def _moved(old: Mapping[Any, Any], new: Mapping[Any, Any], missing: Any = None) -> Iterator[tuple[Any, Any]]:
    for key in {**old, **new}:
        before, after = old.get(key, missing), new.get(key, missing)
        if before != after:
            yield key, {"before": before, "after": after}


def _met_and_gone(
    before: StateAt, after: StateAt, old: _CountTable, new: _CountTable
) -> dict[str, int] | None:
    """Return the numbers of new and removed words and values; None if a model is not a table of counts."""
    if any(_statistics(state.learner) is None for state in (before, after)):
        return None
    return {"new": len(new.rows.keys() - old.rows.keys()), "gone": len(old.rows.keys() - new.rows.keys())}


def time_of(seconds: float) -> str:
    """Format seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _summary(state: StateAt) -> dict[str, Any]:
    learner = state.learner
    scores = learner.progressive.cumulative()
    return {
        "n": state.checkpoint.n,
        "events": learner.consumed,
        "learned": learner.model.n_events,
        "dead_letters": learner.dead_letters,
        "classes": len(learner.model.classes),
        "attributes": learner.model.n_attributes,
        "accuracy": scores.accuracy if scores.events else None,
        "log_loss": scores.log_loss if scores.events else None,
    }


def _configuration(before: Checkpoint, after: Checkpoint) -> list[dict[str, str]]:
    """Return the changed keys; keys newer than a record have their defaults there."""
    if before.origin.config_hash == after.origin.config_hash:
        return []
    then, later = (semantic_config_of(restored(checkpoint.origin.config)) for checkpoint in (before, after))
    return [{"key": c.key, "before": c.before, "after": c.after} for c in changes(then, later)]


def _probabilities(learner: EventProcessor) -> Mapping[Any, float]:
    posterior = posterior_of(learner.model)
    return {} if posterior is None else posterior.probabilities


class _CountTable:
    """Counts by word or value and class: int64[rows, classes], and the indices of rows and classes."""

    def __init__(self, statistics: SufficientStatistics) -> None:
        size = statistics.vocabulary.size
        groups = statistics.vocabulary.groups[:size]
        names = [name for _, name in statistics.layout.groups]
        keys = statistics.vocabulary.keys()
        self.table = statistics.counts.table[:size, : len(statistics.classes)]
        self.labels = statistics.classes
        live = np.flatnonzero((groups >= 0) & self.table.any(axis=1))
        self.rows: dict[Key, int] = {(names[groups[row]], keys[row]): int(row) for row in live}

    def rows_of(self, keys: Sequence[Key]) -> npt.NDArray[np.int64]:
        return np.array([self.rows.get(key, -1) for key in keys], dtype=np.int64)

    def count_of(self, rows: npt.NDArray[np.int64], label: Any) -> npt.NDArray[np.int64]:
        found = np.zeros(rows.size, dtype=np.int64)
        if label in self.labels:
            there = rows >= 0
            found[there] = self.table[rows[there], self.labels[label]]
        return found


def n_changed(before: StateAt, after: StateAt) -> int:
    """Return how many counts of a word or value in a class differ."""
    statistics = (_statistics(state.learner) or SufficientStatistics() for state in (before, after))
    old, new = map(_CountTable, statistics)
    keys = list({**old.rows, **new.rows})
    rows, later = old.rows_of(keys), new.rows_of(keys)
    labels = {**old.labels, **new.labels}
    return sum(int((old.count_of(rows, one) != new.count_of(later, one)).sum()) for one in labels)


def _strongest(old: _CountTable, new: _CountTable, top: int) -> list[dict[str, Any]]:
    keys = list({**old.rows, **new.rows})
    rows, later = old.rows_of(keys), new.rows_of(keys)
    found = []
    for label in {**old.labels, **new.labels}:
        before, after = old.count_of(rows, label), new.count_of(later, label)
        order = np.argsort(-np.abs(after - before), kind="stable")[:top]
        found += [
            {
                "label": str(label),
                "attribute": str(keys[i][0]),
                "value": keys[i][1].decode(errors="replace"),
                "before": int(before[i]) / UNIT,
                "after": int(after[i]) / UNIT,
            }
            for i in order
            if before[i] != after[i]
        ]
    return found


def _numbers(statistics: SufficientStatistics | None) -> Mapping[Any, Mapping[str, float]]:
    """Return (label, attribute) -> weight, mean and standard deviation, for nonzero weights."""
    if statistics is None:
        return {}
    found = {}
    for name, f in statistics.layout.fields.items():
        n, mean, square = (array[f].tolist() for array in statistics.moments)
        for label, k in statistics.classes.items():
            if n[k]:
                weight = n[k] / UNIT
                deviation = math.sqrt(max(0.0, square[k]) / weight)
                found[label, name] = {"weight": weight, "mean": mean[k], "deviation": deviation}
    return found


def _are_close(before: Mapping[str, float] | None, after: Mapping[str, float] | None) -> bool:
    """Return True if two sides differ only by rounding: a sum of shards adds in another order."""
    if before is None or after is None or before["weight"] != after["weight"]:
        return False
    slack = _ROUNDING * max(abs(before["mean"]), before["deviation"])
    return all(math.isclose(before[key], after[key], rel_tol=_ROUNDING, abs_tol=slack) for key in before)


def _statistics(learner: EventProcessor) -> SufficientStatistics | None:
    return learner.model.statistics if isinstance(learner.model, CountingModel) else None


def print_differences(answer: Mapping[str, Any], titles: Sequence[str] = ()) -> None:
    """Print the differences; column titles default to the numbers of journal records."""
    before, after = answer["before"], answer["after"]
    names = {key: key.replace("_", " ") for key in before if key != "n"} | {"attributes": "words and values"}
    rows = [(name, _shown(before[key]), _shown(after[key])) for key, name in names.items()]
    print(table(rows, ("", *(titles or (f"record {side['n']}" for side in (before, after))))))
    if (met := answer["attributes"]) is not None:
        print(f"\n{met['new']:,} words and values are new, {met['gone']:,} are gone")
    _print_rows(answer["configuration"], ("key", "before", "after"))
    _print_rows(_each_side(answer["posterior"], _shown), ("hypothesis", "before", "after"))
    _print_rows(answer["classes"], ("label", "before", "after"))
    _print_rows(answer["strongest"], ("label", "attribute", "value", "before", "after"))
    if (more := answer.get("counts", 0) - len(answer["strongest"])) > 0:
        print(f"... and {more:,} more, of {answer['counts']:,} counts that differ (--top N)")
    numbers = [_distinct(row) for row in answer["numbers"]]
    _print_rows(numbers[:_MOST], ("label", "attribute", "before", "after"))
    if len(numbers) > _MOST:
        print(f"... and {len(numbers) - _MOST:,} more, of {len(numbers):,} means and deviations")


def _each_side(rows: Sequence[Mapping[str, Any]], shown: Callable[[Any], object]) -> list[Mapping[str, Any]]:
    return [{**row, "before": shown(row["before"]), "after": shown(row["after"])} for row in rows]


def _print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    if rows:
        print("\n" + table(([_short(row[column]) for column in columns] for row in rows), columns))


def _distinct(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row with each side as text, with the digits in which the sides differ."""
    usual, exact = ({key: _number(row[key], n) for key in ("before", "after")} for n in (7, 17))
    return {**row, **(exact if usual["before"] == usual["after"] else usual)}


def _number(side: Mapping[str, float] | None, digits: int) -> str:
    if side is None:
        return ""
    mean, deviation = (f"{side[key]:.{digits}g}" for key in ("mean", "deviation"))
    return f"{side['weight']:g} of {mean} +- {deviation}"


def _short(value: object) -> object:
    return brief(value) if isinstance(value, str) else value


def _shown(value: object) -> object:
    return "" if value is None else value
