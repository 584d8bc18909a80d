"""Evidence of what learns from predictions: what each value did to this event's log odds, by each one's formula."""

from __future__ import annotations

import copy
import functools
import math
import pickle
import random
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings

from streamnb import (
    BayesOptimalNB,
    BernoulliNB,
    ByteSoftmax,
    Hypothesis,
    MondrianForest,
    MultinomialNB,
    NaiveBayes,
    OneDependence,
    Pool,
    Softmax,
)
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Settings
from streamnb.features.character_table import normalized
from streamnb.features.plain_words import token_spans
from streamnb.formats.event_schema import EventSchema
from streamnb.models.interface.attribution_parts import LIMIT
from streamnb.models.mixture.hypothesis_kinds import DEFAULT_HYPOTHESES
from tests.models.mixture.test_learners import (
    ATTRIBUTES,
    CALIBRATED,
    EVENTS,
    MANY,
    ROWS,
    TEXTS,
    Watched,
    bytes_of,
    crowded_stream,
    mixed_stream,
)
from tests.oracles.learner_oracle import ByteRegression, Oracle, Pooling, Recent, Regression, softmax
from tests.oracles.words_oracle import words
from tests.support.service import records

pytestmark = pytest.mark.thorough

DECAYING = [
    Hypothesis("presence", half_life=30.0),
    Hypothesis("multinomial", half_life=9.0, calibrated=True),
]
EVERYTHING = [
    *MANY,
    *DECAYING,
    *(replace(h, name=f"{h.label} plain", calibrated=False) for h in CALIBRATED[1:3]),
]


def key_of(attribute, value):
    """What an item is of: a word of a text, or an attribute."""
    return (attribute, value) if attribute in TEXTS else (attribute,)


def by_key(explanation):
    found = {key_of(item.attribute, item.value): item.log_odds for item in explanation.items}
    assert len(found) == len(explanation.items)
    return found


# -- the identity -------------------------------------------------------------------------------------------


def assert_adds_up(model, x, t=None):
    """Items and prior are the mean of what the hypotheses say, to the rounding of the terms."""
    explanation = model.explanation_one(x, t)
    if explanation is None:
        assert len(model.predict_proba_one(x)) < 2
        return None
    one, other = explanation.predicted, explanation.runner_up
    asked = model.predict_posteriors([x], [t])
    assert one == asked.labels()[0]
    rest = {k: p for k, p in zip(asked.classes, asked.probabilities[0], strict=True) if k != one}
    assert rest[other] == max(rest.values())
    said = model.joint_log_likelihoods(x) if t is None else at(model, x, t)
    shares = model.posterior.probabilities
    if model.prediction == "map":
        shares = {name: float(name == model.posterior.map()) for name in shares}
    elif model.prediction == "gibbs":
        shares = {name: float(name == model.posterior.draw(model.n_met, model.seed)) for name in shares}
    expected = math.fsum(p * (said[name][one] - said[name][other]) for name, p in shares.items() if p)
    size = sum(p * (abs(said[name][one]) + abs(said[name][other])) for name, p in shares.items() if p)
    size += abs(explanation.prior) + sum(abs(item.log_odds) for item in explanation.items)
    assert abs(explanation.log_odds - expected) <= 1e-11 * (1.0 + size)
    assert all(item.log_odds for item in explanation.items)
    strength = [abs(item.log_odds) for item in explanation.items]
    assert strength == sorted(strength, reverse=True)
    assert model.explain_one(x, t=t) == explanation.items
    assert model.explain_one(x, 2, t) == explanation.items[:2]
    return explanation


def at(model, x, t):
    """`joint_log_likelihoods` at a time."""
    answers = model._answer(model._encode([x], ts=[t]), joints=True)
    return {h.label: model._by_class(j) for h, j in zip(model.hypotheses, answers.joints[0], strict=True)}


@settings(max_examples=25)
@given(ROWS, EVENTS)
def test_items_and_prior_are_the_mean_log_odds_of_the_hypotheses(rows, x):
    models = [BayesOptimalNB(ATTRIBUTES, EVERYTHING, 0.01, mode) for mode in ("mixture", "map", "gibbs")]
    models += [
        BayesOptimalNB(ATTRIBUTES, [h], 0.0) for h in (Softmax(pairs=True), CALIBRATED[1], Hypothesis())
    ]
    for model in models:
        for t, (event, y, w) in enumerate(rows):
            if t in {2, 5, 11}:
                assert_adds_up(model, event)
            model.learn_one(event, y, w, t=float(t))
        assert_adds_up(model, x)
        assert_adds_up(model, {})
        assert_adds_up(model, x, 60.0)


@pytest.mark.parametrize("prediction", ["mixture", "map", "gibbs"])
@pytest.mark.parametrize("attributes", [3, 14])
def test_they_are_on_long_streams_of_everything(prediction, attributes):
    """Words, values, numbers in bins, pairs of any of these; much is missing, and classes come late."""
    model = BayesOptimalNB(ATTRIBUTES, EVERYTHING, 0.01, prediction, caution=True)
    seen = Counter()
    for t, (x, y, w) in enumerate(mixed_stream(attributes, 330, attributes)):
        y = "doubted" if t in {200, 260} else y  # noqa: PLW2901
        if t % 7 == 0 and (explanation := assert_adds_up(model, x, float(t))):
            seen.update(by_key(explanation).keys())
        model.learn_one(x, y, w, t=float(t))
    expected = {("n",), ("few",), ("more",), ("code",), ("v0",), ("title", "win")}
    if prediction == "mixture":
        expected.add(("text", ""))  # Bernoulli hypotheses are never the best here
    assert expected <= seen.keys()


def test_they_are_where_opinions_stand_at_their_floors():
    """Long texts, of which naive Bayes is all too sure, and pools cut what they take in."""
    model, rng = BayesOptimalNB(ATTRIBUTES, DEFAULT_HYPOTHESES), random.Random(0)
    for t in range(60):
        y = "ab"[t % 2]
        text = " ".join(f"{y}{rng.randrange(50)}" for _ in range(400))
        if t > 2:
            assert assert_adds_up(model, {"text": text, "n": 5.0 * rng.random()})
            logs = model.joint_log_likelihoods({"text": text})
        model.learn_one({"text": text, "n": rng.random()}, y)
    assert min(logs["presence alpha=1"].values()) < max(logs["presence alpha=1"].values()) - 100.0


# -- whose items they are, by the oracle --------------------------------------------------------------------


class Explained(Watched):
    """An oracle that knows which feature is of which value."""

    def __init__(self, hypotheses, rate=0.0):
        super().__init__(hypotheses, rate)
        self.by_name = {h.label: h for h in hypotheses}
        naive = [h for h in hypotheses if isinstance(h, Hypothesis)] or [Hypothesis()]
        self.scores_alone = {
            "OneDependence": BayesOptimalNB(ATTRIBUTES, [OneDependence()]),
            "MondrianForest": BayesOptimalNB(ATTRIBUTES, [MondrianForest()]),
        }
        self.flat = BayesOptimalNB(
            ATTRIBUTES,
            [replace(h, prior="uniform", calibrated=False, density="gaussian", name=h.label) for h in naive],
        )

    def meet(self, x, y=None, w=1.0):
        explanation = self.model.explanation_one(x)
        super().meet(x)
        if explanation is not None:
            prior, items = self.expected(x, explanation.predicted, explanation.runner_up)
            found = by_key(explanation)
            size = 1.0 + abs(prior) + sum(map(abs, items.values()))
            for key in items.keys() | found.keys():
                assert abs(items.get(key, 0.0) - found.get(key, 0.0)) < 2e-5 * size, key
            assert abs(prior - explanation.prior) < 2e-5 * size
        if y is not None:
            super().meet(x, y, w)
            self.learn_beside(x, y, w)

    def learn_beside(self, *event):
        self.flat.learn_one(*event)
        for model in self.scores_alone.values():
            model.learn_one(*event)

    def expected(self, x, one, other):
        parts, logs = {}, {}
        joints = self.joints(x)
        for (kind, h), part, said in zip(
            self.oracle.named(), self.oracle.parts, self.oracle.said, strict=True
        ):
            logs[h.label] = {k: math.log(p) if p else -math.inf for k, p in said.items()}
            if isinstance(part, Regression | ByteRegression | Recent) or kind in self.scores_alone:
                parts[h.label] = self.by(kind)(part, x, one, other)
            elif kind == "Hypothesis":
                parts[h.label] = self.alone(h, x, one, other)
                if h.calibrated:
                    uncut = softmax(joints[h.label])[1]
                    told = part.u[one] - part.u[other]
                    parts[h.label] = cut(parts[h.label], told, uncut[one] - uncut[other], part.power)
        opinions = [name for name in parts if is_opinion(self.by_name[name])]
        opinions += [name for name in parts if self.oracle.is_late(self.by_name[name])]
        for (_, h), part in zip(self.oracle.named(), self.oracle.parts, strict=True):
            if isinstance(part, Pooling):
                taken = [(parts[name], logs[name][one] - logs[name][other]) for name in opinions]
                parts[h.label] = pooled(part, taken, one, other)
                if h.calibrated:
                    corrected = part.corrected[one] - part.corrected[other]  # in logs: probabilities may be 0
                    parts[h.label][None] += corrected - (part.logs[one] - part.logs[other])
        mean = defaultdict(float)
        for name, p in self.model.posterior.probabilities.items():
            for key, odds in parts[name].items():
                mean[key] += p * odds
        return mean.pop(None, 0.0), mean

    def alone(self, h, x, one, other):
        """What each value says alone, as naive Bayes reads it; the prior is None's."""

        def odds(model, event):
            logs = model.joint_log_likelihoods(event)[h.label]
            return logs[one] - logs[other]

        found = {None: odds(self.scores, {})}
        for name, value in Oracle.present(x).items():
            is_number = self.oracle.kind(name, value) == "continuous"
            told = self.oracle.by_bins(name, value) if is_number and h.density == "binned" else None
            if told is not None:
                found[name,] = told[one] - told[other]
                continue
            if name not in TEXTS:
                found[name,] = odds(self.flat, {name: value}) - odds(self.flat, {})
                continue
            bag = Counter(words(value)) if isinstance(value, str) else {k: n for k, n in value.items() if n}
            if value != {}:
                found[name, ""] = odds(self.flat, {name: ""}) - odds(self.flat, {})
            for word, times in bag.items():
                found[name, word] = odds(self.flat, {name: {word: times}}) - odds(self.flat, {name: ""})
        return found

    def by(self, kind):
        own = {"Softmax": self.by_features, "ByteSoftmax": self.by_bytes, "RecentGaussian": self.by_recent}
        return own.get(kind) or functools.partial(self.by_model, self.scores_alone[kind])

    def by_model(self, model, _, x, one, other):
        prior, items = model._taken_apart(x, model._encode([x]), one, other)
        found = {key_of(item.attribute, item.value): item.log_odds for item in items}
        return defaultdict(float, found | {None: prior})

    def by_recent(self, part, x, one, other):
        """What each number changes in the joints, to the power."""
        numbers, empty = self.oracle.numbers(x), part.joints({})
        found = defaultdict(float, {None: empty[one] - empty[other]})
        for name, value in numbers.items():
            joints = part.joints({name: value})
            found[name,] = joints[one] - joints[other] - found[None]
        uncut = softmax(part.joints(numbers))[1]
        return cut(found, part.u[one] - part.u[other], uncut[one] - uncut[other], part.power)

    def by_features(self, part, _, one, other):
        found = defaultdict(float, {None: part.bias[one] - part.bias[other]})
        for f in part.seen:
            if f.v and f.name in self.oracle.of_feature:
                odds = 0.0
                for sign, k in ((1, one), (-1, other)):
                    n = self.oracle.of_feature[f.name].get(k, 0.0) + 0.5
                    likelihood = math.log(n / (self.oracle.of_owner[f.owner].get(k, 0.0) + 1))
                    odds += sign * (likelihood / 2 + part.w[f.name, k])
                owners = owners_of(f.name)
                for owner in owners:
                    found[owner] += f.v * part.scale * odds / len(owners)
        return found

    def by_bytes(self, part, x, one, other):
        """A quarter of what a run adds for each of its bytes, divided by how often the run occurs."""
        found = defaultdict(float, {None: part.bias[one] - part.bias[other]})
        column = part.classes.index
        odds = dict.fromkeys(part.x, 0.0)
        for k, sign in ((one, 1), (other, -1)):
            for bucket, told in zip(part.x, part.told(k, column(k)), strict=True):
                odds[bucket] += sign * told
        places = []
        for (attribute, number), sent in self.oracle.strings(x):
            text = normalized(sent)
            owners = [""] * len(text)
            for start, end, word in token_spans(text):  # the last token has what several hold
                owners[start:end] = [word] * (end - start)
            of_byte = [owner for owner, c in zip(owners, text, strict=True) for _ in c.encode()]
            raw = text.encode()[: part.first]
            places += [
                (part.bucket(raw[i : i + 4], number), [(attribute[1], o) for o in of_byte[i : i + 4]])
                for i in range(len(raw) - 3)
            ]
        times = Counter(bucket for bucket, _ in places)
        for bucket, owners in places:
            for owner in owners:
                found[owner] += odds.get(bucket, 0.0) / 4 / times[bucket]
        return found


def pooled(part, opinions, one, other):
    total = defaultdict(float, {None: part.bias[one] - part.bias[other]})
    for i, (parts, uncut) in enumerate(opinions):
        for key, odds in cut(parts, part.u[one][i] - part.u[other][i], uncut, part.w[i]).items():
            total[key] += odds
    return total


def is_opinion(h):
    return isinstance(h, (Softmax, ByteSoftmax)) or (isinstance(h, Hypothesis) and h.calibrated)


def owners_of(name):
    """Of the values of which a feature is; None is the label before."""
    kind, *of = name
    if kind in {"adjacent", "both"}:
        return [owner for part in of for owner in owners_of(part)]
    return [{"word": tuple(of), "label": None}.get(kind, tuple(of[:1]))]


def cut(parts, told, uncut, weight):
    """In proportion to what a floor has left; of infinite odds it leaves the prior's."""
    if math.isinf(uncut):
        return {None: weight * told}
    share = told / uncut if uncut else 1.0
    return {key: weight * share * odds for key, odds in parts.items()}


PLAIN = [replace(h, calibrated=False, name=f"plain {h.label}", prior="learned") for h in CALIBRATED[1:4]]


@pytest.mark.parametrize(("seed", "attributes"), [(0, 3), (2, 14)])
def test_every_item_is_the_oracles(seed, attributes):
    explained = Explained([*DEFAULT_HYPOTHESES, *CALIBRATED[1:4], *PLAIN, Softmax(1.0, pairs=True)], 1e-3)
    for t, row in enumerate(mixed_stream(seed, 330, attributes)):
        if t < 12 or t % 30 > 26:
            explained.meet(*row)
        else:
            Watched.meet(explained, *row)
            if row[1] is not None:
                explained.learn_beside(*row)


@settings(max_examples=25)
@given(ROWS)
def test_every_item_of_any_events_is_the_oracles(rows):
    pools = [Pool(0.01), Pool(0.05, calibrated=True)]
    explained = Explained([*CALIBRATED, *PLAIN, Softmax(2.0, pairs=True), *pools], 0.01)
    for row in rows:
        explained.meet(*row)


def test_a_pair_is_its_parts_half_and_half():
    """Of the exclusive or of two values neither tells anything alone."""
    model, rng = BayesOptimalNB({"text": "text"}, [Softmax(0.6, pairs=True)]), random.Random(0)
    for _ in range(1000):
        p, q = rng.choice("01"), rng.choice("01")
        model.learn_one({"p": p, "q": q, "text": f"x{p} y{q}"}, p == q)
    explanation = model.explanation_one({"p": "0", "q": "0", "text": "x0 y0"})
    assert explanation.predicted is True
    odds = by_key_any(explanation)
    assert all(value > 0.2 for value in odds.values())
    assert odds["p", "0"] == pytest.approx(odds["q", "0"], rel=0.3)
    assert odds["text", "x0"] == pytest.approx(odds["text", "y0"], rel=0.3)


def by_key_any(explanation):
    return {(item.attribute, item.value): item.log_odds for item in explanation.items}


def test_the_label_before_counts_with_the_prior():
    """All else tells nothing."""
    model = BayesOptimalNB({}, [Softmax(0.6)])
    for t in range(200):
        model.learn_one({"n": 0.0}, "ab"[t // 20 % 2])
    explanation = model.explanation_one({"n": 0.0})
    assert explanation.predicted == "b"
    assert explanation.prior > 1.0
    assert sum(abs(item.log_odds) for item in explanation.items) < 0.3 * explanation.prior


# -- laws ---------------------------------------------------------------------------------------------------


def test_asking_changes_nothing_and_a_state_explains_alike():
    """Whether the stream was cut, saved, copied; and where memory was too short for every feature."""
    rows = [*mixed_stream(5, 150, 14), *crowded_stream(100, 5)]
    for memory in (1 << 15, 256 << 20):
        models = [BayesOptimalNB(ATTRIBUTES, EVERYTHING, 0.01, "gibbs", memory=memory) for _ in range(2)]
        for x, y, w in rows:
            models[0].learn_one(x, y, w)
        for start in range(0, len(rows), 7):
            models[1].learn_many(*zip(*rows[start : start + 7], strict=True))
        before = bytes_of(models[0])
        models += [
            models[1].clone().load_state(*models[1].state()),
            copy.deepcopy(models[0]),
            pickle.loads(pickle.dumps(models[0])),  # noqa: S301
        ]
        for x, *_ in rows[::9]:
            expected, *others = (model.explanation_one(x) for model in models)
            assert all(other == expected for other in others)
        assert bytes_of(models[0]) == before


def test_evidence_of_a_service_is_that_before_it_learned_and_no_cut_shows():
    raws = [
        b'{"id":"%d","text":"w%d v%d both%d","label":"%s"}'
        % (i, i % 40, i * i % 17, i % 3, b"ab"[i % 2 : i % 2 + 1])
        for i in range(90)
    ]

    def new():
        return EventProcessor(
            Settings(EventSchema(), evidence=3), BayesOptimalNB({"text": "text"}, DEFAULT_HYPOTHESES)
        )

    whole, cut_up = new(), new()
    taken = records(raws)
    expected = predictions(whole.process(taken, 1.0))
    parts = [cut_up.process(taken[n : n + 7], 1.0) for n in range(0, 90, 7)]
    assert [value for part in parts for value in predictions(part)] == expected
    assert len(expected) == 90
    assert sum(b'"log_odds"' in value for value in expected) > 80


def predictions(outputs):
    return [output.value for output in outputs if output.topic == "predictions"]


def test_an_infinite_prior_is_told_as_the_limit_and_items_stay():
    never = [Hypothesis("multinomial", prior={"b": 1.0}), Hypothesis("presence", prior={"b": 1.0})]
    model, free = (
        BayesOptimalNB({"text": "text"}, [replace(h, prior=p) for h in never])
        for p in ({"b": 1.0}, "uniform")
    )
    for each in (model, free):
        each.learn_many([{"text": t} for t in ("win cash", "lunch", "win lunch")], ["a", "b", "b"])
    found, expected = (each.explanation_one({"text": "win cash"}) for each in (model, free))
    assert (found.predicted, found.runner_up, found.prior) == ("b", "a", LIMIT)
    assert (expected.predicted, expected.prior) == ("a", 0.0)
    assert model.posterior.probabilities == pytest.approx({h.label: 0.5 for h in model.hypotheses}, abs=0.4)
    assert by_key(found).keys() == by_key(expected).keys() == {("text", "win"), ("text", "cash")}
    assert by_key(found)["text", "cash"] < 0.0 < by_key(expected)["text", "cash"]


@pytest.mark.parametrize("model", [NaiveBayes({"text": "text"}), MultinomialNB(), BernoulliNB()])
def test_a_single_model_is_explained_in_full_too(model):
    assert model.explanation_one({"text": "a"}) is None
    for text, label in [
        ("win cash now", "spam"),
        ("lunch", "ham"),
        ("cash prize", "spam"),
        ("see you", "no"),
    ]:
        model.learn_one({"text": text}, label)
    x = {"text": "cash lunch now"}
    explanation, joint = model.explanation_one(x), model.joint_log_likelihood(x)
    assert explanation.log_odds == pytest.approx(
        joint[explanation.predicted] - joint[explanation.runner_up], rel=1e-12
    )
    weights = model.class_weights
    assert explanation.prior == pytest.approx(
        math.log(weights[explanation.predicted] / weights[explanation.runner_up]), abs=1e-12
    )
    assert model.explain_one(x) == explanation.items
