"""What models learn and publish, and what the program is called by, is what the golden files hold; see `rewrite.py`."""

from __future__ import annotations

import pytest

from tests.brokers.numbered import NUMBERS
from tests.golden import rewrite
from tests.golden.golden_cases import CASES, ON_KAFKA, ON_STREAMS
from tests.golden.golden_texts import TEXTS

pytestmark = pytest.mark.early(2)


@pytest.fixture(scope="module")
def frozen():
    made = rewrite.Frozen()
    yield made
    made.close()


@pytest.mark.parametrize("name", CASES)
def test_a_life_leaves_behind_what_it_did(frozen, name, request):
    if name in ON_STREAMS:
        request.getfixturevalue("streams")
    found = frozen.life(name)
    for file, golden in rewrite.expected(name, found["fingerprint"]).items():
        _same(f"{file} > {name}", golden, found[rewrite.LIVES[file]])


@pytest.mark.storm_for(
    *(
        "naive Bayes",
        "mixture",
        "semi-supervised",
        "logistic regression",
        "hidden Markov",
        "Bayesian network",
    ),
    *("late labels, mixture", "decisions", "drift", "quarantine and aliases"),
)
@pytest.mark.parametrize("name", ON_KAFKA)
def test_a_life_on_kafka_leaves_behind_the_same(frozen, broker, name):
    found = frozen.life(name, f"kafka://{broker.address}", f"g{next(NUMBERS)}-")
    golden = rewrite.expected(name, found["fingerprint"])
    golden.pop("raw.json", None)
    golden["models.json"].pop("asked", None)
    for file, content in golden.items():
        _same(f"{file} > {name}", content, found[rewrite.LIVES[file]])


def test_shards_add_up_to_what_one_learner_learns(frozen, broker):
    golden = rewrite.read("models.json")["lives"]["shards"]["asked"]["model export"]
    found = frozen.shards(f"kafka://{broker.address}", f"g{next(NUMBERS)}-")
    _same("models.json > shards > asked > model export", golden, found)


@pytest.mark.parametrize("file", TEXTS)
def test_a_text_is_what_it_was(frozen, file):
    _same(file, rewrite.read(file), frozen.text(file))


def _same(title, golden, found):
    text = rewrite.difference(title, golden, found)
    assert not text, text
