"""The kernel for one event: tokenize, look up, then predict or learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.features.encoded_batch import Batch, mark_repeats
from streamnb.features.tokenizer import most_tokens_within, tokenize
from streamnb.features.vocabulary import DONE, KeyArrays, Vocabulary, look_up
from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.pinned_structs import carve, pinning
from streamnb.kernels.structs import struct_of, struct_type
from streamnb.models.naive_bayes.joint_log_likelihood import JointScore
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.naive_bayes.prediction_kernels import run
from streamnb.statistics.histograms import Histograms
from streamnb.values.example_weights import UNIT
from streamnb.values.nominal_values import LARGEST
from streamnb.values.type_aliases import Codes

_HEAVIEST = 1 << 20


@struct_type
class ModelArrays(NamedTuple):
    """Model arrays for one event: its tables, the arrays of `Vocabulary`, the `character_table`."""

    tables: CountViews
    keys: KeyArrays
    secret: Hashes
    characters: Codes

    @classmethod
    def of_model(cls, tables: CountViews, keys: Vocabulary, characters: Codes) -> ModelArrays:
        """Return the current arrays."""
        return cls(tables, keys.arrays, keys.secret, characters)


_INT, _INTS = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64)
_REAL, _REALS = np.zeros(0), np.zeros((0, 0))
_COUNTS = (_INT, _INTS, _INTS, _INT, _INT, _INT, Histograms.empty(0, 64, 8))
_TABLES = CountViews(*_COUNTS, _INTS, _REALS, _REALS, _REAL, _REAL, _REAL, _REAL, _REAL, 0, 0, _INT, _REAL)
NO_MODEL = ModelArrays.of_model(_TABLES, Vocabulary(), np.zeros(0, dtype=np.int32))
"""Arrays of the types that kernels take, for `pinning`."""
_pin, _pinned = pinning(NO_MODEL)


@kernel
def pin_arrays(words: Ints, arrays: ModelArrays) -> None:
    """Write the addresses of the arrays to int64[PINNED_WORDS], for `run_single`."""
    _pin(words, arrays)


def scratch_words(n_bytes: int, items: int, values: int, classes: int) -> int:
    """Return an upper bound of the scratch that `run_single` needs, in words of eight bytes."""
    return 3 * n_bytes + 11 * items + 2 * values + 5 * classes + 64


@inlined
def _fill_items(lengths: Any, owners: Any, ends: Any, wholes: Any, groups: Any, amount: Any) -> bool:
    """Fill the item arrays; return False if an item occurs less than once, or too often."""
    end = 0
    m = ends.size
    for i in range(m):
        end += lengths[0, i]
        ends[i] = end
        amount[i] = UNIT
        if lengths.shape[0] > 1:
            if not 0 < lengths[1, i] <= _HEAVIEST:
                return False
            amount[i] *= lengths[1, i]
        owner = owners[i if owners.size == m else 0]
        wholes[i] = owner < 0
        groups[i] = owner if owner >= 0 else ~owner
    return True


@inlined
def _fill_values(field: Any, value: Any, fields: Any, finite: Any) -> int:
    values = 0
    for v in range(value.size):
        if np.isfinite(value[v]):
            finite[values] = min(max(value[v], -LARGEST), LARGEST)
            fields[values] = field[v]
            values += 1
    return values


@inlined
def _pair(carved: Any) -> Any:
    """Return the two rows of a carved array separately, and the end position."""
    both, at = carved
    return (both[0], both[1]), at


@inlined
def encode_single(
    label: int,
    weight: int,
    text: npt.NDArray[np.uint8],
    lengths: Ints,
    attributes: Codes,
    value: Floats,
    size: int,
    arrays: ModelArrays,
    scratch: Floats,
    at: int,
) -> Any:
    """Tokenize and look up one event; return (tokens, rows, the end of the scratch, batch, its tokens).

    The first is -1 if a row lacks capacity, or an item occurs less than once. Then words may have got rows.
    `batch` has the hashes of the look-up in place of keys. `at` is the first free word of the scratch. For
    other arguments see `run_single`.
    """
    m, learns = lengths.shape[1], label >= 0
    n_bytes, n_tokens = most_tokens_within(text.size, m)
    (item_ends, amount), at = _pair(carve(scratch, at, (2, m), np.int64))
    item_rows, at = carve(scratch, at, (m + 1,), np.int64)
    groups, at = carve(scratch, at, (m,), np.int32)
    (wholes, adds), at = _pair(carve(scratch, at, (2, m), np.bool_))
    lowered, at = carve(scratch, at, (text.size,), np.uint8)
    out, at = carve(scratch, at, (n_bytes,), np.uint8)
    token_ends, at = carve(scratch, at, (n_tokens,), np.int64)
    places, at = carve(scratch, at, (n_tokens,), np.uint64)
    rows, at = carve(scratch, at, (n_tokens,), np.int32)
    of_event, at = carve(scratch, at, (6,), np.int64)
    time, at = carve(scratch, at, (1,), np.float64)
    finite, at = carve(scratch, at, (value.size,), np.float64)
    fields, at = carve(scratch, at, (value.size,), np.int32)
    owners = attributes[: attributes.size - value.size]
    tokens, values = np.int64(-1), 0
    if at <= scratch.size and _fill_items(lengths, owners, item_ends, wholes, groups, amount):
        adds[:] = learns
        item_rows[0] = 0
        tokens = np.int64(0)
        if m:
            filled = lowered, out, token_ends, places, item_rows
            tokens = tokenize(text, item_ends, wholes, groups, arrays.secret, arrays.characters, filled)
            found = out, token_ends[:tokens], places[:tokens], item_rows, groups, adds
            token, size = look_up(0, found, size, arrays.keys, rows)
            if token != DONE or size > arrays.tables.table.shape[0]:
                tokens = np.int64(-1)
        values = _fill_values(attributes[owners.size :], value, fields, finite)
    of_event[0], of_event[1], of_event[2], of_event[3] = 0, m, 0, values
    of_event[4], of_event[5], time[0] = label, weight, np.nan
    batch = Batch(
        event_items=of_event[:2],
        item_group=groups,
        item_amount=amount,
        item_rows=item_rows,
        rows=rows[: max(tokens, 0)],
        keys=places[: max(tokens, 0)],
        event_values=of_event[2:4],
        value_field=fields[:values],
        value=finite[:values],
        label=of_event[4:5],
        weight=of_event[5:],
        time=time,
    )
    return tokens, size, at, batch, (out, token_ends[: max(tokens, 0)], item_ends, wholes)


@kernel
def run_single(
    label: int,
    weight: int,
    text: npt.NDArray[np.uint8],
    lengths: Ints,
    attributes: Codes,
    value: Floats,
    size: int,
    words: Ints,
    scratch: Floats,
) -> int:
    """Learn one event, or predict it if the label is -1.

    Returns the number of rows; after a prediction the number of classes without examples; or -1 - rows
    without capacity or if an item occurs less than once. Then nothing was learned, but words may have got
    rows.

    The kernel creates no arrays, because counting references to its inputs costs more than an event.

    `text`, `lengths`, `attributes` and `value` are an `EncodedEvent`, `size` is the number of rows, and
    `words` were written by `pin_arrays`. `scratch` is float64[`scratch_words`]; after a prediction it begins
    with the probability of every class.
    """
    arrays = _pinned(words)
    tables = arrays.tables
    K, learns = tables.classes.size, label >= 0
    (joint, product), at = _pair(carve(scratch, K, (2, K), np.float64))
    (missed, exponent), at = _pair(carve(scratch, at, (2, K), np.int64))
    tokens, size, at, encoded, _ = encode_single(
        label, weight, text, lengths, attributes, value, size, arrays, scratch, at
    )
    if tokens < 0 or at + 2 * tokens > scratch.size:
        return -1 - size
    batch = struct_of(encoded)
    most = 0
    if tables.histograms.used.size:
        spare = carve(scratch, at, (4 * tokens,), np.int32)[0]
        most = mark_repeats(batch, tables.kinds, arrays.secret, spare)
    answers = carve(scratch, 0, (1, K), np.float64)[0][: 0 if learns else 1]
    told = answers, answers[:0], product[:0]  # no evidence
    if run(0, most, tables, batch, learns, told, JointScore(joint, missed, product, exponent), None) == 0:
        return -1 - size
    if learns:
        return size
    empty = 0
    for k in range(K):
        empty += tables.classes[k] == 0
    return empty
