"""Random streams with everything that changes the arrays of a mixture, and the ways to feed them to a model."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle

from streamnb import BayesOptimalNB, ByteSoftmax, Hypothesis, MondrianForest, OneDependence, Pool, Softmax
from streamnb.models.mixture.hypothesis_kinds import DEFAULT_HYPOTHESES
from tests.support.states import digest

ATTRIBUTES = {"text": "text", "body": "text", "k": "nominal", "n": "continuous"}
NARROW = [
    Hypothesis("presence"),
    Hypothesis("presence", density="binned", calibrated=True),
    Softmax(0.6, pairs=True),
    ByteSoftmax(0.6, first_bytes=40),
    OneDependence(max_attributes=3, max_values=4, memory=3000),
    Pool(0.1, calibrated=True),
]
WIDE = [
    Hypothesis("multinomial"),
    Hypothesis("bernoulli", calibrated=True),
    Hypothesis("complement", m=2.0),
    Hypothesis("presence", half_life=60.0),
    Softmax(0.25),
    OneDependence(max_values=5),
    OneDependence(2.0, max_attributes=5, memory=6000),
    Pool(0.1),
]
FOREST = [Hypothesis("presence", calibrated=True), MondrianForest(3, memory=1 << 16), Pool(0.1)]
SETTINGS = {
    "default": {},
    "service": {"floor": True, "caution": True},
    "map": {"prediction": "map", "switching_rate": 0.02},
    "gibbs": {"prediction": "gibbs", "seed": 3, "switching_rate": 0.0},
    "little memory": {"memory": 48 << 10, "floor": True, "caution": True},
    "narrow": {"hypotheses": NARROW},
    "narrow, little memory": {"hypotheses": NARROW, "memory": 24 << 10, "prediction": "gibbs"},
    "wide": {"hypotheses": WIDE},
    "forest": {"hypotheses": FOREST},
    "wide, with forest": {"hypotheses": [*WIDE[:-1], MondrianForest(2), WIDE[-1]]},
}


def new(name):
    return BayesOptimalNB(ATTRIBUTES, **{"hypotheses": DEFAULT_HYPOTHESES, **SETTINGS[name]})


def _text(rng, words):
    drawn = " ".join(f"w{rng.randrange(words)}" for _ in range(rng.choice([0, 1, 3, 8, 30])))
    return rng.choice([drawn, drawn.upper() + "! \u00c9t\u00e9 \u0130", drawn + " " + drawn])


def _number(rng):
    return rng.choice(
        [
            rng.gauss(0.0, 1.0),
            rng.gauss(0.0, 1.0),
            round(rng.gauss(0.0, 3.0)),
            rng.lognormvariate(0.0, 20.0),
            rng.choice([0.0, -0.0, 1e300, math.nan, math.inf, None, True]),
        ]
    )


def _event(rng, at, names, words):
    """An event at this share of the stream: attributes, words and values are added over time."""
    x = {}
    known = 2 + int(at * names)
    for _ in range(rng.choice([0, 1, 4, 10])):
        name = rng.randrange(known)
        if name % 3 == 0:
            x[f"a{name}"] = _number(rng)
        elif name % 3 == 1:
            x[f"a{name}"] = f"v{rng.randrange(3 + int(at * 300))}"
        else:  # of changing types
            x[f"a{name}"] = rng.choice(
                ["yes", True, 3, 2.5, "a" * 300, "two words of it are not a text or so"]
            )
    for name, draw in (("n", _number), ("k", lambda rng: rng.choice(["r", "g", "b", 3, False]))):
        if rng.random() < 0.4:
            x[name] = draw(rng)
    if rng.random() < 0.5:
        x["text"] = _text(rng, words)
    if rng.random() < 0.1:
        x["body"] = rng.choice([_text(rng, words), {"w1": 2, "new": 0.5}, {"w1": 0}])
    names = list(x)
    if rng.random() < 0.1:
        rng.shuffle(names)
    return {name: x[name] for name in names}


def _rows(rng, at, n, classes, names, words, share_of_old, before):
    rows = []
    for _ in range(n):
        x = rng.choice(before)[0] if before and rng.random() < share_of_old else _event(rng, at, names, words)
        y = min(int(rng.expovariate(1.0)), 1 + int(at * classes))
        y = rng.choice([f"c{y}"] * 9 + [None])
        rows.append((x, y, rng.choice([1.0, 1.0, 1.0, 1.0, 2.0, 0.25, 0.0])))
        before.append(rows[-1])
    return rows


def hostile_stream(rng, n, kinds=("events", "events", "events", "ask", "unlearn", "late", "again", "reload",
                                  "prune", "reset", "copy", "pickle", "budget", "set")):  # fmt: skip
    """Return (kind, argument) of each step; about `n` events in all."""
    names, words = rng.choice([3, 12, 90]), rng.choice([5, 60, 2000])
    classes, share_of_old = rng.choice([1, 3, 12]), rng.choice([0.0, 0.5, 0.9])
    steps, before, given = [], [], 0
    while given < n:
        kind = rng.choice(kinds)
        at, size = given / n, rng.choice([1, 3, 20, 60])
        if kind in {"events", "late", "again"}:
            steps.append((kind, _rows(rng, at, size, classes, names, words, share_of_old, before)))
            given += size
        elif kind == "ask":
            steps.append((kind, [row[0] for row in _rows(rng, at, 3, 1, names, words, 0.5, list(before))]))
        elif kind == "unlearn":
            learned = [rng.randrange(len(before)) for _ in range(3)] if before else []
            steps.append((kind, [before[i] for i in sorted(set(learned))]))
        elif kind == "prune":
            keywords = {"min_count": rng.choice([0.0, 2.0]), "drop_most_frequent": rng.choice([0, 1])}
            steps.append((kind, keywords))
        elif kind == "set":
            steps.append((kind, rng.choice([("floor", True), ("floor", False), ("switching_rate", 0.3)])))
        elif kind == "budget":
            steps.append((kind, rng.choice([1 << 20, 8 << 20])))
        else:
            steps.append((kind, None))
    return steps


def _has_capacity(model, rows):
    """Return if a learner would admit these rows as one batch; see `engine.processing.admission`."""
    if len(rows) == 1:
        model.has_capacity(len(model.classes), 0, 0)  # sets the limits of rows
        return True
    labels = {y for _, y, _ in rows if y is not None}
    n_bytes = len(repr(rows).encode())
    return model.has_capacity(len(labels.union(model.classes)), n_bytes, n_bytes // 2 + 1)


def _in_batches(model, rows, size):
    """Predictions of rows that are learned in batches of so many."""
    told = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        if not _has_capacity(model, part):
            told += _in_batches(model, part, 1)
            continue
        answer = model.predict_then_learn_many(*zip(*part, strict=True))
        for row in answer.probabilities.tolist():
            told.append({label: p for label, p in zip(answer.classes, row, strict=True) if p})
    return told


def _learn_late(model, rows, size, *, again):
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        if _has_capacity(model, part):
            xs, ys, ws = zip(*part, strict=True)
            model.learn_late_many(xs, ys, ws, again=again)
        else:
            _learn_late(model, part, 1, again=again)


def _asked(model, x, one):
    if one:
        return {label: p for label, p in model.predict_proba_one(x).items() if p}
    answer = model.predict_posteriors([x])
    return {label: p for label, p in zip(answer.classes, answer.probabilities[0].tolist(), strict=True) if p}


def _apart(model, rows, one):
    """Predictions of rows, each asked for and then learned by another call."""
    told = []
    for x, y, w in rows:
        _has_capacity(model, [x])
        told.append(_asked(model, x, one))
        if one:
            model.learn_one(x, y, w)
        else:
            model.learn_many([x], [y], [w])
    return told


def feed(model, steps, size, one=None):
    """Return the predictions of all events, in order, and the model.

    `size` None asks and learns one event after the other, through the interface for one event if `one`.
    """
    told = []
    for kind, argument in steps:
        if kind == "events":
            told += _apart(model, argument, one) if size is None else _in_batches(model, argument, size)
        elif kind == "ask":
            told += [_asked(model, x, one) for x in argument]
        elif kind in {"late", "again"}:
            _learn_late(model, argument, size or 1, again=kind == "again")
        else:
            model = _CHANGES[kind](model, argument) or model
        told.append(digest(model) if kind in {"reload", "unlearn"} else None)
    return told, model


def _unlearn(model, rows):
    for x, y, w in rows:
        with contextlib.suppress(ValueError):  # pruned since, or never learned
            model.unlearn_many([x], [y], [w])


def _keep_within(model, n_bytes):
    model.keep_within(n_bytes)
    model.evict(len(model.classes))


_CHANGES = {
    "unlearn": _unlearn,
    "budget": _keep_within,
    "prune": lambda model, keywords: model.prune(**keywords) and None,
    "set": lambda model, setting: setattr(model, *setting),
    "reset": lambda model, _: model.reset_adaptive(),
    "reload": lambda model, _: model.load_state(*model.state()),
    "copy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),  # noqa: S301  written here
}
