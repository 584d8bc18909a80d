"""What learns from predictions, by its definition: one event at a time, in dictionaries and Python's floats.

It shares nothing with the package but the formulas. Features have names, tuples that say what they are, where
the package has hashes; every sum is over all of what it is about. Scores of naive Bayes are handed to it.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations, pairwise
from typing import NamedTuple

from streamnb.features.character_table import normalized
from tests.oracles.gaussian_oracle import gaussian_of
from tests.oracles.words_oracle import words as words_of

SIZES = {
    32: (8,),
    256: (32,),
    1024: (256,),
    2048: (16,),
}  # so many values learned -> so many bins, in four layouts
FOR_PAIRS, PAIRED_AFTER = 16, 8192
OFTEN = 8
CODES = 16
PAIRED = 12
SELECTED_AFTER = 256
ESCAPE = 1e-15
GATED = ("OneDependence", "MondrianForest")


def softmax(scores):
    """Probabilities and their logarithms, of log scores."""
    top = max(scores.values(), default=-math.inf)
    if top == -math.inf:
        return dict.fromkeys(scores, 0.0), scores
    total = math.fsum(math.exp(s - top) for s in scores.values())
    logs = {k: s - top - math.log(total) for k, s in scores.items()}
    return {k: math.exp(log) for k, log in logs.items()}, logs


def doubt(n, of_all):
    """By how much a class with n of all examples is doubted."""
    return max(0.0, 1 - n / min(16, of_all / 64)) if of_all >= 64 else 0.0


def mean_log(by_class, more):
    """Of ln(n + more), weighed by the examples of each class."""
    return math.fsum(n * math.log(n + more) for n in by_class.values() if n) / sum(by_class.values())


def log_of_class(by_class, k, is_cautious):
    """Ln(n + 1) of a class, or what is taken for it."""
    log, away = math.log(by_class.get(k, 0.0) + 1), doubt(by_class.get(k, 0.0), sum(by_class.values()))
    return log + away * (mean_log(by_class, 1) - log) if is_cautious and away else log


def doubts(by_class):
    """What is added to the score of each class."""
    mean, n = mean_log(by_class, 0), sum(by_class.values())
    return {k: doubt(weight, n) * (math.log(weight) - mean) for k, weight in by_class.items() if weight}


def edges_through(values, bins):
    """Between any two neighbours of few values; else where a bin is full, or a value wants one of its own."""
    counted, edges, held = sorted(Counter(values).items()), [], 0
    for (a, of_a), (b, of_b) in pairwise(counted):
        held += of_a
        if len(counted) <= bins or of_a >= OFTEN or of_b >= OFTEN or held >= len(values) / bins:
            edges.append(a + (b - a) / 2)
            held = 0
    return edges


def rarity(learned, having):
    """(ln u + 1/20)^0.3 where u is read in 32 steps between two powers of two."""
    mantissa, exponent = math.frexp((learned + 1) / (having + 0.5))
    u = 2.0**exponent * (0.5 + (math.floor((mantissa - 0.5) * 64) + 0.5) / 64)
    return (max(math.log(u), 0.0) + 0.05) ** 0.3


class Bins:
    """One continuous attribute."""

    def __init__(self):
        self.values, self.layouts, self.codes = [], {}, []

    def features(self, name, value):
        """Of a value: its code, then its bins."""
        if self.codes is not None and (value in self.codes or len(self.codes) < CODES):
            yield ("code", name, value), ("codes of", name)
        for bins, edges in self.layouts.items():
            if bins == FOR_PAIRS and len(self.values) < PAIRED_AFTER:
                continue
            yield ("bin", name, bins, bisect_right(edges, value)), ("bins of", name, bins)

    def learn(self, value):
        if self.codes is not None and value not in self.codes and len(self.codes) < CODES:
            self.codes.append(value)
        self.values.append(value)
        for bins in SIZES.get(len(self.values), ()):
            if bins == 8 and len(set(self.values)) > CODES:
                self.codes = None
            edges = edges_through(self.values, bins)
            before = [len(e) for size, e in self.layouts.items() if bins != FOR_PAIRS or size == 8]
            if len(edges) > max([*before, len(self.codes) - 1 if self.codes else -1]):
                self.layouts[bins] = edges


class Feature(NamedTuple):
    name: tuple
    owner: tuple
    v: float
    is_pair: bool


class Regression:
    """Softmax regression over features."""

    def __init__(self, hypothesis):
        self.rate, self.pairs = hypothesis.rate, hypothesis.pairs
        self.w, self.s = defaultdict(float), defaultdict(float)
        self.bias, self.bias_s = defaultdict(float), defaultdict(float)

    def scores(self, features, likelihoods, classes):
        self.seen = [f for f in features if self.pairs or not f.is_pair]
        self.known = likelihoods.keys()
        length = math.sqrt(math.fsum(f.v**2 for f in self.seen))
        self.scale = 1 / length if length else 0.0
        return {
            k: self.bias[k]
            + math.fsum(
                f.v * self.scale * (likelihoods[f.name][k] / 2 + self.w[f.name, k])
                for f in self.seen
                if f.name in likelihoods
            )
            for k in classes
        }

    def learn(self, probabilities, label, weight):
        if probabilities[label] >= 0.99:
            return
        g = {k: weight * (p - (k == label)) for k, p in probabilities.items()}
        squared = sum(x * x for x in g.values())
        for name, _, v, is_pair in self.seen:
            x = v * self.scale
            is_met_first = is_pair and name not in self.known and weight == 1
            if not x or is_met_first:
                continue
            self.s[name] += squared / 2 * x * x
            for k, slope in g.items():
                self.w[name, k] -= self.rate * slope * x / math.sqrt(self.s[name] + 1e-3)
        for k, slope in g.items():
            self.bias_s[k] += slope**2
            self.bias[k] -= self.rate * slope / math.sqrt(self.bias_s[k] + 1e-3)


class ByteRegression:
    """Softmax regression over runs of four bytes, each in a bucket, and each class in a cell, that others may share."""

    BUCKETS, CELLS = 1 << 19, 4

    def __init__(self, hypothesis, *, is_cautious=False):
        self.rate, self.first, self.is_cautious = hypothesis.rate, hypothesis.first_bytes, is_cautious
        self.c, self.w = defaultdict(float), defaultdict(float)  # by cell
        self.total, self.s = defaultdict(float), defaultdict(float)  # by bucket
        self.bias, self.bias_s = defaultdict(float), defaultdict(float)
        self.events = {}  # attribute -> class -> weight

    def bucket(self, run, number):
        mixed = (int.from_bytes(run, "little") | number << 32) * 0x9E3779B97F4A7C15 % 2**64
        return (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 % 2**64 * self.BUCKETS >> 64

    def cell(self, bucket, column):
        return (bucket * self.CELLS + column) % (self.CELLS * self.BUCKETS)

    def runs(self, texts):
        """Bucket -> the attribute where it is first, of texts by attribute and number."""
        found = {}
        for (attribute, number), text in texts:
            raw = normalized(text).encode()[: self.first]
            for i in range(len(raw) - 3):
                found.setdefault(self.bucket(raw[i : i + 4], number), attribute)
        return found

    def scores(self, texts, classes):
        self.seen, self.classes = self.runs(texts), list(classes)
        self.x = {}
        for bucket, attribute in self.seen.items():
            learned = sum(self.events.get(attribute, {}).values())
            if learned:
                self.x[bucket] = rarity(learned, self.total[bucket])
        length = math.sqrt(math.fsum(v**2 for v in self.x.values()))
        self.x = {bucket: v / length for bucket, v in self.x.items()}
        return {k: self.bias[k] + math.fsum(self.told(k, column)) for column, k in enumerate(self.classes)}

    def told(self, k, column):
        for bucket, x in self.x.items():
            cell, is_met = self.cell(bucket, column), self.total[bucket] > 0
            had, w = (self.c[cell], self.w[cell]) if is_met else (0.0, 0.0)
            having = log_of_class(self.events[self.seen[bucket]], k, self.is_cautious)
            yield x * ((math.log(had + 0.5) - having) / 2 + w)

    def learn(self, probabilities, label, weight):
        if probabilities[label] >= 0.99:
            return
        g = {k: weight * (p - (k == label)) for k, p in probabilities.items()}
        for bucket, x in self.x.items():
            self.s[bucket] += sum(slope**2 for slope in g.values()) / 2 * x * x
            for column, slope in enumerate(g.values()):
                step = self.rate * slope * x / math.sqrt(self.s[bucket] + 1e-3)
                self.w[self.cell(bucket, column)] -= step
        for k, slope in g.items():
            self.bias_s[k] += slope**2
            self.bias[k] -= self.rate * slope / math.sqrt(self.bias_s[k] + 1e-3)

    def fold(self):
        """Half as many buckets: each has what two had, and the mean of w by how often they were met."""
        told, of = self.total, self.CELLS
        self.w = _folded({cell: w * told[cell // of] for cell, w in self.w.items()}, of)
        self.c, self.total, self.s = _folded(self.c, of), _folded(told, 1), _folded(self.s, 1)
        for cell in self.w:
            self.w[cell] /= self.total[cell // of] or 1.0
        self.BUCKETS //= 2

    def count(self, texts, label, column, weight):
        """Once the event was learned, which had an attribute perhaps that was not known before."""
        runs = self.runs(texts)
        for bucket in runs:
            self.c[self.cell(bucket, column)] += weight
            self.total[bucket] += weight
        for attribute in {*runs.values()}:
            by_class = self.events.setdefault(attribute, {})
            by_class[label] = by_class.get(label, 0.0) + weight


def _folded(held, cells):
    """What stands under numbers of cells, by those of half as many buckets."""
    found = defaultdict(float)
    for cell, value in held.items():
        found[cell // (2 * cells) * cells + cell % cells] += value
    return found


class Calibrator:
    """P to the power of a."""

    def __init__(self):
        self.power, self.curvature = 0.5, 1.0

    def scores(self, joints):
        self.u = {k: max(log, -20.0) for k, log in softmax(joints)[1].items()}
        return {k: self.power * u for k, u in self.u.items()}

    def learn(self, probabilities, label, weight):
        mean = math.fsum(p * self.u[k] for k, p in probabilities.items())
        variance = math.fsum(p * (self.u[k] - mean) ** 2 for k, p in probabilities.items())
        self.curvature = 0.999 * self.curvature + weight * variance
        self.power -= weight * (mean - self.u[label]) / self.curvature
        self.power = min(max(self.power, 0.02), 4.0)


class Recent(Calibrator):
    """Gaussian naive Bayes over all events that were learned, each by the weight that is left of it; calibrated."""

    def __init__(self, hypothesis):
        super().__init__()
        self.half_life, self.met = hypothesis.half_life_events, []

    def joints(self, numbers):
        """Class -> log P(class, numbers)."""
        ages = range(len(self.met), 0, -1)
        left = [
            (k, w, w * 2 ** (-age / self.half_life), x) for age, (k, w, x) in zip(ages, self.met, strict=True)
        ]
        of_all, found = math.fsum(w for _, w, *_ in left), {}
        for k in dict.fromkeys(k for k, *_ in left):
            own = [(w, decayed) for label, w, decayed, _ in left if label == k]
            share = math.fsum(w for w, _ in own) / of_all
            found[k] = math.log(math.fsum(decayed for _, decayed in own) + share)
        for name, value in numbers.items():
            cells = self.cells(left, name)
            for k in found:
                read = gaussian_of(cells, k)
                if read is not None:
                    away = float((Fraction(value) - read[0]) ** 2 / read[1])
                    found[k] -= (math.log(2 * math.pi * float(read[1])) + away) / 2
        return found

    @staticmethod
    def cells(left, name):
        """Class -> (n, mean, M2) of a number, exact: equal values have no spread."""
        found = {}
        for k in {k for k, _, _, x in left if name in x}:
            own = [(Fraction(w), Fraction(x[name])) for label, _, w, x in left if label == k and name in x]
            n = sum(w for w, _ in own)
            mean = sum(w * value for w, value in own) / n
            found[k] = n, mean, sum(w * (value - mean) ** 2 for w, value in own)
        return found


class Pooling:
    """A log-opinion pool."""

    def __init__(self, hypothesis, opinions):
        self.variance, self.n = hypothesis.variance, opinions
        self.first = 1 / max(opinions, 1)
        self.w = [self.first] * opinions
        self.covariance = [[self.variance * (i == j) for j in range(opinions)] for i in range(opinions)]
        self.bias, self.bias_s = defaultdict(float), defaultdict(float)

    def take_in(self):
        """One opinion more, that weighs as much as each did at first."""
        self.covariance = [*([*row, 0.0] for row in self.covariance), [*([0.0] * self.n), self.variance]]
        self.w, self.n = [*self.w, self.first], self.n + 1

    def scores(self, opinions, classes):
        self.u = {k: [max(logs[k], -8.0) for logs in opinions] for k in classes}
        return {k: self.bias[k] + math.fsum(map(float.__mul__, self.w, self.u[k])) for k in classes}

    def learn(self, probabilities, label, weight):
        I, C = range(self.n), self.covariance  # noqa: E741  the symbol of the formulas
        mean = [math.fsum(p * self.u[k][i] for k, p in probabilities.items()) for i in I]
        for k, p in probabilities.items():
            if p < 1e-4:
                continue
            away = [self.u[k][i] - mean[i] for i in I]
            turned = [math.fsum(C[i][j] * away[j] for j in I) for i in I]
            more = 1 + weight * p * math.fsum(map(float.__mul__, away, turned))
            C = [[C[i][j] - weight * p * turned[i] * turned[j] / more for j in I] for i in I]
        step = [math.fsum(C[i][j] * (mean[j] - self.u[label][j]) for j in I) for i in I]
        self.w = [w - weight * s for w, s in zip(self.w, step, strict=True)]
        if math.fsum(C[i][i] for i in I) * 1.001 < self.n * self.variance:
            C = [[c * 1.001 for c in row] for row in C]
        self.covariance = C
        for k, p in probabilities.items():
            g = weight * (p - (k == label))
            self.bias_s[k] += g * g
            self.bias[k] -= 0.02 * g / math.sqrt(self.bias_s[k] + 1e-4)


class CalibratedPooling(Pooling):
    """One that is as sure as it was right, when it was so sure."""

    def __init__(self, hypothesis, opinions):
        super().__init__(hypothesis, opinions)
        self.met, self.right = Counter(), Counter()

    def scores(self, opinions, classes):
        self.said, self.logs = softmax(super().scores(opinions, classes))
        self.corrected = self.logs
        if len(classes) < 2:
            return self.logs
        self.top = max(classes, key=self.logs.__getitem__)
        rest = max(math.fsum(p for k, p in self.said.items() if k != self.top), 1e-9)
        self.bin = min(max(math.floor(2 * (math.log((1 - rest) / rest) + 4.1)), 0), 49)
        wrong = (self.met[self.bin] - self.right[self.bin] + 20 * rest) / (self.met[self.bin] + 20)
        wrong = min(max(wrong, 1e-7), 1 - 1e-4)
        others = {k: log + math.log(wrong / rest) for k, log in self.logs.items()}
        self.corrected = others | {self.top: math.log1p(-wrong)}
        return self.corrected

    def learn(self, _, label, weight):
        super().learn(self.said, label, weight)
        self.met[self.bin] += weight
        self.right[self.bin] += weight * (self.top == label)


class Oracle:
    """All hypotheses of a model, and their mixture.

    Args:
        hypotheses: of the model.
        texts: names of the attributes that are texts.
        nominal: names of those that are nominal, beside all strings and booleans.
        rate: of switching.
        caution: whether regressions doubt classes that are new.
    """

    def __init__(self, hypotheses, texts=(), nominal=(), rate=0.0, *, caution=False):
        self.hypotheses, self.texts, self.nominal, self.rate = hypotheses, texts, nominal, rate
        self.caution = caution
        self.kinds = [type(h).__name__ for h in hypotheses]
        self.late = (*GATED, "RecentGaussian") if set(GATED) & set(self.kinds) else ()
        opinions = sum(
            kind in {"Softmax", "ByteSoftmax", "RecentGaussian"} - {*self.late}
            or (kind == "Hypothesis" and h.calibrated)
            for kind, h in self.named()
        )  # and recent ones, forests and those of one dependence, as soon as an attribute was learned that is no text
        self.parts = [
            Regression(h)
            if kind == "Softmax"
            else ByteRegression(h, is_cautious=caution)
            if kind == "ByteSoftmax"
            else (CalibratedPooling if h.calibrated else Pooling)(h, opinions)
            if kind == "Pool"
            else Recent(h)
            if kind == "RecentGaussian"
            else Calibrator()
            if kind == "Hypothesis" and h.calibrated
            else None
            for kind, h in self.named()
        ]
        total = math.fsum(h.weight for h in hypotheses)
        self.prior = [h.weight / total for h in hypotheses]
        self.log_posterior = [math.log(p) if p else -math.inf for p in self.prior]
        self.class_weights = {}
        self.of_feature, self.of_owner = {}, {}  # name -> class -> weight
        self.owner_of, self.bins = {}, {}
        self.last, self.learned, self.stopped = None, 0.0, set()
        self.is_awake = False
        self.groups, self.fields = {}, {}
        self.chosen = []  # attributes, None where they are too many and have not been selected yet

    def named(self):
        return list(zip(self.kinds, self.hypotheses, strict=True))

    # -- features -------------------------------------------------------------------------------------------

    def kind(self, name, value):
        if name in self.texts:
            return "text"
        return "nominal" if name in self.nominal or isinstance(value, (str, bool)) else "continuous"

    @staticmethod
    def present(x):
        return {
            name: value
            for name, value in x.items()
            if value is not None and not (isinstance(value, float) and not math.isfinite(value))
        }

    def of_text(self, name, text):
        """Its words in order, stop words None, and how often each is counted; None where there is no text."""
        if isinstance(text, dict):
            counted = [(word, times) for word, times in text.items() if math.isfinite(times)]
            runs = [([word], times) for word, times in counted if times]
            if not counted:
                return None
        else:
            runs = [(words_of(text), 1.0)]
        return [
            ([None if (name, word) in self.stopped else ("word", name, word) for word in words], times)
            for words, times in runs
        ]

    def put_text(self, name, text, singles, pairs):
        """Count words and pairs of adjacent ones; whether there is a text."""
        runs = self.of_text(name, text)
        for words, times in runs or ():
            for word in words:
                if word:
                    singles[word, ("text", name)] += times
            for pair in pairwise(words):
                if None not in pair:
                    pairs[("adjacent", *pair), ("text", name)] += times
        return runs is not None

    def features(self, x):
        """Features of the event, the owners that are present, and (attribute, its value as a feature)."""
        singles, pairs, owners, attributes, fine = Counter(), Counter(), [], [], {}
        by_kind = {kind: [] for kind in ("discrete", "continuous")}
        for name, value in self.present(x).items():
            kind = self.kind(name, value)
            by_kind["continuous" if kind == "continuous" else "discrete"].append(((kind, name), value))
        for owner, value in by_kind["discrete"]:
            if owner[0] == "nominal":
                feature = ("value", owner[1], str(value).lower() if isinstance(value, bool) else str(value))
                singles[feature, owner] = 1.0
                attributes.append((owner, feature))
            if owner[0] == "nominal" or self.put_text(owner[1], value, singles, pairs):
                owners.append(owner)
        for attribute, value in by_kind["continuous"]:
            found = list(self.bins.get(attribute, Bins()).features(attribute[1], value))
            singles.update(dict.fromkeys(found, 1.0))
            owners += [owner for _, owner in found]
            attributes += [(attribute, feature) for feature, _ in found[:1]]
            fine.update((attribute, f) for f, _ in found if f[0] == "bin" and f[2] == FOR_PAIRS)
        if self.last is not None:
            singles[("label", self.last), ("labels",)] = 1.0
            owners.append(("labels",))
            attributes.append((("label",), ("label", self.last)))
        values = dict(attributes)
        for a, b in combinations([a for a in self.chosen or () if a in values], 2):
            pairs[("both", values[a], values[b]), ("pair", a, b)] = 1.0
            owners.append(("pair", a, b))
            if fine.keys() & {a, b}:
                of_both = (fine.get(name, values[name]) for name in (a, b))
                pairs[("both", *of_both), ("fine pair", a, b)] = 1.0
                owners.append(("fine pair", a, b))
        found = [
            Feature(name, owner, self.v(name, owner, times), is_pair)
            for counted, is_pair in ((singles, False), (pairs, True))
            for (name, owner), times in counted.items()
        ]
        return found, owners, attributes

    def v(self, name, owner, times):
        """(1 + ln n) by `rarity`."""
        if not self.of_owner.get(owner):
            return 0.0
        having = sum(self.of_feature.get(name, {}).values())
        return (1 + math.log(times) if times > 1 else times) * rarity(self.learned, having)

    def by_bins(self, name, value):
        """Class -> ln P(bin | class) of a continuous value, in the layout of most edges of those that were met.

        Else its code; None where neither was met.
        """
        bins = self.bins.get(("continuous", name), Bins())
        ranked = [
            (len(bins.layouts[feature[2]]) if feature[0] == "bin" else -1, feature, owner)
            for feature, owner in bins.features(name, value)
            if sum(self.of_owner.get(owner, {}).values())
        ]
        if not ranked:
            return None
        _, feature, owner = max(ranked, key=lambda found: found[0])
        met, all_met = self.of_feature.get(feature, {}), self.of_owner[owner]
        return {
            k: math.log((met.get(k, 0.0) + 0.5) / (all_met.get(k, 0.0) + 1.0)) for k in self.class_weights
        }

    # -- predicting -----------------------------------------------------------------------------------------

    def predict(self, x, joints):
        """P(class | x) of every hypothesis and of the mixture; `joints` of every hypothesis, or None."""
        classes = list(self.class_weights)
        self.x, self.found = x, self.features(x)
        likelihoods = {
            f.name: {
                k: math.log(self.of_feature[f.name].get(k, 0.0) + 0.5)
                - log_of_class(self.of_owner[f.owner], k, self.caution)
                for k in classes
            }
            for f in self.found[0]
            if f.v and f.name in self.of_feature
        }
        answers, opinions, late = [None] * len(self.parts), [], []
        for h, (part, given) in enumerate(zip(self.parts, joints, strict=True)):
            own = part.joints(self.numbers(x)) if isinstance(part, Recent) else given
            if part is None:
                answers[h] = softmax(own)
                late += [answers[h][1]] if self.is_late(self.hypotheses[h]) else []
            elif isinstance(part, Pooling):
                continue
            else:
                known = (self.found[0], likelihoods, classes)
                known = (self.strings(x), classes) if isinstance(part, ByteRegression) else known
                scores = part.scores(*((own,) if isinstance(part, Calibrator) else known))
                if self.caution and not isinstance(part, Calibrator):
                    scores = {k: score + doubts(self.class_weights)[k] for k, score in scores.items()}
                answers[h] = softmax(scores)
                if self.kinds[h] not in self.late:
                    opinions.append(answers[h][1])
                elif self.is_awake:
                    late.append(answers[h][1])
        for h, part in enumerate(self.parts):
            if isinstance(part, Pooling):
                answers[h] = softmax(part.scores([*opinions, *late], classes))
        self.said = [probabilities for probabilities, _ in answers]
        posterior = [math.exp(p) for p in self.log_posterior]
        mixture = {k: math.fsum(p * s[k] for p, s in zip(posterior, self.said, strict=True)) for k in classes}
        return self.said, mixture

    def numbers(self, x):
        """Attribute -> value of the numbers."""
        return {
            name: value for name, value in self.present(x).items() if self.kind(name, value) == "continuous"
        }

    def strings(self, x):
        """((attribute, its number), text) of the texts of known attributes that are no bags."""
        groups, present = self.groups, self.present(x)
        texts = [(("text", name), text) for name, text in present.items() if isinstance(text, str)]
        return [((a, groups[a] // 2), text) for a, text in texts if a in groups]

    # -- learning -------------------------------------------------------------------------------------------

    def learn(self, y, weight):
        """Learn the event that was predicted last."""
        self.weigh(y)
        found, owners, attributes = self.found
        if y in self.class_weights and len(self.class_weights) > 1:
            for part, said in zip(self.parts, self.said, strict=True):
                if part is not None:
                    part.learn(said, y, weight)
        for counted, names in ((self.of_owner, owners), (self.of_feature, [f.name for f in found])):
            for name in names:
                row = counted.setdefault(name, {})
                row[y] = row.get(y, 0.0) + weight
        self.owner_of.update((f.name, f.owner) for f in found)
        self.wake()
        for name, value in self.present(self.x).items():
            self.meet(name, value)
        self.class_weights[y] = self.class_weights.get(y, 0.0) + weight
        for part in self.parts:
            if isinstance(part, Recent):
                part.met.append((y, weight, self.numbers(self.x)))
            if isinstance(part, ByteRegression):
                part.count(self.strings(self.x), y, list(self.class_weights).index(y), weight)
        self.learned += weight
        self.last = y
        self.choose(attributes)

    def is_late(self, h):
        """Whether it is an opinion by now that pools take in when an attribute was learned."""
        return self.is_awake and type(h).__name__ in self.late

    def wake(self):
        """Let pools take in those of one dependence and forests, once an attribute was learned."""
        if not self.is_awake and any(self.kind(*a) != "text" for a in self.present(self.x).items()):
            self.is_awake = True
            for pool in [part for part in self.parts if isinstance(part, Pooling)]:
                for _ in range(sum(map(self.kinds.count, self.late))):
                    pool.take_in()

    def meet(self, name, value):
        """Number an attribute as it is met for the first time, and learn its bins."""
        attribute = self.kind(name, value), name
        if attribute[0] == "continuous":
            self.fields.setdefault(attribute, 2 * len(self.fields) + 1)
            self.bins.setdefault(attribute, Bins()).learn(value)
        elif attribute[0] == "nominal" or self.of_text(name, value) is not None:
            self.groups.setdefault(attribute, 2 * len(self.groups))

    def weigh(self, y):
        logs = [
            p + math.log(max(said.get(y, 0.0), ESCAPE))
            for p, said in zip(self.log_posterior, self.said, strict=True)
        ]
        posterior = softmax(dict(enumerate(logs)))[0].values()
        self.log_posterior = [
            math.log((1 - self.rate) * p + self.rate * p0)
            if (1 - self.rate) * p + self.rate * p0
            else -745.0
            if p0
            else -math.inf
            for p, p0 in zip(posterior, self.prior, strict=True)
        ]

    def number(self, attribute):
        return {("label",): -1, **self.groups, **self.fields}[attribute]

    def choose(self, attributes):
        """Which attributes are paired from now on."""
        if self.chosen is None:
            if self.learned >= SELECTED_AFTER:
                told = sorted(
                    (-self.information(self.owner_of[value]), self.number(a), a) for a, value in attributes
                )
                best = [a for _, _, a in told[:PAIRED]]
                self.chosen = sorted(best, key=self.number) or None
            return
        for a, _ in attributes:
            if a in self.chosen:
                continue
            if len(self.chosen) == PAIRED:
                if self.learned < SELECTED_AFTER:
                    self.chosen = None
                return
            insort(self.chosen, a, key=self.number)

    def information(self, owner):
        """Between the owner's values and the label, less what chance alone would give."""
        rows = [row for name, row in self.of_feature.items() if self.owner_of[name] == owner]
        classes, order = self.of_owner[owner], list(self.class_weights)
        N, told = sum(classes.values()), 0.0
        for row in rows:
            n_v = sum(row.values())
            for k in order:
                if k in row:
                    told += row[k] / N * math.log((row[k] / n_v) * (N / classes[k]))
        return told - (len(rows) - 1) * (len(classes) - 1) / 2 / N
