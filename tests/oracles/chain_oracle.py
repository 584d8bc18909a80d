"""A hidden Markov model for each entity, by dictionaries and one event at a time: slow, and plainly right."""

from __future__ import annotations

import math

from streamnb import NaiveBayes


class Chain:
    """What is known of one entity: its last label, else what is believed, and its latest time."""

    def __init__(self):
        self.last = None
        self.believed = {}
        self.seen = None


class ChainOracle:
    """Emissions are those of `NaiveBayes` by equal priors; everything else is written out here."""

    def __init__(self, *, transition_m=1.0, entities=100_000, time_to_live=0.0, prior="learned", **reading):
        self.emissions = NaiveBayes(prior="uniform", **reading)
        self.m, self.limit, self.time_to_live, self.given = transition_m, entities, time_to_live, prior
        self.chains = {}  # the one not seen the longest first
        self.first, self.table, self.weights = {}, {}, {}

    def prior(self):
        known = {label: w for label, w in self.weights.items() if w > 0}
        if self.given == "uniform":
            relative = dict.fromkeys(known, 1.0)
        elif self.given == "learned":
            relative = known
        else:
            relative = {label: self.given.get(label, 0.0) for label in known}
            if not sum(relative.values()):
                relative = dict.fromkeys(known, 1.0)
        return {label: w / sum(relative.values()) for label, w in relative.items()}

    def estimate(self, counts):
        prior, n = self.prior(), sum(counts.values())
        if n + self.m == 0:
            return prior
        return {label: (counts.get(label, 0.0) + self.m * p) / (n + self.m) for label, p in prior.items()}

    def chain_of(self, entity, t):
        """The entity's chain; None where the event begins one."""
        chain = self.chains.get(entity) if entity is not None else None
        if chain is None:
            return None
        is_old = None not in (t, chain.seen) and t - chain.seen > self.time_to_live
        return None if self.time_to_live and is_old else chain

    def ahead(self, chain):
        if chain is None:
            return self.estimate(self.first)
        if chain.last is not None:
            return self.estimate(self.table.get(chain.last, {}))
        if not sum(chain.believed.values()):
            return self.estimate(self.first)
        found = dict.fromkeys(self.prior(), 0.0)
        for label, share in chain.believed.items():
            for after, p in self.estimate(self.table.get(label, {})).items():
                found[after] += share * p
        return found

    def predict(self, x, entity, t):
        emissions = self.emissions.joint_log_likelihood(x)
        scores = {
            label: math.log(p) + emissions[label] if p > 0 else -math.inf
            for label, p in self.ahead(self.chain_of(entity, t)).items()
        }
        top = max(scores.values(), default=-math.inf)
        if top == -math.inf:
            return self.emissions.predict_proba_one(x)
        total = sum(math.exp(score - top) for score in scores.values())
        return {label: math.exp(score - top) / total for label, score in scores.items()}

    def learn(self, x, entity, label, t, w=1.0):
        probabilities = self.predict(x, entity, t)
        chain = self.chain_of(entity, t)
        if label is not None and w > 0:
            if chain is None:
                self.first[label] = self.first.get(label, 0.0) + w
            elif chain.last is not None:
                row = self.table.setdefault(chain.last, {})
                row[label] = row.get(label, 0.0) + w
            self.weights[label] = self.weights.get(label, 0.0) + w
            self.emissions.learn_one(x, label, w)
        else:
            label = None
        if entity is not None:
            self.chains.pop(entity, None)
            if len(self.chains) == self.limit:
                del self.chains[next(iter(self.chains))]
            chain = self.chains[entity] = chain or Chain()
            chain.last, chain.believed = label, {} if label is not None else probabilities
            if t is not None:
                chain.seen = t if chain.seen is None else max(chain.seen, t)
        return probabilities
