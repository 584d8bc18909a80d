"""Verification of what is wrong: every kind of damage is reported, and where it is."""

from __future__ import annotations

import re

import msgspec
import pytest

from streamnb.engine.journal.recovery import recover
from streamnb.engine.ports import NewRecord, Partition
from streamnb.errors import LogError
from streamnb.events import Alert, ModelInfo
from streamnb.formats.codec import encode_alert
from streamnb.formats.journal_record import crc, decode_journal
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.runtime import factories
from streamnb.verification.check_results import Outcome
from streamnb.verification.log.published_outputs import Balance, bucket_of
from tests.support.service import TOPICS, AtOnce, produce, raw_events, read_topic, records
from tests.support.topics_of_logs import trim
from tests.support.verifying import (
    Altered,
    configured,
    edit_snapshot,
    journal_of,
    learn,
    places,
    rewritten,
    told,
    verified,
)

pytestmark = pytest.mark.thorough

RAWS = [*raw_events(298, seed=8), b"{", b"[]"]
END = 10  # 300 records in commits of 30; snapshots at 3, 6, 9 and 10


@pytest.fixture
def learned(open_log, tmp_path):
    """A log that was learned; it is opened once more for each test."""
    log = open_log(**TOPICS)
    produce(log, RAWS)
    learn(log, tmp_path / "snapshots")
    return open_log()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "snapshots"


def checks(outcome):
    return list(dict.fromkeys(check for check, _ in told(outcome)))


def model_of(parts):
    """A learner that stands where a snapshot does."""
    learner = factories.learner(configured())
    learner.load(parts)
    return learner


# -- the state ----------------------------------------------------------------------------------------------


def row_of(parts, word):
    return model_of(parts).model.statistics.vocabulary.keys().index(word)


def one_count(parts):
    """And the sum in which it is, without which no learner would take the state."""
    arrays, row = parts["model"].arrays, row_of(parts, b"w7")
    arrays["table"][row, 1] += 1024
    arrays["totals"][arrays["groups"][row], 1] += 1024


def a_count_alone(parts):
    parts["model"].arrays["table"][row_of(parts, b"w7"), 1] += 1024


def a_total_alone(parts):
    parts["model"].arrays["totals"][0, 1] -= 1024


def one_mean(parts):
    parts["model"].arrays["mean"][0, 2] *= 1 + 1e-11


def one_spread(parts):
    parts["model"].arrays["M2"][0, 2] *= 1 - 1e-9


def number_of_texts(parts):
    parts["model"].arrays["texts"][0, 0] += 1024


def twice(parts):
    """The whole stream, learned once more."""
    learner = model_of(parts)
    learner.process(records(RAWS), 0.0)
    return {**learner.parts(), "journal": parts["journal"]}


def no_letters(parts):
    return {**parts, "learner": SnapshotPart({**parts["learner"].meta, "dead_letters": 0}, {})}


STATES = [
    (one_count, {"attribute": "text", "value": "w7"}, ": count "),
    (one_mean, {"attribute": "x"}, ": mean "),
    (one_spread, {"attribute": "x"}, ": M2 "),
    (one_count, {"attribute": "text"}, ": total "),
    (number_of_texts, {"attribute": "text"}, ": texts "),
    (twice, {}, ": records consumed 600 learned, 300 counted"),
    (no_letters, {}, ": dead letters 0 learned, 2 counted"),
]


@pytest.mark.parametrize(
    ("edit", "place", "what"), STATES, ids=[f"{case[0].__name__}{case[2]}" for case in STATES]
)
def test_a_state_that_is_another_is_reported_number_by_number(learned, folder, edit, place, what):
    """The newest snapshot, with right checksums: the state is wrong, and differs from the journal's replay."""
    assert edit_snapshot(folder, edit) == END
    outcome = verified(learned, folder)
    expected = ["snapshots", "recount", "replay"]
    if edit is twice:  # the others leave features, and what is learned by gradient, as they are
        expected = ["snapshots", "recount", "replay", "learners"]
    assert checks(outcome) == expected
    for check in ("snapshots", "recount"):
        differing = [f for f in outcome.findings.all() if f.check == check and f.verdict == Outcome.DIFFERS]
        found = next(f for f in differing if what in f.text)
        assert {"record": END, **place}.items() <= found.place.items()
        assert found.found != found.expected
        assert what == ": total " or found is differing[0]  # which follows its count


@pytest.mark.parametrize("edit", [a_count_alone, a_total_alone])
def test_a_state_that_contradicts_itself_is_reported_by_array_and_place(learned, folder, edit):
    """With right checksums; it is never begun with, so that its numbers are not told one by one."""
    assert edit_snapshot(folder, edit) == END
    outcome = verified(learned, folder)
    assert checks(outcome) == ["snapshots", "recount"]
    for check, text in told(outcome):
        assert f"the snapshot at journal record {END}: totals[0, 1]: not the sum of the rows" in text
        assert places(outcome, check) == [{"record": END}]
        assert check == "snapshots" or "move it away" in text
    (folder / f"snapshot-{END:020d}.snb").unlink()
    assert told(verified(learned, folder)) == []


@pytest.mark.parametrize("n", [3, 6, 9])
def test_an_older_snapshot_that_is_another_is_reported_where_it_stands(learned, folder, n):
    assert edit_snapshot(folder, one_count, n) == n
    outcome = verified(learned, folder)
    assert checks(outcome) == ["snapshots"]
    count, total = places(outcome, "snapshots")
    label = count["class"]
    assert count == {"record": n, "attribute": "text", "value": "w7", "class": label}
    assert total == {"record": n, "attribute": "text", "class": label}


@pytest.mark.parametrize("n", [3, 6, 9])
def test_an_older_snapshot_that_contradicts_itself_is_reported_where_it_stands(learned, folder, n):
    assert edit_snapshot(folder, a_count_alone, n) == n
    ((check, text),) = told(verified(learned, folder))
    assert check == "snapshots"
    assert text.startswith(f"the snapshot at journal record {n}: totals[0, 1]: not the sum of the rows")


def test_a_slice_learned_twice_is_reported(learned, folder):
    """The journal is right; the state has learned records 30 to 59 once more."""

    def again(parts):
        learner = model_of(parts)
        learner.process(read_topic(learned, "events")[30:60], 1.0)
        return {**learner.parts(), "journal": parts["journal"]}

    edit_snapshot(folder, again)
    outcome = verified(learned, folder)
    texts = [text for check, text in told(outcome) if check == "recount"]
    assert texts[0] == f"at journal record {END}: records consumed 330 learned, 300 counted"
    assert len(texts) == 6
    assert "more" in texts[-1]


def test_a_snapshot_that_leaves_out_a_commit_is_reported(learned, folder):
    store = AtOnce(folder, 100)
    learner = factories.learner(configured())
    recover(learned, store, learner, factories.identity(configured()), at=END - 1)
    edit_snapshot(folder, lambda parts: {**learner.parts(), "journal": parts["journal"]})
    outcome = verified(learned, folder)
    assert ("recount", f"at journal record {END}: records consumed 270 learned, 300 counted") in told(outcome)


def test_a_snapshot_that_is_no_state_is_reported(learned, folder):
    def without_table(parts):
        del parts["model"].arrays["table"]

    edit_snapshot(folder, without_table)
    outcome = verified(learned, folder)
    assert checks(outcome) == ["snapshots", "recount"]
    for _, text in told(outcome):
        expected, found = text.split(": expected the arrays ")[1].split(", found ")
        assert f"at journal record {END}: " in text
        assert "'table'" in expected
        assert "'table'" not in found


def test_a_snapshot_beyond_the_end_or_of_another_journal_is_reported(learned, folder):
    store = AtOnce(folder, 100)
    snapshot = store.newest().snapshot
    store.save(msgspec.structs.replace(store.newest(6).snapshot, digest="ab" * 32))
    store.save(msgspec.structs.replace(snapshot, journal_n=END + 5))
    outcome = verified(learned, folder)
    assert told(outcome) == [
        ("snapshots", f"the snapshot stands at journal record {END + 5}, beyond the journal's end {END}"),
        ("snapshots", "the snapshot at journal record 6 belongs to another journal"),
    ]


def test_a_snapshot_at_other_positions_is_reported(learned, folder):
    store = AtOnce(folder, 100)
    store.save(msgspec.structs.replace(store.newest(6).snapshot, positions={("events", 0): 7}))
    (finding,) = told(verified(learned, folder))
    assert finding == (
        "snapshots",
        "the snapshot at journal record 6 stands at other positions than the record",
    )


# -- the journal --------------------------------------------------------------------------------------------


def record(n):
    def is_it(found):
        return f'"n":{n},'.encode() in found.value

    return is_it


def dropped(n):
    return lambda found: [] if record(n)(found) else [found]


def repeated(n):
    return lambda found: [found, found] if record(n)(found) else [found]


def altered(n):
    def change(found):
        value = found.value.replace(b'"count":30', b'"count":31') if record(n)(found) else found.value
        return [found._replace(value=value)]

    return change


def garbage(n):
    return lambda found: [found._replace(value=b"{}") if record(n)(found) else found]


JOURNALS = [
    (dropped, 5, "the journal goes from record 4 to 6: 1 missing between them", {"record": 6}),
    (repeated, 5, "the journal goes from record 5 to 5: repeated", {"record": 5}),
    (altered, 5, "journal record 5 does not have the digest it claims", {}),
    (garbage, 5, "not a journal record", {}),
    (garbage, 0, "not a journal record", {}),
    (altered, END, f"journal record {END} does not have the digest it claims", {}),
]


@pytest.mark.parametrize(
    ("damage", "n", "says", "place"), JOURNALS, ids=[f"{case[0].__name__}-{case[1]}" for case in JOURNALS]
)
def test_a_journal_with_damage_is_reported_at_its_record(learned, folder, damage, n, says, place):
    offset = read_topic(learned, "journal")[n].offset
    outcome = verified(Altered(learned, "journal", damage(n)), folder)
    assert told(outcome)[0][0] == "journal"
    assert says in told(outcome)[0][1]
    found = places(outcome, "journal")[0]
    expected = offset if damage is not dropped else read_topic(learned, "journal")[n + 1].offset
    assert found == {"topic": "journal", "partition": 0, "offset": expected, **place}
    assert outcome.compared is None  # of a journal with damage nothing is said to be equal


def test_all_places_of_damage_are_told(learned, folder):
    def change(found):
        return [] if record(3)(found) else altered(5)(found) if record(5)(found) else repeated(7)(found)

    texts = [
        text
        for check, text in told(verified(Altered(learned, "journal", change), folder))
        if check == "journal"
    ]
    assert ["2 to 4" in texts[0], "record 5 does not have" in texts[1], "7 to 7" in texts[2]] == [True] * 3
    assert len(texts) == 3


def test_a_record_written_again_with_its_digest_breaks_the_chain(learned, folder):
    """Whoever alters a record and gives it the right digest has to alter all that follow."""
    new = {r.n: found.value for r, found in rewritten_records(learned, 5)}

    def change(found):
        return [found._replace(value=new[5]) if record(5)(found) else found]

    outcome = verified(Altered(learned, "journal", change), folder)
    assert told(outcome)[0] == ("journal", "journal record 6 does not follow record 5: digests differ")
    assert places(outcome, "journal")[0]["record"] == 6


def rewritten_records(log, n):
    other = rewritten(log, n, lambda r: msgspec.structs.replace(r, now=r.now + 0.5))
    return [(decode_journal(found.value), found) for found in read_topic(other, "journal")]


# -- positions, in a journal whose digests are all right ------------------------------------------------------


def shifted(log, by, *, moves=()):
    """Slice 5 begins `by` records later, or earlier; `moves` are offsets by which the position then jumps."""
    raws = read_topic(log, "events")

    def edit(found):
        (part,) = found.slices
        at = next(i for i, r in enumerate(raws) if r.offset == part.first)
        held = [r for r in raws[at + by :] if r.offset < part.next]
        changed = msgspec.structs.replace(
            part, first=held[0].offset, count=len(held), crc=crc(r.value for r in held)
        )
        positions = {t: {p: o + sum(moves) for p, o in by_p.items()} for t, by_p in found.positions.items()}
        return msgspec.structs.replace(found, slices=(changed,), positions=positions)

    return rewritten(log, 5, edit), raws


def test_an_event_that_was_skipped_is_reported(learned, tmp_path):
    log, raws = shifted(learned, 2)
    outcome = verified(log, tmp_path / "none")
    first = raws[120].offset
    assert {"record": 5, "topic": "events", "partition": 0, "offset": first} in places(outcome, "positions")
    assert "skipped" in told(outcome)[0][1]
    names = [f.place["id"] for f in outcome.findings.all() if f.check == "predictions" and f.place]
    assert sorted(names) == ["e120", "e121"]


def test_an_event_learned_again_is_reported(learned, tmp_path):
    log, raws = shifted(learned, -2)
    outcome = verified(log, tmp_path / "none")
    assert places(outcome, "positions") == [
        {"record": 5, "topic": "events", "partition": 0, "offset": raws[118].offset}
    ]
    assert "learned again" in told(outcome)[0][1]
    missing = [text for check, text in told(outcome) if check == "predictions"]
    assert any("'e118' is missing" in text for text in missing)


def test_a_position_that_jumps_is_reported(learned, tmp_path):
    log, raws = shifted(learned, 0, moves=[3])
    outcome = verified(log, tmp_path / "none")
    texts = [text for check, text in told(outcome) if check == "positions"]
    assert "journal record 5" in texts[0]
    assert "the position jumps" in texts[0]
    assert "journal record 6" in texts[1]  # which begins where 5 should have stood
    after = next(i for i, r in enumerate(raws) if r.offset == journal_of(learned)[5].slices[0].next)
    assert places(outcome, "positions")[0]["offset"] == raws[after].offset + 3


def test_a_configuration_record_that_moves_positions_is_reported(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS[:60])
    learn(log, tmp_path / "snapshots", "model.kind=naive_bayes")
    learn(open_log(), tmp_path / "snapshots", "model.kind=naive_bayes", "model.alpha=0.5")
    (n,) = (r.n for r in journal_of(open_log()) if r.kind == "config")
    moved = rewritten(open_log(), n, lambda r: msgspec.structs.replace(r, positions={"events": {"0": 7}}))
    outcome = verified(moved, tmp_path / "none", "model.kind=naive_bayes", "model.alpha=0.5")
    assert places(outcome, "positions")[0] == {"record": n, "topic": "events", "partition": 0, "offset": 7}


def test_a_slice_of_a_wrong_count_is_reported(learned, tmp_path):
    def edit(found):
        (part,) = found.slices
        return msgspec.structs.replace(found, slices=(msgspec.structs.replace(part, count=31),))

    outcome = verified(rewritten(learned, 5, edit), tmp_path / "none")
    assert places(outcome, "positions")[0]["record"] == places(outcome, "slices")[0]["record"] == 5


# -- the events and the outputs -------------------------------------------------------------------------------


def test_an_event_that_was_altered_is_reported_with_what_it_did(learned, folder):
    raws = read_topic(learned, "events")
    target, other = raws[135], raws[136]

    def change(found):
        return [found._replace(value=other.value) if found.offset == target.offset else found]

    outcome = verified(Altered(learned, "events", change), folder)
    first = journal_of(learned)[5].slices[0].first
    assert places(outcome, "slices") == [{"record": 5, "topic": "events", "partition": 0, "offset": first}]
    assert {"recount", "predictions", "replay"} <= set(checks(outcome))
    (text,) = (t for c, t in told(outcome) if c == "predictions" and "'e135'" in t)
    assert "there 1 times more" in text


def test_an_event_that_was_removed_is_reported(learned, folder):
    target = read_topic(learned, "events")[135].offset
    outcome = verified(Altered(learned, "events", lambda r: [] if r.offset == target else [r]), folder)
    (finding,) = (f for f in outcome.findings.all() if f.check == "slices")
    assert (finding.place["record"], finding.found, finding.expected) == (5, 29, 30)


def test_a_prediction_that_is_missing_is_named(learned, folder):
    outcome = verified(Altered(learned, "predictions", lambda r: [] if r.key == b"e77" else [r]), folder)
    assert told(outcome) == [
        ("predictions", "297 found for 298 that were processed, or others"),
        ("predictions", "'e77' is missing, 1 of it"),
    ]
    assert places(outcome, "predictions")[1] == {"id": "e77"}


def test_a_prediction_that_is_there_twice_is_named(learned, folder, open_log):
    (found,) = (r for r in read_topic(learned, "predictions") if r.key == b"e77")
    open_log().append([NewRecord("predictions", found.key, found.value)])
    outcome = verified(learned, folder)
    assert told(outcome) == [
        ("predictions", "299 found for 298 that were processed, or others"),
        ("predictions", "'e77' is there 1 times more than processed"),
    ]


def test_an_alert_where_there_never_was_one_is_named(open_log, folder):
    """Those of another model, and what is none, are left alone."""
    log = open_log(**TOPICS, alerts=1)
    produce(log, RAWS)
    silence = "monitors=[{name = 'quiet', kind = 'no-events', after = '1000d'}]"
    learn(log, folder, silence)
    assert verified(open_log(), folder, silence).findings.is_clean
    age = ModelInfo(name=configured().model.name, events=300)
    forged = Alert(monitor="quiet", kind="no-events", state="raised", events=300, model=age, ts=0.0)
    others = msgspec.structs.replace(forged, model=msgspec.structs.replace(age, name="another"))
    values = [b"stray", encode_alert(others), encode_alert(forged)]
    open_log().append([NewRecord("alerts", None, value) for value in values])
    outcome = verified(open_log(), folder, silence)
    assert checks(outcome) == ["outputs"]
    (place,) = places(outcome, "outputs")
    assert (place["topic"], place["offset"]) == ("alerts", read_topic(open_log(), "alerts")[2].offset)


def test_one_prediction_in_anothers_place_is_named(learned, folder):
    """As many as there should be, and not those."""
    predictions = {r.key: r for r in read_topic(learned, "predictions")}

    def change(found):
        return [found._replace(value=predictions[b"e78"].value) if found.key == b"e77" else found]

    outcome = verified(Altered(learned, "predictions", change), folder)
    assert [text for _, text in told(outcome)][1:] == [
        "'e77' is missing, 1 of it",
        "'e78' is there 1 times more than processed",
    ]


ALTERED = {
    "predictions": lambda r: r.key == b"e77",
    "metrics": lambda r: r.offset == 8,
    "dead-letters": lambda r: r.value == b"[]",
}


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("topic", ALTERED)
def test_a_record_with_other_content_is_named(learned, folder, tmp_path, topic, snapshots, monkeypatch):
    """As often as it should be, under its id, with another probability, score or reason. Others' lie around it."""
    for name, value in (("_WINDOW", 8_000), ("_READ_AT_ONCE", 2)):
        monkeypatch.setattr(f"streamnb.verification.log.replayed_outputs.{name}", value)

    def change(found):
        strange = found._replace(value=found.value.replace(b'"name":"', b'"name":"another '), headers=())
        if not ALTERED[topic](found):
            return [strange, found] if topic == "metrics" else [found]
        if topic == "dead-letters":
            return [
                found._replace(headers=tuple((k, v + b"!" if k == "reason" else v) for k, v in found.headers))
            ]
        return [
            found._replace(
                value=re.sub(rb'("probability":|"accuracy":)([0-9.e-]+)', rb"\g<1>0.125", found.value)
            )
        ]

    outcome = verified(Altered(learned, topic, change), folder if snapshots else tmp_path / "none")
    target = next(r for r in read_topic(learned, topic) if ALTERED[topic](r))
    ((check, text),) = told(outcome)
    assert (check, f"offset {target.offset}" in text) == ("outputs", True)
    assert {"predictions": "probability is 0.125", "metrics": "'accuracy': 0.125", "dead-letters": "headers"}[
        topic
    ] in text


def forged(found, **fields):
    said = msgspec.json.decode(found.value) | fields
    return found._replace(value=msgspec.json.encode(said))


FORGED = {
    "under a header": ("predictions", lambda r: [forged(r, probability=0.125)._replace(headers=(("trace", b"x"),)) if r.key == b"e77" else r]),
    "at another time": ("predictions", lambda r: [forged(r, probability=0.125, ts=1_790_000_002.5) if r.key == b"e77" else r]),
    "another's report": ("metrics", lambda r: [forged(r, model={"name": "m", "events": 1}) if r.offset == 8 else r]),
    "no report": ("metrics", lambda r: [] if r.offset == 8 else [r]),
    "no reports": ("metrics", lambda _: []),
    "a report twice": ("metrics", lambda r: [r, r] if r.offset == 8 else [r]),
    "a report of no commit": ("metrics", lambda r: [r, forged(r, ts=1.0)] if r.offset == 8 else [r]),
}  # fmt: skip


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("how", FORGED)
def test_what_is_forged_missing_or_too_many_is_told(learned, folder, tmp_path, how, snapshots):
    """Whatever says which record it is may be forged, too: what a replay gives has to be there, and no more."""
    topic, change = FORGED[how]
    outcome = verified(Altered(learned, topic, change), folder if snapshots else tmp_path / "none")
    assert "outputs" in checks(outcome)
    assert not any("byte for byte" in f.text for f in outcome.findings.all())


def test_outputs_that_cannot_be_read_are_told(learned, folder):
    class Broken(Altered):
        def read(self, partition, *given):
            if partition.topic == "metrics":
                raise LogError("metrics/0: damaged")
            return self._log.read(partition, *given)

    outcome = verified(Broken(learned, "metrics", None), folder)
    assert any("damaged" in text for check, text in told(outcome) if check == "outputs")


def test_what_was_rolled_back_or_taken_by_retention_is_not_missed(learned, folder):
    """Of a topic whose earlier half is gone the later half is compared."""
    half = read_topic(learned, "predictions")[150].offset
    outcome = verified(Altered(learned, "predictions", lambda r: [r] if r.offset >= half else []), folder)
    assert {check for check, _ in told(outcome)} <= {"predictions"}
    kept = [f.text for f in outcome.findings.all() if f.check == "outputs"]
    rest = sum(r.offset >= half for r in read_topic(learned, "predictions"))
    rest += sum(len(read_topic(learned, topic)) for topic in ("metrics", "dead-letters"))
    assert kept == [f"{rest} records as published, byte for byte"]


def test_keys_of_one_bucket_do_not_stand_for_each_other():
    keys = {}
    for i in range(20_000):
        keys.setdefault(bucket_of(b"e%d" % i), []).append(b"e%d" % i)
    one, other = max(keys.values(), key=len)[:2]
    balance = Balance()
    balance.expect(one)
    balance.find(other)
    assert balance.uneven() == [bucket_of(one)]
    balance.expect(other)
    balance.find(one)
    assert balance.uneven() == []


def test_what_is_no_prediction_is_reported(learned, folder, open_log):
    open_log().append([NewRecord("predictions", None, b"{")])
    offset = read_topic(learned, "predictions")[-1].offset
    outcome = verified(learned, folder)
    assert places(outcome, "predictions") == [{"topic": "predictions", "partition": 0, "offset": offset}]


def test_a_prediction_of_no_commit_is_named(learned, folder, open_log):
    """As a learner publishes that was fenced too late: a time of no journal record, after the last."""
    (found,) = (r for r in read_topic(learned, "predictions") if r.key == b"e77")
    prediction = msgspec.json.decode(found.value) | {"ts": 1_890_000_000.5}
    open_log().append([NewRecord("predictions", found.key, msgspec.json.encode(prediction))])
    assert ("predictions", "'e77' is there 1 times more than processed") in told(verified(learned, folder))


@pytest.mark.parametrize("times", [0, 2])
def test_a_dead_letter_that_is_missing_or_repeated_is_named(learned, folder, times):
    offset = read_topic(learned, "events")[298].offset

    def change(found):
        return [found] * (times if dict(found.headers)["offset"] == str(offset).encode() else 1)

    outcome = verified(Altered(learned, "dead-letters", change), folder)
    (_, text) = (text for check, text in told(outcome) if check == "dead letters")
    assert f"'events/0/{offset}'" in text


def test_a_dead_letter_of_what_was_not_processed_is_named(learned, folder, open_log):
    (letter, _) = read_topic(learned, "dead-letters")
    headers = tuple((name, b"999999" if name == "offset" else value) for name, value in letter.headers)
    open_log().append(
        [NewRecord("dead-letters", None, b"", headers), NewRecord("dead-letters", None, b"", ())]
    )
    texts = [text for check, text in told(verified(learned, folder)) if check == "dead letters"]
    assert any("'events/0/999999' is there 1 times more" in text for text in texts)
    assert any("lack the place of the refused record" in text for text in texts)


def test_events_deleted_before_they_were_learned_are_reported(learned, folder, open_log):
    produce(open_log(), RAWS[:10])
    end = learned.offsets(Partition("events", 0))[1]
    trim(learned, Partition("events", 0), end)
    outcome = verified(open_log(), folder)
    assert any(
        check == "log" and "were deleted before they were learned" in text for check, text in told(outcome)
    )


def test_nothing_to_begin_with_is_reported(learned, tmp_path, open_log):
    """Events are gone, and so are the snapshots."""
    trim(learned, Partition("events", 0), read_topic(learned, "events")[100].offset)
    outcome = verified(open_log(), tmp_path / "none")
    assert any("no longer holds" in text for check, text in told(outcome) if check == "recount")
    assert any("no snapshot stands after it" in text for _, text in told(outcome, Outcome.UNCHECKED))
    assert outcome.compared is None


@pytest.mark.parametrize("ts", [b"abc", b"\xff", b""])
def test_a_dead_letter_whose_time_is_none_is_named(learned, folder, ts):
    """The topic may be shared, and anybody may write to it."""
    learned.append([NewRecord("dead-letters", None, b"?", (("reason", b"prediction-oversize"), ("ts", ts)))])
    outcome = verified(learned, folder)
    assert any("is none: its headers lack the time of publication" in text for _, text in told(outcome))
