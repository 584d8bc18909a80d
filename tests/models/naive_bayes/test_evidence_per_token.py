"""Log likelihood a token, beside a plain count with dictionaries, and by every way to it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, NaiveBayes
from tests.oracles.gaussian_oracle import gaussian_of, pooled_of

WORDS = st.lists(st.sampled_from(["win", "cash", "lunch", "ключ", "x1"]), max_size=6).map(" ".join)
EVENT = st.fixed_dictionaries(
    {},
    optional={"text": WORDS, "colour": st.sampled_from(["red", "blue"]), "n": st.integers(-3, 3).map(float)},
)
STREAM = st.lists(st.tuples(EVENT, st.sampled_from(["a", "b", None])), max_size=25)
MODELS = [NaiveBayes, BayesOptimalNB, lambda given: NaiveBayes(given, event_model="multinomial", alpha=0.0)]


class Counted:
    """What was learned, as plain dictionaries."""

    def __init__(self):
        self.counts, self.numbers = defaultdict(Counter), defaultdict(lambda: defaultdict(list))
        self.classes = Counter()

    def tokens(self, x):
        for name, value in x.items():
            for one in value.split() if name == "text" else [value]:
                if name != "n":
                    yield name, one

    def learn(self, x, y):
        self.classes[y] += 1
        for name, one in self.tokens(x):
            self.counts[name][one, y] += 1
        if "n" in x:
            self.numbers["n"][y].append(x["n"])

    def evidence(self, x):
        terms = defaultdict(list)
        for name, one in self.tokens(x):
            counts = self.counts[name]
            V = len({value for value, _ in counts})
            for y in self.classes if V else ():
                total = sum(n for (_, of), n in counts.items() if of == y)
                terms[y].append(math.log((counts[one, y] + 1) / (total + V + 1)))
        of = self.numbers["n"]
        cells = {
            y: (len(values), np.mean(values), np.var(values) * len(values) if len(set(values)) > 1 else 0.0)
            for y, values in of.items()
        }
        if "n" in x and pooled_of(cells)[1] > 0:
            for y in self.classes:
                mean, variance = gaussian_of(cells, y)
                terms[y].append(-0.5 * (math.log(2 * math.pi * variance) + (x["n"] - mean) ** 2 / variance))
        return max((np.mean(one) for one in terms.values()), default=math.nan)


@pytest.mark.parametrize("make", MODELS)
@settings(max_examples=25, deadline=None)
@given(stream=STREAM, cut=st.integers(1, 9))
def test_it_is_that_of_plain_counts_however_the_stream_is_cut(make, stream, cut):
    model, silent = (make({"text": "text", "colour": "nominal", "n": "continuous"}) for _ in range(2))
    model.tells_evidence = True
    counted, expected, found = Counted(), [], []
    for first in range(0, len(stream), cut):
        xs, ys = zip(*stream[first : first + cut], strict=True)
        said = model.predict_then_learn_many(xs, ys)
        plain = silent.predict_then_learn_many(xs, ys)
        assert plain.evidence is None
        assert plain.probabilities.tobytes() == said.probabilities.tobytes()
        found += said.evidence.tolist()
    for x, y in stream:
        expected.append(counted.evidence(x))
        if y is not None:
            counted.learn(x, y)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)
    asked = model.predict_posteriors([x for x, _ in stream]).evidence
    assert asked.tolist() == pytest.approx([counted.evidence(x) for x, _ in stream], rel=1e-9, nan_ok=True)
    assert model.digest() == silent.digest()


def test_the_worst_there_is_stays_a_number():
    model = NaiveBayes({"text": "text", "n": "continuous"})
    model.tells_evidence = True
    for n in (1.0, 1.0000001, 2.0):
        model.learn_one({"text": "win", "n": n}, "a", w=1e6)
    many = {"text": "never " * 20_000, "n": 1e300}
    strange, empty, other = model.predict_posteriors([many, {}, {"m": "red"}]).evidence
    assert -1e300 < strange < -1e200
    assert math.isnan(empty)
    assert math.isnan(other)
