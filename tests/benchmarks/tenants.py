"""A model for each tenant beside one shared model: events a second of a learner, and the memory of the models.

Events of ten words come to tenants in random order, so that almost every event finds the model of its tenant put
away. Both learners decode records, predict, learn, score and encode. What is put away beyond the models at work is in
a file. Then a learner commits to an embedded log, by turns with and without records of where each tenant stands. In the end each tenant's state is compared, byte for byte, with that of a model that had its events alone.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np

from streamnb import NaiveBayes
from streamnb.engine.journal.checkpoint import BEFORE
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Settings
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.event_schema import EventSchema
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.runtime.mapped_memory import mapped_beyond

TEXT = {"text": "text"}
AT_ONCE = 5000
NOBODY = JobIdentity(("events",), "journal", "", {})


def stream(n, tenants, words, seed=7):
    """(tenant, text, label) of each event."""
    rng = np.random.default_rng(seed)
    often = 1 / np.arange(1, words + 1)
    drawn = rng.choice(words, size=(n, 10), p=often / often.sum())
    whose, labels = rng.integers(tenants, size=n), rng.integers(2, size=n)
    return [
        (f"t{tenant}", " ".join(f"word{w}" for w in row), ("ham", "spam")[label])
        for tenant, row, label in zip(whose.tolist(), drawn.tolist(), labels.tolist(), strict=True)
    ]


def records(events):
    partition = Partition("events", 0)
    return [
        Record(
            partition,
            i,
            tenant.encode(),
            json.dumps({"id": str(i), "text": text, "label": label}).encode(),
            0.0,
        )
        for i, (tenant, text, label) in enumerate(events)
    ]


def seconds(model, schema, given, log=None, **settings):
    """Of the processor, for all records, once the kernels are there; and to commit, where there is a log."""
    learner, checkpoint = EventProcessor(Settings(schema=schema, **settings), model), BEFORE
    begun = time.process_time()
    for start in range(0, len(given), AT_ONCE):
        part = given[start : start + AT_ONCE]
        outputs = learner.process(part, 0.0)
        if log is not None:
            checkpoint, transaction = checkpoint.commit(NOBODY, part, outputs, 0.0)
            log.commit(transaction)
    return time.process_time() - begun


def with_topic(given, memory, folder, turn):
    """Events a second where commits write where tenants stand, in units of those where they do not."""
    taken, n = {}, 0
    for topic in ("", "tenants")[:: -1 if turn % 2 else 1]:
        models = TenantModels(TEXT, memory=memory)
        models.evict_within(mapped_beyond(memory, folder))
        with tempfile.TemporaryDirectory(dir=folder) as at, SqliteLog(Path(at) / "log.db") as log:
            for name in ("events", "predictions", "metrics", "journal", "tenants"):
                log.create_topic(name, 1)
            log.acquire("a benchmark")
            taken[topic] = seconds(models, EventSchema(entity_path=""), given, log, tenants=topic)
            n = max(n, log.offsets(Partition("tenants", 0))[1])
    ratio = taken[""] / taken["tenants"]
    print(f"with a topic of tenants: {ratio:.3f} of {len(given) / taken['']:,.0f} events/s; {n:,} records")
    return ratio


def differing(models, events):
    """Of how many tenants the state is not that of a model alone; and what the models alone take, bytes."""
    own, wrong, n_bytes = defaultdict(list), 0, 0
    for tenant, text, label in events:
        own[tenant].append((text, label))
    for tenant, learned in own.items():
        alone = NaiveBayes(TEXT)
        alone.learn_many([{"text": text} for text, _ in learned], [label for _, label in learned])
        n_bytes += alone.n_bytes
        (meta, arrays), (meta_, arrays_) = alone.state(), models.tenant(tenant).state()
        wrong += meta != meta_ or any(arrays[name].tobytes() != arrays_[name].tobytes() for name in arrays)
    return wrong, n_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=5_000)
    parser.add_argument(
        "--memory", type=float, default=2.25, help="MB of model.memory; as much again is put away in memory"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--shared", action="store_true", help="a shared model is the prior of each (model.shared)"
    )
    options = parser.parse_args()
    events = stream(options.events, options.tenants, options.words)
    given, memory = records(events), int(options.memory * 1e6)
    ratios, told = [], []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            models = TenantModels(TEXT, memory=memory, shared=options.shared)
            models.evict_within(mapped_beyond(memory, Path(folder)))
            for model, schema in (
                (NaiveBayes(TEXT), EventSchema()),
                (TenantModels(TEXT, shared=options.shared), EventSchema(entity_path="")),
            ):
                seconds(model, schema, given[:2000])
            shared = seconds(NaiveBayes(TEXT), EventSchema(), given)
            apart = seconds(models, EventSchema(entity_path=""), given)
            ratios.append(shared / apart)
            told.append(with_topic(given, memory, Path(folder), turn))
            print(
                f"{options.events / shared:,.0f} events/s shared, {options.events / apart:,.0f} apart: {ratios[-1]:.3f}"
            )
        print(f"median ratio {median(ratios):.3f}; with a topic of tenants {median(told):.3f}")
        print(
            f"models at work {models.store.active.n_bytes / 1e6:.1f} MB, of {models.use(1).at_work:,} of {models.use(0).tenants:,} tenants"
        )
        print(
            f"put away {models.store.cold.n_bytes / 1e6:.1f} MB, of which runs {models.state()[1]['runs'].nbytes / 1e6:.1f} MB"
        )
        wrong, n_bytes = differing(models, events)
        print(f"models of their own take {n_bytes / 1e6:.1f} MB; of {wrong} tenants the state differs")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
