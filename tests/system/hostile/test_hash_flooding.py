"""Whoever sends events cannot choose them so that a table takes long: where things stand in it is secret."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, NaiveBayes, Nominal, Text
from streamnb.cli import build_parser
from streamnb.cli.commands.run import run
from streamnb.engine.ports import NewRecord
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Settings
from streamnb.features import bags, keyed_hash, tokenizer, vocabulary
from streamnb.features.tokenizer import TokenBuffer
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.snapshot_container import part_digest
from streamnb.models.mixture.hypotheses import Hypothesis
from streamnb.models.mixture.hypothesis_kinds import Softmax
from streamnb.models.softmax import feature_table
from streamnb.runtime import context, factories
from tests.support.flood import longest_run, unkeyed, values_of_one_hash, words_in_one_chain
from tests.support.service import predictions, raw_events, records

pytestmark = pytest.mark.thorough

SECRETS = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
FEW = 1_000
"""Slots in a row that 100,000 words do not fill by chance in a table that is three quarters full."""


@contextmanager
def secret_of(secret):
    """Models that are made in here are those of a process with this secret."""
    with ExitStack() as stack:
        for module in (tokenizer, vocabulary, feature_table, bags):
            drawn = np.array(secret, dtype=np.uint64)
            stack.enter_context(patch.object(module, "process_secret", lambda drawn=drawn: drawn))
        yield


# -- the hash -----------------------------------------------------------------------------------------------


def key_of_seed(seed):
    """The secret of an interpreter that was started with this PYTHONHASHSEED; 0 is none."""
    drawn = bytearray()
    for _ in range(16 if seed else 0):
        seed = (seed * 214013 + 2531011) % 2**32
        drawn.append(seed >> 16 & 0xFF)
    return np.frombuffer(bytes(drawn or 16), dtype="<u8")


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="another Python, which has another hash")
@pytest.mark.parametrize("seed", [0, 1, 20_261_123])
def test_it_is_the_hash_of_pythons_own_dictionaries(seed):
    """Of the group, in eight bytes, and the token behind it; for tokens of every length."""
    items = [bytes(range(1, 1 + length)) for length in range(1, 80)] + [b"\xff" * 300]
    groups = np.array([7 * i * i for i in range(len(items))], dtype=np.int32)
    found = TokenBuffer(items, np.ones(len(items), dtype=np.bool_), groups, key_of_seed(seed)).places
    messages = [int(g).to_bytes(8, "little") + item for g, item in zip(groups, items, strict=True)]
    told = subprocess.run(
        [sys.executable, "-c", f"print([hash(message) for message in {messages!r}])"],
        env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.view(np.int64).tolist() == json.loads(told.stdout)


@given(st.integers(0, 2**63 - 1), SECRETS)
def test_the_hash_of_a_number_is_that_of_its_bytes(number, secret):
    words = np.array(secret, dtype=np.uint64)
    found = TokenBuffer([b""], np.ones(1, dtype=np.bool_), np.array([number]), words).places[0]
    assert keyed_hash.hash_word(words, np.uint64(number)) == found


def test_every_process_has_a_secret_of_its_own_unless_it_is_given_one():
    code = "from streamnb.features.keyed_hash import process_secret; print(*process_secret())"
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("random", "random", "5", "5")
    ]  # fmt: skip
    assert len(set(told)) == 3
    assert told[2] == told[3]


# -- tables -------------------------------------------------------------------------------------------------


def ran(*arguments):
    """The learner of ``streamnb run`` after it."""
    made = []
    options = build_parser().parse_args(["run", *arguments])
    original = factories.learner
    with patch.object(factories, "learner", lambda config: made.append(original(config)) or made[-1]):
        assert run(options) == 0
    return made[0]


def test_an_event_of_words_that_meet_is_an_event_like_any_other(tmp_path):
    """100,000 words of one chain, in an event of less than a megabyte, under the default configuration."""
    text = " ".join(words_in_one_chain(100_000))
    event = json.dumps({"id": "flood", "text": text, "label": "x"}).encode()
    assert len(event) < 1_000_000
    flags = ["--log", f"sqlite:///{tmp_path / 'log.db'}", "--set", "http.listen=", "--until-end"]
    config = context.load_config(build_parser().parse_args(["run", *flags]))
    with context.open_log(config) as log:
        log.append([NewRecord("events", None, event)])
    learner = ran(*flags)
    assert learner.model.n_attributes == 100_000
    assert longest_run(learner.model.statistics.vocabulary.slots) < FEW
    again = ran(*flags)  # from its snapshot
    assert again.consumed == 1
    assert longest_run(again.model.statistics.vocabulary.slots) < FEW


def test_values_of_one_hash_do_not_meet():
    """All 64 bits of the hash that names features are equal: no number of slots would part them."""
    values = values_of_one_hash(20_000)
    assert len({*TokenBuffer([v.encode() for v in values], *of_group(len(values))).hashes.tolist()}) == 1
    model = NaiveBayes({"colour": Nominal()})
    model.learn_many([{"colour": value} for value in values], ["x"] * len(values))
    assert model.n_attributes == 20_000
    assert longest_run(model.statistics.vocabulary.slots) < FEW


def of_group(n):
    return np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.int32)


def test_features_whose_names_meet_do_not_meet():
    """20,000 words whose keys end alike: by these bits they would fill one run of slots."""
    table = np.uint64((1 << 18) - 1)  # slots, which an event of so many words makes room for
    words = words_in_one_chain(20_000, lambda hashes: hashes & table < np.uint64(1 << 11))
    model = BayesOptimalNB({"text": "text"}, [Softmax(), Hypothesis()])
    model.learn_one({"text": " ".join(words)}, "x")
    tables = model._learners.features.tables
    assert tables.size[0] == 20_001
    assert tables.slots.size == int(table) + 1
    assert longest_run(tables.slots) < FEW


def test_numbers_that_were_chosen_to_meet_do_not_meet():
    """Rows whose products with a number that is known end alike, as those of a bag might."""
    inverse = pow(0x9E3779B1, -1, 1 << 32)
    rows = [home * inverse % (1 << 16) + (i << 16) for home in range(100) for i in range(100)]
    assert {row * 0x9E3779B1 % (1 << 16) for row in rows} == set(range(100))
    rng = np.random.default_rng(4)
    meets = []
    for _ in range(200):
        secret = rng.integers(0, 2**64, size=2, dtype=np.uint64)
        places = [int(keyed_hash.hash_number(secret, row)) % (1 << 16) for row in rows]
        meets.append(len(places) - len(set(places)))
    assert np.mean(meets) < 1_000  # of 10,000; 730 where they are random


def test_the_words_of_these_tests_would_meet_without_a_secret():
    for slots in (1 << 14, 100_003, 1 << 20):
        words = np.array([word.encode().ljust(8, b"\0") for word in words_in_one_chain(1_000)]).view("<u8")
        homes = (unkeyed(words.reshape(-1, 1), 7) & np.uint64(0xFFFFFFFF)) * np.uint64(slots) >> np.uint64(32)
        assert homes.max() - homes.min() <= slots / 128


# -- nothing hangs on it ------------------------------------------------------------------------------------


def made_models():
    texts = {"text": Text(), "subject": Text(event_model="bernoulli")}
    return [
        NaiveBayes(texts),
        BayesOptimalNB({"text": "text"}),
        BayesOptimalNB({"text": "text", "subject": "text"}, [Hypothesis("bernoulli"), Softmax(pairs=True)], memory=20_000),
    ]  # fmt: skip


def learned(model, seed):
    """What a learner of the model answers to a stream, its state, and how it explains."""
    learner = EventProcessor(Settings(EventSchema()), model)
    outputs = learner.process(records(raw_events(60, seed)), 1.0)
    explained = model.explain_one({"text": "w1 w2 w3", "colour": "r", "x": 0.5})
    return predictions(outputs), part_digest(*model.state()), explained


@settings(max_examples=5)
@given(st.lists(SECRETS, min_size=2, max_size=2), st.integers(0, 9))
def test_answers_and_states_are_the_same_under_any_secret(secrets, seed):
    found = []
    for secret in secrets:
        with secret_of(secret):
            found.append([learned(model, seed) for model in made_models()])
    assert found[0] == found[1]


@given(SECRETS, SECRETS)
def test_models_of_different_secrets_merge(one, other):
    rng = random.Random(3)
    events = [({"text": " ".join(rng.choices("abcdefgh", k=5))}, rng.choice("xy")) for _ in range(20)]
    whole, parts = NaiveBayes({"text": "text"}), []
    for secret, part in ((one, events[:10]), (other, events[10:])):
        with secret_of(secret):
            parts.append(NaiveBayes({"text": "text"}))
        parts[-1].learn_many(*zip(*part, strict=True))
    whole.learn_many(*zip(*events, strict=True))
    assert part_digest(*parts[0].merge(parts[1]).state()) == part_digest(*whole.state())


@settings(max_examples=5)
@example((0x0123456789ABCDEF, 0xF7E6D5C4B3A29180), (3, 4))
@given(SECRETS, SECRETS)
def test_a_model_that_is_carried_into_another_process_takes_that_ones_secret(one, other):
    with secret_of(one):
        models = made_models()
        for model in models:
            learned(model, 1)
        carried = pickle.dumps(models)
        expected = [learned(copy.deepcopy(model), 2) for model in models]
    with secret_of(other):
        assert [learned(model, 2) for model in pickle.loads(carried)] == expected  # noqa: S301  our own
    halves = [np.uint64(half).tobytes() for half in one]
    assert not any(half in carried for half in halves if len(set(half)) == len(half))  # or it may be a count
