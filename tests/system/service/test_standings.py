"""What the topic of tenants says of each: the last record is a recount of its events, whatever befell the learner."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter, defaultdict
from contextlib import nullcontext, suppress
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamnb import NaiveBayes
from streamnb.cli import main
from streamnb.cli.commands.forget import _chosen
from streamnb.cli.parser import build_parser
from streamnb.engine.journal.journal_entries import roll_back
from streamnb.engine.ports import NewRecord
from streamnb.engine.processing import event_processor as engine_learner
from streamnb.engine.processing.tenant_stats import MOST, MOST_ALONE, MOST_BYTES
from streamnb.engine.retraining.log_retraining import Retraining, RetrainingSource
from streamnb.engine.topic_plan import TENANT_BYTES
from streamnb.errors import ConfigError, SnapshotError
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.service import AtOnce, Ticking, read_topic, records
from tests.support.verifying import Altered, configured, new_worker, told, verified

pytestmark = [pytest.mark.thorough_for("kafka"), pytest.mark.early(71)]

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
                done.await_outcome()
            raise KilledError
        return done


def life(log, folder, *sets, death=None, pace=None, clock=None):
    """From a start to the end of the log, or to a death: (method, call, after)."""
    worker = new_worker(log, folder, *sets, pace=pace or CommitPolicy(9, 0.0, 25, 1e9), clock=clock)
    if death is not None:
        method, call, after = death
        of = "snapshots" if method == "save_aside" else "log"
        setattr(worker.context, of, Dying(getattr(worker.context, of), method, call, after=after))
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
    """After each labelled event: what a plain recount says of its tenant, by a model that has its events alone.

    Of labels that are equally probable the first that any tenant had is predicted.
    """
    own, models, kept = defaultdict(Counter), defaultdict(lambda: NaiveBayes({"text": "text"})), set()
    labels = []
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
            tenant["right"] += max(filter(told.__contains__, labels), key=told.get) == event["label"]
        model.learn_one({"text": event["text"]}, event["label"])
        tenant["events"] += 1
        tenant["label", event["label"]] += 1
        labels += [event["label"]] * (event["label"] not in labels)
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
        log, pace = log_of(**TOPICS), CommitPolicy(rng.randint(1, 30), 0.0, rng.randint(5, 30), 1e9)
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
@settings(ON_LOGS, max_examples=40)
@given(SEEDS)
def test_the_last_record_of_each_tenant_is_a_recount(open_log, tmp_path, rng):
    dies_and_goes_on(open_log.other(), tmp_path, rng)


@pytest.mark.thorough
@pytest.mark.parametrize("open_log", ["kafka", "librdkafka"], indirect=True)
@settings(ON_LOGS, max_examples=2)
@given(SEEDS)
def test_so_it_is_on_a_broker(open_log, tmp_path, rng):
    dies_and_goes_on(open_log.other(), tmp_path, rng)


@pytest.mark.thorough
@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
@settings(ON_LOGS, max_examples=15)
@given(SEEDS)
def test_where_labels_come_late_it_is_a_recount_of_those_that_hold(open_log, tmp_path, rng):
    """A tenant whose labels were all taken back has a tombstone."""
    log_of, folder, clock = open_log.other(), tmp_path / f"snapshots-{next(FOLDERS)}", Ticking()
    log, holds = log_of(**TOPICS), {}
    append(log, [(b"t%d" % (i % 5), {"id": f"e{i}", "text": "a"}) for i in range(40)])
    for turn in range(4):
        said_now = {i: rng.choice(["x", "y", None]) for i in rng.sample(range(40), 30)}
        if turn == 3:
            said_now |= dict.fromkeys(range(0, 40, 5))  # all of the first tenant's
        holds |= said_now
        for i, label in said_now.items():
            log.append([NewRecord("labels", None, json.dumps({"id": f"e{i}", "label": label}).encode())])
        death = random_death(rng) if turn < 3 else None
        life(
            log, folder, *LATE, death=death, pace=CommitPolicy(rng.randint(1, 30), 0.0, 20, 1e9), clock=clock
        )
        log.close()
        log = log_of()
    expected = {}
    for i, label in holds.items():
        if label is not None:
            expected.setdefault(f"t{i % 5}", Counter()).update({"events": 1, ("label", label): 1})
    found = {name: as_counter(value) for name, value in said(log).items()}
    for own in found.values():
        del own["tested"], own["right"]
    assert found == expected
    assert "t0" not in found
    assert not told(verified(log, folder, *LATE))
    log.close()


def source(log, folder, *sets):
    config = configured(*sets)
    return RetrainingSource(
        log, AtOnce(folder, 100), lambda: factories.learner(config), factories.identity(config)
    )


def of_state(learner):
    """Tenant -> events and weights, as its model has them."""
    models = learner.model
    found = {name: models.tenant(name).class_weights for name in models.store.names}
    return {name: {k: w for k, w in own.items() if w} for name, own in found.items() if any(own.values())}


def of_topic(log):
    return {name: value["labels"] for name, value in said(log).items()}


@pytest.mark.parametrize("open_log", ["sqlite", "kafka"], indirect=True)
def test_a_tenant_that_was_forgotten_gets_a_tombstone(open_log, tmp_path):
    """By the learner that takes the other model up, or by the next one, where it dies before it writes that."""
    for dies in (False, True):
        log_of, folder, clock = open_log.other(), tmp_path / f"forgotten-{dies}", Ticking()
        log, events = log_of(**TOPICS), random_events(random.Random(5), 80)
        append(log, events)
        life(log, folder, *TOLD, clock=clock)
        log = log_of()
        assert b"t1" in {record.key for record in read_topic(log, "tenants")}
        worker = new_worker(log, folder, *TOLD, pace=CommitPolicy(9, 0.0, 25, 1e9), clock=clock)
        worker.start("a learner")
        chosen = _chosen(build_parser().parse_args(["forget", "--key", "t1"]))
        rebuilding = Retraining(source(log, folder, *TOLD), chosen)
        worker.install_model(rebuilding.retrained())
        if not dies:
            worker.run(until_end=True)
            worker.close()
        log.close()
        log = log_of()
        worker = life(log, folder, *TOLD, clock=clock)
        log = log_of()
        assert of_topic(log) == of_state(worker.learner)
        (last,) = [r for r in read_topic(log, "tenants") if r.key == b"t1"][-1:]
        assert last.value == b""
        assert not told(verified(log, folder, *TOLD))
        log.close()


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_after_a_rollback_all_tenants_are_told_again(open_log, tmp_path):
    log, folder, clock = open_log(**TOPICS), tmp_path / "snapshots", Ticking()
    append(log, random_events(random.Random(5), 80))
    stood = life(log, folder, *TOLD, clock=clock).checkpoint
    log = open_log()
    before = of_topic(log)
    log.acquire("an operator")
    roll_back(log, stood, stood.n // 2, factories.identity(configured(*TOLD)), clock())
    log.close()
    log = open_log()
    worker = life(log, folder, *TOLD, clock=clock)
    log = open_log()
    assert of_topic(log) == of_state(worker.learner) != before
    assert not told(verified(log, folder, *TOLD))


@pytest.mark.parametrize("ended", [False, True])
def test_the_snapshot_of_a_rollback_is_what_a_replay_of_it_gives(ended, tmp_path, monkeypatch, capsys):
    """Also before the next commit writes of all tenants again: until then some records are of what was undone."""
    monkeypatch.chdir(tmp_path)
    keys = [*TOLD, "events.entity=$.tenant", "http.listen=", "snapshots.folder=kept"]
    given = [word for key in keys for word in ("--set", key)]
    lives = [[("a", None)], [("a", "x")], [("a", "x"), ("b", "x")], [("a", None)]]
    stood = 2
    for i, events in enumerate(lives):
        if i == 3:
            assert main(["snapshot", "rollback", "--to", str(stood), *given]) == 0
            capsys.readouterr()
            assert main(["verify", *given]) == 0
            assert ("records are of what was rolled back, and due" in capsys.readouterr().out) == ended
        lines = [{"id": f"{i}{name}", "tenant": name, "text": "w", "label": label} for name, label in events]
        Path("e.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert main(["replay", "e.jsonl", *given]) == 0
        assert main(["run", "--until-end", *given]) == 0
        if ended and i == 1:
            capsys.readouterr()
            assert main(["inspect", "--json", *given]) == 0
            stood = json.loads(capsys.readouterr().out)["journal"]
    shutil.rmtree("kept")
    assert main(["run", "--until-end", *given]) == 0  # by the journal alone
    assert main(["verify", *given]) == 0


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_a_topic_that_is_named_later_or_is_another_has_all_tenants(open_log, tmp_path):
    log, folder, clock = open_log(**TOPICS, others=1), tmp_path / "snapshots", Ticking()
    append(log, random_events(random.Random(5), 60))
    plain = life(log, folder, *SETS, clock=clock)
    assert "standings" not in plain.learner.parts()
    for topic in ("tenants", "others", "tenants"):
        log = open_log()
        worker = life(log, folder, *SETS, f"topics.tenants={topic}", clock=clock)
        log = open_log()
        last = {r.key.decode(): json.loads(r.value)["labels"] for r in read_topic(log, topic)}
        assert last == of_state(worker.learner)
        assert not told(verified(log, folder, *SETS, f"topics.tenants={topic}"))


def test_no_commit_writes_of_more_than_a_bounded_number():
    """Ten thousand tenants in one batch: a commit of events writes of a thousand, and the rest follows without any."""
    learner = factories.learner(configured("model.kind=tenants", "topics.tenants=tenants"))
    raws = [json.dumps({"id": f"e{i}", "text": "a", "label": "x"}).encode() for i in range(25_000)]
    outputs = learner.process(records(raws, keys=[b"t%05d" % (i % 12_500) for i in range(25_000)]), 1.0)
    commits = [[one for one in outputs if one.topic == "tenants"]]
    while learner.has_pending_report:
        commits.append([one for one in learner.process([], 1.0) if one.topic == "tenants"])
    assert list(map(len, commits)) == [MOST, MOST_ALONE, MOST_ALONE, 1500]
    written = [one.key for part in commits for one in part]
    assert len(set(written)) == len(written) == 12_500
    assert {json.loads(one.value)["events"] for part in commits for one in part} == {2}


def test_no_commit_goes_on_beyond_some_mebibytes():
    """A thousand tenants whose names take 4 kB each as a key, and in the record."""
    learner = factories.learner(configured("model.kind=tenants", "topics.tenants=tenants"))
    keys = ["\U0001f600" * 996 + f"{i:04}" for i in range(1000)]
    raw = json.dumps({"id": "e", "text": "a", "label": "x"}).encode()
    outputs = learner.process(records([raw] * 1000, keys=[key.encode() for key in keys]), 1.0)
    written = [len(one.key) + len(one.value) for one in outputs if one.topic == "tenants"]
    assert MOST_BYTES <= sum(written) < MOST_BYTES + max(written)
    more = [one for one in learner.process([], 1.0) if one.topic == "tenants"]
    assert len(written) + len(more) == 1000


def test_whoever_is_due_has_its_turn_however_busy_the_others_are(monkeypatch):
    """Nine tenants that have an event in each commit, of which two are written of; and one that had one event."""
    monkeypatch.setattr(engine_learner, "MOST", 2)
    learner = factories.learner(configured("model.kind=tenants", "topics.tenants=tenants"))
    busy = [b"t%d" % i for i in range(10) if i != 7]
    turns = Counter()
    for commit in range(20):
        keys = sorted([*busy, *([b"t7"] if commit == 0 else [])])
        raws = [json.dumps({"id": "e", "text": "a", "label": "x"}).encode()] * len(keys)
        outputs = learner.process(records(raws, keys=keys), 10.0 * commit)
        turns.update(one.key for one in outputs if one.topic == "tenants")
        if commit == 4:
            assert set(turns) == {*busy, b"t7"}
    assert turns[b"t7"] == 1
    assert all(turns[key] in (4, 5) for key in busy)


def test_a_record_names_the_heaviest_labels_and_says_how_much_the_others_weigh():
    learner = factories.learner(configured("model.kind=tenants", "topics.tenants=tenants"))
    raws = [
        json.dumps({"id": f"{i}-{j}", "text": "a", "label": f"l{i}"}).encode()
        for i in range(15)
        for j in range(i + 1)
    ]
    (one,) = [output for output in learner.process(records(raws), 1.0) if output.topic == "tenants"]
    value = json.loads(one.value)
    assert value["labels"] == {f"l{i}": i + 1.0 for i in range(14, 4, -1)}
    assert value["rest"] == sum(range(1, 6))
    assert one.key == b""


def test_a_record_has_no_more_labels_than_it_has_room_for():
    """Names of a thousand characters, each of which takes twelve bytes of JSON, or as a key four."""
    learner = factories.learner(configured("model.kind=tenants", "topics.tenants=tenants"))
    for n, name in enumerate(("\x01" * 1000, "\U0001f600" * 1000)):
        raws = [
            json.dumps({"id": f"{i}", "text": "a", "label": f"{name[:997]}{i:03}"}).encode()
            for i in range(15)
        ]
        outputs = learner.process(records(raws, keys=[name.encode()] * 15), 60.0 * n)
        (one,) = [output for output in outputs if output.topic == "tenants"]
        value = json.loads(one.value)
        assert TENANT_BYTES // 2 < len(one.key) + len(one.value) <= TENANT_BYTES
        assert 0 < len(value["labels"]) < 10
        assert sum(value["labels"].values()) + value["rest"] == 15


@pytest.mark.parametrize(("size", "is_taken"), [(TENANT_BYTES, True), (TENANT_BYTES - 1, False)])
def test_a_topic_that_takes_no_records_of_tenants_is_refused_at_the_start(size, is_taken):
    class Sizes:
        def sizes(self, topics):
            return {topic: size for topic in topics if topic == "tenants"}

    config = configured("model.kind=tenants", "topics.tenants=tenants")
    said = r"topic tenants takes records of up to 32,767 bytes, and a tenant's may have 32,768; .*doctor"
    with nullcontext() if is_taken else pytest.raises(ConfigError, match=said):
        assert factories.fitted(config, Sizes()).topics == config.topics


@pytest.mark.parametrize("open_log", ["sqlite", "kafka"], indirect=True)
def test_verify_finds_what_is_not_the_last_record(open_log, tmp_path):
    log, folder = open_log(**TOPICS), tmp_path / "snapshots"
    append(log, random_events(random.Random(5), 60))
    life(log, folder, *TOLD)
    log = open_log()
    last = read_topic(log, "tenants")[-1].offset

    def changed(record):
        if record.offset != last:
            return [record]
        return {
            "altered": [record._replace(value=record.value.replace(b'"events":', b'"events":9'))],
            "missing": [],
            "another": [record, record._replace(key=b"nobody's")],
        }[damage]

    for damage in ("altered", "missing", "another"):
        assert [check for check, _ in told(verified(Altered(log, "tenants", changed), folder, *TOLD))] == [
            "standings"
        ], damage
    earlier = read_topic(log, "tenants")[0].offset  # as compaction does
    compacted = Altered(log, "tenants", lambda record: [] if record.offset == earlier else [record])
    assert not told(verified(compacted, folder, *TOLD))

    def otherwise(record):
        return [record._replace(value=record.value.replace(b'"text": "', b'"text": "other ', 1))]

    checks = {check for check, _ in told(verified(Altered(log, "events", otherwise), folder, *TOLD))}
    assert {"slices", "recount", "replay"} <= checks
    assert "standings" not in checks  # a replay that failed says nothing of what came after


def test_a_part_of_a_snapshot_that_is_none_is_refused():
    learner = factories.learner(configured(*TOLD))
    learner.process(
        records([json.dumps({"id": "e", "text": "a", "label": "x"}).encode()] * 3, keys=[b"a", b"b", b"c"]),
        1.0,
    )
    parts = learner.parts()
    (meta, arrays), due = parts["standings"], np.array([1, 2])
    factories.learner(configured(*TOLD)).load({**parts, "standings": SnapshotPart(meta, {"due": due})})
    for other in (
        SnapshotPart({**meta, "next": -1}, arrays),
        SnapshotPart({**meta, "gone": 7}, arrays),
        SnapshotPart({}, arrays),
        SnapshotPart(meta, {}),
        SnapshotPart(meta, {"due": np.array([4])}),
        SnapshotPart(meta, {"due": np.array([-1])}),
        SnapshotPart(meta, {"due": due.astype(np.float64)}),
        SnapshotPart(meta, {"due": due.reshape(1, 2)}),
    ):
        with pytest.raises(SnapshotError):
            factories.learner(configured(*TOLD)).load({**parts, "standings": other})
