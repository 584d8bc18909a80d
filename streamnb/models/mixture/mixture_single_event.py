"""The fast path of one event through a mixture: one call of a kernel, with scratch kept from call to call.

The arrays of the model and the scratch are prepared together, and held until one of them is replaced: every
owner of arrays is a `Growable`, which then replaces its edition. No result is kept from one call to the next.
A call takes the prepared arrays out of a list, so that two threads never share scratch.

If a table is full, it grows, and the kernel runs again. What the kernel cannot do goes through a batch of
one: new classes, new attributes, bins that must grow, a memory budget, an unfinished copy, and values of
unusual types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.features.bags import Bags, fill_bags, places_for
from streamnb.features.byte_ngrams import ByteNgrams
from streamnb.features.keyed_hash import process_secret
from streamnb.features.tokenizer import SPARE, hash_each, most_tokens
from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.pinned_structs import PINNED_WORDS, carve, pinning
from streamnb.kernels.structs import struct_of, struct_type
from streamnb.models.mixture.adaptive_state import (
    AdaptiveArrays,
    AdaptiveScratch,
    AdaptiveState,
    HypothesisPlan,
)
from streamnb.models.mixture.hypotheses import Hypothesis, SmoothingTables
from streamnb.models.mixture.hypothesis_log_likelihood import HypothesisScratch
from streamnb.models.mixture.mixture_kernels import Answers, run_hypotheses
from streamnb.models.mixture.single_forest import SingleForest, learn_single, predict_single
from streamnb.models.naive_bayes.single_event import EncodedEvent
from streamnb.models.naive_bayes.single_event_kernel import (
    NO_MODEL,
    ModelArrays,
    encode_single,
    scratch_words,
)
from streamnb.models.one_dependence.one_dependence_kernels import CodedEvents, run_pairs
from streamnb.models.one_dependence.pair_model import CODED, GATED, Estimator
from streamnb.models.one_dependence.single_event_codes import code_one
from streamnb.models.softmax.feature_extraction import most_features_for
from streamnb.statistics.decayed_counts import DecayedCounts, DecayedTables
from streamnb.statistics.document_frequency import NO_DOCUMENT_FREQUENCY, DocumentFrequencyArrays
from streamnb.statistics.hypothesis_weights import HypothesisWeights, start
from streamnb.values.type_aliases import Codes

CAPACITY, MODE, ESTIMATOR, LAYS, FOREST = range(5)  # indices of `choices`

_LONG = 1 << 13  # bytes of all texts of an event
_MOST_ITEMS = 1 << 10


@struct_type
class MixtureArrays(NamedTuple):
    """The arrays of a mixture for one event, and scratch that no two calls may use at the same time.

    Attributes:
        model: counts and vocabulary.
        presence, decayed, learners, weights, readings, plan: see `run_hypotheses`.
        estimator: read if it is CODED.
        forest: read if there is one that is not gated.
        secret: of `fill_bags`.
        choices: int64[5], CAPACITY in rows, MODE of the prediction, state of the ESTIMATOR, LAYS (1 if a text
            that is learned needs a table of byte n-grams first), FOREST (1 if `forest` is read).
        draws: float64[1], the number by which GIBBS draws.
        rate: float64[1], switching rate.
        answers, no_answers: room for a prediction, and for none.
        grams: room for the byte n-grams of one event, without its texts.
        scratch, learner_scratch: see `run_hypotheses`.
    """

    model: ModelArrays
    presence: DocumentFrequencyArrays
    decayed: DecayedTables
    learners: AdaptiveArrays
    weights: HypothesisWeights
    readings: SmoothingTables
    plan: HypothesisPlan
    estimator: Estimator
    forest: SingleForest
    secret: Hashes
    choices: Ints
    draws: Floats
    rate: Floats
    answers: Answers
    no_answers: Answers
    grams: ByteNgrams
    scratch: HypothesisScratch
    learner_scratch: AdaptiveScratch


def mixture_words(n_bytes: int, items: int, values: int) -> int:
    """Return an upper bound of the scratch that `run_single_hypotheses` needs, in words of eight bytes."""
    tokens = most_tokens(n_bytes, items)[1]
    return scratch_words(n_bytes, items, values, 0) + 2 * items + values + 2 * tokens + places_for(tokens) + 8


def _example() -> MixtureArrays:
    """Return arrays of the types that kernels take."""
    plan = HypothesisPlan.from_hypotheses([Hypothesis()])
    empty = np.zeros(0, dtype=np.int64)
    return MixtureArrays(
        model=NO_MODEL,
        presence=NO_DOCUMENT_FREQUENCY,
        decayed=DecayedCounts().tables,
        learners=AdaptiveState(plan, 0).tables,
        weights=start([1.0]),
        readings=SmoothingTables.from_hypotheses([Hypothesis()], np.zeros((3, 1, 0)), ()),
        plan=plan,
        estimator=Estimator.none(0),
        forest=SingleForest.none(0),
        secret=process_secret(),
        choices=empty,
        draws=np.zeros(1),
        rate=np.zeros(1),
        answers=Answers.with_capacity(1, 1, 0),
        no_answers=Answers.with_capacity(1, 1, 0),
        grams=ByteNgrams.none(),
        scratch=HypothesisScratch.with_capacity(1, 0, 0, 0),
        learner_scratch=AdaptiveScratch.with_capacity(plan, 0, 0, 0),
    )


_pin, _pinned = pinning(_example())


@kernel
def pin_mixture(words: Ints, arrays: MixtureArrays) -> None:
    """Write the addresses of the arrays to int64[PINNED_WORDS], for `run_single_hypotheses`."""
    _pin(words, arrays)


@inlined
def _needs_table(choices: Ints, wholes: Any, values: int) -> bool:
    """Return True if this event opens the gate of an estimator, or lays the table of byte n-grams."""
    wakes = choices[ESTIMATOR] == GATED
    found = wakes and values > 0
    for i in range(wholes.size):
        found |= wakes if wholes[i] else choices[LAYS] != 0
    return bool(found)


@inlined
def _predict_ahead(arrays: Any, batch: Any, bits: Any, learns: Any) -> bool:
    """Fill the predictions of the estimator and the forest; return False if one needs a batch, or codes."""
    estimator, forest, tables, choices = arrays.estimator, arrays.forest, arrays.model.tables, arrays.choices
    is_done: Any = True
    if choices[ESTIMATOR] == CODED:
        missing, codes = estimator.missing, estimator.codes
        is_done = code_one(batch, bits, tables.kinds, estimator.tables, learns, missing, codes)
        if is_done:
            coded = CodedEvents(codes, estimator.no_label, batch.weight)
            joints = estimator.joints[0]
            run_pairs(estimator.pairs, estimator.smoothing, coded, estimator.scratch, joints, None)
    if is_done and choices[FOREST]:
        joints = estimator.joints[-1]
        is_done = predict_single(forest, batch, tables.kinds, tables.classes, learns, joints)
    return bool(is_done)


@inlined
def _learn_ahead(arrays: Any, batch: Any) -> None:
    """Learn the event in the estimator and the forest."""
    estimator, choices = arrays.estimator, arrays.choices
    if choices[ESTIMATOR] == CODED:
        coded = CodedEvents(estimator.codes, batch.label, batch.weight)
        joints = estimator.joints[0][:0]
        run_pairs(estimator.pairs, estimator.smoothing, coded, estimator.scratch, joints, None)
    if choices[FOREST]:
        learn_single(arrays.forest, batch, estimator.joints[-1][:0])


@kernel
def run_single_hypotheses(
    label: int,
    weight: int,
    text: npt.NDArray[np.uint8],
    lengths: Ints,
    attributes: Codes,
    value: Floats,
    size: int,
    pinned: Ints,
    words: Floats,
) -> int:
    """Learn one event, or predict it if the label is -1, like a batch of one.

    Returns the number of rows; after a prediction the number of classes without examples; or -1 - rows if it
    needs a batch. Then nothing was learned, but words may have got rows.

    `text`, `lengths`, `attributes` and `value` are an `EncodedEvent` within the sizes of the scratch, `size`
    is the number of rows, `pinned` was written by `pin_mixture`, and `words` is scratch,
    float64[`mixture_words`].
    """
    arrays = _pinned(pinned)
    model, choices, estimator = arrays.model, arrays.choices, arrays.estimator
    tables, learns = model.tables, label >= 0
    estimator.missing[-1, 0], arrays.forest.missing[-1, 0] = 0, 0
    none: Any = np.int64(0)
    tokens, size, at, encoded, found = encode_single(
        label, weight, text, lengths, attributes, value, size, model, words, none
    )
    if tokens < 0 or size > choices[CAPACITY]:
        return -1 - size
    batch = struct_of(encoded)
    out, token_ends, item_ends, wholes = found
    hash_each(out, token_ends, batch.item_rows, batch.item_group, batch.keys)
    plain = carve(words, at, (batch.value.size,), np.float64)[0]
    bits, at = carve(words, at, (batch.value.size,), np.uint64)
    for v in range(plain.size):
        plain[v] = batch.value[v] + 0.0  # no negative zero
    if learns and _needs_table(choices, wholes, batch.value.size):
        return -1 - size
    if not _predict_ahead(arrays, batch, bits, learns):
        return -1 - size
    m = batch.item_group.size
    event_bags, at = carve(words, at, (2,), np.int64)
    bag_group, at = carve(words, at, (m,), np.int32)
    bag_rows, at = carve(words, at, (m + 1,), np.int64)
    rows, at = carve(words, at, (tokens,), np.int32)
    amounts, at = carve(words, at, (tokens,), np.int64)
    places = carve(words, at, (2 * (words.size - at),), np.int32)[0]
    event_bags[0], bag_rows[0] = 0, 0
    most = fill_bags(batch, arrays.secret, places, event_bags, bag_group, bag_rows, rows, amounts)
    bags = struct_of(Bags(event_bags, bag_group, bag_rows, rows, amounts, most))
    held = arrays.grams
    grams = struct_of(
        ByteNgrams(text, item_ends, wholes, held.limits, held.seen, held.n, held.buckets, held.groups)
    )
    answers = arrays.no_answers if learns else arrays.answers
    state = tables, arrays.presence, arrays.decayed, arrays.learners, arrays.weights
    awake = 1 if choices[ESTIMATOR] == GATED else 0
    done = run_hypotheses(
        none, state, arrays.readings, arrays.plan, batch, bits, bags, grams, choices[MODE], arrays.draws,
        arrays.rate[0], learns, False, arrays.scratch, arrays.learner_scratch, estimator.joints, awake,
        answers, None,
    )  # fmt: skip
    if done == 0:
        return -1 - size
    if learns:
        _learn_ahead(arrays, batch)
        return size
    empty = 0
    for k in range(tables.classes.size):
        empty += tables.classes[k] == 0
    return empty


def is_short(event: EncodedEvent) -> bool:
    """Return True if the event is not too long for the scratch."""
    text, lengths, _, value = event
    return text.size <= _LONG + len(SPARE) and max(lengths.shape[1], value.size) <= _MOST_ITEMS


class EventSize(NamedTuple):
    """Size of an event, or of scratch: bytes of all texts, number of items, and of continuous values."""

    n_bytes: int
    items: int
    values: int

    @property
    def tokens(self) -> int:
        """Maximum number of tokens."""
        return most_tokens(self.n_bytes, self.items)[1]

    def rounded(self, other: EventSize) -> EventSize:
        """Return this size where it holds the other, and else one with room to spare."""
        pairs = zip(self, other, strict=True)
        return EventSize(*(own if own >= n else 1 << max(n, 63).bit_length() for own, n in pairs))


class Workspace(NamedTuple):
    """Scratch for one event at a time, for events up to a size and a number of classes.

    Attributes:
        size: of the events.
        shape: all other numbers that the scratch depends on.
        answers, no_answers, grams, scratch, learner_scratch: see `MixtureArrays`.
        words: see `run_single_hypotheses`.
        addresses: int64[PINNED_WORDS].
    """

    size: EventSize
    shape: tuple[int, ...]
    answers: Answers
    no_answers: Answers
    grams: ByteNgrams
    scratch: HypothesisScratch
    learner_scratch: AdaptiveScratch
    words: Floats
    addresses: Ints

    @classmethod
    def with_capacity(cls, size: EventSize, plan: HypothesisPlan, shape: tuple[int, ...]) -> Workspace:
        """Return scratch; the shape is classes, readings, half-lives, and bits of byte n-grams or 0."""
        classes, readings, decays, bits = shape
        grams = ByteNgrams.none()
        if bits:
            grams = ByteNgrams.with_capacity(bits, int(plan.first_bytes[0]), size.n_bytes)
        most = most_features_for(size.tokens, size.items, size.values) if plan.takes_features else 0
        return cls(
            size,
            shape,
            Answers.with_capacity(plan.kind.size, classes, 1),
            Answers.with_capacity(plan.kind.size, classes, 0),
            grams,
            HypothesisScratch.with_capacity(readings, plan.n_others, classes, decays),
            AdaptiveScratch.with_capacity(plan, classes, most, grams.buckets.size),
            np.empty(mixture_words(*size)),
            np.empty(PINNED_WORDS, dtype=np.int64),
        )


class _Prepared:
    """A workspace, and the model's arrays whose addresses it has; the key is what they were made for."""

    __slots__ = ("arrays", "key", "workspace")

    def __init__(self, key: tuple[Any, ...], workspace: Workspace, arrays: MixtureArrays | None) -> None:
        self.key, self.workspace, self.arrays = key, workspace, arrays


Build = Callable[[EventSize, Workspace | None], tuple[Workspace, MixtureArrays] | None]


class PreparedEvents:
    """Runs single events through the kernel; a cache, empty in a copy."""

    def __init__(self) -> None:
        self._free: list[_Prepared] = []

    def __reduce__(self) -> tuple[type[PreparedEvents], tuple[()]]:
        return PreparedEvents, ()

    def forget(self) -> None:
        """Drop the model's arrays: a batch comes, which may replace them."""
        for prepared in self._free:
            prepared.key, prepared.arrays = (), None

    def run(
        self,
        rows: int,
        key: tuple[Any, ...],
        event: EncodedEvent,
        label: int,
        weight: int,
        draw: float,
        build: Build,
    ) -> tuple[int, Any]:
        """Learn an event, or predict it if the label is -1.

        Args:
            rows: number of rows of the vocabulary.
            key: equal keys mean the same arrays.
            event: the event.
            label: class index, or -1.
            weight: units.
            draw: number in [0, 1) by which GIBBS draws.
            build: makes the arrays, in a workspace for this size, in a former one if it fits; returns None
                if single events need a batch.

        Returns the result of the kernel, and the probabilities of a prediction; or, if the event was not
        learned, the values without a code (see `code_one`), of estimators and of forests.
        """
        prepared = self._taken(key, event, build)
        if prepared is None:
            return -1 - rows, ([], [])
        arrays, workspace = prepared.arrays, prepared.workspace
        arrays.draws[0] = draw
        try:
            found = run_single_hypotheses(label, weight, *event, rows, workspace.addresses, workspace.words)
            if label < 0:
                return found, workspace.answers.probabilities[0].tolist()
            if found >= 0:
                return found, ()
            tables = arrays.estimator.missing, arrays.forest.missing
            return found, [missing[: missing[-1, 0]].tolist() for missing in tables]
        finally:
            self._free.append(prepared)

    def _taken(self, key: tuple[Any, ...], event: EncodedEvent, build: Build) -> Any:
        """Take prepared arrays out of the list, or make some."""
        text, lengths, _, value = event
        n_bytes, items, values = text.size, lengths.shape[1], value.size
        try:
            prepared = self._free.pop()
        except IndexError:
            workspace, size = None, EventSize(0, 0, 0)
        else:
            workspace, size = prepared.workspace, prepared.workspace.size
            if n_bytes <= size[0] and items <= size[1] and values <= size[2] and prepared.key == key:
                return prepared
        found = None
        if is_short(event):
            found = build(size.rounded(EventSize(n_bytes, items, values)), workspace)
        if found is None:
            if workspace is not None:
                self._free.append(_Prepared((), workspace, None))
            return None
        pin_mixture(found[0].addresses, found[1])
        return _Prepared(key, *found)
