"""Dead letters that are corrected or skipped one at a time: each at most once, whoever else is at it."""

from __future__ import annotations

import json
import random
import threading

import pytest

from streamnb import config as configuration
from streamnb.cli.commands.dlq import Selection, send_again
from streamnb.engine.ports import NewRecord, Partition
from streamnb.errors import ConfigError, LogError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import resent_dead_letters
from streamnb.runtime.resent_dead_letters import ResentDeadLetters
from streamnb.runtime.stored_dead_letters import DeadLetterReplay, letter_at, settle_letters

BAD = {
    "invalid-json": b'{"id": "a", "text": ',
    "missing": b'{"text": "x"}',
    "wrong-type": b'{"id": "b", "features": {"age": [1]}, "text": "x", "n": 12345678901234567890}',
    "invalid-utf8": b'{"id": "\xff"}',
    "repeated": b'{"id": "c", "text": "x"}',
    "prediction-oversize": b'{"id": "d", "text": "x"}',
}
GOOD = b'{"id": "good", "text": "x"}'


@pytest.fixture
def stream(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = ["log.url=sqlite:///log.db", "topics.labels=labels"]
    with SqliteLog("log.db") as log:
        for topic in ("dead-letters", "events", "labels", "journal"):
            log.create_topic(topic, 1)
        yield log, configuration.load(None, {}, settings)


def dead(log, reason, value, *more, key=None, topic="events"):
    headers = (("reason", reason.encode()), ("topic", topic.encode()), *more)
    log.append([NewRecord("dead-letters", key, value, headers)])


def sent(log, topic="events"):
    return [(one.value, dict(one.headers)) for one in log.read(Partition(topic, 0), 0, 99)]


def correct(log, config, place, value, new_id=None):
    letter = letter_at(log, config, place)
    record, id_ = DeadLetterReplay(config, log).corrected(letter, value, new_id)
    settle_letters(log, config, [letter], record)
    return id_


def skip(log, config, *places):
    settle_letters(log, config, [letter_at(log, config, one) for one in places], None)


def test_each_letter_is_corrected_once_also_if_it_is_never_sent_as_it_is(stream):
    log, config = stream
    for reason, value in BAD.items():
        dead(log, reason, value, ("original.trace", b"t"))
    send_again(config, log, Selection())  # passes all that it cannot send
    expected = []
    for n, reason in enumerate(BAD):
        if reason == "prediction-oversize":
            with pytest.raises(ConfigError, match="learned twice"):
                correct(log, config, f"0/{n}", GOOD, "other")
            continue
        new_id = f"new{n}" if reason in {"wrong-type", "repeated"} else None
        assert correct(log, config, f"0/{n}", GOOD, new_id) == (new_id or "good")
        expected.append(new_id or "good")
        with pytest.raises(ConfigError, match="corrected or skipped before"):
            correct(log, config, f"0/{n}", GOOD, "again")
        with pytest.raises(ConfigError, match="corrected or skipped before"):
            skip(log, config, f"0/{n}")
    assert [json.loads(value)["id"] for value, _ in sent(log)] == expected
    assert [one["dead-letter"] for _, one in sent(log)] == [b"0/0", b"0/1", b"0/2", b"0/3", b"0/4"]
    assert {one["trace"] for _, one in sent(log)} == {b"t"}
    assert send_again(config, log, Selection()).sent == 0


def test_what_is_corrected_or_skipped_is_not_sent_by_replay_and_the_rest_is(stream):
    log, config = stream
    for n in range(6):
        dead(log, "missing", b'{"id": "%d", "text": "x"}' % n)
    correct(log, config, "0/1", b'{"id": "1", "text": "right"}')
    skip(log, config, "0/3", "0/4")
    assert send_again(config, log, Selection()).sent == 3
    assert sorted(json.loads(value)["id"] for value, _ in sent(log)) == ["0", "1", "2", "5"]
    with pytest.raises(ConfigError, match="before"):
        correct(log, config, "0/4", b'{"id": "4", "text": "x"}')


def test_of_two_at_once_one_sends(stream):
    """Two processes correct the same letter, and others next to it, at the same time."""
    log, config = stream
    for n in range(4):
        dead(log, "missing", b'{"text": "x%d"}' % n)
    barrier, outcomes = threading.Barrier(4), []

    def run(place, text):
        with SqliteLog("log.db") as mine:
            barrier.wait()
            try:
                outcomes.append((place, correct(mine, config, place, b'{"id": "%s", "text": "x"}' % text)))
            except ConfigError as error:
                outcomes.append((place, str(error)))

    work = [("0/1", b"a"), ("0/1", b"b"), ("0/2", b"c"), ("0/2", b"d")]
    threads = [threading.Thread(target=run, args=one) for one in work]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(sent(log)) == 2
    refused = [told for _, told in outcomes if "before" in told]
    assert len(refused) == 2


def test_an_attempt_that_was_overtaken_starts_again_from_what_holds_then(stream, monkeypatch):
    log, config = stream
    for n in range(3):
        dead(log, "missing", b'{"text": "x%d"}' % n)
    forward = SqliteLog.forward

    def overtaken(self, *given):
        monkeypatch.setattr(SqliteLog, "forward", forward)
        with SqliteLog("log.db") as other:
            correct(other, config, "0/0", b'{"id": "first", "text": "x"}')
        forward(self, *given)

    monkeypatch.setattr(SqliteLog, "forward", overtaken)
    assert correct(log, config, "0/1", b'{"id": "second", "text": "x"}') == "second"
    monkeypatch.setattr(SqliteLog, "forward", overtaken)
    with pytest.raises(ConfigError, match="before"):  # the other one corrects 0/0 a second time
        correct(log, config, "0/2", b'{"id": "third", "text": "x"}')
    assert [json.loads(value)["id"] for value, _ in sent(log)] == ["first", "second"]


def test_a_record_that_would_be_refused_again_or_has_another_id_is_not_sent(stream):
    log, config = stream
    dead(log, "wrong-type", BAD["wrong-type"], key=b"b")
    dead(log, "wrong-type", b"[1]")
    for value, new_id, why in [
        (b"{", None, "invalid-json"),
        (b"\xff", None, "invalid-utf8"),
        (b'{"id": "b"', "new", "no id can be put into it"),
        (b"", "new", "no id can be put into it"),
        (b'{"id": "b", "features": {"age": [1]}}', None, "wrong-type"),
        (b'{"id": "other", "text": "x"}', None, "the id was 'b' and is 'other' now"),
        (b'{"id": "b", "text": "x"}', "b", "the new id equals the old one"),
        (b'{"id": "b", "text": "x"}', "n" * 1001, "out-of-range"),
        (b'{"id": "b", "label": "spam", "source": "x"}', None, "label-record"),
        (b'{"id": "b", "text": "' + b"x" * (1 << 20) + b'"}', None, "oversize"),
    ]:
        with pytest.raises(ConfigError, match=why):
            correct(log, config, "0/0", value, new_id)
    assert sent(log) == []
    for place in ("0/9", "7/0", f"0/{10**25}"):
        with pytest.raises(LogError):
            correct(log, config, place, GOOD)
    for place in ("", "..", "0/-1", "0", "a/b", "0/\u0663"):
        with pytest.raises((ConfigError, LogError)):
            correct(log, config, place, GOOD)


def test_a_new_id_leaves_all_other_bytes_and_follows_into_the_key(stream):
    log, config = stream
    dead(log, "wrong-type", BAD["wrong-type"], key=b"b")
    dead(log, "wrong-type", BAD["wrong-type"], key=b"customer")
    value = b'{"text": "x", "id": "b", "n": 12345678901234567890, "f": 1.10, "features": {"e": "\\u00e9"}}'
    for place, new_id in (("0/0", "../a b?\u00e9<script>"), ("0/1", "x/y")):
        correct(log, config, place, value, new_id)
    found = [one[0].decode() for one in sent(log)]
    assert found[0] == (
        '{"text":"x","id":"../a b?\u00e9<script>","n":12345678901234567890,"f":1.10,"features":{"e": "\\u00e9"}}'
    )
    keys = [one.key for one in log.read(Partition("events", 0), 0, 9)]
    assert keys == ["../a b?\u00e9<script>".encode(), b"customer"]


def test_an_id_deep_in_the_record_is_replaced_there(stream):
    log, _ = stream
    config = configuration.load(None, {}, ["log.url=sqlite:///log.db", "events.id=$.meta.id"])
    dead(log, "wrong-type", b'{"meta": {"id": "a", "k": 1.0}, "text": 7}')
    assert correct(log, config, "0/0", b'{"meta": {"id": "a", "k": 1.0}, "text": "7"}', "z") == "z"
    assert sent(log)[0][0] == b'{"meta":{"id":"z","k":1.0},"text":"7"}'


def test_a_label_keeps_the_id_of_its_event(stream):
    log, config = stream
    dead(log, "wrong-type", b'{"id": "e", "label": 7}', topic="labels")
    with pytest.raises(ConfigError, match="would label another event"):
        correct(log, config, "0/0", b'{"id": "e", "label": "7"}', "f")
    assert correct(log, config, "0/0", b'{"id": "e", "label": "7"}') == "e"
    assert sent(log, "labels")[0][0] == b'{"id": "e", "label": "7"}'


def test_a_letter_with_a_part_of_its_record_is_corrected_whole(stream):
    log, config = stream
    whole = b'{"id": "w", "text": "' + b"x" * 500 + b'"}'
    log.append([NewRecord("events", b"k", whole, (("h", b"1"), ("dead-letter", b"0/5")))])
    about = (("truncated", b"520"), ("partition", b"0"), ("offset", b"0"))
    dead(log, "oversize", whole[:20], *about)
    replay = DeadLetterReplay(config, log)
    letter = letter_at(log, config, "0/0")
    assert replay.original(letter).value == whole
    correct(log, config, "0/0", whole.replace(b"xxx", b"y"))
    assert sent(log)[1][1] == {"h": b"1", "dead-letter": b"0/0"}


@pytest.mark.parametrize("seed", range(100))
def test_letters_settled_one_at_a_time_and_by_walks_are_each_settled_once(seed):
    rng = random.Random(seed)
    reasons = [rng.choice(["missing", "oversize", "invalid-json"]) for _ in range(40)]
    at, settled = None, set()
    for _ in range(30):
        if rng.random() < 0.3:
            walk = ResentDeadLetters(at)
            for offset in range(walk.start, 40):
                if walk.has(offset):
                    walk.send()
                elif reasons[offset] == "invalid-json":
                    continue
                elif rng.random() < 0.3:
                    walk.send()
                    settled.add(offset)
                else:
                    walk.wait(offset)
            at, given_up = walk.at(40)
            assert given_up == 0
        offset = rng.randrange(40)
        walk = ResentDeadLetters(at)
        assert bool(walk.why_settled(offset, reasons[offset])) == (offset in settled)
        if offset not in settled:
            at = walk.settle([(offset, reasons[offset])])
            settled.add(offset)
        kept = ResentDeadLetters(at)
        assert {n for n in range(40) if kept.why_settled(n, reasons[n])} == settled


def test_many_corrected_letters_keep_the_note_small_and_none_is_sent_twice():
    at, done, rng, offset = None, [], random.Random(5), 0
    for _ in range(2000):
        offset += rng.randrange(2, 1000)
        at = ResentDeadLetters(at).settle([(offset, "invalid-json")])
        done.append(offset)
    assert len(at.note) < 1200
    kept = ResentDeadLetters(at)
    assert all(kept.why_settled(offset, "invalid-json") for offset in done)
    assert kept.why_settled(1, "invalid-json")  # older than those that are kept
    assert not kept.why_settled(offset + 1, "invalid-json")
    assert not kept.why_settled(1, "missing")


def test_where_too_many_wait_between_settled_ones_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(resent_dead_letters, "_MOST_NOTE", 100)
    offsets, kept = random.Random(3).sample(range(5000), 500), []

    def settle_all():
        for offset in offsets:
            kept.append(ResentDeadLetters(kept[-1] if kept else None).settle([(offset, "missing")]))

    with pytest.raises(LogError, match="too many dead letters wait"):
        settle_all()
    assert len(kept[-1].note) <= 100
    assert all(ResentDeadLetters(kept[-1]).has(offset) for offset in offsets[: len(kept)])
