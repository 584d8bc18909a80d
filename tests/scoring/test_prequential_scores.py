"""Progressive validation against River, scikit-learn and a recount in plain Python; and its laws."""

import itertools
import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.errors import SnapshotError
from streamnb.events import ReliabilityBin, Scores
from streamnb.scoring import prequential_scores
from streamnb.scoring.prequential_scores import BINS, ESCAPE, ProgressiveValidation
from streamnb.statistics import compensated
from tests.support.states import bytes_of

law = settings(deadline=None, max_examples=60)  # the first example may compile

NO_PREDICTION = "none"


# Streams: a list of (row of probabilities over the classes known so far, truth). The truth may be a new
# class, which is known from the next event on; below zero is unlabelled.


@st.composite
def streams(draw, most=60):
    weights = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 7.0, 3e-3, 2e-4, 1e-9, 1e-17, 1e-300, 1e6])
    known = draw(st.integers(0, 3))
    events = []
    for _ in range(draw(st.integers(0, most))):
        row = [draw(weights) for _ in range(known)]
        total = sum(row)
        truth = draw(st.integers(-1, known))
        events.append(([w / total if total else 0.0 for w in row], truth))
        known = max(known, truth + 1)
    return events


def random_stream(seed, events, classes, *, floor=1e-6):
    """Events of a fixed set of classes with every probability at least `floor`; arrays."""
    rng = np.random.default_rng(seed)
    probabilities = np.maximum(rng.dirichlet(np.full(classes, 0.4), size=events), floor)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    truths = np.where(
        rng.random(events) < 0.6, probabilities.argmax(axis=1), rng.integers(0, classes, events)
    )
    return probabilities, truths


def batch(events):
    """Arrays of some events, every row padded with zeros to the classes known at the end."""
    width = max((len(row) for row, _ in events), default=0)
    rows = np.zeros((len(events), width))
    for i, (row, _) in enumerate(events):
        rows[i, : len(row)] = row
    return rows, np.array([truth for _, truth in events], dtype=np.int64)


def validated(events, window_size=7):
    validation = ProgressiveValidation(window_size)
    validation.update_many(*batch(events))
    return validation


# The recount: definitions written down once more, without state and without numpy.


def predicted_class(row):
    return row.index(max(row)) if any(row) else None


def recount(events):
    events = [(row, truth) for row, truth in events if truth >= 0]
    n = len(events)
    if n == 0:
        return Scores(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    pairs = [(truth, predicted_class(row)) for row, truth in events]
    p_truth = [row[truth] if truth < len(row) else 0.0 for row, truth in events]
    brier = []
    for row, truth in events:
        padded = row + [0.0] * (truth + 1 - len(row))
        brier.append(math.fsum((p - (k == truth)) ** 2 for k, p in enumerate(padded)))
    f1 = []
    for k in {k for pair in pairs for k in pair} - {None}:
        hits = pairs.count((k, k))
        f1.append(2 * hits / (sum(t == k for t, _ in pairs) + sum(p == k for _, p in pairs)))
    agreed = sum(t == p for t, p in pairs) / n
    chance = sum(sum(t == k for t, _ in pairs) * sum(p == k for _, p in pairs) for k in range(99)) / n**2
    bins = recount_bins(events)
    return Scores(
        events=n,
        accuracy=agreed,
        log_loss=math.fsum(-math.log(min(1.0, max(p, 1e-15))) for p in p_truth) / n,
        macro_f1=math.fsum(f1) / len(f1),
        kappa=1.0 if chance == 1 else (agreed - chance) / (1 - chance),
        brier=math.fsum(brier) / n,
        calibration_error=math.fsum(b.events * abs(b.confidence - b.accuracy) for b in bins)
        / max(1, sum(b.events for b in bins)),
        reliability=bins,
    )


def recount_bins(events):
    edges = [b / 10 for b in range(11)]
    found = []
    for low, high in itertools.pairwise(edges):
        inside = [(row, t) for row, t in events if t >= 0 and any(row) and low < max(row) <= high]
        if inside:
            confidence = math.fsum(max(row) for row, _ in inside) / len(inside)
            right = sum(predicted_class(row) == t for row, t in inside)
            found.append(ReliabilityBin(low, high, confidence, right / len(inside), len(inside)))
    return tuple(found)


def assert_close(ours, theirs, tolerance=1e-12):
    ours, theirs = msgspec.structs.asdict(ours), msgspec.structs.asdict(theirs)
    assert ours.pop("accuracy_interval") is theirs.pop("accuracy_interval") is None, "that is the report's"
    curves = [[msgspec.structs.astuple(b) for b in scores.pop("reliability")] for scores in (ours, theirs)]
    assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    assert [b[:2] for b in curves[0]] == [b[:2] for b in curves[1]], "edges of bins"
    assert np.array(curves[0]) == pytest.approx(np.array(curves[1]), rel=tolerance, abs=tolerance)


@law
@given(streams(), st.integers(1, 70))
def test_scores_equal_a_recount(events, window_size):
    validation = validated(events, window_size)
    labelled = [event for event in events if event[1] >= 0]
    assert validation.events == len(labelled)
    assert_close(validation.cumulative(), recount(labelled))
    assert_close(validation.window(), recount(labelled[-window_size:]))


@law
@given(streams())
def test_confusion_equals_a_recount(events):
    confusion = validated(events).confusion()
    classes = max((max(len(row), truth + 1) for row, truth in events), default=0)
    expected = np.zeros((classes, classes + 1), dtype=np.int64)
    for row, truth in events:
        predicted = predicted_class(row)
        if truth >= 0:
            expected[truth, classes if predicted is None else predicted] += 1
    assert confusion.dtype == np.int64
    assert np.array_equal(confusion, expected)


# Laws: where the stream is cut, and where it is stopped, cannot be seen.


@law
@given(streams(), st.data())
def test_batches_are_unobservable(events, data):
    whole = validated(events)
    pieces = ProgressiveValidation(7)
    start = 0
    while start < len(events):
        stop = data.draw(st.integers(start + 1, len(events)))
        rows, truths = batch(events[start:stop])
        known = pieces.confusion().shape[0]
        if data.draw(st.booleans()):  # the caller's rows may be wider: the classes of a later event
            widest = max(max(len(row), truth + 1) for row, truth in events)
            rows = np.pad(rows, ((0, 0), (0, widest - rows.shape[1])))
        n_classes = data.draw(st.sampled_from([None, max(known, rows.shape[1], truths.max() + 1)]))
        pieces.update_many(rows, truths, n_classes)
        start = stop
    assert bytes_of(pieces) == bytes_of(whole)
    assert pieces.cumulative() == whole.cumulative()
    assert pieces.window() == whole.window()


@law
@given(streams(), st.integers(0, 60), st.integers(1, 20))
def test_restart_is_no_restart(events, at, window_size):
    undisturbed = validated(events, window_size)
    before = validated(events[:at], window_size)
    meta, arrays = before.state()
    meta = msgspec.json.decode(msgspec.json.encode(meta))
    after = ProgressiveValidation.from_state(meta, arrays)
    assert bytes_of(after) == bytes_of(before)
    after.update_many(*batch(events[at:]))
    assert bytes_of(after) == bytes_of(undisturbed)
    assert after.window() == undisturbed.window()
    assert after.cumulative() == undisturbed.cumulative()
    assert np.array_equal(after.confusion(), undisturbed.confusion())


def test_memory_grows_with_the_labels_and_not_with_their_square():
    """Most of so many labels are never predicted for one another."""
    K = 20_000
    validation = ProgressiveValidation(10)
    for label in range(0, K, 1000):
        rows = np.zeros((1000, 1))
        validation.update_many(rows, np.arange(label, label + 1000))
    _, arrays = validation.state()
    assert sum(array.nbytes for array in arrays.values()) < 100 * K
    held = [*vars(validation._cells).values(), validation._margins]
    assert sum(array.nbytes for array in held if isinstance(array, np.ndarray)) < 200 * K
    assert validation.cumulative().events == K
    assert validation.confusion(3).tolist() == [[0, 0, 0, 1]] * 3


def test_state_shares_no_memory_with_the_object():
    validation = ProgressiveValidation(5)
    validation.update_many(*random_stream(2, 9, 3))
    meta, arrays = validation.state()
    frozen = {name: array.copy() for name, array in arrays.items()}
    restored = ProgressiveValidation.from_state(meta, arrays)
    for changed in (validation, restored):
        changed.update_many(*random_stream(3, 9, 3))
        changed.confusion()[:] = 0
        assert all(np.array_equal(arrays[name], frozen[name]) for name in frozen)
    assert validation.events == int(validation.confusion().sum()) == 18


def test_state_is_cropped_to_what_is_in_use():
    _, arrays = validated([([], 0), ([1.0], 0)], 1000).state()
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == {
        "cells": (2, 3),
        "window_labels": (2, 2),
        "window_terms": (2, 3),
        "bins": (10, 2),
        "sums": (12, 2),
    }


@law
@given(streams(), st.integers(1, 9))
def test_window_equals_a_new_object_that_saw_only_those_events(events, window_size):
    labelled = [event for event in events if event[1] >= 0]
    fresh = validated(labelled[-window_size:], 1)
    validation = validated(events, window_size)
    assert validation.window() == fresh.cumulative()
    # Bits that the scores' last rounding may hide: the sums and their compensations.
    tally, margins = prequential_scores._empty_tally(), np.zeros((3, 99), dtype=np.int64)
    prequential_scores._add_window(validation.events, validation._ring, margins, tally)
    assert np.array_equal(tally.bins, fresh._tally.bins)
    assert np.array_equal(tally.sums, fresh._tally.sums)


# Sums: neither extreme losses nor ten million events cost digits.


@law
@given(st.floats(0, 1e100), st.floats(0, 1e100))
def test_one_addition_loses_nothing(first, second):
    sums = np.array([[first, 0.0]])
    compensated.add(sums, 0, second)
    assert Fraction(sums[0, 0]) + Fraction(sums[0, 1]) == Fraction(first) + Fraction(second)


def test_window_does_not_drift_after_many_wraps_with_extreme_losses():
    rng = np.random.default_rng(4)
    p = rng.choice([0.0, 1e-300, 1e-12, 0.3, 0.7, 1 - 1e-16, 1.0], size=5000)
    validation = ProgressiveValidation(50)
    validation.update_many(np.stack((p, 1 - p), axis=1), np.zeros(5000, dtype=np.int64))
    assert_close(validation.window(), recount([([q, 1 - q], 0) for q in p[-50:].tolist()]))
    almost_sure = 1 - 2**-53  # after fifty of them only losses of 1e-16 are left
    rows = np.tile([almost_sure, 2**-53], (50, 1))
    validation.update_many(rows, np.zeros(50, dtype=np.int64))
    assert validation.window().log_loss == pytest.approx(-math.log(almost_sure), rel=1e-12, abs=0)
    assert validation.window().brier == pytest.approx(2 * 2**-106, rel=1e-12, abs=0)


@pytest.mark.thorough
def test_ten_million_events_keep_twelve_digits():
    block = 10**6
    rng = np.random.default_rng(5)
    p = np.where(np.arange(block) % 10 == 0, rng.choice([0.0, 1e-9, 0.999], size=block), 0.9)
    rows, truths = np.stack((p, 1 - p), axis=1), np.zeros(block, dtype=np.int64)
    validation = ProgressiveValidation(10)
    for _ in range(10):
        validation.update_many(rows, truths)
    scores = validation.cumulative()
    assert scores.events == 10 * block
    losses = math.fsum(-math.log(max(q, ESCAPE)) for q in p.tolist())
    assert scores.log_loss == pytest.approx(losses / block, rel=1e-14, abs=0)
    squares = math.fsum((1 - p) ** 2) + math.fsum((p - 1) ** 2)
    assert scores.brier == pytest.approx(squares / block, rel=1e-14, abs=0)
    (confidence,) = [b.confidence for b in scores.reliability if b.upper == 0.9]
    assert confidence == pytest.approx(0.9, rel=1e-14, abs=0)


def test_kappa_is_exact_beyond_products_of_64_bits():
    validation = ProgressiveValidation(1)
    validation.update_many(*batch([([0.6, 0.4], 0), ([0.4, 0.6], 1)]))
    meta, arrays = validation.state()
    for name, index in (("cells", (slice(None), 2)), ("bins", ())):
        arrays[name][index] *= 4 * 10**9  # eight billion events, squared, are more than 2^63
    assert ProgressiveValidation.from_state(meta, arrays).cumulative().kappa == 1.0


# Degenerate cases, one by one.


def test_no_events():
    validation = ProgressiveValidation()
    nothing = Scores(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for rows in (np.zeros((0, 0)), np.zeros((0, 2))):
        validation.update_many(rows, np.zeros(0, dtype=np.int64))
        assert validation.cumulative() == validation.window() == nothing
        assert validation.confusion().shape == (rows.shape[1], rows.shape[1] + 1)
    assert validation.events == 0


def test_event_met_by_an_empty_model():
    for row in ([], [0.0, 0.0]):
        validation = validated([(row, 0)])
        assert validation.cumulative() == Scores(1, 0.0, -math.log(1e-15), 0.0, 0.0, 1.0, 0.0)
        assert validation.confusion()[0, -1] == 1
    mixed = validated([([], 0), ([1.0], 0)])
    sure = (ReliabilityBin(0.9, 1.0, 1.0, 1.0, 1),)
    assert mixed.cumulative() == Scores(2, 0.5, -math.log(1e-15) / 2, 2 / 3, 0.0, 0.5, 0.0, sure)
    assert mixed.confusion().tolist() == [[1, 1]]


def test_unseen_truth_costs_the_escape_mass_and_adds_one_to_brier():
    for row in ([0.75, 0.25], [0.75, 0.25, 0.0]):
        scores = validated([(row, 2)]).cumulative()
        wrong = (ReliabilityBin(0.7, 0.8, 0.75, 0.0, 1),)
        assert scores == Scores(1, 0.0, -math.log(1e-15), 0.0, 0.0, 0.75**2 + 0.25**2 + 1, 0.75, wrong)


def test_certain_and_right_costs_nothing():
    validation = validated([([1.0, 0.0], 0)])
    expected = Scores(1, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, (ReliabilityBin(0.9, 1.0, 1.0, 1.0, 1),))
    assert validation.cumulative() == expected
    barely_above_one = validated([([1.0 + 2**-52, 0.0], 0)]).cumulative()
    assert barely_above_one.log_loss == 0.0
    assert barely_above_one.reliability == expected.reliability


@pytest.mark.parametrize("edge", [b / 10 for b in range(1, 11)])
def test_right_edge_of_a_bin_is_inclusive(edge):
    above = math.nextafter(edge, 2.0)
    rows = [p for p in (math.nextafter(edge, 0.0), edge, above) if p <= 1.0]
    validation = ProgressiveValidation()
    validation.update_many(np.array(rows)[:, None], np.zeros(len(rows), dtype=np.int64))
    counts = [b.events for b in validation.cumulative().reliability]
    assert counts == ([2, 1] if above <= 1.0 else [2])
    assert len(recount_bins([([p], 0) for p in rows])) == len(counts)


def test_tiny_confidence_falls_into_the_first_bin():
    found = validated([([5e-324], 0)]).cumulative().reliability
    assert found == (ReliabilityBin(0.0, 0.1, 5e-324, 1.0, 1),)


def test_scores_are_finite_on_the_wire():
    validation = validated([([], 0), ([5e-324, 1.0], 0), ([1.0], 1)])
    for scores in (validation.cumulative(), validation.window(), ProgressiveValidation().window()):
        values = [
            value
            for record in (scores, *scores.reliability)
            for name, value in msgspec.structs.asdict(record).items()
            if name != "accuracy_interval"
        ]
        assert {type(value) for value in values} <= {int, float, tuple}
        assert msgspec.json.decode(msgspec.json.encode(scores), type=Scores) == scores


def test_a_known_class_may_have_no_event():
    validation = ProgressiveValidation()
    validation.update_many(np.array([[0.6, 0.4]]), np.array([0]), n_classes=4)
    assert validation.confusion().shape == (4, 5)
    validation.update_many(np.array([[0.6, 0.4]]), np.array([0]))
    assert validation.confusion().shape == (4, 5)


def test_memory_layout_of_the_input_is_unobservable():
    probabilities, truths = random_stream(7, 40, 3)
    frozen, cut = probabilities.copy(), np.repeat(truths, 2)[::2]
    frozen.flags.writeable = False
    dumps = []
    for rows, ys in (
        (probabilities, truths),
        (np.asfortranarray(frozen), cut),
        (frozen, truths.astype(np.int32)),
    ):
        validation = ProgressiveValidation()
        validation.update_many(rows, ys)
        dumps.append(bytes_of(validation))
    assert dumps[0] == dumps[1] == dumps[2]


# Refusals change nothing.


@pytest.mark.parametrize(
    ("rows", "truths", "n_classes"),
    [
        ([[0.5, math.nan]], [0], None),
        ([[0.5, math.inf]], [0], None),
        ([[1.5, -0.5]], [0], None),
        ([[1.0, -1e-300]], [0], None),
        ([[1.001, 0.0]], [0], None),
        ([0.5, 0.5], [0, 0], None),
        ([[0.5, 0.5]], [0, 0], None),
        ([[0.5, 0.5]], [[0]], None),
        ([[0.5, 0.5]], [0], 1),
        ([[0.5, 0.5]], [9], 9),
        ([[0.5, 0.5]], [0], 2),
    ],
)
def test_what_cannot_be_scored_is_refused_whole(rows, truths, n_classes):
    validation = ProgressiveValidation()
    validation.update_many(*random_stream(8, 5, 3))
    before = bytes_of(validation)
    with pytest.raises(ValueError, match=r"shapes|probabilities|n_classes"):
        validation.update_many(np.array(rows), np.array(truths), n_classes)
    assert bytes_of(validation) == before


@pytest.mark.parametrize("window_size", [0, -1])
def test_window_of_nothing_is_refused(window_size):
    with pytest.raises(ValueError, match="window_size"):
        ProgressiveValidation(window_size)


def _without(name):
    return lambda arrays: arrays.pop(name)


def _set(name, index, value):
    return lambda arrays: arrays[name].__setitem__(index, value)


def _crop(name):
    return lambda arrays: arrays.update({name: arrays[name][:-1]})


@pytest.mark.parametrize(
    "damage",
    [
        *(_without(name) for name in ("cells", "window_labels", "window_terms", "bins", "sums")),
        *(_crop(name) for name in ("cells", "window_labels", "window_terms", "bins", "sums")),
        _set("cells", (0, 0), -1),
        _set("cells", (-1, 0), 3),
        _set("cells", (0, 1), -2),
        _set("cells", (0, 1), 3),
        _set("cells", (0, 2), -100),
        lambda arrays: arrays.update(cells=arrays["cells"][::-1].copy()),
        _set("window_labels", (0, 0), 3),
        _set("window_labels", (0, 1), 3),
        _set("window_labels", (0, 0), -1),
        _set("window_labels", (0, 1), -2),
    ],
)
def test_state_that_does_not_fit_together_is_refused(damage):
    validation = ProgressiveValidation(5)
    validation.update_many(*random_stream(9, 8, 3))
    meta, arrays = validation.state()
    damage(arrays)
    with pytest.raises(SnapshotError):
        ProgressiveValidation.from_state(meta, arrays)


@pytest.mark.parametrize(
    "change",
    [
        *({"classes": n} for n in (None, "3", 2, -1, 1 << 40)),
        *({"window_size": n} for n in (None, "5", 0, 5.0)),
    ],
)
def test_state_of_another_number_of_classes_or_without_a_window_size_is_refused(change):
    validation = ProgressiveValidation(5)
    validation.update_many(*random_stream(9, 8, 3))
    meta, arrays = validation.state()
    with pytest.raises(SnapshotError, match=r"class|cells|window_size"):
        ProgressiveValidation.from_state({**meta, **change}, arrays)


# River as oracle. It skips an event that an empty model met; here such an event is given to it with a
# prediction that is never right, which is then one more class in its macro-F1 (with F1 = 0).


def river_labels(row):
    predicted = predicted_class(row)
    return NO_PREDICTION if predicted is None else predicted


def river_macro_f1(metric):
    classes = metric.cm.classes
    return metric.get() * len(classes) / max(1, len([c for c in classes if c != NO_PREDICTION]))


def river_kappa(metric):
    """River's kappa where it has one: with p_e = 1 (and so full agreement) it says 0.0 in place of 1.0."""
    pairs = [(t, p) for t, row in metric.cm.data.items() for p, n in row.items() if n]
    return 1.0 if len(pairs) == 1 and pairs[0][0] == pairs[0][1] else metric.get()


@law
@given(streams(most=40), st.integers(1, 12))
def test_labels_agree_with_river(events, window_size):
    from river import metrics, utils

    kinds = (metrics.Accuracy, metrics.MacroF1, metrics.CohenKappa, metrics.ConfusionMatrix)
    whole = [kind() for kind in kinds]
    rolling = [utils.Rolling(kind, window_size=window_size) for kind in kinds[:3]]
    validation = ProgressiveValidation(window_size)
    for row, truth in events:
        validation.update_many(*batch([(row, truth)]))
        if truth < 0:
            continue
        for metric in (*whole, *rolling):
            metric.update(truth, river_labels(row))
        for scores, river in ((validation.cumulative(), whole), (validation.window(), rolling)):
            assert scores.accuracy == pytest.approx(river[0].get(), abs=1e-12)
            assert scores.macro_f1 == pytest.approx(river_macro_f1(river[1]), abs=1e-12)
            assert scores.kappa == pytest.approx(river_kappa(river[2]), abs=1e-9)
    confusion = validation.confusion()
    classes = confusion.shape[0]
    columns = [*range(classes), NO_PREDICTION]
    theirs = [[whole[3][truth][column] for column in columns] for truth in range(classes)]
    assert confusion.tolist() == theirs


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_log_loss_agrees_with_river(classes):
    from river import metrics, utils

    # River clips p at 1 - 1e-15 too and its rolling mean drifts: probabilities stay within [1e-6, 1).
    kind = metrics.LogLoss if classes == 2 else metrics.CrossEntropy
    whole, rolling = kind(), utils.Rolling(kind, window_size=30)
    validation = ProgressiveValidation(30)
    probabilities, truths = random_stream(10, 200, classes)
    for row, truth in zip(probabilities, truths.tolist(), strict=True):
        validation.update_many(row[None, :], np.array([truth]))
        y, p = (truth == 1, row[1]) if classes == 2 else (truth, dict(enumerate(row.tolist())))
        whole.update(y, p)
        rolling.update(y, p)
        assert validation.cumulative().log_loss == pytest.approx(whole.get(), rel=1e-9)
        assert validation.window().log_loss == pytest.approx(rolling.get(), rel=1e-9)


# scikit-learn as second oracle.


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_scores_agree_with_scikit_learn(classes):
    from sklearn import metrics

    probabilities, truths = random_stream(11, 500, classes)
    validation = ProgressiveValidation(64)
    validation.update_many(probabilities, truths)
    labels = list(range(classes))
    for scores, p, y in (
        (validation.cumulative(), probabilities, truths),
        (validation.window(), probabilities[-64:], truths[-64:]),
    ):
        predicted = p.argmax(axis=1)
        seen = np.union1d(y, predicted)
        brier = metrics.brier_score_loss(y, p, labels=labels, scale_by_half=False)
        assert scores.accuracy == pytest.approx(metrics.accuracy_score(y, predicted), rel=1e-12)
        assert scores.log_loss == pytest.approx(metrics.log_loss(y, p, labels=labels), rel=1e-12)
        assert scores.macro_f1 == pytest.approx(
            metrics.f1_score(y, predicted, labels=seen, average="macro"), rel=1e-12
        )
        assert scores.kappa == pytest.approx(metrics.cohen_kappa_score(y, predicted), rel=1e-12)
        assert scores.brier == pytest.approx(brier, rel=1e-12)
    theirs = metrics.confusion_matrix(truths, probabilities.argmax(axis=1), labels=labels)
    assert np.array_equal(validation.confusion()[:, :-1], theirs)


def test_reliability_agrees_with_scikit_learn():
    from sklearn.calibration import calibration_curve

    probabilities, truths = random_stream(12, 2000, 4)
    validation = ProgressiveValidation()
    validation.update_many(probabilities, truths)
    right = probabilities.argmax(axis=1) == truths
    accuracy, confidence = calibration_curve(right, probabilities.max(axis=1), n_bins=BINS)
    ours = validation.cumulative().reliability
    assert [b.confidence for b in ours] == pytest.approx(confidence, rel=1e-12)
    assert [b.accuracy for b in ours] == pytest.approx(accuracy, rel=1e-12)
    assert sum(b.events for b in ours) == 2000


# Compilation, where machine code cannot be kept on disk.


def _double(x):
    return x + x


def test_kernel_options_keep_arithmetic_exact():
    from streamnb.kernels.jit import kernel

    options = kernel(_double).targetoptions
    assert not options["fastmath"]
    assert options["nogil"]
    assert options["error_model"] == "numpy"
