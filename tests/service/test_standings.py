"""What the topic of tenants says of each: the last record is a recount of its events, whatever befell the learner."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from contextlib import suppress
from functools import partial
from itertools import count, pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from service import AtOnce, Ticking, read_topic, records
from verifying import Altered, configured, edit_snapshot, new_worker, told, verified

from streamnb import NaiveBayes
from streamnb.cli import wiring
from streamnb.cli.commands.forget import _chosen
from streamnb.cli.commands.rebuild import taken_up
from streamnb.cli.parser import build_parser
from streamnb.engine import learner as engine_learner
from streamnb.engine.journal.entries import roll_back
from streamnb.engine.ports import NewRecord
from streamnb.engine.rebuilding.rebuild import Rebuilding, Source
from streamnb.engine.standings import MOST, MOST_ALONE
from streamnb.worker import Pace

SETS = ["model.kind=tenants", "model.tenants=6", "model.memory=1B", "metrics.every_events=7"]
TOLD = [*SETS, "topics.tenants=tenants"]
LATE = [*TOLD, "topics.labels=labels", "labels.window=1000d"]
TOPICS = {
    "events": 1,
    "predictions": 1,
    "metrics": 1,
    "dead_letters": 1,
    "journal": 1,
    "labels": 1,
    "tenants": 1,
}
ON_LOGS = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
FOLDERS = count()


class KilledError(Exception):
    """The process ends here."""


class Dying:
    """A log, or a folder of snapshots, whose process ends at one call of one of its methods.

    What happened before the call happened; `after` is whether what the call does is durable, too.
    """

    def __init__(self, inner, method, call, *, after):
        self._inner, self._method, self._left, self._after = inner, method, call, after

    def __getattr__(self, name):
        return partial(self._dying, name) if name == self._method else getattr(self._inner, name)

    def _dying(self, name, *args, **options):
        self._left -= 1
        if self._left < 0 and not self._after:
            raise KilledError
        done = getattr(self._inner, name)(*args, **options)
        if self._left < 0:
            if name == "begin_commit":
                done.settle()
            raise KilledError
        return done


def life(log, folder, *sets, death=None, pace=None, clock=None):
    """From a start to the end of the log, or to a death: (method, call, after)."""
    worker = new_worker(log, folder, *sets, pace=pace or Pace(9, 0.0, 25, 1e9), clock=clock)
    if death is not None:
        method, call, after = death
        of = "_snapshots" if method == "save_aside" else "_log"
        setattr(worker, of, Dying(getattr(worker, of), method, call, after=after))
    with suppress(KilledError):
        worker.start("a learner")
        worker.run(until_end=True)
        worker.close()
    return worker


def append(log, events):
    log.append([NewRecord("events", key, json.dumps(event).encode()) for key, event in events])


def said(log):
    """Tenant -> its last record; those that were taken back are not there."""
    last = {record.key: record.value for record in read_topic(log, "tenants")}
    return {key.decode(): json.loads(value) for key, value in last.items() if value}


def counted(events):
    """After each labelled event: what a plain recount says of its tenant, by a model that has its events alone."""
    own, models, kept = defaultdict(Counter), defaultdict(lambda: NaiveBayes({"text": "text"})), set()
    for key, event in events:
        if event["label"] is None:
            continue
        name = (key or b"").decode()
        if name and name not in kept and len(kept) == 6:
            name = ""
        kept |= {name} - {""}
        tenant, model = own[name], models[name]
        told = model.predict_proba_one({"text": event["text"]})
        if told:
            tenant["tested"] += 1
            tenant["right"] += max(told, key=told.get) == event["label"]
        model.learn_one({"text": event["text"]}, event["label"])
        tenant["events"] += 1
        tenant["label", event["label"]] += 1
        yield name, Counter(tenant)


def as_counter(value):
    """The same of a record."""
    found = Counter({name: value[name] for name in ("events", "tested", "right")})
    found.update({("label", label): weight for label, weight in value["labels"].items()})
    assert value["accuracy"] == (found["right"] / found["tested"] if found["tested"] else None)
    assert "rest" not in value
    return found


def recounted(log, events):
    """Compare every record with the recount up to the event after which it was written, the last ones with all."""
    history = list(counted(events))
    found = [json.loads(record.value) for record in read_topic(log, "tenants")]
    for value in found:
        upto = [tenant for name, tenant in history[: value["model"]["events"]] if name == value["tenant"]]
        assert as_counter(value) == +upto[-1]
    written = defaultdict(list)
    for value in found:
        written[value["tenant"]].append(value["events"])
    assert all(one < other for told in written.values() for one, other in pairwise(told)), (
        "one was written twice"
    )
    assert {name: as_counter(value) for name, value in said(log).items()} == {n: +c for n, c in history}
    return found


def random_events(rng, n, first=0):
    """(key, event) of each: ten tenants, of which six may have a model, and events that name none."""
    return [
        (
            rng.choice([None, *(b"t%d" % i for i in range(10))]),
            {
                "id": f"e{first + i}",
                "text": " ".join(rng.choices("abcd", k=rng.randrange(4))),
                "label": rng.choice(["x", "y", "z", None]),
            },
        )
        for i in range(n)
    ]


def random_death(rng):
    """(method, call, after): where a life ends, if it comes so far."""
    method = rng.choice(["begin_commit", "begin_commit", "begin_commit", "save_aside", "seek"])
    return method, rng.randrange(8 if method == "begin_commit" else 2), rng.random() < 0.5


def dies_and_goes_on(log_of, folder, rng, n=120):
    """The law: cut, killed and begun again in any way, every record is a recount, and the last one of all."""
    events, folder, clock = random_events(rng, n), folder / f"snapshots-{next(FOLDERS)}", Ticking()
    sets = [*TOLD, f"metrics.every={rng.choice(['1s', '1d'])}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_learner, "MOST", rng.randint(1, 5))
        patch.setattr(engine_learner, "MOST_ALONE", rng.randint(1, 5))
        log, pace = log_of(**TOPICS), Pace(rng.randint(1, 30), 0.0, rng.randint(5, 30), 1e9)
        append(log, events[: 2 * n // 3])
        for _ in range(rng.randrange(5)):
            life(log, folder, *sets, death=random_death(rng), pace=pace, clock=clock)
            log.close()
            log = log_of()
        append(log, events[2 * n // 3 :])
        life(log, folder, *sets, pace=pace, clock=clock)
        log = log_of()
        recounted(log, events)
        assert not told(verified(log, folder, *sets))
    log.close()


SEEDS = st.integers(0, 10**6).map(random.Random)


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
@settings(ON_LOGS, max_examples=60)
@given(SEEDS)
def test_the_last_record_of_each_tenant_is_a_recount(open_log, tmp_path, rng):
    dies_and_goes_on(open_log.other(), tmp_path, rng)
