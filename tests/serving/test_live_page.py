"""The live page: its views of hostile records and of none, who may use its forms, and what it reads of long topics."""

from __future__ import annotations

import html
import json
import math
import re
import time
from base64 import b64encode
from contextlib import closing
from html.parser import HTMLParser
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from streamnb import config as configuration
from streamnb.cli import main
from streamnb.engine.labels.source_labels import SourceLabel
from streamnb.engine.ports import NewRecord, Owner, Partition, Record
from streamnb.errors import SnapshotError
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, log_follower
from streamnb.runtime.log_follower import FairLock
from streamnb.runtime.resent_dead_letters import ResendResult
from streamnb.serving import learned_views as learning
from streamnb.serving import recent_records as watching
from streamnb.serving.access import Tokens
from streamnb.serving.http_api import application
from streamnb.serving.label_undo import UndoToken
from streamnb.serving.learned_views import ModelPage
from streamnb.serving.limits import RequestLimits
from streamnb.serving.live_views import TITLES, PageViews
from streamnb.serving.prediction_filter import PredictionFilter
from streamnb.serving.recent_records import RecentRecords
from streamnb.statistics.memory_budget import MemoryComponent, MemoryUse
from tests.support.asgi_request import ORIGIN, page_request
from tests.support.late import Stream, late_learner
from tests.support.program import until

EVIL = "<script>alert('1')</script>\"'&\u202e`x`"
TOKEN = "a-token-of-some-length"  # noqa: S105
SCORES = {"events": 90, "accuracy": 0.875, "log_loss": 0.3125, "macro_f1": 0.8, "kappa": 0.7, "brier": 0.2,
          "calibration_error": 0.05, "accuracy_interval": {"lower": 0.79, "upper": 0.93},
          "reliability": [{"lower": 0.9, "upper": 1.0, "confidence": 0.95, "accuracy": 0.9, "events": 90}]}  # fmt: skip


def report(events=100, name=EVIL):
    other = "ham"
    return {
        "kind": "report", "events": events, "learned": 90, "dead_letters": 1, "cumulative": SCORES, "window": SCORES,
        "window_size": 1000, "classes": 2, "labels": [name, other], "confusion": [[40, 5, 1], [6, 38, 0]],
        "attributes": 5, "model": {"name": "m", "events": 90}, "ts": 1.79e9, "interval_mass": 0.95,
        "class_rates": [{"weight": 46.0, "rate": 0.51, "lower": 0.4, "upper": 0.6}, {"weight": 44.0, "rate": 0.49, "lower": 0.4, "upper": 0.6}],
        "posterior": {"hypotheses": [{"name": name, "prior": 0.5, "posterior": 0.25, "loss": 132.5}, {"name": other, "prior": 0.5, "posterior": 0.75, "loss": 131.4}],
                      "best": name, "loss": 131.7, "regret": 0.3, "bound": 0.69, "observations": 90, "switching_rate": 0.0},
        "verdicts": {"served": 100, "judged": 90, "coverage": 0.9, "pending": 10, "outcomes": {"first": 90}, "sources": {name: 90},
                     "delays": [{"most": 0.0, "events": 90, "accuracy": 0.9, "log_loss": 0.1}], "median_delay": 0.0, "p90_delay": 300.0, "p99_delay": None},
    }  # fmt: skip


def prediction(n=0, id_=EVIL, label=EVIL):
    return {
        "id": id_, "label": label, "probability": 0.75, "probabilities": {label: 0.75, "ham": 0.25}, "status": "ready",
        "truth": "ham", "evidence": [{"attribute": EVIL, "value": EVIL, "log_odds": -1.5}],
        "hypotheses": {EVIL: 1.0}, "model": {"name": "m", "events": n}, "ts": 1.79e9,
    }  # fmt: skip


NO_PREDICTIONS = [b"", b"{", b"[]", b'{"id": 1}', b'{"id": "\xff"}', b'{"x": ' + b"[" * 100_000]
DRIFT = {"kind": "drift", "detector": "ddm", "id": EVIL, "events": 100, "observations": 90, "error_rate": 0.1,
         "recent_error_rate": 0.3, "model": {"name": "m", "events": 90}, "ts": 1.79e9}  # fmt: skip
ALERT = {"monitor": EVIL, "kind": "error-rate", "state": "raised", "direction": "above", "id": EVIL, "events": 90, "since": 80,
         "observations": 10, "rate": 0.5, "tolerated": 0.05, "bayes_factor": 1234.5, "false_alarm": 0.01,
         "model": {"name": "m", "events": 90}, "ts": 1.79e9}  # fmt: skip
TENANT = {"tenant": EVIL, "events": 9, "tested": 8, "right": 6, "accuracy": 0.75, "labels": {EVIL: 9.0},
          "model": {"name": "m", "events": 90}, "ts": 1.79e9}  # fmt: skip
COMMIT = b'{"version":1,"n":1,"previous":"8be95846d049c3c60292dbb69c5c87a43618f84a4ee6b5daf593e5bdc879906b","kind":"commit","now":1790000000.31,"slices":[{"topic":"events","partition":0,"first":0,"next":3,"count":3,"crc":2745614147}],"positions":{"events":{"0":3}},"outputs":"ea7a88368dd4e8191c441ecb02506871905dcd1a790eb2a777c77cc99f08ec87","machine":"5f0c2a7be4d91e38","digest":"95d683766f1597b3f9536790d95f1d17d31b00e2f8775cebbee1747abaa752fc"}'


def record(value, **headers):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    given = tuple((name, text.encode()) for name, text in headers.items())
    return Record(Partition("t", 0), 0, None, raw, 1.79e9, given)


class NoModel:
    """A replica that has nothing yet."""

    config = configuration.load(None, {}, ["log.url=sqlite:///unused.db"])
    lock = FairLock()
    is_alive = is_ready = True
    is_loading = False
    status = reason = f"no `model` {EVIL}"
    following = None

    def wake(self):
        pass

    def asked(self):
        raise SnapshotError(self.status)

    def said_of(self, _):
        return None

    def said_of_all(self, ids):
        return [*map(self.said_of, ids)]

    def memory_use(self):
        return None

    def state(self):
        return {"journal": None, "learned": 0, "seconds_since_commit": None, "seconds_since_look": None}


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(f'[log]\nurl = "sqlite:///{tmp_path}/log.db"\n[topics]\nlabels = "labels"\n')
    return configuration.load(file, {}, [])


@pytest.fixture
def empty(config):
    found = RecentRecords(config, print)
    found.is_loading, found.problem = False, ""
    return found


@pytest.fixture
def full(empty):
    empty._add_metrics(record(report(50)))
    empty._add_metrics(record(report()))
    empty._add_metrics(record(DRIFT))
    empty._add_prediction(record(prediction()))
    empty._add_alert(record(ALERT))
    empty._add_tenant(record(TENANT))
    empty._add_dead_letter(
        record(EVIL.encode(), reason=EVIL, path=EVIL, topic=EVIL, partition="0", offset="1")
    )
    empty._add_label(record({"id": EVIL, "label": EVIL, "source": EVIL, "by": EVIL}))
    empty._add_commit(record(COMMIT))
    empty.ends = {Partition("events", 0): 13}
    return empty


def views(watch, *, is_writable=True):
    return PageViews(watch, NoModel(), "secret", is_writable=is_writable)


def listed(watch, limit, **wanted):
    return watch.prediction_page(PredictionFilter(**wanted), None, limit).rows


class Reader(HTMLParser):
    """Which elements and attributes there are, and the texts."""

    def __init__(self, markup):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(markup)

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += attributes

    def handle_data(self, text):
        self.texts.append(text)


@pytest.mark.parametrize("name", [*TITLES, "one", "tried"])
def test_hostile_records_are_shown_as_the_text_that_they_are(full, name):
    shown = views(full)
    made = {"one": lambda: shown.live("events", {"id": EVIL}), "tried": lambda: shown.tried(EVIL)}.get(
        name, lambda: shown.live(name, {})
    )()
    found = Reader(made)
    assert not {"script", "iframe", "object", "style", "base"} & set(found.tags)
    assert not [key for key, _ in found.attributes if key.startswith("on") or key in {"style", "srcdoc"}]
    assert not [
        value for key, value in found.attributes if key in {"href", "action"} and not value.startswith("/")
    ]
    assert "\u202e" not in made
    assert any("alert(" in text for text in found.texts) or name in {"operations", "review", "decisions"}


def test_absent_words_have_a_name_in_evidence(full):
    evidence = [{"attribute": "text", "value": value, "log_odds": 1.5} for value in ("cash", "")]
    full._add_prediction(record({**prediction(id_="p"), "evidence": evidence}))
    texts = Reader(views(full).live("events", {"id": "p"})).texts
    assert "text: cash" in texts
    assert "text: (absent words)" in texts


def test_evidence_has_the_prior_and_what_remains_of_the_log_odds(full):
    """Together they are log 3, the odds of .75 to .25; what is less than rounding is not shown."""
    evidence = [{"attribute": "text", "value": "cash", "log_odds": 1.5}]

    def shown(prior):
        full._add_prediction(record({**prediction(id_="p"), "evidence": evidence, **prior}))
        words = " ".join(Reader(views(full).live("events", {"id": "p"})).texts)
        return "(the labels alone): -0.6" in words, "(all else): 0.199" in words, "(all else)" in words

    assert shown({"prior": -0.6}) == (True, True, True)
    assert shown({"prior": math.log(3) - 1.5}) == (False, False, False)
    assert shown({}) == (False, False, True)


def test_dead_letters_of_several_partitions_are_listed_by_time(empty):
    for partition, offset, ts in [(0, 0, 5.0), (0, 1, 9.0), (1, 0, 7.0)]:
        letter = record(b"x", reason="missing")
        empty._add_dead_letter(
            letter._replace(partition=Partition("t", partition), offset=offset, timestamp=ts)
        )
    assert re.findall(r">(\d/\d)</a>", views(empty).live("dead-letters", {})) == ["0/1", "1/0", "0/0"]


def test_the_link_of_a_hostile_id_leads_to_its_prediction(full):
    id_ = f"a&q=b#c {EVIL}"
    full._add_prediction(record(prediction(id_=id_)))
    shown = views(full)
    links = [value for key, value in Reader(shown.live("events", {})).attributes if key == "href"]
    found = shown.live("events", dict(parse_qsl(urlsplit(links[0]).query)))
    assert "by m after" in found
    assert "a&amp;q=b#c" in found


def test_what_no_learner_wrote_stops_no_view(full):
    for given in ({"class_rates": []}, {"labels": [EVIL]}, {"confusion": [[1], [2]]}, {"confusion": []}):
        full._add_metrics(record(report() | given))
    for ts in (1e300, -1e300, 1e15):
        full._add_prediction(record(prediction(id_=f"at {ts}") | {"ts": ts}))
        full._add_metrics(record(DRIFT | {"ts": ts}))
        assert "1970" in views(full).live("events", {"id": f"at {ts}"}) or ts == 1e15
        full._add_prediction(record(prediction(id_=f"at {ts}") | {"probabilities": 1}))  # is passed over
    full._add_prediction(record(prediction(id_="odd") | {"status": 1}))
    for name in TITLES:
        assert views(full).live(name, {})
    assert "not among those read" in views(full).live("events", {"id": "odd"})


@pytest.mark.parametrize("name", TITLES)
def test_a_view_without_data_says_what_is_missing(empty, name):
    assert 'class="missing"' in views(empty).live(name, {})


def test_where_labels_cannot_be_written_the_page_names_the_setting(full):
    made = views(full, is_writable=False).live("events", {})
    assert "topics.labels" in made
    assert "<form" not in made


def test_the_numbers_are_those_of_the_newest_report(full):
    shown = views(full).live("", {})
    values = dict(re.findall(r'class="name">([^<]+)</span><span class="value" data-value="([^"]+)"', shown))
    assert values == {
        "Accuracy": "0.875",
        "Log loss": "0.3125",
        "Events read": "100",
        "Classes": "2",
        "Dead letters": "1",
    }
    assert 'data-behind="10"' in views(full).strip()
    assert "79 % to 93 %" in shown
    assert "drift: ddm" in shown


def test_it_says_what_alarms_did(full):
    assert "Alarms have acted" not in views(full).live("", {})
    for paused, style, told in [
        (True, "trouble", "learning is paused"),
        (False, "missing", "learning continues"),
    ]:
        acted = {"paused": paused, "passed_over": 12, "renewed": 1}
        full._add_metrics(record(report(200 + paused) | {"actions": acted}))
        text = f"Alarms have acted: {told}, 12 labels passed over so far; the model was renewed 1 time"
        assert f'<p class="{style}">{text}</p>' in views(full).live("", {})


@pytest.mark.parametrize(
    ("decision", "told"), [("spam", "decided: spam"), (None, "nothing is decided"), ("unset", None)]
)
def test_it_says_what_was_decided(full, decision, told):
    more = {} if decision == "unset" else {"decision": decision, "expected_cost": 0.25}
    full._add_prediction(record(prediction(id_="m-1") | more))
    for asked, cost in [({}, ""), ({"id": "m-1"}, ", at an expected cost of 0.25")]:
        texts = "".join(Reader(views(full).live("events", asked)).texts)
        assert (told + cost in texts) if told else ("decided" not in texts)


OWNERS = [  # who owns the log, how old the last commit is, records to read; what the strip says, and its style
    (Owner("me:1", 0.5), 3.0, 0, "Learning", "good"),
    (Owner("me:1", 0.5), 60.0, 0, "Idle", "good"),
    (Owner("me:1", 0.5), 60.0, 5, "No commit although records wait", "warn"),
    (Owner("me:1", 5.0), 3.0, 0, "Silent for 5 s", "bad"),
    (Owner("me:1", 300.0), 300.0, 5, "Silent for 5 min", "bad"),
    (Owner(None, 2.0), 3.0, 0, "No learner runs", "bad"),
    (Owner(None, 300.0), 300.0, 0, "No learner runs", "bad"),
    (None, 3.0, 0, "Learning", "good"),
    (None, 60.0, 0, "No learner is known", "bad"),
]


@pytest.mark.parametrize(("owner", "age", "behind", "state", "style"), OWNERS)
def test_a_learner_that_is_gone_is_not_shown_as_one_that_has_nothing_to_do(
    full, owner, age, behind, state, style
):
    full.commits[-1] = replace(full.commits[-1], now=time.time() - age)
    full.ends = {Partition("events", 0): 3 + behind}
    full.owner, full._looked = owner, time.monotonic()
    shown = views(full).strip()
    assert f'<strong class="state">{state}</strong>' in shown
    assert f'class="{style}" data-behind="{behind}"' in shown
    assert ("The learner was killed or hangs" in shown) == state.startswith("Silent")
    json_state = {"Silent": "silent", "No learner runs": "stopped"}
    expected = json_state.get(state if style == "bad" else "", json_state.get(state.split()[0], ""))
    assert full.learner == (expected or ("running" if owner else "not known"))


MONITORS = [
    {"name": "errors", "kind": "error-rate", "raised": True},
    {"name": EVIL, "kind": "no-events", "raised": True},
    {"name": "calm", "kind": "no-labels", "raised": False},
]


def test_the_strip_counts_alarms_and_says_that_learning_is_paused(full):
    assert "alarm" not in views(full).strip()
    for n, told in ((1, "1 alarm"), (2, "2 alarms"), (0, "no alarms")):
        raised = [one | {"raised": place < n} for place, one in enumerate(MONITORS)]
        full._add_metrics(record(report(200 + n) | {"monitors": raised}))
        assert re.search(rf"{told}\b", views(full).strip())
    acted = {"paused": True, "passed_over": 12, "renewed": 1}
    full._add_metrics(record(report(300) | {"actions": acted}))
    full.owner, full._looked = Owner("me:1", 0.5), time.monotonic()
    assert 'class="state">Learning is paused by an alarm<' in views(full).strip()


def test_the_strip_has_the_memory_of_the_last_look_at_a_model_and_what_was_forgotten(full, monkeypatch):
    shown = views(full)
    assert "memory" not in shown.strip()
    parts = {"rows": MemoryComponent(3_000_000, 6_000_000), "fixed": MemoryComponent(5, 0)}
    for use, told in (
        (MemoryUse(parts), "memory 3MB of 6MB<"),
        (None, "memory 3MB of 6MB<"),  # the replica is busy
        (MemoryUse(parts, 1200, 5.0), "memory 3MB of 6MB, 1,200 words forgotten<"),
    ):
        monkeypatch.setattr(NoModel, "memory_use", lambda _, use=use: use)
        assert told in shown.strip()
    assert 'title="rows 50 %; counted since the model was loaded"' in shown.strip()
    monkeypatch.setattr(NoModel, "memory_use", lambda _: MemoryUse())  # without a budget
    assert "memory" not in views(full).strip()


def test_the_strip_says_that_the_log_cannot_be_read(full):
    full.is_loading = True
    assert "Reading the newest records" in views(full).strip()
    full.problem = "no log"
    assert 'class="bad"' in views(full).strip()


def test_a_look_that_is_old_says_nothing_of_the_learner(full):
    full.owner, full._looked = Owner("me:1", 0.5), time.monotonic() - 60
    assert full.learner == "not known"
    full._looked = time.monotonic()
    assert full.learner == "running"
    full.problem = "the log cannot be reached"
    assert full.learner == "not known"


def test_probes_and_the_model_say_whether_a_learner_runs(full, ask):
    full.owner, full._looked = Owner(None, 9.0), time.monotonic()
    for path in ("/live", "/ready"):
        assert json.loads(ask(path)[2])["learner"] == "stopped"
    assert json.loads(ask("/ready")[2])["reason"] == NoModel.reason


def test_the_page_shows_who_labelled_an_event(full):
    full._add_prediction(record(prediction(id_="m9", label="ham")))
    made = PageViews(full, NoModel(), "secret", is_writable=True, can_send=True)
    assert "labelled by" not in made.live("events", {"id": "m9"})
    full._add_label(record({"id": "m9", "label": "spam", "source": "desk", "by": "ann"}))
    assert "labelled by <bdi>ann</bdi> for <bdi>desk</bdi>" in made.live("events", {"id": "m9"})
    assert "<td>ann</td>" in made.live("labels", {})
    full._add_label(record({"id": "m9", "label": "ham", "source": "desk", "ts": 1.79e9 + 9}))
    assert "labelled by" not in made.live("events", {"id": "m9"})


def test_a_label_that_may_be_older_than_those_read_is_not_called_missing(full, monkeypatch):
    """It is known where the topic was read from its beginning, or where a model knows of the event."""
    full._add_prediction(record(prediction(id_="m1") | {"truth": None}))
    full._add_prediction(record(prediction(id_="m2") | {"truth": "ham", "label": "ham"}))
    full._add_prediction(record(prediction(id_="m3") | {"truth": "ham", "label": "spam"}))

    def tags():
        made = views(full).live("events", {"q": "m"})
        return [re.sub("<[^>]+>", "", one) for one in re.findall(r'<span class="tag[^>]*>(.*?)</span>', made)]

    assert tags() == ["wrong when it came: ham", "right when it came", "label not known here"]
    full._reads_all_labels = True
    assert tags() == ["wrong: ham", "right", "no label"]
    full.judging.has_forgotten = True
    place = Partition("labels", 0), 0
    said = {
        "m1": (SourceLabel("boss", 5.0, "spam", 1.0, *place),),
        "m2": (),
        "m3": (SourceLabel("event", 5.0, "ham", 1.0, *place),),
    }
    monkeypatch.setattr(NoModel, "said_of", lambda _, id_: said[id_])
    assert tags() == ["wrong: ham", "right", "said: spam"]
    full._add_label(record({"id": "m1", "label": "ham", "source": "me", "ts": 4.0}))
    assert tags()[2] == "said: spam"  # the model knows of the newer one
    full._add_label(record({"id": "m1", "label": "ham", "source": "boss", "ts": 6.0}))
    assert tags()[2] == "said: ham"


@pytest.mark.parametrize(("n", "most", "knows"), [(9, 10, True), (11, 10, False)])
def test_whether_all_labels_are_known_goes_by_where_their_topic_was_begun(
    config, monkeypatch, n, most, knows
):
    monkeypatch.setattr(watching, "_LABELS", most)
    with closing(context.open_log(config)) as log:
        rows = [{"id": f"m{i}", "label": "spam"} for i in range(n)]
        log.append([NewRecord("labels", None, json.dumps(row).encode()) for row in rows])
    watch = RecentRecords(config, print)
    watch.start()
    until(lambda: not watch.is_loading)
    assert watch.knows_all_labels == knows
    if knows:
        with closing(context.open_log(config)) as log:
            log.append([NewRecord("labels", None, b'{"id": "x%d", "label": "spam"}' % i) for i in range(2)])
        until(lambda: not watch.knows_all_labels)  # it has dropped one
    watch.close()


def test_what_was_rolled_back_is_taken_out_of_the_lines(full):
    full._add_metrics(record(report(60)))
    assert [one.report.events for one in full.history.all_points("all")] == [50, 60]


def test_the_rings_are_bounded_in_number_and_in_bytes(empty, monkeypatch):
    monkeypatch.setattr(watching, "_PREDICTIONS", 100)
    for n in range(250):
        empty._add_prediction(record(prediction(n, f"e{n}")))
    assert empty.n_seen == 100
    assert empty._seen_bytes == sum(len(one.raw) for one in empty._seen)
    monkeypatch.setattr(watching, "_PREDICTION_BYTES", 5000)
    empty._add_prediction(record(prediction(250, "last")))
    assert empty._seen_bytes <= 5000
    assert listed(empty, 3, is_wrong=True)[0].id == "last"
    assert listed(empty, 100, search="e24")[0].id == "e249"
    assert empty.prediction("e0") is None


JUDGED = [  # predicted "a"; the label in the event; what is said of it apart; the label that holds
    ("a", [], "a"),
    ("b", [], "b"),
    (None, [], None),
    (None, [{"label": "b"}], "b"),
    ("a", [{"label": "b"}], "b"),
    ("b", [{"label": "a"}], "a"),
    (None, [{"label": "z"}], "a"),  # by an alias
    (None, [{"label": "b", "ts": 6}, {"label": None, "ts": 7}], None),
    ("b", [{"label": "a", "ts": 6}, {"label": None, "ts": 7}], "b"),
    (None, [{"label": "b", "ts": 7}, {"label": "a", "ts": 6}], "b"),  # whichever came last
    (None, [{"label": "b", "source": "boss"}, {"label": "a"}], "b"),
    (None, [{"label": "b", "source": "bot"}, {"label": "a", "source": "low"}], "a"),  # one was withdrawn
]


def test_predicted_wrong_is_what_the_label_that_holds_contradicts(tmp_path):
    (tmp_path / "c.toml").write_text(
        f'[log]\nurl = "sqlite:///{tmp_path}/log.db"\n[topics]\nlabels = "labels"\n'
        '[labels]\nranks = { boss = 2, low = 0 }\n[classes]\naliases = { z = "a" }\n'
    )
    config = configuration.load(tmp_path / "c.toml", {}, [])
    watch = RecentRecords(config, print)
    predictions, labels, wrong = [], [], {}
    for n, (in_event, said, holds) in enumerate(JUDGED):
        one = prediction(n, f"e{n}") | {"label": "a", "probabilities": {"a": 0.5, "b": 0.5}}
        predictions.append(
            {**{k: v for k, v in one.items() if k != "truth"}, **({"truth": in_event} if in_event else {})}
        )
        labels += [{"id": f"e{n}", **each} for each in said]
        if holds == "b":
            wrong[f"e{n}"] = holds
    labels += [{"withdraw": True, "source": "bot"}]
    with closing(context.open_log(config)) as log:
        for topic, rows in (("predictions", predictions), ("labels", labels)):
            log.append([NewRecord(topic, None, json.dumps(row).encode()) for row in rows])
        for one in log.read(log.partitions("labels")[0], 0, 100):
            watch._add_label(one)
    for one in predictions:
        watch._add_prediction(record(one))
    assert {one.id for one in listed(watch, 100, is_wrong=True)} == set(wrong)
    assert len(listed(watch, 100)) == len(JUDGED)


def test_a_long_topic_is_read_from_near_its_end(config, monkeypatch):
    """Of 3,000 predictions it asks for the last 300; what no learner wrote is passed over."""
    monkeypatch.setattr(watching, "_PREDICTIONS", 300)
    raws = [json.dumps(prediction(n, f"e{n}")).encode() for n in range(3000)]
    with closing(context.open_log(config)) as log:
        log.append([NewRecord("predictions", None, raw) for raw in raws])
        log.append(
            [
                *(NewRecord("predictions", None, raw) for raw in NO_PREDICTIONS),
                NewRecord("metrics", None, b"no report"),
                NewRecord("metrics", None, json.dumps(report()).encode()),
            ]
        )
    watch = RecentRecords(config, print)
    taken, take = [], watch._add_prediction
    monkeypatch.setattr(watch, "_add_prediction", lambda one: (taken.append(one.offset), take(one)))
    watch.start()
    until(lambda: watch.report and not watch.is_loading)
    watch.close()
    assert taken == list(range(2700 + len(NO_PREDICTIONS), 3000 + len(NO_PREDICTIONS)))
    assert watch.n_seen == 300 - len(NO_PREDICTIONS)
    assert watch.report.events == 100


def test_it_says_that_there_is_no_log_and_goes_on_once_there_is_one(config, monkeypatch):
    monkeypatch.setattr(log_follower, "AGAIN_SECONDS", 0.05)
    watch = RecentRecords(config, print)
    watch.start()
    until(lambda: "there is no log" in watch.problem)
    context.open_log(config).close()
    until(lambda: not watch.problem)
    watch.close()


@pytest.fixture
def learned(config, tmp_path, capsys):
    """Views of a stream with two snapshots, of 50 and of 100 events; their numbers, and what `snapshot diff` says."""
    command = [
        "--config",
        str(tmp_path / "c.toml"),
        "--set",
        "model.kind=naive_bayes",
        "--set",
        "http.listen=",
    ]
    command += ["--set", "snapshots.every_events=50", "--set", "commit.events=50"]
    for part in range(2):
        events = [
            {"id": f"e{part}{i}", "text": f"{EVIL} w{part}", "label": EVIL if i % 2 else "ham"}
            for i in range(50)
        ]
        with closing(context.open_log(config)) as log:
            log.append([NewRecord("events", None, json.dumps(one).encode()) for one in events])
        assert main(["run", "--until-end", *command]) == 0
    capsys.readouterr()
    before, *_, after = (str(one.n) for one in SnapshotFolder(config.snapshot_folder).list())
    assert main(["snapshot", "diff", before, after, "--json", *command[:4]]) == 0
    config = configuration.load(tmp_path / "c.toml", {}, ["model.kind=naive_bayes"])
    watch = RecentRecords(config, print)
    return (
        PageViews(watch, NoModel(), "secret", is_writable=True),
        before,
        after,
        json.loads(capsys.readouterr().out),
    )


def test_what_was_learned_between_two_snapshots_is_what_the_command_says(learned, monkeypatch):
    shown, before, after, told = learned
    made = shown.live("model", {"before": before, "after": after})
    texts = Reader(made).texts
    assert f"What was learned from record {before} to {after}" in texts
    assert [told[side]["events"] for side in ("before", "after")] == [50, 100]
    assert told["strongest"]
    windows = list(zip(*(texts[n:] for n in range(5)), strict=False))
    for row in told["strongest"]:
        label = row["label"].replace("\u202e", "\\u202e")
        counts = (f"{row[side]:.0f}" for side in ("before", "after"))
        assert (label, row["attribute"], row["value"], *counts) in windows
    assert "\u202e" not in made
    monkeypatch.setattr(ModelPage, "_compared", None)  # what does not change is not compared again
    assert shown.live("model", {"before": before, "after": after}) == made
    form = Reader(shown.learned.form({"before": after}))
    assert form.tags.count("option") == 2 * len(
        set(form.texts) - {"What was learned from snapshot", "to", "Compare"}
    )
    assert ("selected", None) in form.attributes


def test_what_cannot_be_compared_is_said(learned, monkeypatch):
    shown, before, after, _ = learned
    for asked, word in (
        ({"before": EVIL, "after": after}, "there is no snapshot"),
        ({"before": before}, "there is no snapshot"),
        ({"before": "9" * 30, "after": after}, "there is no snapshot"),
    ):
        made = shown.live("model", asked)
        assert word in made
        assert "script" not in Reader(made).tags
    with shown.learned._comparing:
        assert "in a moment" in shown.live("model", {"before": after, "after": before})
    monkeypatch.setattr(learning, "_MOST_BYTES", 10)
    assert f"streamnb snapshot diff {after} {after}" in shown.live("model", {"before": after, "after": after})
    monkeypatch.setattr(learning, "_MOST_BYTES", 1 << 30)
    SnapshotFolder(shown._watch.config.snapshot_folder).list()[-1].path.write_bytes(b"damaged")
    monkeypatch.setattr(learning, "_COMPARING_SECONDS", -1.0)
    assert "cannot be read at once" in shown.live("model", {"before": before, "after": after})


@pytest.fixture
def said():
    return []


@pytest.fixture
def ask(full, said):
    """Asks the application behind the guard, as a browser would on loopback, or where a token is needed."""

    def replay(places, dry_run):
        said.append((sorted(places), dry_run))
        return ResendResult(0 if places == {"0/9"} else 1234, {"<b>": 28})

    def made(token):
        app = application(NoModel(), CollectorRegistry(), said.extend, full, replay)
        return RequestLimits(
            app,
            count=lambda *_: None,
            tokens=Tokens.of_one(token),
            is_local=not token,
            most_bytes=1 << 20,
            rate=1e6,
        )

    apps = {}

    def asked(path, fields=None, token="", **headers):
        app = apps.setdefault(token, made(token))
        return page_request(app, path, fields, **headers)

    return asked


def csrf_of(page):
    return re.search(r'name="csrf" value="([^"]+)"', page)[1]


def test_a_label_is_written_by_a_form_of_this_page_alone(ask, said):
    csrf = csrf_of(ask("/page/events")[2])
    fields = {"id": "m1", "label": "ham"}
    for given, headers in (
        (fields, ORIGIN),
        (fields | {"csrf": "x" * len(csrf)}, ORIGIN),
        (fields | {"csrf": csrf}, {}),
        (fields | {"csrf": csrf}, {"origin": "http://evil.example"}),
        (fields | {"csrf": csrf}, {"origin": "null"}),
        (fields | {"csrf": csrf}, {"host": "evil.example", "origin": "http://evil.example"}),
    ):
        assert ask("/page/label", given, **headers)[0] == 403
    assert ask("/page/label", {"csrf": csrf, "id": "", "label": "ham"}, **ORIGIN)[0] == 422
    assert said == []
    status, _, text = ask("/page/label", fields | {"csrf": csrf}, x_live="1", **ORIGIN)
    assert (status, text.startswith("<div")) == (200, True)
    assert [(one.id, one.label, one.source) for one in said] == [("m1", "ham", "dashboard")]
    assert "<!doctype html>" in ask("/page/label", fields | {"csrf": csrf}, **ORIGIN)[2]


class Buttons(HTMLParser):
    """What a browser sends for each button with a name of a page's forms."""

    def __init__(self, page):
        super().__init__()
        self.hidden, self.sent = {}, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form":
            self.hidden = {}
        elif given.get("type") == "hidden":
            self.hidden[given["name"]] = given["value"]
        elif tag == "button" and "name" in given:
            self.sent.append(self.hidden | {given["name"]: given["value"]})


ODD = ["prix\u00a0faux", "\u0645\u06cc\u200c\u062e", "a\nb\r\nc\r", "\x00", f"{EVIL} 2", " x ", "\\u0041", "\U0001f469\u200d\U0001f4bb", "null"]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_a_button_says_exactly_its_label_of_exactly_its_event(name, full, ask, said):
    full._add_prediction(record(prediction(1, id_=name, label=name)))
    pages = [ask("/page/events")[2], ask(f"/page/events?{urlencode({'id': name})}")[2]]
    for page in pages:
        buttons = [one for one in Buttons(page).sent if json.loads(one["id_json"]) == name]
        assert len(buttons) == 2
        for fields in buttons:
            assert not set("\r\n\0") & set("".join(fields.values()))  # which a browser alters
            assert ask("/page/label", fields, **ORIGIN)[0] == 200
    assert [(one.id, one.label) for one in said] == [(name, name), (name, "ham")] * 2
    assert f'value="{html.escape(name)}"' in ask(f"/page/events?{urlencode({'q': name})}")[2]


def test_labels_that_differ_by_blanks_at_their_ends_are_shown_apart(full, ask):
    names = ["spam", " spam", "spam  ", "  "]
    shown = ["spam", r"\x20spam", r"spam\x20\x20", r"\x20\x20"]
    full._add_metrics(record(report(200) | {"labels": names[:2]}))
    full._add_prediction(
        record(prediction(1, id_="twins", label="spam ") | {"probabilities": dict.fromkeys(names, 0.25)})
    )
    full._add_label(record({"id": "twins", "label": " spam", "source": "me"}))
    for path in ("/page/events", "/page/events?id=twins"):
        page = ask(path)[2]
        assert set(shown) <= set(re.findall(r">([^<>]+)</button>", page))
        assert r'title="said: \x20spam">said: <bdi>\x20spam</bdi>' in page
        assert (
            f'value="{html.escape(json.dumps(" spam"))}" aria-label="twins is {shown[1]}" aria-pressed="true"'
            in page
        )
    assert set(shown) <= set(Reader(ask("/page/events?id=twins")[2]).texts)
    assert shown[1] in Reader(ask("/page/quality")[2]).texts
    assert shown[1] in Reader(ask("/page/labels")[2]).texts
    fields = {"csrf": csrf_of(page), "id": "twins", "label": "spam "}
    assert r"<bdi>spam\x20</bdi>" in ask("/page/label", fields, **ORIGIN)[2]


def test_a_label_that_the_learner_would_refuse_is_not_written(ask, said, monkeypatch):
    stream, learner = Stream(), late_learner(window=1e9)
    for name, sources in (("m1", "abc"), ("m2", "abcd")):
        stream.event(name, "w1", "spam")
        for source in sources:
            stream.verdict(name, "ham", source)
    learner.process(stream.records, 1.0)
    monkeypatch.setattr(NoModel, "following", SimpleNamespace(learner=learner))
    fields = {"csrf": csrf_of(ask("/page/events")[2]), "label": "ham"}
    assert ask("/page/label", fields | {"id": "m1"}, **ORIGIN)[0] == 200
    status, _, text = ask("/page/label", fields | {"id": "m2"}, **ORIGIN)
    assert (status, "one too many: an event takes labels of 4 sources" in text) == (409, True)
    assert [one.id for one in said] == ["m1"]


def test_a_labelled_event_leaves_the_queue_before_its_label_is_read_and_undone_it_returns(
    full, ask, said, monkeypatch
):
    def queued():
        with full.lock:
            return {one.id for one in full.review_queue.best("newest", 20)}

    full._add_prediction(record(prediction(id_="m1", label="ham")))
    csrf = csrf_of(ask("/page/events")[2])
    assert "m1" in queued()
    told = ask("/page/label", {"csrf": csrf, "id": "m1", "label": "ham"}, **ORIGIN)[2]
    assert len(said) == 1
    assert "m1" not in queued()
    full._add_label(record({"id": "m1", "label": "ham", "source": "dashboard"}))
    undo = re.search(r"undo=([^\"&]+)", told)[1]
    assert "Undone" in ask("/page/undo", {"csrf": csrf, "undo": html.unescape(undo)}, **ORIGIN)[2]
    assert "m1" in queued()
    monkeypatch.setattr("streamnb.serving.review_queue._UNREAD_SECONDS", 0.0)
    assert "m1" not in queued()  # its label was read, and the record that undoes it was not


def test_a_prediction_of_another_program_stops_no_queue_and_no_filter(full, ask):
    full._add_prediction(record({"id": "odd", "probability": "x", "label": "ham"}))
    for queue in ("unsure", "newest", "new", "wrong"):
        assert ask(f"/page/review?queue={queue}")[0] == 200
    for query in ("sure=0.95", "decision=none", "q=odd"):
        assert ask(f"/page/events/live?{query}")[0] == 200


def test_a_new_label_that_is_like_a_known_class_is_written_with_a_question(full, ask, said):
    full._add_metrics(record(report(200) | {"labels": ["spam", "ham"]}))
    fields = {"csrf": csrf_of(ask("/page/events")[2]), "id": "m1"}
    answers = [
        ask("/page/label", {**fields, "label": label}, **ORIGIN)[2] for label in ("Spam", "spam", "other")
    ]
    assert "Did you mean <bdi>spam</bdi>?" in answers[0]
    assert ["Did you mean" in one for one in answers] == [True, False, False]
    assert [one.label for one in said] == ["Spam", "spam", "other"]


def test_a_label_is_undone_also_without_the_script_and_not_if_it_was_changed(full, ask, said, monkeypatch):
    monkeypatch.setattr("streamnb.serving.live_page.UNDO_SECONDS", 0.2)
    csrf, id_ = csrf_of(ask("/page/events")[2]), f"../a?b {EVIL}"

    offsets = iter(range(1, 99))

    def read(label, source="dashboard"):
        one = {"id": id_, "label": label, "source": source}
        full._add_label(record(one)._replace(offset=next(offsets)))

    read("spam")
    told = ask("/page/label", {"csrf": csrf, "id": id_, "label": "ham"}, **ORIGIN)[2]
    assert "<button" not in told
    link = html.unescape(re.search(r'href="(/page/undo[^"]+)"', told)[1])
    page = ask(link)[2]
    assert "gets back <bdi>spam</bdi>" in page
    assert "script" not in Reader(page.partition("<main")[2]).tags
    fields = {name: re.search(rf'name="{name}" value="([^"]+)"', page)[1] for name in ("csrf", "undo")}
    status, _, text = ask("/page/undo", fields, **ORIGIN)  # the label that was written is not read yet
    assert (status, "has another label" in text) == (409, True)
    read("ham")
    read("other", "ann")
    assert "Undone: " in ask("/page/undo", fields, **ORIGIN)[2]
    read("spam")
    status, headers, text = ask("/page/undo", fields, **ORIGIN)
    assert (status, dict(headers)["content-type"]) == (409, "application/problem+json")
    status, headers, text = ask("/page/undo", fields, **ORIGIN, accept="text/html,*/*")  # without the script
    assert (status, dict(headers)["content-type"]) == (409, "text/html; charset=utf-8")
    assert "has another label" in text
    assert "script" not in Reader(text.partition("<main")[2]).tags
    assert "content-security-policy" in dict(headers)
    assert [(one.id, one.label, one.source) for one in said] == [
        (id_, "ham", "dashboard"), (id_, "spam", "dashboard"),
    ]  # fmt: skip
    other = str(UndoToken(id_, "ann", "other", None))
    assert ask("/page/undo", {"csrf": csrf, "undo": other}, **ORIGIN)[0] == 422
    assert ask("/page/undo", {"csrf": "x", "undo": fields["undo"]}, **ORIGIN)[0] == 403
    for odd in ("", "x", "null", "e30="):
        assert ask("/page/undo", {"csrf": csrf, "undo": odd}, **ORIGIN)[0] == 422
        assert ask(f"/page/undo?undo={odd}")[0] == 422
    assert ask("/page/undo")[0] == 422
    assert len(said) == 2


@pytest.mark.parametrize("label", [" ", "   ", "\u3000", "\t\n", "\u200b"])
def test_a_label_of_blanks_alone_is_refused(ask, said, label):
    fields = {"csrf": csrf_of(ask("/page/events")[2]), "id": "m1", "label": label}
    status, _, text = ask("/page/label", fields, **ORIGIN)
    assert (status, json.loads(text)["detail"]) == (422, "a label needs a character that can be seen")
    assert said == []


def test_a_form_that_is_none_of_the_page_is_refused(ask, said):
    csrf = csrf_of(ask("/page/events")[2])
    for odd in ("", "{", "3", "null", '["a"]', '"a" "b"'):
        status, _, text = ask("/page/label", {"csrf": csrf, "id_json": odd, "label": "ham"}, **ORIGIN)
        assert (status, "id_json" in text) == (422, True)
    assert said == []


def test_dead_letters_are_sent_again_by_a_form_of_this_page_alone(ask, said):
    page = ask("/page/dead-letters")[2]
    csrf = csrf_of(page)
    assert "Their bytes" in page
    for given, headers in (
        ({}, ORIGIN),
        ({"csrf": "x", "sure": "1"}, ORIGIN),
        ({"csrf": csrf, "sure": "1"}, {}),
    ):
        assert ask("/page/replay", given, **headers)[0] == 403
    assert said == []
    status, _, text = ask("/page/replay", {"csrf": csrf}, x_live="1", **ORIGIN)
    assert (status, said) == (200, [([], True)])
    assert "1,234 dead letters would be sent again; 28 not sent: &lt;b&gt;." in text
    assert "Send 1,234 again" in text


def test_dead_letters_are_sent_after_a_second_word_and_only_those_that_were_marked(ask, said):
    marked = {"csrf": csrf_of(ask("/page/dead-letters")[2]), "letter:0/3": "1", "letter:1/0": "1"}
    text = ask("/page/replay", marked, x_live="1", **ORIGIN)[2]
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]+)"', text))
    assert hidden == marked | {"sure": "1"}
    text = ask("/page/replay", hidden, x_live="1", **ORIGIN)[2]
    assert said == [(["0/3", "1/0"], True), (["0/3", "1/0"], False)]
    assert "1,234 dead letters sent again; 28 not sent: " in text
    assert "<form" not in text
    none = {"csrf": marked["csrf"], "letter:0/9": "1"}
    assert "<form" not in ask("/page/replay", none, x_live="1", **ORIGIN)[2]  # there is nothing to be sure of


def test_letters_that_can_never_be_sent_cannot_be_marked(empty):
    for n, reason in enumerate(["missing", "invalid-json", "repeated", "prediction-oversize", "oversize"]):
        empty._add_dead_letter(record(b"{}", reason=reason)._replace(offset=n))
    made = views(empty).live("dead-letters", {})
    assert re.findall(r'name="letter:([^"]+)"', made) == ["0/4", "0/0"]
    rows = [" ".join(Reader(row).texts) for row in made.split("<tr>")[2:]]
    assert [(row[:3], row.partition("never sent: ")[2].split(" {")[0]) for row in rows] == [
        ("0/4", ""),
        ("0/3", "its event was learned"),
        ("0/2", "its event had come before"),
        ("0/1", "its bytes cannot be read"),
        ("0/0", ""),
    ]


@pytest.mark.parametrize("path", ["/", *(f"/page/{name}" for name in TITLES if name), "/page/page.js", "/page/page.css", "/page/overview/live"])  # fmt: skip
def test_every_answer_of_the_page_is_fenced_in(ask, path):
    status, headers, text = ask(path)
    assert status == 200
    assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    if headers["content-type"].startswith("text/html"):
        assert not [key for key, _ in Reader(text).attributes if key.startswith("on") or key == "style"]


def test_where_a_token_is_needed_the_page_takes_it_as_a_password_and_nothing_else_does(ask):
    status, headers, _ = ask("/page/events", token=TOKEN)
    assert (status, headers["www-authenticate"][:5]) == (401, "Basic")
    assert ask("/model", token=TOKEN)[1]["www-authenticate"] == "Bearer"

    def basic(said):
        return f"Basic {b64encode(said.encode()).decode()}"

    brought = basic(f"me:{TOKEN}")
    for path in ("/", "/page/events", "/page/events/live", "/page/page.js"):
        assert ask(path, token=TOKEN, authorization=brought)[0] == 200
        assert ask(path, token=TOKEN, authorization=f"Bearer {TOKEN}")[0] == 200
    for path in ("/model", "/metrics", "/page"):
        assert ask(path, token=TOKEN, authorization=brought)[0] == 401
    for wrong in (
        basic(TOKEN),
        basic("me:"),
        basic(f"{TOKEN}:me"),
        f"Basic {TOKEN}",
        "Basic x",
        f"basic{brought}",
        TOKEN,
    ):
        assert ask("/page/events/live", token=TOKEN, authorization=wrong)[0] == 401, wrong
    sent = ("/page/label", {"id": "m1", "label": "x"})
    assert ask(*sent, token=TOKEN, authorization=brought, **ORIGIN)[0] == 403  # no secret of the page


def test_of_other_names_there_is_no_page(ask):
    assert ask("/page/nothing")[0] == ask("/page/nothing/live")[0] == 404
    assert ask("/page/events?q=%ff%00&wrong=1&id=")[0] == 200
