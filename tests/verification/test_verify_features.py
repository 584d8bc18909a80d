"""Verification of a mixture: features, and what is learned by gradient, are those of a replay."""

from __future__ import annotations

import dataclasses
import json
import random
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.cli.commands.verify import source_of
from streamnb.engine.journal.journal_entries import roll_back
from streamnb.engine.ports import NewRecord, Partition
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.features import tokenizer
from streamnb.models.softmax.feature_table import COUNTS, KEY, KEY_BITS, OWNER, TOTAL, met_once, mixed
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.verification.check_results import CheckResults, Outcome
from streamnb.verification.log_verification import verify
from tests.support.service import TOPICS, AtOnce, produce, raw_events, read_topic
from tests.support.topics_of_logs import trim
from tests.support.verifying import (
    Altered,
    configured,
    edit_snapshot,
    learn,
    new_worker,
    places,
    told,
    verified,
)

pytestmark = [pytest.mark.slow, pytest.mark.early(34)]

MIXTURE = "model.kind=mixture"
RAWS = [*raw_events(298, seed=8), b"{", b"[]"]
END = 10  # 300 records in commits of 30; snapshots at 3, 6, 9 and 10
EVENTS = Partition("events", 0)


def open_log(folder):
    return SqliteLog(folder / "log.db", session_timeout=5.0)


def create(folder, events=1):
    with open_log(folder) as log:
        for name, partitions in {**TOPICS, "events": events}.items():
            log.create_topic(name.replace("_", "-"), partitions)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    create(folder)
    with open_log(folder) as log:
        produce(log, RAWS)
        learn(log, folder / "snapshots", MIXTURE)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of a log that was learned, with its snapshots."""
    (tmp_path / "log.db").write_bytes((made / "log.db").read_bytes())
    (tmp_path / "snapshots").mkdir()
    for path in (made / "snapshots").glob("*.snb"):
        (tmp_path / "snapshots" / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture
def log(folder):
    with open_log(folder) as opened:
        yield opened


def outcome_of(log, folder, *sets):
    return verified(log, folder / "snapshots", MIXTURE, *sets)


def checks(outcome):
    return {check for check, _ in told(outcome)}


def arrays_at(folder, n=None):
    return AtOnce(folder / "snapshots", 100).newest(n).snapshot.parts["model"].arrays


def assert_clean(outcome, events):
    assert told(outcome) == []
    assert outcome.events == events
    fine = dict(told(outcome, Outcome.OK))
    assert fine["learners"].endswith(
        "numbers of what learns by gradient or forgets are the replay's, bit for bit"
    )
    assert fine["replay"].startswith("with snapshots and with")


# -- what is right ------------------------------------------------------------------------------------------


def test_a_mixture_is_clean_with_the_snapshots_on_the_way(log, folder):
    outcome = outcome_of(log, folder)
    assert_clean(outcome, 300)
    assert told(outcome, Outcome.UNCHECKED) == []
    on_the_way = [text for check, text in told(outcome, Outcome.OK) if check == "snapshots"]
    assert [text.split(":")[0] for text in on_the_way] == [f"at journal record {n}" for n in (3, 6, 9, END)]


def wide_events(n, seed):
    """More attributes than are paired, numbers of which every layout of bins comes into use, missing values."""
    rng = random.Random(seed)
    for i in range(n):
        y = rng.choice("abc")
        x = {f"v{j}": rng.choice([y, "x", "y"]) for j in range(11)}
        x |= {"n": rng.gauss(ord(y), 2.0), "few": rng.randrange(5), "flag": rng.random() < 0.5}
        x = {name: None if rng.random() < 0.1 else value for name, value in x.items()}
        text = " ".join(rng.choices(["the", "of", y, "w", "z"], k=rng.randrange(7)))
        label = y if rng.random() < 0.8 else None
        yield json.dumps({"id": f"e{i}", "text": text, "features": x, "label": label}).encode()


def test_every_layout_of_bins_a_choice_of_attributes_stop_words_and_partitions_are_clean(tmp_path):
    flags = ["model.prune.every=100", "model.prune.drop_most_frequent=1", "model.prune.min_count=2.0"]
    raws = list(wide_events(3000, 3))
    create(tmp_path, events=3)
    for part in (raws[:700], raws[700:]):
        with open_log(tmp_path) as log:
            log.append([NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(part)])
            learn(log, tmp_path / "snapshots", MIXTURE, *flags, pace=CommitPolicy(100, snapshot_events=400))
    with open_log(tmp_path) as log:
        outcome = outcome_of(log, tmp_path, *flags)
    assert_clean(outcome, 3000)
    arrays = arrays_at(tmp_path)
    assert arrays["learned_context_n_chosen"][0] == 12
    assert (arrays["learned_bins_n_edges"].max(axis=0) > 0).all()
    assert (arrays["groups"] < 0).any()


def test_a_budget_that_is_spent_raised_and_lowered_is_clean(tmp_path):
    create(tmp_path)
    sizes = []
    for memory, part in (("20KiB", RAWS[:100]), ("40KiB", RAWS[100:200]), ("10KiB", RAWS[200:])):
        with open_log(tmp_path) as log:
            produce(log, part)
            learn(log, tmp_path / "snapshots", MIXTURE, f"posterior.memory={memory}")
        with open_log(tmp_path) as log:
            outcome = outcome_of(log, tmp_path, f"posterior.memory={memory}")
        assert told(outcome) == []
        sizes.append(len(arrays_at(tmp_path)["learned_features"]))
    assert_clean(outcome, 300)
    assert 100 < sizes[0] < sizes[1] == sizes[2]


def test_the_replay_begins_with_a_snapshot_where_events_are_gone(log, folder):
    trim(log, EVENTS, read_topic(log, "events")[150].offset)
    outcome = outcome_of(log, folder)
    assert_clean(outcome, 120)
    edit_snapshot(folder / "snapshots", one("feature_weights", WEIGHT, lambda v: v * 1.5))
    edit_snapshot(folder / "snapshots", one("features", A_WORD, lambda v: v + 1024), 9)
    outcome = outcome_of(log, folder)
    assert checks(outcome) == {"learners", "snapshots"}
    assert any("at journal record 9: learned_features[" in text for _, text in told(outcome))


def test_what_was_rolled_back_is_in_no_feature_and_no_weight(tmp_path):
    create(tmp_path)
    with open_log(tmp_path) as log:
        produce(log, RAWS[:150])
        worker = new_worker(log, tmp_path / "snapshots", MIXTURE)
        worker.start("test")
        worker.run(until_end=True)
        roll_back(log, worker.checkpoint, 4, worker.context.identity, 1_790_009_000.0)
        worker.close()
    with open_log(tmp_path) as log:
        produce(log, RAWS[150:])
        learn(log, tmp_path / "snapshots", MIXTURE)
    with open_log(tmp_path) as log:
        assert_clean(outcome_of(log, tmp_path), 120 + 150)


def test_hypotheses_of_which_none_has_features_are_clean(tmp_path):
    flags = ['hypotheses=[{ calibrated = true }, { kind = "pool" }]']
    create(tmp_path)
    with open_log(tmp_path) as log:
        produce(log, RAWS)
        learn(log, tmp_path / "snapshots", *flags)
    with open_log(tmp_path) as log:
        outcome = verified(log, tmp_path / "snapshots", *flags)
        assert told(outcome) == []
        assert dict(told(outcome, Outcome.OK))["learners"].startswith("10 numbers")
        edit_snapshot(tmp_path / "snapshots", one("powers", (0, 0), lambda v: v * (1 + 1e-15)), 6)
        ((check, text),) = told(verified(log, tmp_path / "snapshots", *flags))
    assert check == "snapshots"
    assert text.startswith("at journal record 6: learned_powers[0, 0] is ")


def altered(name, columns):
    """The last number of an array's first class, in the last row; of features that is a bin."""

    def edit(parts):
        array = parts["model"].arrays[f"learned_{name}"]
        array[(len(array) - 1, *columns)] += 1024

    return edit


def test_features_that_bins_alone_need_are_clean_and_damage_to_them_is_found(tmp_path):
    """There is nothing that is learned by gradient."""
    flags = ['hypotheses=[{ density = "binned" }]']
    create(tmp_path)
    rng = random.Random(3)
    raws = [
        json.dumps(
            {"id": f"{i}", "features": {"n": rng.gauss(0.0, 1.0 + i % 2)}, "label": "ab"[i % 2]}
        ).encode()
        for i in range(300)
    ]
    with open_log(tmp_path) as log:
        produce(log, raws)
        learn(log, tmp_path / "snapshots", *flags)
    with open_log(tmp_path) as log:
        outcome = verified(log, tmp_path / "snapshots", *flags)
        assert_clean(outcome, 300)
        assert arrays_at(tmp_path)["learned_feature_weights"].size == 0
        edit_snapshot(tmp_path / "snapshots", altered("features", (COUNTS,)))
        edit_snapshot(tmp_path / "snapshots", altered("features", (COUNTS,)), 9)
        found = told(verified(log, tmp_path / "snapshots", *flags))
    assert {check for check, _ in found} == {"learners", "snapshots"}
    assert any("learned_features[" in text for _, text in found)


def test_without_snapshots_nothing_is_compared_twice(log, folder):
    for path in (folder / "snapshots").iterdir():
        path.unlink()
    outcome = outcome_of(log, folder)
    assert told(outcome) == []
    assert "learners" not in dict(told(outcome, Outcome.OK))


STREAM = st.lists(st.one_of(st.sampled_from(RAWS), st.just(b"{")), max_size=40)


@settings(max_examples=15)
@given(
    STREAM,
    st.integers(1, 9),
    st.integers(1, 30),
    st.sampled_from([0, 3, 7]),
    st.sampled_from(["1KiB", "8KiB", "1MiB"]),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_random_streams_are_clean(raws, commit, snapshot, prune, memory, partitions, lives):
    flags = (f"model.prune.every={prune}", "model.prune.drop_most_frequent=1", f"posterior.memory={memory}")
    with tempfile.TemporaryDirectory() as name:
        create(Path(name), partitions)
        for life in range(lives):
            with open_log(Path(name)) as log:
                part = raws[life::lives]
                log.append([NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(part)])
                pace = CommitPolicy(commit_events=commit, snapshot_events=snapshot)
                learn(log, Path(name) / "snapshots", MIXTURE, *flags, pace=pace)
        with open_log(Path(name)) as log:
            outcome = outcome_of(log, Path(name), *flags)
            assert told(outcome) == []
            assert told(outcome, Outcome.UNCHECKED) == []


# -- one number that is another -----------------------------------------------------------------------------


def token_key(word):
    """In the first text."""
    raw = word.encode()
    return tokenizer.hash_bytes(np.frombuffer(raw + tokenizer.SPARE, dtype=np.uint8), 0, len(raw), 0)


def key_of(*words):
    """That of a word, or of a pair of words."""
    first, *second = (np.uint64(token_key(word)) for word in words)
    return int(np.uint64(mixed(first, *second) if second else first) & KEY_BITS)


def row_of(arrays, words):
    """A row by its word or words; of none that of the attribute to which text belongs."""
    key = key_of(*words) if words else key_of("w7")
    row = int(np.flatnonzero(arrays["learned_features"][:, KEY] == key)[0])
    return row if words else int(arrays["learned_features"][row, OWNER])


def one(name, place, change):
    """One number of an array; in a table of features the place begins with words."""

    def edit(parts):
        arrays = parts["model"].arrays
        array = arrays[f"learned_{name}"]
        where = place
        if name == "feature_weights":  # by learner, then by row
            where = (place[1], row_of(arrays, place[0]), place[2])
        elif name.startswith("feature"):
            where = (row_of(arrays, place[0]), *place[1:])
        array[where] = change(array[where])

    return edit


def one_less(name, place, counted):
    """One number less in an array, and in the count of them: of attribute x, the first."""

    def edit(parts):
        arrays = parts["model"].arrays
        n = arrays[f"learned_{name}"][place]
        arrays[f"learned_{name}"][place] = n - 1
        arrays[f"learned_{counted}"] = np.delete(arrays[f"learned_{counted}"], n - 1)

    return edit


W7 = ("w7",)
A_WORD, WEIGHT = (W7, COUNTS + 1), (W7, 0, 1)


def pairs_of(raws):
    """Adjacent words of what is labelled, and in how many events they are."""
    learned = [event for event in map(json.loads, raws) if event["label"]]
    return Counter(pair for event in learned for pair in set(pairwise(event["text"].split())))


IN_SNAPSHOTS = pairs_of(RAWS[:90])
OFTEN = next(pair for pair, n in IN_SNAPSHOTS.items() if n > 1)
ONCE = next(pair for pair in IN_SNAPSHOTS if pairs_of(RAWS[:298])[pair] == 1)


def whole(name, change):
    """An array, other than it was."""

    def edit(parts):
        arrays = parts["model"].arrays
        arrays[f"learned_{name}"] = change(arrays[f"learned_{name}"].copy())

    return edit


def once_at(change):
    """The pairs that were met once, other than they were at the one that is met once in all."""

    def of(once):
        (place,) = np.flatnonzero(once & KEY_BITS == np.uint64(key_of(*ONCE)))
        return np.sort(change(once, int(place)))

    return whole("features_met_once", of)


def other_class(once, place):
    label = int(once[place] >> np.uint64(48)) & 0x7FFF
    once[place] += np.uint64(1 << 48) if label < 2 else np.uint64(2**64 - (1 << 48))
    return once


def twice(table):
    table[-1] = table[-2]
    return table


FEATURES = {
    "count of a word": (one("features", A_WORD, lambda v: v + 1), f"{COUNTS + 1}]"),
    "count of a pair": (one("features", (OFTEN, COUNTS), lambda v: v + 1024), f"{COUNTS}]"),
    "total of a feature": (one("features", (W7, TOTAL), lambda v: v - 1), f"{TOTAL}]"),
    "count of an owner": (one("features", ((), COUNTS + 2), lambda v: v - 1024), f"{COUNTS + 2}]"),
    "total of an owner": (one("features", ((), TOTAL), lambda v: v + 1), f"{TOTAL}]"),
    "owner": (one("features", (W7, OWNER), lambda v: v + 1), f"{OWNER}]"),
    "key": (one("features", (W7, KEY), lambda v: v ^ 1), f"{KEY}]"),
    "edge": (one("bins_edges", 3, lambda v: v + 1e-12), "learned_bins_edges[3]"),
    "edges": (one_less("bins_n_edges", (0, 0), "bins_edges"), "learned_bins_n_edges[0, 0]"),
    "value": (one("bins_values", 40, lambda v: -v), "learned_bins_values[40]"),
    "values": (one_less("bins_learned", 0, "bins_values"), "learned_bins_learned[0]"),
    "code": (one("bins_n_codes", 0, lambda _: 0), "learned_bins_n_codes[0]"),
    "weight": (one("context_learned", 0, lambda v: v + 512), "learned_context_learned[0]"),
    "label": (one("context_last_label", 0, lambda v: (v + 1) % 3), "learned_context_last_label[0]"),
    "chosen": (one("context_chosen", 1, lambda v: v + 1), "learned_context_chosen[1]"),
    "class of a pair met once": (once_at(other_class), "learned_features_met_once["),
    "pair met once left out": (once_at(np.delete), "learned_features_met_once has the shape"),
    "pair met once too many": (once_at(lambda once, _: np.append(once, np.uint64(1 << 63 | 7))), "learned_features_met_once has the shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", FEATURES)
def test_one_number_of_the_features_that_is_another_is_told(log, folder, name):
    """With right checksums, in the newest snapshot and in one on the way."""
    edit, what = FEATURES[name]
    for n in (3, END):
        edit_snapshot(folder / "snapshots", edit, n)
    outcome = outcome_of(log, folder)
    assert checks(outcome) == {"snapshots", "learners"}
    texts = told(outcome)
    for check, n in (("snapshots", 3), ("learners", END)):
        found = [text for c, text in texts if c == check and text.startswith(f"at journal record {n}")]
        assert any(what in text and "in a replay" in text for text in found)


SHAPES = {
    "columns": whole("features", lambda table: table[:, :-1]),
    "owner": one("features", (W7, OWNER), lambda _: 1 << 40),
    "key twice": whole("features", twice),
    "class": whole("features_met_once", lambda once: np.append(once, met_once(np.uint64(7), 3))),
    "no bit": whole("features_met_once", lambda once: np.append(np.uint64(7), once)),
    "order": whole("features_met_once", lambda once: once[::-1]),
    "met twice": whole("features_met_once", lambda once: np.sort(np.append(once, once[0] ^ np.uint64(1 << 48)))),
    "beside a row": whole("features_met_once", lambda once: np.sort(np.append(once, met_once(np.uint64(key_of("w7")), 1)))),
    "type": whole("features_met_once", lambda once: once.astype(np.int64)),
    "none": lambda parts: ([parts["model"].arrays.pop(n) for n in ("learned_features", "learned_bias")] and None),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n", [3, pytest.param(END, marks=pytest.mark.thorough)])
def test_features_of_another_shape_are_told(log, folder, name, n):
    edit_snapshot(folder / "snapshots", SHAPES[name], n)
    outcome = outcome_of(log, folder)
    assert n in [place["record"] for check in ("snapshots", "recount") for place in places(outcome, check)]


@pytest.mark.parametrize("name", SHAPES)
def test_a_replay_does_not_begin_with_features_of_another_shape(log, folder, name):
    """Nothing but the snapshot is left of what was learned before it."""
    trim(log, EVENTS, read_topic(log, "events")[280].offset)
    edit_snapshot(folder / "snapshots", SHAPES[name], END)
    outcome = outcome_of(log, folder)
    assert END in [place["record"] for check in ("snapshots", "recount") for place in places(outcome, check)]


GRADIENTS = {
    "weight": (one("feature_weights", WEIGHT, lambda v: v + np.float32(1e-6)), "feature_weights["),
    "squares": (one("feature_weights", (W7, 1, 0), lambda v: v * 2), "feature_weights["),
    "bias": (one("bias", (1, 0, 0), lambda v: v * (1 + 1e-15)), "bias[1, 0, 0]"),
    "power": (one("powers", (1, 0), lambda v: v * (1 + 1e-15)), "powers[1, 0]"),
    "curvature": (one("powers", (0, 1), lambda v: v * (1 + 1e-15)), "powers[0, 1]"),
    "opinion": (one("pool_weights", (1, 3), lambda v: v + 1e-16), "pool_weights[1, 3]"),
    "covariance": (
        one("pool_covariance", (0, [4, 0], [0, 4]), lambda v: v + 1e-16),
        "pool_covariance[0, 0, 4]",
    ),
    "bias of a pool": (one("pool_bias", (0, 0, 2), lambda v: -v), "pool_bias[0, 0, 2]"),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("n", [3, pytest.param(END, marks=pytest.mark.thorough)])
def test_one_number_learned_by_gradient_that_is_another_is_told(log, folder, name, n):
    edit, what = GRADIENTS[name]
    edit_snapshot(folder / "snapshots", edit, n)
    outcome = outcome_of(log, folder)
    assert checks(outcome) == ({"snapshots"} if n < END else {"snapshots", "learners"})
    for finding in outcome.findings.all():
        if finding.verdict == Outcome.DIFFERS:
            assert finding.text.startswith(f"at journal record {n}: learned_{what}")
            assert finding.found != finding.expected
    assert len(told(outcome)) == (1 if n < END else 2)


def test_numbers_that_differ_are_told_by_the_first_of_each_array(log, folder):
    def edit(parts):
        parts["model"].arrays["learned_bias"] *= 2.0
        parts["model"].arrays["learned_pool_bias"] = parts["model"].arrays["learned_pool_bias"][:, :, :2]

    edit_snapshot(folder / "snapshots", edit, 6)
    texts = [text for _, text in told(outcome_of(log, folder))]
    assert ", and 17 more" in texts[0]
    assert "learned_pool_bias has the shape (2, 2, 2), and (2, 2, 3) in a replay" in texts[1]


# -- one event too many, or too few -------------------------------------------------------------------------


@pytest.mark.parametrize("times", [0, 2])
def test_an_event_that_the_learners_alone_learned_twice_or_not_at_all_is_told(log, folder, times):
    """Classes, words and moments are right, and so are the numbers of records."""
    raws = read_topic(log, "events")
    which = next(i for i in range(285, 0, -1) if json.loads(raws[i].value)["label"])
    learner = factories.learner(configured(MIXTURE))
    learner.process([*raws[:which], *[raws[which]] * times, *raws[which + 1 :]], 1.0)
    wrong = {n: a for n, a in learner.parts()["model"].arrays.items() if n.startswith("learned_")}
    edit_snapshot(folder / "snapshots", lambda parts: parts["model"].arrays.update(wrong))
    outcome = outcome_of(log, folder)
    assert checks(outcome) == {"snapshots", "learners"}
    total = next(f for f in outcome.findings.all() if f.check == "learners" and "context_learned" in f.text)
    assert total.found - total.expected == (times - 1) * 1024


def test_words_that_changed_places_in_the_log_are_told(log, folder):
    """All counts of words are right; those of their pairs are not."""
    target = next(r for r in read_topic(log, "events")[30:] if swapped(r.value))

    def change(record):
        return [record._replace(value=swapped(record.value)) if record.offset == target.offset else record]

    outcome = outcome_of(Altered(log, "events", change), folder)
    assert checks(outcome) == {"slices", "replay", "outputs"}


def swapped(raw):
    """The event with its first two words in each other's place; empty where that is not another event."""
    event = json.loads(raw)
    words = event["text"].split()
    if not event["label"] or len(words) < 3 or words[0] == words[1]:
        return b""
    words[:2] = words[1::-1]
    return json.dumps({**event, "text": " ".join(words)}).encode()


# -- machines, and the command ------------------------------------------------------------------------------


def test_two_kinds_of_machine_may_differ_in_what_is_learned_by_gradient(log, folder):
    def other_bits(parts):
        for name in ("bias", "powers", "pool_weights", "feature_weights"):
            parts["model"].arrays[f"learned_{name}"][0, 1] *= 1 + 2.0**-20
        parts["model"].arrays["learned_pool_covariance"][0] *= 1 + 2.0**-20

    edit_snapshot(folder / "snapshots", other_bits)
    config = configured(MIXTURE)
    source = source_of(config, log, SnapshotFolder(folder / "snapshots"))
    elsewhere = dataclasses.replace(source.identity, fingerprint={"python": "4"})
    elsewhere = dataclasses.replace(source, identity=elsewhere)
    assert "learners" in checks(verify(source, CheckResults()))
    outcome = verify(elsewhere, CheckResults())
    assert (
        "weights, powers and what forgets: more than one kind of machine has written"
        in dict(told(outcome, Outcome.UNCHECKED)).values()
    )
    assert told(outcome) == []
    edit_snapshot(folder / "snapshots", FEATURES["count of a word"][0])
    assert checks(verify(elsewhere, CheckResults())) == {"snapshots", "learners"}
