"""Trees as hypotheses of a mixture: what each says of every event of a batch, worked out before the others.

What a tree says depends on nothing but what it has counted itself. So it goes over a batch first, in order,
predicting each event before it learns it, and the mixture's kernel finds what it said.

Values that the mixture forgets for a budget of memory stay in the counts of trees, which have a bound of
their own. So an event is learned and taken back by its values themselves, whether or not they have a row.
Only in an event that is just predicted is a value without a row one of the REST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.model.attributes.expected import named
from streamnb.model.attributes.kinds import CONTINUOUS, NOMINAL
from streamnb.model.attributes.priors import LEARNED
from streamnb.model.attributes.signatures import Array
from streamnb.model.attributes.weights import UNIT
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.encoding.batch import Batch, Encoded
from streamnb.model.encoding.tokenizer import Tokens
from streamnb.model.encoding.vocabulary import Vocabulary
from streamnb.model.mixture.components import AnyHypothesis, OneDependence, Tree
from streamnb.model.naive_bayes.sufficient_statistics import Statistics
from streamnb.model.trees.averaged import averaged_log_odds
from streamnb.model.trees.kernels import TreeReading, score_factors
from streamnb.model.trees.tree_model import TreeModel
from streamnb.model.trees.value_codes import MISSING, UNKNOWN, KeyColumn, magnitudes

_ALPHA = 1.0
_NOBODY = -1
_WEIGHTS = ("prior_weight", "averaged_prior_weight")
"""What a state calls that of a tree, and of who averages over the same counts."""


class TreeOpinions:
    """The tree hypotheses among others, each with counts of its own, and those that average over counts.

    Texts are left out.

    Args:
        hypotheses: all hypotheses; other ones are passed over.
    """

    def __init__(self, hypotheses: Sequence[AnyHypothesis]) -> None:
        self._trees = [h for h in hypotheses if isinstance(h, Tree)]
        self._readers = _readers(self._trees)
        self._models = [
            TreeModel(self._trees[t].max_values, self._trees[t].memory, grows=tree != _NOBODY)
            for tree, averaged in self._readers
            for t in [max(tree, averaged)]
        ]
        self._texts: dict[int, str] = {}  # of the rows of a vocabulary
        self._seen: tuple[Vocabulary, int] | None = None

    @property
    def n_bytes(self) -> int:
        """Memory, bytes."""
        return sum(model.counts.n_bytes for model in self._models)

    def joints(self, encoded: Encoded, statistics: Statistics, *, learn: bool) -> Floats:
        """Log P(class, event) of every event by all learned before it, shape (trees, n, K); then learn it."""
        batch = encoded.batch
        n, K = batch.label.size, len(statistics.classes)
        found = np.empty((len(self._trees), n, K))
        if not self._models:
            return found
        columns = self._columns(encoded, statistics)
        labels = batch.label if learn else np.full(n, -1)
        for readers, model in zip(self._readers, self._models, strict=True):
            codes = model.encoded(columns, labels >= 0)
            joints, averages = (None if t == _NOBODY else found[t] for t in readers)
            reading, asked = self._reading(readers, K), {"joints": joints, "averages": averages}
            model.run(codes, labels, batch.weight, K, reading, learn=learn, **asked)
        return found

    def unlearn(self, encoded: Encoded, statistics: Statistics) -> int:
        """Take events out of all trees, in order; how many, fewer than all where the next was not learned."""
        batch = encoded.batch
        if not self._models:
            return int(batch.label.size)
        columns = self._columns(encoded, statistics)
        done = [model.unlearn_many(columns, batch.label, batch.weight) for model in self._models]
        for model, so_many in zip(self._models, done, strict=True):
            if so_many > min(done):
                model.learn_again(columns, batch.label, batch.weight, slice(min(done), so_many))
        return min(done)

    def learn_again(self, encoded: Encoded, statistics: Statistics, first: int, stop: int) -> None:
        """Put back events that were taken out."""
        if first < stop and self._models:
            columns, batch = self._columns(encoded, statistics), encoded.batch
            for model in self._models:
                model.learn_again(columns, batch.label, batch.weight, slice(first, stop))

    def log_odds(
        self, encoded: Encoded, statistics: Statistics, parts: Batch, classes: tuple[int, int]
    ) -> Floats:
        """What each part of an event adds to the log odds of two classes, and the prior at last.

        Args:
            encoded: the event.
            statistics: of the mixture.
            parts: its parts, each an event; the last is the event without any. See `evidence.Parts`.
            classes: the class whose log odds they are, and the one against which.

        Returns float64[trees, n].
        """
        one, other = classes
        found = np.zeros((len(self._trees), parts.label.size))
        if not self._models:
            return found
        columns, K = self._columns(encoded, statistics), len(statistics.classes)
        groups, fields = list(statistics.layout.groups), list(statistics.layout.fields)
        D = np.count_nonzero(np.diff(parts.item_rows))
        owners = [groups[g] for g in parts.item_group[:D].tolist()]
        owners += [(CONTINUOUS, fields[f]) for f in parts.value_field.tolist()]
        for readers, model in zip(self._readers, self._models, strict=True):
            codes = model.coded.encode(columns, np.zeros(1, dtype=np.bool_))
            reading, tables = self._reading(readers, K), model.counts.tables
            factors = np.ones((codes.shape[1], K))
            score_factors(tables, codes, 0, reading, factors)
            told = (
                np.log(factors[:, one] / factors[:, other]),
                averaged_log_odds(tables, codes[0], reading, classes),
            )
            for t, odds in zip(readers, told, strict=True):
                if t == _NOBODY:
                    continue
                for i, owner in enumerate(owners):
                    number = model.coded.numbers.get(owner)
                    if number is not None and codes[0, number] != MISSING:
                        found[t, i] = odds[number]
                found[t, -1] = np.log(tables.classes[one] / tables.classes[other])
        return found

    def state(self) -> tuple[list[dict[str, Any]], dict[str, Array]]:
        """Of all trees: JSON-able values, and arrays."""
        states = [model.state() for model in self._models]
        described = [meta | weights for weights, (meta, _) in zip(self._prior_weights(), states, strict=True)]
        arrays = {f"{t}_{name}": array for t, (_, own) in enumerate(states) for name, array in own.items()}
        return described, arrays

    def load(self, described: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array]) -> None:
        """Replace everything by a state. Raises ValueError for one of other trees, and SnapshotError."""
        own = [
            {"max_values": model.coded.most, **weights}
            for model, weights in zip(self._models, self._prior_weights(), strict=True)
        ]
        names = ("max_values", *_WEIGHTS)
        if [{name: meta[name] for name in names if name in meta} for meta in described] != own:
            raise ValueError("a state of other trees than the hypotheses")
        self._models = [
            TreeModel.from_state(model.counts.memory, meta, named(arrays, f"{t}_"), grows=model.counts.grows)
            for t, (model, meta) in enumerate(zip(self._models, described, strict=True))
        ]

    # -- inside -------------------------------------------------------------------------------------------

    def _reading(self, readers: tuple[int, int], classes: int) -> TreeReading:
        m, averaged_m = (self._trees[t].prior_weight * UNIT for t in readers)  # that of nobody is not read
        return TreeReading(_ALPHA * UNIT, m, averaged_m, np.zeros(classes), LEARNED)

    def _prior_weights(self) -> list[dict[str, float]]:
        """Of those that read each table of counts, as a state calls them."""
        return [
            {
                name: self._trees[t].prior_weight
                for name, t in zip(_WEIGHTS, readers, strict=True)
                if t != _NOBODY
            }
            for readers in self._readers
        ]

    def _columns(self, encoded: Encoded, statistics: Statistics) -> list[KeyColumn]:
        """The nominal and continuous attributes of a batch."""
        batch, n, layout = encoded.batch, encoded.batch.label.size, statistics.layout
        groups, fields = list(layout.groups), list(layout.fields)
        texts, group = self._texts_of(statistics.vocabulary), batch.item_group.tolist()
        rows = (
            batch.rows.take(batch.item_rows[:-1], mode="clip").tolist()
            if batch.rows.size
            else [-1] * len(group)
        )
        keys: dict[int, list[Any]] = {g: [None] * n for g in set(group) if groups[g][0] == NOMINAL}
        for item, (e, g, row) in enumerate(zip(_owners(batch.event_items), group, rows, strict=True)):
            if g in keys:
                text = texts.get(row)
                if text is None:
                    text = self._new_text(encoded, statistics.vocabulary, e, item, row)
                keys[g][e] = text
        field, found = batch.value_field.tolist(), magnitudes(batch.value).tolist()
        numbers: dict[int, list[Any]] = {f: [None] * n for f in set(field)}
        for e, f, key in zip(_owners(batch.event_values), field, found, strict=True):
            numbers[f][e] = key
        return [KeyColumn(*groups[g], of) for g, of in keys.items()] + [
            KeyColumn(CONTINUOUS, fields[f], of) for f, of in numbers.items()
        ]

    def _texts_of(self, vocabulary: Vocabulary) -> dict[int, str]:
        """The nominal values of rows, as far as they have been read."""
        if (vocabulary, vocabulary.moves) != self._seen:  # pruned, or loaded
            self._seen, self._texts = (vocabulary, vocabulary.moves), {}
        return self._texts

    def _new_text(self, encoded: Encoded, vocabulary: Vocabulary, e: int, item: int, row: int) -> Any:
        """The nominal value of an item of event e that was not read before."""
        if row >= 0:
            text = self._texts[row] = vocabulary.key(row).decode()
            return text
        return _own_text(encoded.tokens, item) if encoded.batch.label[e] >= 0 else UNKNOWN


def _owners(ends: Ints) -> list[int]:
    """The event of each item; of a single event arrays would cost more than all else."""
    if ends.size == 2:
        return [0] * int(ends[1])
    owners: list[int] = np.repeat(np.arange(ends.size - 1), np.diff(ends)).tolist()
    return owners


def _readers(trees: Sequence[Tree]) -> list[tuple[int, int]]:
    """Of each table of counts: which hypothesis reads it along a tree, and which averages; else `_NOBODY`."""
    found = {t: _NOBODY for t, h in enumerate(trees) if not isinstance(h, OneDependence)}
    alone = []
    for t, h in enumerate(trees):
        if isinstance(h, OneDependence):
            room = h.max_values, h.memory
            free = (
                i for i in found if found[i] == _NOBODY and (trees[i].max_values, trees[i].memory) == room
            )
            if (tree := next(free, _NOBODY)) == _NOBODY:
                alone.append((_NOBODY, t))
            else:
                found[tree] = t
    return [*found.items(), *alone]


def _own_text(tokens: Tokens | None, item: int) -> Any:
    """The nominal value of an item; UNKNOWN where it was in a data frame, whose values are not kept."""
    if tokens is None:
        return UNKNOWN
    begin = tokens.item_ends[item - 1] if item else 0
    return tokens.text[begin : tokens.item_ends[item]].tobytes().decode()
