"""What tests of late labels need: streams of events and verdicts, a plain recount of them, and what a model counts."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict

from streamnb import NaiveBayes, Text
from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import LabelSettings, Settings
from streamnb.formats.event_schema import EventSchema

EVENTS, LABELS = Partition("events", 0), Partition("labels", 0)
WORDS = [f"w{i}" for i in range(30)]
_SCALE = 2.0**44


def model():
    return NaiveBayes({"text": Text(), "subject": Text(event_model="bernoulli")})


def late_learner(given=None, *, window=7 * 86400.0, memory=1 << 28, **options):
    own = {name: options.pop(name) for name in ("repeats", "ranks", "weights") if name in options}
    labels = LabelSettings("labels", window, memory, **own)
    made = Settings(**{"schema": EventSchema(), "window": 50, "labels": labels} | options)
    return EventProcessor(made, given or model())


class Stream:
    """Records of both topics, in the order in which they are processed; a second apart unless told."""

    def __init__(self, start=1_790_000_000.0):
        self.records = []
        self.time = start
        self._offsets = Counter()

    def event(self, event_id, text="", label=None, *, at=None, **features):
        self._add(EVENTS, {"id": event_id, "text": text, "features": features, "label": label}, at)

    def verdict(self, event_id, label, source=None, *, ts=None, weight=None, at=None, partition=0):
        more = {"source": source, "ts": ts, "weight": weight}
        given = {name: value for name, value in more.items() if value is not None}
        self._add(Partition("labels", partition), {"id": event_id, "label": label, **given}, at)

    def retract(self, source, since=None, *, ts=None, at=None):
        self._add(LABELS, {"withdraw": True, "source": source, "since": since, "ts": ts}, at)

    def raw(self, partition, value, at=None):
        self.time = self.time + 1.0 if at is None else at
        self.records.append(Record(partition, self._offsets[partition], None, value, self.time))
        self._offsets[partition] += 1

    def _add(self, partition, record, at):
        self.raw(partition, json.dumps(record).encode(), at)


def look_for_room_often(monkeypatch):
    """Whether memory is short, so that a few events show what many would."""
    for module in (
        "engine.processing.admission",
        "engine.processing.event_processing",
        "engine.processing.event_stages",
        "verification.recount.event_recount",
        "verification.recount.label_recount",
    ):
        monkeypatch.setattr(f"streamnb.{module}.ROOM_EVERY", 16)


def random_stream(
    rng,
    events=60,
    verdicts=90,
    *,
    labelled=0.2,
    sources=("a", "b", None),
    classes="xyz",
    weights=(None, None, 0, 0.5, 2),
    more_features=0,
    partitions=1,
):
    """Events whose verdicts come early, late, again, from several sources, as null and with other weights.

    Many verdicts of one source have equal times.
    """
    stream = Stream()
    ids = [f"e{i}" for i in range(events)]
    what = ["event"] * events + ["verdict"] * verdicts
    rng.shuffle(what)
    left = iter(ids)
    for kind in what:
        if kind == "event":
            text = " ".join(rng.choices(WORDS, k=rng.randrange(7)))
            label = rng.choice(classes) if rng.random() < labelled else None
            chosen = (
                rng.sample(range(more_features), k=rng.randrange(more_features + 1)) if more_features else []
            )
            stream.event(
                next(left),
                text,
                label,
                subject=rng.choice(WORDS),
                colour=rng.choice("rg"),
                size=rng.gauss(0, 1),
                **{f"more{i}": rng.choice([float(i), f"v{i}"]) for i in chosen},
            )
        else:
            label = rng.choice(classes) if rng.random() < 0.8 else None
            weight = rng.choice(weights)
            ts = (stream.time + rng.randrange(-60, 20)) // 40 * 40 if rng.random() < 0.5 else None
            at = stream.time if rng.random() < 0.3 else None
            given = {"ts": ts, "weight": weight, "at": at, "partition": rng.randrange(partitions)}
            stream.verdict(rng.choice(ids), label, rng.choice(sources), **given)
    return stream


def read_in_another_order(rng, records):
    """The same records, of each partition in their order."""
    queues = defaultdict(list)
    for record in reversed(records):
        queues[record.partition].append(record)
    left = [record.partition for record in records]
    rng.shuffle(left)
    return [queues[partition].pop() for partition in left]


def _place(record, ts=None):
    """The place of what a record says in the order of all that its source says."""
    return record.timestamp if ts is None else ts, *record.partition, record.offset


def effective_labels(records, ranks=None, weights=None):
    """id -> (label, weight), told plainly: all that was said is listed, and the best of it picked."""
    ranks, weights = ranks or {}, weights or {}
    said = defaultdict(list)
    withdrawn = []
    for record in records:
        value = json.loads(record.value)
        if value.get("withdraw"):
            since = -math.inf if value.get("since") is None else value["since"]
            withdrawn.append((value["source"], since, _place(record)))
        elif record.partition == EVENTS:
            if value["label"] is not None:
                said[value["id"]].append(("event", _place(record), value["label"], 1.0))
        else:
            source, place = value.get("source", "default"), _place(record, value.get("ts"))
            said[value["id"]].append((source, place, value["label"], value.get("weight", 1.0)))
    found = {}
    for event_id, verdicts in said.items():
        newest = {}
        for source, place, label, weight in sorted(verdicts, key=lambda one: one[1]):
            if not any(source == s and since <= place[0] and place <= until for s, since, until in withdrawn):
                newest[source] = place[0], label, weight
        standing = [
            (ranks.get(source, 0 if source == "event" else 1), time, source, label, weight)
            for source, (time, label, weight) in newest.items()
            if label is not None
        ]
        if standing:
            _, _, source, label, weight = max(standing)
            found[event_id] = label, weight * weights.get(source, 1.0)
    return found


def learned(records, truths, given=None):
    """A model that learned each event once, with these labels."""
    made = given or model()
    for record in records:
        if record.partition == EVENTS:
            value = json.loads(record.value)
            label, weight = truths.get(value["id"], (None, 0))
            if label is not None and weight > 0:
                made.learn_one({"text": value["text"], **value["features"]}, label, weight)
    return made


def counts_of(made):
    """All that a naive Bayes model counts, by names, without what is zero."""
    found = {"classes": {label: w for label, w in made.class_weights.items() if w}}
    for name in (
        made.statistics.layout.names
        if hasattr(made.statistics.layout, "names")
        else ["text", "subject", "colour"]
    ):
        try:
            counts = made.class_counts(name)
        except KeyError:
            continue
        rows = {value: {label: n for label, n in row.items() if n} for value, row in counts.items()}
        found[name] = {value: row for value, row in rows.items() if row}
    return found


def scores_of(outputs, truths):
    """Events, right, and the exact sums of loss, of what was served, by the final truths."""
    events, right, loss, brier = 0, 0, 0, 0
    confusion = Counter()
    for served in outputs:
        label = truths.get(served["id"], (None,))[0]
        if label is None:
            continue
        p = served["probabilities"]
        events += 1
        right += served["label"] == label
        confusion[label, served["label"]] += 1
        loss += round(-math.log(min(max(p.get(label, 0.0), 1e-15), 1.0)) * _SCALE)
        terms = 0.0
        for name, value in p.items():
            if name != label:
                terms += value * value
        brier += round((terms + (p.get(label, 0.0) - 1.0) ** 2) * _SCALE)
    return {
        "events": events,
        "right": right,
        "loss": loss / _SCALE,
        "brier": brier / _SCALE,
        "confusion": confusion,
    }


def examples(before):
    """Class -> weight of the events that have come, by the labels that hold of them, told plainly."""
    came = {json.loads(one.value)["id"] for one in before if one.partition == EVENTS}
    weights = Counter()
    for event_id, (label, weight) in effective_labels(before).items():
        weights[label] += weight if event_id in came else 0
    return weights
