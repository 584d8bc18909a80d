"""Webhooks: real requests to a real receiver, from an embedded log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from streamnb.config import WebhookConfig
from streamnb.config.config_sections import members
from streamnb.engine.ports import NewRecord, Partition
from streamnb.errors import ConfigError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.serving import webhooks
from streamnb.serving.webhook_metrics import WebhookMetrics
from tests import ROOT
from tests.serving.webhook_receiver import loaded, receiving, sender_of
from tests.support.topics_of_logs import add_partitions, trim

TOPICS = ("predictions", "alerts", "events")


@pytest.fixture
def log(tmp_path):
    with closing(SqliteLog(tmp_path / "log.db")) as made:
        for topic in TOPICS:
            made.create_topic(topic, 1)
        yield made


@pytest.fixture
def start():
    """Start a sender that ends with the test; it has the lease when this returns, unless it should wait."""
    made = []

    def started(config, *arguments, waits=False, **more):
        said = []
        made.append(sender_of(config, *arguments, report=said.append, **more))
        made[-1].said = said
        made[-1].start()
        if not waits:
            until(lambda: said)
        return made[-1]

    yield started
    for sender in made:
        sender.close()


def until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


def publish(log, ids, topic="predictions", **fields):
    log.append([NewRecord(topic, id_.encode(), msgspec.json.encode({"id": id_, **fields})) for id_ in ids])


def names(sender):
    return [message.event for message in sender.said]


def counted(registry, outcome, webhook="desk"):
    labels = {"webhook": webhook, "outcome": outcome}
    return registry.get_sample_value("streamnb_webhook_messages_total", labels) or 0


def test_each_record_from_now_on_is_sent_once_signed_and_in_order(log, tmp_path, start):
    publish(log, ["before"])
    with receiving() as receiver:
        sender = start(loaded(tmp_path, receiver.url))
        assert names(sender) == ["webhook-begins"]
        ids = [f"m{i}" for i in range(300)]
        publish(log, ids, label="spam")
        receiver.await_n(300)
        assert receiver.accepted() == ids
        assert len(set(receiver.ids)) == 300
        assert set(receiver.received[0]) == {"type", "timestamp", "data"}
        assert receiver.received[0]["type"] == "prediction"
        assert receiver.received[0]["data"] == {"id": "m0", "label": "spam"}


def test_a_message_is_repeated_as_it_was_until_it_is_accepted(log, tmp_path, start):
    with receiving(lambda n: 500 if n in {1, 2, 3} else 204) as receiver:
        sender = start(loaded(tmp_path, receiver.url))
        publish(log, ["a", "b", "c"])
        receiver.await_n(6)
        assert [one["id"] for one in receiver.data()] == ["a", "b", "b", "b", "b", "c"]
        assert receiver.received[1] == receiver.received[4]
        assert len(set(receiver.ids)) == 3
        until(lambda: names(sender) == ["webhook-begins", "webhook-fails", "webhook-recovers"])


def test_attempts_come_later_each_time_and_not_before_the_receiver_allows(log, tmp_path, start, monkeypatch):
    pauses = []
    monkeypatch.setattr(webhooks.WebhookSender, "wait", lambda _, seconds, __: pauses.append(seconds))
    with receiving(lambda n: (503, {"retry-after": "120"}) if n == 8 else 200 if n > 8 else 503) as receiver:
        start(loaded(tmp_path, receiver.url), first_pause=1.0)
        publish(log, ["a"])
        receiver.await_n(10)
    assert all(2**n / 2 <= pause <= 2**n for n, pause in enumerate(pauses[:8]))
    assert pauses[8] >= 120.0
    assert len(pauses) == 9


def test_a_redirect_is_not_followed(log, tmp_path, start):
    with receiving(lambda n: (307, {"location": "/other"}) if n < 2 else 200) as receiver:
        sender = start(loaded(tmp_path, receiver.url))
        publish(log, ["a"])
        receiver.await_n(3)
        assert receiver.paths == ["/hook"] * 3
        (failed,) = [one for one in sender.said if one.event == "webhook-fails"]
        assert "redirects are not followed" in str(failed)


def test_an_address_that_is_gone_gets_nothing_more_and_goes_on_there_after_a_start(log, tmp_path, start):
    registry = CollectorRegistry()
    with receiving(lambda n: 410 if n == 1 else 200) as receiver:
        config = loaded(tmp_path, receiver.url)
        sender = start(config, metrics=WebhookMetrics(registry), lease_seconds=0.6)
        publish(log, ["a", "b", "c"])
        until(lambda: "webhook-gone" in names(sender))
        other = start(config, waits=True, lease_seconds=0.6)
        time.sleep(1.5)
        assert receiver.accepted() == ["a"]
        assert len(receiver.received) == 2, "another process asked it again"
        assert registry.get_sample_value("streamnb_webhook_sending", {"webhook": "desk"}) == 0
        other.close()
        sender.close()
        start(config, waits=True)
        receiver.await_n(4)
        assert receiver.accepted() == ["a", "b", "c"]


def test_a_slow_receiver_holds_up_no_other_and_its_answer_is_not_awaited_for_ever(log, tmp_path, start):
    released = threading.Event()

    def slowly(n):
        if n == 0:
            released.wait(20)
        return 200

    slow_folder = tmp_path / "slow"
    slow_folder.mkdir()
    with receiving(slowly) as slow, receiving() as fast:
        config = loaded(tmp_path, slow.url)
        start(config, lease_seconds=2.0)
        hook = msgspec.structs.replace(config.webhooks[0], name="other", url=fast.url)
        start(msgspec.structs.replace(config, webhooks=(hook,)))
        publish(log, ["a", "b"])
        fast.await_n(2)
        assert len(slow.received) < 2, "the test was too slow itself"
        until(lambda: len(slow.statuses) == 2)  # after a second the attempt is given up, and repeated
        assert [one["id"] for one in slow.data()] == ["a", "a", "b"]
        released.set()


@pytest.mark.parametrize(("status", "published"), [(422, 0.0), (500, -7200.0)])
def test_a_message_that_is_never_accepted_is_skipped_and_reported(log, tmp_path, start, status, published):
    registry = CollectorRegistry()
    log._clock = lambda: time.time() + published
    with receiving(lambda n: status if n < (5 if status == 422 else 1) else 200) as receiver:
        sender = start(
            loaded(tmp_path, receiver.url, give_up_after="1h"),
            metrics=WebhookMetrics(registry),
            first_pause=0.01,
        )
        publish(log, ["bad", "good"])
        until(lambda: receiver.accepted() == ["good"])
        assert "webhook-skipped" in names(sender)
        until(lambda: (counted(registry, "skipped"), counted(registry, "delivered")) == (1, 1))


def test_a_message_is_not_skipped_before_its_time(log, tmp_path, start):
    with receiving(lambda n: 500 if n < 12 else 200) as receiver:
        sender = start(loaded(tmp_path, receiver.url), first_pause=0.001)
        publish(log, ["a"])
        receiver.await_n(13)
        assert receiver.accepted() == ["a"]
        assert "webhook-skipped" not in names(sender)


def test_a_killed_sender_repeats_what_was_sent_before_its_position_and_loses_nothing(log, tmp_path):
    """It is killed when message 5 has arrived, before the answer; the next one takes over after the lease."""
    program = None

    def killing(n):
        if n == 5:
            os.kill(program.pid, signal.SIGKILL)
        return 200

    def begin(url):
        command = [sys.executable, "-m", "tests.serving.webhook_receiver", str(tmp_path), url]
        return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)

    ids = [f"m{i}" for i in range(12)]
    with receiving(killing) as receiver:
        program = begin(receiver.url)
        try:
            until(lambda: log.forwarded("predictions", "webhook-desk"))
            publish(log, ids)
            until(lambda: program.poll() is not None)
            killed_at = time.monotonic()
            second = begin(receiver.url)
            try:
                until(lambda: receiver.accepted()[-1:] == ids[-1:])
            finally:
                second.kill()
                second.wait()
        finally:
            program.kill()
            program.wait()
        sent = [one["id"] for one in receiver.data()]
        assert sent[:6] == ids[:6]
        first_again = ids.index(sent[6])
        assert first_again <= 5, "message 5 was not answered: it must be sent again"
        assert sent[6:] == ids[first_again:]
        assert time.monotonic() - killed_at > 2.0, "it did not wait for the lease"


def test_of_two_senders_one_sends_and_the_other_takes_over_where_it_ends(log, tmp_path, start):
    with receiving(lambda _: time.sleep(0.002) or 200) as receiver:
        config = loaded(tmp_path, receiver.url)
        first = start(config)
        second = start(config, waits=True)
        ids = [f"m{i}" for i in range(200)]
        publish(log, ids[:100])
        receiver.await_n(30)
        first.close()
        publish(log, ids[100:])
        receiver.await_n(200)
        time.sleep(0.3)
        assert receiver.accepted() == ids
        assert receiver.most_at_once == 1
        assert "webhook-begins" not in names(second)


def test_erased_events_are_not_sent_and_alerts_lose_their_id(log, tmp_path, start):
    publish(log, ["kept", "erased", "other", "again"], topic="events", text="x")
    erased = {Partition("events", 0): np.array([1, 3])}
    registry = CollectorRegistry()
    with receiving() as receiver, receiving() as alerted:
        config = loaded(tmp_path, receiver.url)
        start(config, lambda: erased, metrics=WebhookMetrics(registry))
        alerts = msgspec.structs.replace(config.webhooks[0], name="alerts", send="alerts", url=alerted.url)
        start(msgspec.structs.replace(config, webhooks=(alerts,)), lambda: erased)
        publish(log, ["kept", "erased", "other", "again", "new"])
        publish(log, ["erased", "kept"], topic="alerts", monitor="m")
        receiver.await_n(3)
        alerted.await_n(2)
        assert receiver.accepted() == ["kept", "other", "new"]
        assert alerted.data() == [{"monitor": "m"}, {"id": "kept", "monitor": "m"}]
        until(lambda: counted(registry, "erased") == 2)


def test_an_event_that_is_erased_while_its_message_fails_is_sent_no_more(log, tmp_path, start):
    publish(log, ["a"], topic="events", text="x")
    erased = {}

    def erasing(n):
        erased[Partition("events", 0)] = np.array([0])
        return 500 if n == 0 else 200

    with receiving(erasing) as receiver:
        start(loaded(tmp_path, receiver.url), lambda: dict(erased))
        publish(log, ["a", "b"])
        receiver.await_n(2)
        assert [one["id"] for one in receiver.data()] == ["a", "b"]


def test_nothing_about_events_is_sent_before_it_is_known_which_were_erased(log, tmp_path, start):
    known = [None]
    with receiving() as receiver:
        start(loaded(tmp_path, receiver.url), lambda: known[0])
        publish(log, ["a"])
        time.sleep(0.7)
        assert receiver.received == []
        known[0] = {}
        receiver.await_n(1)


def test_records_that_are_gone_come_as_a_gap_and_new_partitions_from_their_start(log, tmp_path, start):
    with receiving(lambda n: 500 if n == 1 else 200) as receiver:
        config = loaded(tmp_path, receiver.url)
        start(config).close()
        publish(log, [f"m{i}" for i in range(10)])
        trim(log, Partition("predictions", 0), 6)
        add_partitions(log, "predictions", 2)
        sender = start(config)
        receiver.await_n(6)
        assert receiver.received[0]["type"] == "gap"
        gap = {"reason": "retention", "partition": 0, "offset": 0, "continues": 6}
        assert receiver.received[0]["data"] == gap
        assert [one["id"] for one in receiver.data()[1:]] == ["m6", "m6", "m7", "m8", "m9"]
        assert "webhook-gap" in names(sender)
        assert "webhook-begins" not in names(sender)


def test_a_gap_is_reported_again_if_its_message_was_not_accepted(log, tmp_path, start):
    with receiving(lambda _: 500) as receiver:
        config = loaded(tmp_path, receiver.url)
        start(config).close()
        publish(log, [f"m{i}" for i in range(10)])
        trim(log, Partition("predictions", 0), 6)
        first = start(config, lease_seconds=0.5)
        receiver.await_n(8)
        first.close()
        n = len(receiver.received)
        receiver.answer = lambda _: 200
        start(config)
        receiver.await_n(n + 5)
        assert [one["type"] for one in receiver.received[n:]] == ["gap"] + ["prediction"] * 4
        assert len(set(receiver.ids[: n + 1])) == 1


def test_decisions_are_chosen(log, tmp_path, start):
    with receiving() as all_, receiving() as one, receiving() as none:
        config = loaded(tmp_path, all_.url, send="decisions")
        (hook,) = config.webhooks
        start(config)
        for name, url, decision in (("one", one.url, "spam"), ("none", none.url, "none")):
            chosen = msgspec.structs.replace(hook, name=name, url=url, decision=decision)
            start(msgspec.structs.replace(config, webhooks=(chosen,)))
        for id_, decision in {"a": "spam", "b": None, "c": "ham", "d": "spam"}.items():
            publish(log, [id_], decision=decision)
        log.append([NewRecord("predictions", None, b"not JSON")])
        publish(log, ["e"], decision="ham")
        publish(log, ["f"], decision="spam")
        publish(log, ["g"])
        all_.await_n(5)
        one.await_n(3)
        none.await_n(2)
        assert all_.accepted() == ["a", "c", "d", "e", "f"]
        assert one.accepted() == ["a", "d", "f"]
        assert none.accepted() == ["b", "g"]


@pytest.mark.parametrize(
    "content", ["", "a-secret", "whsec_short", "whsec_" + "A" * 200, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS*"]
)
def test_a_secret_that_cannot_sign_is_refused_and_not_quoted(tmp_path, content):
    config = loaded(tmp_path, "https://desk.example/hook")
    (tmp_path / "secret").write_text(content)
    with pytest.raises(ConfigError, match=r"desk.*secret") as refused:
        config.webhooks[0].secrets()
    assert not content or content not in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"url": "ftp://x/"}, "https://HOST/PATH"),
        ({"url": "https://user:pass@x/"}, "without name, password"),
        ({"url": "https://x/", "send": "labels"}, "alerts"),
        ({"url": "https://x/", "name": "a b"}, "letters, digits"),
        ({"url": "https://x/", "send": "alerts", "decision": "x"}, "has no meaning"),
    ],
)
def test_a_webhook_that_makes_no_sense_is_refused(tmp_path, keys, why):
    with pytest.raises(ConfigError, match=why):
        loaded(tmp_path, **keys)


def test_the_manual_has_every_key():
    page = (ROOT / "docs" / "applications.md").read_text().partition("\n## Webhooks\n")[2]
    assert re.findall(r"^\| `(\w+)` \|", page.partition("\n## ")[0], re.MULTILINE) == [
        *members(WebhookConfig)
    ]
