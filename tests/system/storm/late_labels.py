"""Labels of a storm that come apart from their events: how they are drawn, and a plain recount of what they leave."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

from streamnb.engine.ports import Record
from streamnb.engine.processing.event_processor import EventProcessor
from tests.support.late import EVENTS, LABELS, effective_labels, scores_of
from tests.system.storm.reading import Found
from tests.system.storm.stream import BAD, BASE, FEW, NAMES, Made, event, is_malformed, malformed

TOPIC = "labels"
RANKS, WEIGHTS = {"analyst": 3}, {"bot": 0.5}
Truths = dict[str, tuple[str, float]]


def events_and_verdicts(seed: int, number: int) -> Iterator[Made]:
    """So many events, few of them labelled, and as many verdicts: early, late, again, changed and taken back."""
    rng = random.Random(seed)
    ks = [min(int(rng.expovariate(1.0)), len(NAMES) - 1) for _ in range(number)]
    lately: list[Made] = []
    for i in range(number):
        if rng.random() < FEW:
            yield malformed(rng, f"{BAD}{i}", "")
        else:
            made = event(rng, f"e-{i}", ks[i])
            made["label"] = NAMES[ks[i]] if rng.random() < 0.1 else None
            yield Made(f"e-{i}", json.dumps(made).encode(), f"e-{i}")
        said = _verdict(rng, i, ks)
        if not is_malformed(said.id):
            lately.append(said)
            if rng.random() < 0.1:  # word for word
                said = rng.choice(lately[-500:])._replace(id=f"v-{i}")
        if i in {number // 2, number * 5 // 6}:  # what was said of times until then, or until now
            until = BASE + 60.0 * i if i == number // 2 else None
            said = _made(f"v-{i}", "bot", {"withdraw": True, "source": "bot", "ts": until})
        yield said


def _verdict(rng: random.Random, i: int, ks: list[int]) -> Made:
    """One that comes beside event `i`, on it or another."""
    ago = rng.choice([-rng.randrange(1, 200), rng.expovariate(0.05), rng.expovariate(0.001)])
    j = min(max(0, i - int(ago)), len(ks) - 1)
    if rng.random() < FEW:
        wrong = rng.choice([b"", b'{"id": ', b'{"id": "e-1"}', b'{"id": "e-1", "label": "x", "weight": -1}'])
        return Made(f"{BAD}v-{i}", wrong, f"e-{j}", "labels")
    verdict: dict[str, Any] = {"id": f"e-{j}", "label": NAMES[ks[j]]}
    if rng.random() < 0.3:
        verdict["label"] = rng.choice([None, *NAMES])
    if rng.random() < 0.6:
        verdict["source"] = rng.choice(["analyst", "bot"])
    if rng.random() < 0.7:  # when it was said, and not in order
        verdict["ts"] = BASE + 60.0 * (i - rng.expovariate(0.01))
    if rng.random() < 0.2:
        verdict["weight"] = rng.choice([0, 0.5, 2])
    return _made(f"v-{i}", f"e-{j}", verdict)


def _made(name: str, key: str, record: dict[str, Any]) -> Made:
    return Made(name, json.dumps(record).encode(), key, "labels")


def truths_of(events: Iterable[Found], heard: Iterable[Found]) -> Truths:
    """Id -> the label that holds in the end and its weight, told plainly, in whatever order all was read."""
    return effective_labels(
        [
            Record(partition, one.offset, None, one.value, one.at)
            for partition, found in ((EVENTS, events), (LABELS, heard))
            for one in found
            if not is_malformed(one.id)
        ],
        RANKS,
        WEIGHTS,
    )


def scores_differ(learner: EventProcessor, said: Iterable[bytes], truths: Truths) -> Iterator[str]:
    """How the scores of what was served differ from a plain recount of it beside the labels that hold."""
    assert learner.late is not None
    told, found = scores_of(map(json.loads, said), truths), learner.late.scoring.scores.cumulative()
    matrix = learner.late.scoring.scores.confusion(learner.late.scoring.columns_of(NAMES))
    confusion = {
        (truth, predicted): int(n)
        for truth, row in zip(NAMES, matrix, strict=True)
        for predicted, n in zip([*NAMES, None], row, strict=True)
        if n
    }
    if confusion != dict(told["confusion"]):
        yield f"predictions were scored as {confusion}, recounted {dict(told['confusion'])}"
    for name, mean in (("loss", found.log_loss), ("brier", found.brier)):
        if abs(mean * found.events - told[name]) > 1e-9 * told[name]:
            yield f"the sum of {name} is {mean * found.events}, recounted {told[name]}"
