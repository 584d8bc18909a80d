"""Every model of a small stream, its state damaged in every array and value, and what then happens.

A program: it reads names of models, one a line, and answers each with a line of JSON, [cases, faults]. A state is
loaded in a process of its own, that a crash or a hang be one case's, by name, and not the end of everything.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import resource
import signal
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from streamnb import (
    BayesianNetwork,
    BayesianNetworkClassifier,
    BayesOptimalClassifier,
    BayesOptimalNB,
    BernoulliNB,
    BetaBernoulli,
    CategoricalNB,
    ConceptLearner,
    Conjunctions,
    DirichletCategorical,
    FindS,
    GaussianNB,
    HiddenMarkovModel,
    HiddenMarkovNB,
    Hypothesis,
    JointTable,
    LinearRegression,
    LinearUnit,
    LogisticRegression,
    MixtureModel,
    MultinomialNB,
    NaiveBayes,
    NetworkEM,
    NetworkMCMC,
    NetworkVariationalBayes,
    OneDependence,
    OnlineBaumWelch,
    Partial,
    PlattScaling,
    Pool,
    ProgressiveValidation,
    SemiSupervisedNB,
    SequentialPosterior,
    SigmoidUnit,
    StructuralEM,
    StructuredPerceptron,
    StructurePosterior,
    merge_all,
)
from streamnb.engine.labels.label_block import _CHANGING, _FIXED
from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import LabelSettings, Settings
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.models.interface.river_stream_model import RiverStreamModel
from streamnb.models.mixture.hypothesis_kinds import DEFAULT_HYPOTHESES
from streamnb.scoring.drift_detectors import DriftDetectors
from streamnb.toolbox.hidden_markov.transitions import Transitions

PATIENCE = 60  # seconds, after which a case hangs
MEMORY = 3 << 30  # bytes that a case may ask for
MOST = int(
    os.environ.get("MUTATIONS", "150")
)  # cases of a model, of all of them evenly; `make storm` tries more
WORDS = "free entry win now lunch see you ünïcødé incomprehensibilities cash prize".split()
ATTRIBUTES = {"text": "text", "title": "text", "code": "nominal", "bits": "nominal"}
DECAYING = Hypothesis("presence", m=2.0, p=0.25, half_life=3.0, calibrated=True)
MANY = [
    *DEFAULT_HYPOTHESES,
    DECAYING,
    Hypothesis("bernoulli", alpha=1e-3, calibrated=True),
    Hypothesis("complement", half_life=2.0),
    Hypothesis("multinomial", density="binned"),
    Pool(0.5, calibrated=True),
    OneDependence(name="of all attributes"),
]
CHAIN = {"code": ["label"], "bits": ["label", "code"], "size": ["label"]}


def stream(n, seed):
    """Mixed events of three classes."""
    rng = random.Random(seed)
    rows = []
    for t in range(n):
        label = rng.choice("aabc")
        x = {
            "text": " ".join(rng.choices(WORDS, k=rng.randrange(6))),
            "title": {word: rng.randrange(3) for word in rng.sample(WORDS, 2)},
            "code": rng.choice("xyz") + label,
            "bits": rng.random() < 0.5,
            "size": rng.gauss("abc".index(label), 1.0),
            "level": float(rng.randrange(4)),
        }
        for name in rng.sample(sorted(x), rng.randrange(3)):
            del x[name]
        rows.append((x, label, float(t)))
    return rows


ROWS, BEFORE, AFTER = stream(80, 1), stream(12, 2), stream(6, 3)
AFTER = [*AFTER, ({"text": "something never met", "size": 7.0, "code": "new"}, "d", 99.0)]


def is_sound(probabilities, *, learned=True):
    """That they are finite and sum to 1; before anything was learned there may be none."""
    values = np.asarray(list(probabilities), dtype=np.float64)
    if not learned and not values.any():
        return
    assert ((values >= 0.0) & (values <= 1.0 + 1e-9)).all(), values
    assert abs(math.fsum(values) - 1.0) < 1e-6, values


class Model:
    """One that classifies."""

    foreign = ()

    def __init__(self, make, *, only=None, timed=True):
        self.make, self.only, self.timed = make, only, timed

    def events(self, rows):
        return [
            ({n: v for n, v in x.items() if self.only is None or n in self.only}, y, t) for x, y, t in rows
        ]

    def learned(self, rows):
        model = self.make()
        self.learn(model, rows)
        return model

    def learn(self, model, rows):
        for x, y, t in self.events(rows):
            if self.timed:
                model.learn_one(x, y, t=t)
            else:
                model.learn_one(x, y)

    def load(self, model, meta, arrays):
        return model.load_state(meta, arrays)

    def use(self, model):
        for x, *_ in self.events(AFTER):
            is_sound(model.predict_proba_one(x).values(), learned=False)
        self.learn(model, AFTER)
        for x, *_ in self.events(AFTER):
            is_sound(model.predict_proba_one(x).values())
        for x, y, t in self.events(AFTER[:2]) if self.timed else ():
            found = model.predict_then_learn_many([x], [y], [1.0], [t])
            is_sound(found.probabilities[0])


class Stream(Model):
    """What the engine teaches."""

    def learn(self, model, rows):
        for x, y, _ in self.events(rows):
            model.learn_many([x], [y])

    def use(self, model):
        self.learn(model, AFTER)
        for x, *_ in self.events(AFTER):
            is_sound(model.predict_posteriors([x]).probabilities[0])


class Entities(Model):
    """Each event is one of an entity."""

    def events(self, rows):
        return [({**x, "entity": f"e{i % 5}"}, y, t) for i, (x, y, t) in enumerate(super().events(rows))]


class Unlabelled(Model):
    """Every third event has no label."""

    foreign = UnlearnError  # what is kept to be taken out may be what was never learned

    def learn(self, model, rows):
        for i, (x, y, _) in enumerate(self.events(rows)):
            model.learn_one(x, None if i % 3 == 2 else y)


class Network(Model):
    """Joint probabilities."""

    foreign = UnlearnError  # as above

    def learn(self, model, rows):
        for x, y, _ in self.events(rows):
            model.learn_one({**x, "label": y})

    def use(self, model):
        self.learn(model, AFTER)
        network = getattr(model, "network", model)
        for x, *_ in self.events(AFTER[:3]):
            known = {n: v for n, v in x.items() if n == "code"}
            is_sound(network.marginal("label", given=known).values())
        if network is not model:
            model.revisit()


class Number(Model):
    """Predicts numbers."""

    def learn(self, model, rows):
        for x, y, _ in self.events(rows):
            model.learn_one(x, float("abcd".index(y) > 0))

    def use(self, model):
        self.learn(model, AFTER)
        for x, *_ in self.events(AFTER):
            found = getattr(model, "predict_proba_one", getattr(model, "predict_one", None))(x)
            assert math.isfinite(found if isinstance(found, float) else sum(found.values())), found


class Truth(Model):
    """Learns whether an event is of class a."""

    def events(self, rows):
        return [(x, y == "a", t) for x, y, t in super().events(rows)]

    def learn(self, model, rows):
        for x, *_ in self.events(rows):
            model.learn_one({"bits": bool(x.get("bits"))}, x.get("bits") is True)

    def use(self, model):
        self.learn(model, AFTER)
        for bits in (True, False):
            model.predict_one({"bits": bits})


class Made(Model):
    """One that is made from its state, taught observations by `tell` and asked by `ask`."""

    def __init__(self, make, tell, ask):
        super().__init__(make)
        self.tell, self.ask = tell, ask

    def learn(self, model, rows):
        for row in self.events(rows):
            self.tell(model, row)

    def load(self, model, meta, arrays):
        return (
            model.load_state(meta, arrays) if hasattr(model, "load_state") else model.from_state(meta, arrays)
        )

    def use(self, model):
        self.learn(model, AFTER)
        self.ask(model)


class Apart(Model):
    """What events teach apart from a model, which is then added to it."""

    foreign = ValueError  # it says that it was pruned

    def learned(self, rows):
        xs, ys, _ = zip(*self.events(rows), strict=True)
        return NaiveBayes(ATTRIBUTES).partial(xs, ys, ranges=[("events-0", 3, 99), ("events-1", 0, 7)])[1]

    def load(self, _, meta, arrays):
        return Partial.from_state(NaiveBayes(ATTRIBUTES), meta, arrays)

    def use(self, partial):
        xs, ys, _ = zip(*self.events(BEFORE), strict=True)
        model = NaiveBayes(ATTRIBUTES)
        model.learn_many(xs, ys)
        super().use(model.apply(merge_all([partial])))


def as_finite(*values):
    assert all(map(math.isfinite, values)), values


def tell_posterior(posterior, row):
    one, other = posterior.hypotheses
    posterior.update_log({one: -1.0 - row[2] % 2, other: -1.5})


def tell_validation(validation, row):
    truth = np.array(["abcd".index(row[1])])
    validation.update_many(np.array([[0.2, 0.3, 0.5, 0.0]]), truth, None)


class Engine(Model):
    """A learner of the engine: model, scores, detectors and counters."""

    def learn(self, learner, rows):
        raws = [json.dumps({"id": "e", "text": str(x.get("text")), "label": y}).encode() for x, y, _ in rows]
        events = Partition("events", 0)
        learner.process([Record(events, i, None, raw, 0.0) for i, raw in enumerate(raws)], 1.0)

    def state(self, learner):
        parts = learner.parts()
        arrays = {
            f"{name}/{key}": array for name, part in parts.items() for key, array in part.arrays.items()
        }
        return {name: part.meta for name, part in parts.items()}, arrays

    def load(self, learner, meta, arrays):
        keys = {name: [key for key in arrays if key.startswith(f"{name}/")] for name in meta}
        learner.load(
            {
                n: SnapshotPart(m, {k.removeprefix(f"{n}/"): arrays[k] for k in keys[n]})
                for n, m in meta.items()
            }
        )
        return learner

    def use(self, learner):
        self.learn(learner, AFTER)
        learner.report(2.0)


def new_engine():
    settings = Settings(EventSchema(), window=7, report_every=5, detectors=("adwin", "page_hinkley"))
    return EventProcessor(settings, NaiveBayes({"text": "text"}))


class Late(Engine):
    """A learner whose labels come on a topic of their own; what it writes as bytes is damaged by columns and values."""

    def learn(self, learner, rows):
        given = [(f"{t}", y) for _, y, t in rows]
        events = [
            {"id": name, "text": str(x.get("text"))} for (name, _), (x, *_) in zip(given, rows, strict=True)
        ]
        said = [{"id": name, "label": y, "source": "a"} for name, y in given[::2]]
        again = [{"id": name, "label": "b", "source": "c"} for name, _ in given[::5]]
        early = [{"id": f"{name}+", "label": y} for name, y in given[:3]]
        for topic, records in ("events", events), ("labels", said + again + early):
            place, raws = Partition(topic, 0), [json.dumps(record).encode() for record in records]
            learner.process([Record(place, i, None, raw, float(i)) for i, raw in enumerate(raws)], 1.0)

    foreign = UnlearnError  # by its label and weight

    def use(self, learner):
        self.learn(learner, AFTER)
        said = [{"id": f"{t}", "label": "c", "source": "z"} for *_, t in ROWS]
        withdrawn = [{"withdraw": True, "source": source} for source in "ac"]
        raws = [json.dumps(record).encode() for record in said + withdrawn]
        learner.process(
            [Record(Partition("labels", 0), i, None, raw, 99.0) for i, raw in enumerate(raws)], 2.0
        )
        learner.report(3.0)

    def state(self, learner):
        meta, arrays = super().state(learner)
        segments = learner.copying().segments()
        labels = dict(meta["labels"])
        meta |= {"labels": labels, "early": msgspec.msgpack.decode(segments[labels["early"]])}
        rows, labels["segments"], labels["chunks"] = labels["chunks"], [], []
        for i, (first, size, *names) in enumerate(rows):
            labels["chunks"].append([first, size, f"fixed{i}", f"changing{i}"])
            for kind, name, columns in zip(("fixed", "changing"), names, (_FIXED, _CHANGING), strict=True):
                at = 0
                for column, dtype in columns.items():
                    arrays[f"{kind}{i}/{column}"] = found = np.frombuffer(segments[name], dtype, size, at)
                    at += found.nbytes
                arrays[f"{kind}{i}/rest"] = np.frombuffer(segments[name], np.uint8, offset=at)
        return meta, arrays

    def load(self, learner, meta, arrays):
        try:
            segments = {"early": msgspec.msgpack.encode(meta.get("early"))}
        except OverflowError as error:  # no bytes say that
            raise SnapshotError from error
        for name, array in arrays.items():
            segments[blob] = segments.get(blob := name.partition("/")[0], b"") + array.tobytes()
        labels = meta["labels"]
        labels = {**labels, "early": "early"} if isinstance(labels, dict) and "early" in labels else labels
        parts = {
            name: SnapshotPart(
                part, {k.removeprefix(f"{name}/"): a for k, a in arrays.items() if k.startswith(f"{name}/")}
            )
            for name, part in {**meta, "labels": labels}.items()
            if name != "early"
        }
        learner.load(parts, segments)
        return learner


def new_late():
    settings = Settings(EventSchema(), window=7, report_every=5, labels=LabelSettings("labels"))
    return EventProcessor(settings, NaiveBayes({"text": "text"}))


def optimal():
    return BayesOptimalClassifier({"bayes": NaiveBayes(ATTRIBUTES), "line": LogisticRegression()})


def network():
    return BayesianNetwork(
        {"label": [], **{name: parents for name, parents in CHAIN.items() if name != "size"}}
    )


def tell_structure(model, row):
    model.learn_one({"label": row[1], "code": None if row[2] < 30.0 else "x", "late": row[2] > 40.0})
    model.climb()


DISCRETE = {"code", "bits"}
MODELS = {
    "NaiveBayes": Model(lambda: NaiveBayes(ATTRIBUTES)),
    "NaiveBayes-bernoulli": Model(lambda: NaiveBayes(ATTRIBUTES, event_model="bernoulli", m=2.0)),
    "Partial": Apart(lambda: NaiveBayes(ATTRIBUTES).partial([], [])[1]),
    "MultinomialNB": Model(MultinomialNB, only={"title"}),
    "BernoulliNB": Model(BernoulliNB, only={"title"}),
    "CategoricalNB": Model(CategoricalNB, only=DISCRETE),
    "GaussianNB": Model(GaussianNB, only={"size", "level"}),
    "BayesOptimalNB": Model(lambda: BayesOptimalNB(ATTRIBUTES)),
    "BayesOptimalNB-many": Model(lambda: BayesOptimalNB(ATTRIBUTES, MANY, switching_rate=0.01)),
    "HiddenMarkovNB": Entities(lambda: HiddenMarkovNB(ATTRIBUTES, time_to_live=20.0)),
    "SemiSupervisedNB": Unlabelled(lambda: SemiSupervisedNB(NaiveBayes(ATTRIBUTES), window=5), timed=False),
    "BayesOptimalClassifier": Model(optimal, timed=False, only={*DISCRETE, "size"}),
    "RiverStreamModel": Stream(lambda: RiverStreamModel(NaiveBayes(ATTRIBUTES), "naive")),
    "BayesianNetworkClassifier": Model(lambda: BayesianNetworkClassifier(CHAIN, {"size": "nominal"}), timed=False, only=DISCRETE),
    "BayesianNetwork": Network(network, only=DISCRETE),
    "NetworkEM": Network(lambda: NetworkEM(network(), window=6), only=DISCRETE),
    "NetworkMCMC": Network(lambda: NetworkMCMC(network(), window=6), only=DISCRETE),
    "NetworkVariationalBayes": Network(lambda: NetworkVariationalBayes(network(), window=6), only=DISCRETE),
    "LogisticRegression": Model(LogisticRegression, timed=False, only={"size", "code"}),
    "LinearRegression": Number(LinearRegression, only={"size", "code"}),
    "LinearUnit": Number(LinearUnit, only={"size", "code"}),
    "SigmoidUnit": Number(SigmoidUnit, only={"size", "code"}),
    "ConceptLearner": Truth(lambda: ConceptLearner(Conjunctions({"bits": [True, False]}), noise=0.1)),
    "FindS": Truth(FindS),
    "PlattScaling": Made(
        PlattScaling,
        lambda model, row: model.learn_one(row[2] - 40.0, row[1] == "a"),
        lambda model: is_sound(model.predict_proba_one(1.5).values()),
    ),
    "BetaBernoulli": Made(
        BetaBernoulli,
        lambda model, row: model.update(row[1] == "a"),
        lambda model: as_finite(model.log_predictive(1), model.log_evidence),
    ),
    "DirichletCategorical": Made(
        lambda: DirichletCategorical({"a": 1.0, "z": 2.0}, 1.0),
        lambda model, row: model.update(row[1]),
        lambda model: as_finite(model.log_predictive("a"), model.log_evidence),
    ),
    "JointTable": Made(
        lambda: JointTable({"label": "abcd", "code": ["x", "other"]}, np.full((4, 2), 0.125), 2.0),
        lambda model, row: model.learn_one({"label": row[1], "code": "x"}),
        lambda model: is_sound(model.marginal("label", "code").values()),
    ),
    "StructurePosterior": Made(
        lambda: StructurePosterior({"label": "abcd", "code": ["x", "other"], "late": [True, False]}),
        lambda model, row: model.learn_one({"label": row[1], "code": "x", "late": row[2] > 40.0}),
        lambda model: is_sound(p for _, p in model.probabilities),
    ),
    "StructuralEM": Made(
        lambda: StructuralEM({"label": "abcd", "code": ["x", "other"], "late": [True, False]}),
        tell_structure,
        lambda model: (is_sound(model.network().marginal("late").values()), as_finite(model.log_likelihood)),
    ),
    "MixtureModel": Made(
        lambda: MixtureModel(NaiveBayes(), 2, window=8, warmup=4),
        lambda model, row: model.learn_one({"label": row[1], "size": row[2]}),
        lambda model: is_sound(model.predict_proba_one({"size": 1.5}).values()),
    ),
    "SequentialPosterior": Made(lambda: SequentialPosterior(["g", "h"], 0.01), tell_posterior, lambda model: is_sound(model.probabilities.values())),
    "Transitions": Made(
        Transitions,
        lambda model, row: model.update(int(row[2]) % 3, int(row[2] * 7) % 4),
        lambda model: is_sound(np.exp(model.log_table(1.0)[0])),
    ),
    "ProgressiveValidation": Made(
        lambda: ProgressiveValidation(9),
        tell_validation,
        lambda model: as_finite(model.cumulative().log_loss, model.window().log_loss),
    ),
    "DriftDetectors": Made(
        lambda: DriftDetectors(("adwin", "ddm")),
        lambda model, row: list(model.observe(int(row[1] == "a"))),
        lambda model: model.state(),
    ),
    "HiddenMarkovModel": Made(
        HiddenMarkovModel,
        lambda model, row: model.learn_one(row[1] * 2, ["s", f"t{int(row[2]) % 3}"]),
        lambda model: as_finite(model.log_evidence("ab")),
    ),
    "StructuredPerceptron": Made(
        StructuredPerceptron,
        lambda model, row: model.learn_one(row[1] * 2, ["s", f"t{int(row[2]) % 3}"]),
        lambda model: as_finite(*model.transition_weights()[None].values()),
    ),
    "OnlineBaumWelch": Made(
        lambda: OnlineBaumWelch(starts=2, block=4, lag=4),
        lambda model, row: model.learn_one(row[1]),
        lambda model: is_sound(model.probabilities.values()),
    ),
    "Learner": Engine(new_engine),
    "Learner-late": Late(new_late),
}  # fmt: skip


# -- damage -------------------------------------------------------------------------------------------------


def places(array, rng):
    """The first, the last and another element."""
    whole = [tuple(axis - 1 for axis in array.shape), tuple(rng.randrange(axis) for axis in array.shape)]
    return dict.fromkeys([(0,) * array.ndim, *whole])


def elements(dtype):
    if dtype.kind == "f":
        return [np.nan, np.inf, -np.inf, -1.0, 0.5, 1e308, -1e308, 5e-324, 1e9]
    if dtype.kind == "b":
        return [True, False]
    found = [-1, -2, 7, 2**31 - 1, 10**9, 2**40, 2**62, 2**63 - 1, -(2**63), 255, 2**64 - 1, 2**63 + 2**50]
    bounds = np.iinfo(dtype)
    return [value for value in found if bounds.min <= value <= bounds.max]


def at(array, place, value):
    """A copy with another element."""
    changed = array.copy()
    changed[place] = value
    return changed


def damaged(array, rng):
    """What is done to it -> the array."""
    for value in elements(array.dtype):
        for place in places(array, rng) if array.size else ():
            yield f"{list(place)} = {value}", at(array, place, value)
        yield f"all = {value}", np.full_like(array, value)
    yield "all = 0", np.zeros_like(array)
    for axis in range(array.ndim):
        yield (
            f"cut along {axis}",
            array.take(range(array.shape[axis] - 1), axis) if array.shape[axis] else array,
        )
        yield f"empty along {axis}", array.take([], axis)
        longer = np.concatenate([array, array.take([-1], axis)], axis) if array.shape[axis] else array
        yield f"longer along {axis}", longer
        yield f"reversed along {axis}", np.flip(array, axis)
    yield "transposed", array.T
    yield "flat", array.reshape(-1)
    yield "deeper", array[np.newaxis]
    yield "scalar", np.zeros((), dtype=array.dtype)
    for dtype in ("float64", "float32", "int64", "int32", "uint8", "bool", "U3", ">i8"):
        if np.dtype(dtype) != array.dtype:
            with np.errstate(all="ignore"):
                yield f"as {dtype}", np.nan_to_num(array).astype(dtype)


def values_in(value, path=()):
    """The path of every value of JSON-able ones; of long lists of the first and last ones."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from values_in(value[key], (*path, key))
    elif isinstance(value, list):
        for i in sorted({*range(min(4, len(value))), *range(max(0, len(value) - 2), len(value))}):
            yield from values_in(value[i], (*path, i))


def instead(value):
    yield from (
        None,
        -1,
        0,
        3,
        10**9,
        2**63,
        10**400,
        1.5,
        -0.5,
        math.nan,
        math.inf,
        "x",
        "",
        True,
        [],
        {},
        [[1]],
    )
    if isinstance(value, list) and value:
        yield from (value[:-1], [*value, value[-1]], value[::-1])
    if isinstance(value, dict):
        yield from ({name: value[name] for name in value if name != gone} for gone in value)
        yield value | {"unheard of": 1}


def put(meta, path, value):
    """A copy of the values with another one at this path."""
    if not path:
        return value
    changed = copy.copy(meta)
    changed[path[0]] = put(meta[path[0]], path[1:], value)
    return changed


class Case(NamedTuple):
    name: str
    meta: object
    arrays: object
    allowed: tuple


def cases(meta, arrays):
    """Every damaged state. What a value says may make it another model's state, which is a ValueError."""
    rng = random.Random(7)
    for name, array in arrays.items():
        for what, changed in damaged(array, rng):
            yield Case(f"{name} {what}", meta, arrays | {name: changed}, (SnapshotError,))
        without = {other: a for other, a in arrays.items() if other != name}
        yield Case(f"{name} is missing", meta, without, (SnapshotError,))
        yield Case(f"{name}, too", meta, arrays | {f"{name}2": array}, (SnapshotError,))
    for path in values_in(meta):
        value = meta
        for key in path:
            value = value[key]
        if path:
            for other in instead(value):
                shown = str(other) if len(str(other)) < 40 else f"{str(other)[:40]}..."
                yield Case(
                    f"{'.'.join(map(str, path))} = {shown}",
                    put(meta, path, other),
                    arrays,
                    (SnapshotError, ValueError),
                )


def chosen(damage):
    """So many of them, drawn evenly: as many of each array and value."""
    everything = list(damage)
    if len(everything) <= MOST:
        return everything
    drawn = random.Random(11).sample(range(len(everything)), MOST)
    return [everything[i] for i in sorted(drawn)]


# -- the law ------------------------------------------------------------------------------------------------


def state_of(kind, model):
    return kind.state(model) if hasattr(kind, "state") else model.state()


def bytes_of(kind, model):
    meta, arrays = state_of(kind, model)
    return repr(meta), {
        name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()
    }


def fault_of(kind, target, case):
    """What is wrong with how a damaged state is taken, or None; and whether the target is as it was."""
    try:
        loaded = kind.load(target, case.meta, case.arrays)
    except case.allowed:
        return None, True
    except Exception as error:  # noqa: BLE001  it is reported
        return f"load: {error!r}", False
    try:
        kind.use(loaded)
        state_of(kind, loaded)
    except kind.foreign:
        return None, False
    except Exception as error:  # noqa: BLE001  the same
        return f"use: {error!r}", False
    return None, False


def attempt(kind, meta, arrays, first, told):
    """Go through cases from the `first` on; the number and name of each are told before it, and its fault."""
    state, target, before = state_of(kind, kind.learned(BEFORE)), None, None
    for number, case in enumerate(chosen(cases(meta, arrays))):
        if number < first:
            continue
        os.write(told, f"{number}\t{case.name}\n".encode(errors="replace"))
        signal.alarm(PATIENCE)
        if target is None:
            target = kind.load(kind.make(), *state)
            before = bytes_of(kind, target)
        fault, refused = fault_of(kind, target, case)
        if refused and bytes_of(kind, target) != before:
            fault = "load: it was refused, and the model is another"
        if not refused or fault:
            target = None
        if fault:
            os.write(told, f"!\t{fault[:300]}\n".encode(errors="replace"))
    signal.alarm(0)


def forked(kind, meta, arrays, first):
    """What a child told of the cases from the `first` on, and how it ended."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            attempt(kind, meta, arrays, first, writes)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writes)
    with os.fdopen(reads, encoding="utf-8", errors="replace") as told:
        lines = [line.rstrip("\n").split("\t", 1) for line in told]
    return lines, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ran(name):
    """How many cases of a model there were, and what is wrong: of which cases, and how."""
    kind = MODELS[name]
    model = kind.learned(ROWS)
    meta, arrays = state_of(kind, model)
    kind.use(
        kind.load(kind.learned(BEFORE), meta, arrays)
    )  # a sound state works, and compiles what is called
    faults, number, code = [], -1, 1
    while code != 0:
        lines, code = forked(kind, meta, arrays, number + 1)
        case = "before the first"
        for head, told in lines:
            if head == "!":
                faults.append(f"{case}: {told}")
            else:
                number, case = int(head), told
        if code != 0:
            faults.append(f"{case}: ended with {signal.Signals(-code).name if code < 0 else code}")
            if case == "before the first":
                break
    return number + 1, faults


def main():
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(ran(line.strip()))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
