"""``streamnb evaluate --delay``: labels that come later than their events, or never, or wrong at first.

The events go through the learner of the service without their labels; these follow as records of the topic of
labels, when they are due. What is due with an event comes before it, as in River's `progressive_val_score`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamnb.config.config_literals import parse_duration
from streamnb.engine.ports import Partition, Record
from streamnb.errors import ConfigError
from streamnb.evaluation.event_input import decoded
from streamnb.evaluation.holdout import Row
from streamnb.events import LabelRecord
from streamnb.formats.codec import encode_label
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.json_paths import parse_path, render_path
from streamnb.values.parameter_checks import pluralize

LABELS = "labels"
"""The topic of labels if none is configured."""
_LOOK = 10_000  # rows, in search of the first time
_SCORED_ALONE = "evaluation"
"""The source of labels that were never revealed: at the end they are scored, and teach nothing."""


class Feedback(NamedTuple):
    """How labels arrive.

    Attributes:
        delays: returns the delay of an event's label, by the event's JSON value: events, or seconds.
        by_time: whether these are seconds of event time.
        revealed: whether the label of an event comes at all, by the event's JSON value.
        noise: the share of labels that are wrong at first, and are corrected as long again after that.
        generator: draws.
    """

    delays: Callable[[Any], float]
    by_time: bool
    revealed: Callable[[Any], bool]
    noise: float
    generator: np.random.Generator

    def records(self, rows: Iterable[Row], schema: EventSchema, topics: tuple[str, str]) -> Iterator[Record]:
        """Yield events without labels, and labels when they are due, as records of their topics.

        Raises ConfigError if delays use event time, and none of the first events has one.
        """
        events, labels = (Partition(topic, 0) for topic in topics)
        due: list[tuple[float, int, LabelRecord]] = []
        silent: list[LabelRecord] = []
        known: list[str] = []
        ids: set[str] = set()
        now, rows = self._begin(rows, schema)
        said = 0

        def released(until: float) -> Iterator[Record]:
            nonlocal said
            while due and due[0][0] <= until:
                at, _, verdict = heapq.heappop(due)
                time = at if self.by_time else 0.0
                yield Record(labels, said, None, encode_label(verdict), time)
                said += 1

        for place, (row, raw) in enumerate(rows):
            event, sent = decoded(raw, schema), raw
            if event is not None and self.by_time:
                now = max(now, now if event.ts is None else event.ts)
            elif not self.by_time:
                now = float(place)
            yield from released(now)
            if event is not None:
                event_id = event.id if event.id not in ids else f"{event.id} of row {row}"
                ids.add(event_id)
                value = msgspec.json.decode(raw)
                if event.label is not None:
                    verdict = LabelRecord(event_id, event.label, weight=event.weight, ts=now)
                    if self.revealed(value):
                        self._schedule(due, verdict, value, known, len(ids))
                    else:
                        silent.append(verdict)
                sent = _without_label(value, event_id, schema)
            yield Record(events, row, None, sent, now if self.by_time else 0.0)
        yield from released(math.inf)
        for verdict in silent:
            alone = msgspec.structs.replace(verdict, source=_SCORED_ALONE, weight=0.0)
            yield Record(labels, said, None, encode_label(alone), now if self.by_time else 0.0)
            said += 1

    def _begin(self, rows: Iterable[Row], schema: EventSchema) -> tuple[float, Iterator[Row]]:
        """Return the first known time, if times are used, and the same rows.

        Raises ConfigError if there are events among them, and none has a time: its label would never be due.
        """
        left, seen, n = iter(rows), [], 0
        for row in islice(left, _LOOK) if self.by_time else ():
            seen.append(row)
            event = decoded(row[1], schema)
            if event is not None and event.ts is not None:
                return event.ts, chain(seen, left)
            n += event is not None
        if n:
            place = "" if schema.ts_path is None else f" at {schema.ts_path}"
            raise ConfigError(
                f"--delay is a time, and none of {pluralize(n, 'event')} has a time{place}: --set "
                "events.ts=PATH, or --ts-column NAME for CSV, names its field; a number, "
                "such as --delay 500, counts events"
            )
        return 0.0, chain(seen, left)

    def _schedule(
        self,
        due: list[tuple[float, int, LabelRecord]],
        verdict: LabelRecord,
        value: Any,
        known: list[str],
        n: int,
    ) -> None:
        """Add when a label is due; `verdict` has the time of its event, and `value` is that."""
        at, label = (verdict.ts or 0.0) + self.delays(value), str(verdict.label)
        if label not in known:
            known.append(label)
        if self.noise and len(known) > 1 and self.generator.random() < self.noise:
            others = [one for one in known if one != label]
            wrong = others[int(self.generator.integers(len(others)))]
            heapq.heappush(due, (at, 2 * n, msgspec.structs.replace(verdict, label=wrong, ts=at)))
            at += self.delays(value)
        heapq.heappush(due, (at, 2 * n + 1, msgspec.structs.replace(verdict, ts=at)))


def feedback_of(delay: str | None, reveal: str | None, noise: float, seed: int) -> Feedback:
    """Return the feedback that the flags define. Raises ConfigError."""
    generator = np.random.default_rng(seed)
    text = delay or "0"
    if text.startswith("$"):
        keys = parse_path(text)
        delays_of = partial(_events_between, keys)
        return Feedback(delays_of, False, _revealed(reveal, generator), noise, generator)
    kind, _, mean = text.rpartition(":")
    by_time = not mean.isdecimal()
    length = parse_duration(mean) if by_time else float(mean)
    if kind not in {"", "exponential"} or length is None or not math.isfinite(length):
        raise ConfigError(
            f"--delay is {text!r}; expected a number of events, such as 500, a time with its unit, such as "
            "2h, exponential: and the mean of one of these, or a path such as $.delay"
        )

    def delays(_: Any) -> float:
        if not kind:
            return length
        drawn = generator.exponential(length)
        return float(drawn) if by_time else float(math.ceil(drawn))

    return Feedback(delays, by_time, _revealed(reveal, generator), noise, generator)


def _events_between(keys: tuple[str, ...], value: Any) -> float:
    """Return the delay of a label that comes after a number of other events, which an event has at a path."""
    n = _at(value, keys)
    if n is None:
        return 0.0
    if type(n) not in {int, float} or not 0 <= n < math.inf:
        raise ConfigError(f"--delay {render_path(keys)}: an event has {n!r} there, not a number of events")
    return float(n) + 1.0


def _revealed(reveal: str | None, generator: np.random.Generator) -> Callable[[Any], bool]:
    if reveal is None:
        return lambda _: True
    if reveal.startswith("$"):
        keys = parse_path(reveal)
        return lambda value: _at(value, keys) in (True, 1)
    try:
        share = float(reveal)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise ConfigError(f"--reveal is {reveal!r}; expected 0 to 1, or a path such as $.feedback")
    return lambda _: bool(generator.random() < share)


def _at(value: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _without_label(value: Any, event_id: str, schema: EventSchema) -> bytes:
    *above, last = schema.label_keys
    holder = _at(value, tuple(above))
    if isinstance(holder, dict):
        holder.pop(last, None)
    *above, last = schema.id_keys
    _at(value, tuple(above))[last] = event_id
    return msgspec.json.encode(value)
