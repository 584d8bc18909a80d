"""The events of a storm, all drawn from its seed: mixed, some without a label, some that are no events."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import NamedTuple

NAMES = ["ham", "spam", "Éire"]
WORDS = [f"word{i}" for i in range(300)] + "Straße ΣΊΣΥΦΟΣ İstanbul naïve 42 x_1 ﬁn Ⱥ don't".split()
SENDERS = [f"sender-{i}.example" for i in range(25)]
BAD = "bad-"
"""How the id of a malformed record begins. Nothing can be learned of it; its record's key says who it was."""
FEW = 0.03
"""How many are."""
BASE = 1_700_000_000.0


class Made(NamedTuple):
    """One record: its id, its bytes, its key, which is mostly its id, and the role of its topic."""

    id: str
    raw: bytes
    key: str
    role: str = "events"


def events(seed: int, number: int, *, of_entities: bool = False) -> Iterator[Made]:
    """So many events, always the same of one seed; keyed by their entities, or by their ids."""
    rng = random.Random(seed)
    states: dict[str, int] = {}
    for i in range(number):
        entity = rng.choice(SENDERS) if of_entities else ""
        if rng.random() < FEW:
            yield malformed(rng, f"{BAD}{i}", entity)
        elif of_entities:
            if rng.random() < 0.2:
                states[entity] = rng.randrange(len(NAMES))
            made = event(rng, f"e-{i}", states.setdefault(entity, 0))
            yield Made(f"e-{i}", json.dumps(made).encode(), entity)
        else:
            yield Made(
                f"e-{i}", json.dumps(event(rng, f"e-{i}"), ensure_ascii=rng.random() < 0.5).encode(), f"e-{i}"
            )


def is_malformed(name: str) -> bool:
    return name.startswith(BAD)


def event(rng: random.Random, name: str, k: int | None = None) -> dict:
    """The class shows in the words, the senders and the numbers, so that predictions are not all alike."""
    k = min(int(rng.expovariate(1.0)), len(NAMES) - 1) if k is None else k
    features = {
        "sender": rng.choice(SENDERS[k * 5 : k * 5 + 15]),
        "reply": rng.random() < 0.3,
        "length": rng.gauss(100.0 * (k + 1), 20.0),
        "links": rng.randrange(5),
    }
    for missing in rng.sample(sorted(features), rng.choice([0, 0, 1, 2])):
        features[missing] = None
    made = {"id": name, "text": _text(rng, k), "features": features}
    if rng.random() < 0.9:  # a minute from one to the next, but for those that come late
        made["ts"] = BASE + 60.0 * (int(name.partition("-")[2]) - rng.choice([0, 0, 0, 100]))
    if rng.random() < 0.85:
        made["label"] = NAMES[k]
    return made


def _text(rng: random.Random, k: int) -> str:
    words = [
        WORDS[min(int(rng.expovariate(0.02)) + 10 * k, len(WORDS) - 1)] for _ in range(rng.randrange(12))
    ]
    return rng.choice([" ", ", ", "\n"]).join(word.upper() if rng.random() < 0.1 else word for word in words)


def malformed(rng: random.Random, name: str, key: str) -> Made:
    head = f'{{"id": "{name}", '.encode()
    return Made(
        name,
        rng.choice(
            [
                b"",
                head,
                head + b'"text": "\xff"}',
                head + b'"text": "\\ud800"}',
                head + b'"features": {"length": [41]}, "label": "ham"}',
                head + b'"features": {"length": 1e999}, "label": "ham"}',
                b'{"text": "who?", "label": "ham"}',
            ]
        ),
        key or name,
    )
