"""Number of texts of each class that contain a word, for the presence-only and Bernoulli models."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable, roomier
from streamnb.kernels.jit import kernel
from streamnb.kernels.structs import struct_type
from streamnb.statistics.counts import Counts, add_rows
from streamnb.statistics.histograms import Histograms, highest_count, histogram_move
from streamnb.values.attribute_kinds import BERNOULLI, MULTINOMIAL, NOMINAL
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Codes


@struct_type
class DocumentFrequencyArrays(NamedTuple):
    """The tables as the kernels take them.

    Attributes:
        table: int64[>= rows, >= classes], weight of the texts that hold a word.
        texts: int64[groups, >= classes], weight of the texts.
        words: int64[groups, >= classes], sum of the table over the words of a text attribute.
        slot, histograms: as in `counts.Counts`; without Bernoulli hypotheses every slot is -1.
        absent: float64[H, B], log probability that every word that a class has is absent, by hypothesis;
            valid unless the histogram is stale.
    """

    table: Ints
    texts: Ints
    words: Ints
    slot: Ints
    histograms: Histograms
    absent: Floats


@kernel
def count_documents(
    presence: DocumentFrequencyArrays, kinds: Any, bags: Any, e: int, k: int, weight: int
) -> None:
    """Add `weight` (which may be negative) to class k for every text of event e and every word in it.

    A word whose amount times the weight rounds down to zero units is not in the text, and stays unknown.
    """
    columns = presence.texts.shape[1]
    table, histograms, rows = presence.table, presence.histograms, bags.rows
    exact, occupied = histograms.exact, histograms.occupied
    counted, words = histograms.weight, histograms.words
    used, positive = histograms.used, histograms.positive
    for bag in range(bags.event_bags[e], bags.event_bags[e + 1]):
        g = bags.group[bag]
        if kinds[g] == NOMINAL:
            continue
        first, stop = bags.bag_rows[bag], bags.bag_rows[bag + 1]
        presence.texts[g, k] += weight
        b = presence.slot[g] * columns + k
        if b >= 0:
            histograms.stale[b] = True
        for j in range(first, stop):
            if bags.amounts[j] * abs(weight) < UNIT:
                continue
            presence.words[g, k] += weight
            before = table[rows[j], k]
            table[rows[j], k] = before + weight
            if b >= 0:
                histogram_move(exact, occupied, counted, words, used, positive, b, before, before + weight)


@kernel
def uncount_documents(
    presence: DocumentFrequencyArrays, kinds: Any, bags: Any, e: int, k: int, weight: int
) -> bool:
    """Remove event e from class k; return False, without a change, if it cannot have been counted."""
    for bag in range(bags.event_bags[e], bags.event_bags[e + 1]):
        g = bags.group[bag]
        if kinds[g] == NOMINAL:
            continue
        if presence.texts[g, k] < weight:
            return False
        for j in range(bags.bag_rows[bag], bags.bag_rows[bag + 1]):
            if bags.amounts[j] * weight >= UNIT and presence.table[bags.rows[j], k] < weight:
                return False
    count_documents(presence, kinds, bags, e, k, -weight)
    for bag in range(bags.event_bags[e], bags.event_bags[e + 1]):
        g = bags.group[bag]
        b = presence.slot[g] * presence.texts.shape[1] + k
        if kinds[g] != NOMINAL and b >= 0 and highest_count(presence.histograms, b) > presence.texts[g, k]:
            count_documents(presence, kinds, bags, e, k, weight)
            return False
    return True


class DocumentFrequency(Growable):
    """The tables, grown as rows, groups and classes appear.

    Attributes:
        counts: table, texts (its totals) and histograms.
        words: see `DocumentFrequencyArrays`.
    """

    def __init__(self, *, bernoulli: bool) -> None:
        self.counts = Counts()
        self.words = np.zeros((0, 2), dtype=np.int64)
        self._text_kind = BERNOULLI if bernoulli else MULTINOMIAL  # the other kind keeps no histograms
        self._absent = np.zeros((0, 0))

    @property
    def n_bytes(self) -> int:
        """Memory of the tables in bytes."""
        arrays = [self.words, self._absent, self.counts.table, self.counts.totals]
        return sum(array.nbytes for array in arrays) + self.counts.histograms.n_bytes

    def reserve(self, kinds: Ints, rows: int, classes: int, most: int) -> None:
        """Grow to these groups, rows (at most `most`) and classes."""
        for kind in kinds[self.counts.kinds.size :].tolist():
            self.counts.add_group(NOMINAL if kind == NOMINAL else self._text_kind)
        self.counts.reserve_classes(classes, rows)
        self.counts.reserve_rows(rows, most)
        self.words = roomier(self.words, *self.counts.totals.shape, times=1)

    def reserve_texts(self, most: int) -> None:
        """Let the histograms take one more text of `most` different words."""
        self.counts.reserve_texts(most)

    def load(self, table: Ints, texts: Ints, groups: Codes) -> None:
        """Adopt the table and texts of a state, as `Counts.load` does."""
        self.counts.load("presence", table, texts, groups)
        add_rows(table, groups, self.words)  # stopped words have no counts

    def forget(self, rows: Ints, groups: Codes) -> None:
        """Remove rows, as `Counts.forget`, also from `words`."""
        self.words -= self.counts.forget(rows, groups)

    def tables(self, hypotheses: int) -> DocumentFrequencyArrays:
        """Return the tables for the kernels, for `hypotheses` hypotheses."""
        shape = (hypotheses, self.counts.histograms.stale.size)
        if self._absent.shape != shape:
            self._absent = np.zeros(shape)
            self.counts.histograms.stale[:] = True
        counts = self.counts
        return DocumentFrequencyArrays(
            counts.table, counts.totals, self.words, counts.slot, counts.histograms, self._absent
        )


NO_DOCUMENT_FREQUENCY = (
    DocumentFrequency(bernoulli=False).tables(0)._replace(table=np.zeros((0, 0), dtype=np.int64))
)
"""Tables for models without hypotheses on presence."""
