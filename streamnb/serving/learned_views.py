"""Views of the learned model for the live page: the current model, and the difference of two snapshots."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from streamnb.charts import Bar, Markup, bars, joined, number, tag
from streamnb.charts.html_markup import count
from streamnb.config import Config
from streamnb.errors import LogError, StreamnbError
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.most_informative import strongest
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.reports import report_charts
from streamnb.reports.report_charts import card, listing, missing, tile
from streamnb.reports.state_diff import compared
from streamnb.runtime import context
from streamnb.serving.replica import Replica

_CLASSES, _TOP, _ROWS = 12, 8, 25
_MODEL_SECONDS, _COMPARING_SECONDS = 20.0, 8.0
_MOST_BYTES = 64 << 20  # limit for a snapshot: both models are in memory during a comparison


class ModelPage:
    """The model page: snapshots of the configured learner, and the replica's current model."""

    def __init__(self, config: Config, replica: Replica) -> None:
        self._config, self._replica = config, replica
        self._now: tuple[float, Markup] = 0.0, Markup()
        self._difference: tuple[tuple[str, str], Markup] = ("", ""), Markup()
        self._comparing = threading.Lock()
        self._words: tuple[str, float, Markup] = "", 0.0, Markup()

    def shown(self, asked: Mapping[str, str]) -> Markup:
        """Return the current model, after the difference of two snapshots if the query names them."""
        if "before" not in asked:
            return self._model()
        return joined([self._between(asked["before"], asked.get("after", "")), self._model()])

    def form(self, asked: Mapping[str, str]) -> Markup | None:
        """Return the form that selects two snapshots; None if fewer than two exist."""
        try:
            kept = [str(one.n) for one in SnapshotFolder(self._config.snapshot_folder).list()]
        except StreamnbError:
            return None
        if len(kept) < 2:
            return None
        sides = (("before", "What was learned from snapshot", kept[0]), ("after", "to", kept[-1]))
        fields: list[Markup] = []
        for name, told, chosen in sides:
            options = [tag("option", n, selected=n == asked.get(name, chosen)) for n in kept]
            fields += [tag("label", told, for_=name), tag("select", *options, id=name, name=name)]
        return tag("form", *fields, tag("button", "Compare"), action="/page/model", class_="ask")

    def _between(self, before: str, after: str) -> Markup:
        """Return the difference of two snapshots; the latest one is cached, since snapshots are immutable."""
        known, shown = self._difference
        if known != (before, after):
            if not self._comparing.acquire(blocking=False):
                return missing("Snapshots are being compared: in a moment.")
            try:
                shown = joined(self._compared(before, after))
            except StreamnbError as error:
                return tag("p", str(error), class_="trouble")
            finally:
                self._comparing.release()
            self._difference = (before, after), shown
        return shown

    def _compared(self, before: str, after: str) -> Iterator[Markup]:
        sizes = {str(one.n): one.size for one in SnapshotFolder(self._config.snapshot_folder).list()}
        gone = [n for n in (before, after) if n not in sizes]
        if gone:
            raise LogError(f"there is no snapshot {gone[0]:.20}: those kept are {', '.join(sizes) or 'none'}")
        command = f"ask `streamnb snapshot diff {before} {after}`"
        if max(sizes[before], sizes[after]) > _MOST_BYTES:
            yield missing(f"At most {_MOST_BYTES >> 20} MiB of snapshot are compared here: {command}.")
            return
        deadline = time.monotonic() + _COMPARING_SECONDS

        def alive() -> None:
            if time.monotonic() > deadline:
                raise LogError(f"a snapshot cannot be read at once: {command}")

        with closing(context.existing_log(self._config)) as log:
            found = compared(log, self._config, int(before), int(after), _ROWS, alive)
        sides = ["record " + before, "record " + after]
        old, new = found["before"], found["after"]
        names = [name for name in old if name not in {"n", "written"} and old[name] != new[name]]
        rows = [[name.replace("_", " "), number(old[name]), number(new[name])] for name in names]
        yield listing(f"What was learned from record {before} to {after}", ["", *sides], rows, "Nothing.")
        for title, key, columns in _TABLES:
            if found[key]:
                rows = [_row(one, columns) for one in found[key][:_ROWS]]
                yield listing(title, [*columns, *sides], rows)

    def words_of(self, label: str) -> Markup:
        """Return the strongest words of a class; computing them blocks the replica, so the last are kept."""
        known, made, shown = self._words
        if known == label and time.monotonic() <= made + _MODEL_SECONDS:
            return shown
        self._replica.wake()
        try:
            with self._replica.lock:
                model = self._replica.asked().model
                weights = {str(each): weight for each, weight in model.class_weights.items()}
                if not isinstance(model, CountingModel):
                    return _words(missing(_NO_WORDS))
                found = strongest(model.statistics, label, _TOP) if weights.get(label) else []
        except StreamnbError as error:
            return _words(self._missing(error))
        rows = [Bar(f"{a}: {v}", odds) for a, v, odds, _ in sorted(found, key=lambda row: -row[2])]
        shown = _words(bars("Strongest words and values: log odds", rows))
        self._words = label, time.monotonic(), shown
        return shown

    def _missing(self, error: StreamnbError) -> Markup:
        is_loading = self._replica.is_loading
        return missing(f"{self._replica.status}. It appears here by itself." if is_loading else str(error))

    def _model(self) -> Markup:
        """Return classes, size and strongest words, cached because computing them blocks the replica."""
        self._replica.wake()
        made, shown = self._now
        if not shown or time.monotonic() > made + _MODEL_SECONDS:
            try:
                with self._replica.lock:
                    model = self._replica.asked().model
                    weights = Counter(dict(model.class_weights)).most_common(_CLASSES)
                    sizes = len(model.class_weights), model.n_attributes, model.n_events, model.n_bytes
                    counted = weights if isinstance(model, CountingModel) else []
                    words = [strongest(model.statistics, label, _TOP) if n else [] for label, n in counted]
            except StreamnbError as error:
                return self._missing(error)
            names = ("Classes", "Words and values", "Events learned", "Memory")
            texts = [*map(number, sizes[:3]), f"{count(sizes[3])}B"]
            tiles = report_charts.tiles(
                tile(a, text, value=n) for a, text, n in zip(names, texts, sizes, strict=True)
            )
            cards = [
                card(
                    bars(
                        joined([tag("bdi", label), f", {number(n)} learned: log odds"]),
                        [Bar(f"{a}: {v}", odds) for a, v, odds, _ in sorted(found, key=lambda row: -row[2])],
                    )
                )
                for (label, n), found in zip(counted, words, strict=True)
            ]
            shown = joined([tiles, *(cards or [missing(_NO_WORDS)])])
            self._now = time.monotonic(), shown
        return shown


_NO_WORDS = "This kind of model keeps no counts of words."
_TABLES: Sequence[tuple[str, str, Sequence[str]]] = (
    ("Configuration", "configuration", ("key",)),
    ("Hypotheses: their posterior", "posterior", ("hypothesis",)),
    ("Classes: examples", "classes", ("label",)),
    ("Words and values that changed most: examples", "strongest", ("label", "attribute", "value")),
)


def _words(*children: object) -> Markup:
    """Return a card that has the height of all words while the model loads, so that nothing moves."""
    return tag("section", *children, class_="card words")


def _row(one: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    sides = (one["before"], one["after"])
    shown = [side if isinstance(side, str) else number(side) for side in sides]
    return [*(str(one[name]) for name in columns), *shown]
