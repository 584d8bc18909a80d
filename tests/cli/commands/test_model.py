"""The sum of what several have learned is what one learner would have; written as text nothing of it is lost.

What has to be the same is counted again by plain dictionaries.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamnb
from streamnb import config as configuration
from streamnb.config.shard_constraints import refuse_of_shards
from streamnb.errors import ConfigError, SnapshotError, StreamnbError
from streamnb.merging.shard_states import (
    LearnedPosition,
    PartitionId,
    ShardState,
    merged,
    of_learner,
    of_text,
)
from streamnb.reports.state_diff import StateAt
from streamnb.reports.state_diff import differences as state_differences
from streamnb.runtime import factories
from tests.support.commands import run
from tests.support.in_order import IN_ORDER
from tests.support.program import Program
from tests.support.service import raw_events
from tests.system.storm.recount import counted, differences, recount

ATTRIBUTES = [
    "attributes.text.kind=text",
    "attributes.subject.kind=text",
    "attributes.subject.event_model=bernoulli",
    "attributes.colour.kind=nominal",
    "attributes.size.kind=continuous",
]
BASE = ["log.url=kafka://127.0.0.1:9", "model.kind=naive_bayes", "memory.budget=0"]
TABLES = """
[[attributes]]
name = "text"
kind = "text"
[[attributes]]
name = "subject"
kind = "text"
event_model = "bernoulli"
[[attributes]]
name = "colour"
kind = "nominal"
[[attributes]]
name = "size"
kind = "continuous"
"""


@pytest.fixture(scope="module")
def attributes(tmp_path_factory):
    file = tmp_path_factory.mktemp("attributes") / "streamnb.toml"
    file.write_text(TABLES)
    return file


def configured(file=None, *sets):
    return configuration.load(file, {}, [*BASE, *sets])


def state(rows, number, file=None, *sets):
    """What a shard has learned, of one partition."""
    config = configured(file, f"model.name=s{number}", f"events.partitions=[{number}]", *sets)
    model = factories.model(config)
    model.learn_many(*(zip(*rows, strict=True) if rows else ([], [])))
    name = f"s{number}"
    return ShardState(
        config,
        model,
        {PartitionId("events", number, "id"): LearnedPosition(len(rows), name)},
        frozenset({name}),
    )


WORDS = st.lists(
    st.sampled_from(["win", "cash", "lunch", "Größe", "incomprehensibilities", "w\u2028"]), max_size=5
).map(" ".join)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "text": WORDS,
        "subject": WORDS,
        "colour": st.sampled_from(["r", "g", "a\tb", "a value of many letters"]),
        "size": st.floats(-1e3, 1e3),
    },
)
ROWS = st.lists(st.tuples(EVENTS, st.sampled_from(["ham", "spam", "eggs"]), st.integers(0, 3)), max_size=25)


def facts(text):
    return [line for line in text.split(b"\n")[1:-2] if not line.startswith((b"position", b"configuration"))]


def moments(text):
    found = {}
    for line in facts(text):
        if line.startswith(b"moments"):
            _, name, label, n, mean, M2 = line.split(b"\t")
            found[name, label] = int(n), float(mean), float(M2)
    return found


def counts(text):
    return [line for line in facts(text) if not line.startswith(b"moments")]


@given(rows=ROWS, data=st.data())
def test_any_shards_in_any_order_are_one_learner(rows, data, attributes):
    shards = [state([row[:2] for row in rows if row[2] == i], i, attributes) for i in range(4)]
    whole = state([row[:2] for row in rows], 9, attributes)
    written = data.draw(st.sets(st.integers(0, 3)))
    given_ = [of_text(one.to_text()) if i in written else one for i, one in enumerate(shards)]
    config = configured(attributes, "model.name=all")
    total = merged(data.draw(st.permutations(given_)), config)
    text, expected = total.to_text(), whole.to_text()
    assert text == merged(shards, config).to_text()  # to the bit, whatever came first
    assert counts(text) == counts(expected)
    assert moments(text).keys() == moments(expected).keys()
    for place, (n, mean, M2) in moments(expected).items():
        assert moments(text)[place][0] == n
        assert abs(moments(text)[place][1] - mean) <= 1e-12 * 1e3
        assert abs(moments(text)[place][2] - M2) <= 1e-12 * 1e6 * max(1, n / 1024)
    for x, *_ in rows:
        said, other = (one.model.predict_proba_one(x) for one in (total, whole))
        assert said.keys() == other.keys()
        assert all(abs(said[label] - other[label]) <= 1e-9 for label in other)
    if rows:
        partly = merged([*given_[:2], merged(given_[2:], config)], config)  # sums are added, too
        assert counts(partly.to_text()) == counts(expected)


@given(rows=ROWS)
def test_a_text_is_read_back_to_the_bit(rows, attributes):
    one = state([row[:2] for row in rows], 0, attributes)
    again = of_text(one.to_text())
    assert again.to_text() == one.to_text()
    assert again.positions == one.positions
    assert again.model.n_events == len(rows)


# -- texts that are none ----------------------------------------------------------------------------------------------


def signed(lines):
    """With the last line that goes with these."""
    body = b"".join(line + b"\n" for line in lines)
    return body + b"~\t%d\t%s\n" % (len(lines), hashlib.sha256(body).hexdigest().encode())


@pytest.fixture(scope="module")
def lines(attributes):
    rows = [
        ({"text": "win cash", "subject": "hi", "colour": "r", "size": 1.5}, "spam"),
        ({"text": "win"}, "ham"),
    ]
    return state(rows, 0, attributes).to_text().split(b"\n")[:-2]


def test_a_text_that_is_cut_off_anywhere_is_refused(lines):
    text = signed(lines)
    for end in range(len(text)):
        with pytest.raises(SnapshotError, match=r"line \d+|cut off"):
            of_text(text[:end])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "line 4 is not in order"),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], "line 4 is there twice"),
        (lambda lines: [b"# streamnb model, format 2", *lines[1:]], "line 1"),
        (lambda lines: [*lines, b'word\t"text"\t"zz"\t"eggs"\t1024'], "eggs"),
        (lambda lines: sorted([*lines, b'word\t"tent"\t"zz"\t"ham"\t1024']), "word 'tent': .*no such attribute"),
        (lambda lines: [*lines, b'word\t"title"\t"zz"\t"ham"\t1024'], "word 'title': .*no such attribute"),
        (lambda lines: [*lines, b'word\t"text"\t"zz"\t"ham"\t-1'], "is not a fact of a model"),
        (lambda lines: [*lines, b'word\t"text"\t"zz"\t"ham"\t1.0'], "is not a fact of a model"),
        (lambda lines: [*lines, b'word\t"text"\t"z\tz"\t"ham"\t1'], "is not a fact of a model"),
        (lambda lines: [*lines, b'word\t"text"\t"zz"\t"ham"\t1\t2'], "is not a fact of a model"),
        (lambda lines: [*lines, b'word\t"text"\t"zz"\t"ham"\t99999999999999999999'], "is not a fact of a model"),
        (lambda lines: [*lines, b'words\t"text"\t"zz"\t"ham"\t1'], "is not a fact of a model"),
        (lambda lines: [one for one in lines if not one.startswith(b"events")], "has no line 'events'"),
        (lambda lines: [one for one in lines if not one.startswith(b"configuration")], "has no line 'conf"),
        (lambda lines: [one for one in lines if not one.startswith(b"class")], "not a valid state of"),
        (
            lambda lines: sorted([*lines, b'position\t"events"\t0\t"id"\t7\t"other"']),
            r"line \d+ is about the same as the line before: .position.*other",
        ),
        (
            lambda lines: sorted([*lines, next(x for x in lines if x.startswith(b"word")) + b"7"]),
            r"line \d+ is about the same as the line before: .word",
        ),
        (lambda lines: [lines[0] + b"\r", *lines[1:]], r"line 1: .*\\r"),
        (
            lambda lines: [one.replace(b'"kind":"naive_bayes"', b'"kind":"tenants"') for one in lines],
            "model.kind does not go with shards",
        ),
        (lambda lines: [one.replace(b'"kind":"text"', b'"kind":"test"') for one in lines], "another version"),
    ],
)  # fmt: skip
def test_a_text_that_was_changed_is_refused_by_the_line_or_the_fact(lines, change, told):
    of_text(signed(lines))
    with pytest.raises(StreamnbError, match=told):
        of_text(signed(change(lines)))


def test_a_number_that_was_changed_is_found_without_another_signature(lines):
    text = signed(lines)
    for place in (at for at, byte in enumerate(text[: text.index(b"~")]) if byte == ord("1")):
        with pytest.raises(SnapshotError, match=r"not those that were written|line \d+"):
            of_text(text[:place] + b"2" + text[place + 1 :])


@given(data=st.data())
def test_whatever_stands_in_a_line_it_is_refused_or_read_as_it_is(data, lines):
    number = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[number])
    for _ in range(data.draw(st.integers(1, 3))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    text = signed([*lines[:number], bytes(line), *lines[number + 1 :]])
    try:
        found = of_text(text)
    except StreamnbError:
        return
    assert found.to_text() == text


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "key"),
    [
        *IN_ORDER,
        (["decision.priors=windowed"], "decision.priors"),
        (["decision.novelty=0.1"], "decision.novelty"),
    ],
)  # fmt: skip
def test_what_hangs_on_order_is_refused_by_name(sets, key):
    refuse_of_shards(configured())
    with pytest.raises(ConfigError, match=rf"^{key} does not go with shards: .*`streamnb score`.*tenants"):
        refuse_of_shards(configured(None, *sets))


def test_a_partition_that_two_have_learned_is_named_with_both(attributes):
    one, other = state([({}, "ham")] * 3, 0, attributes), state([({}, "ham")] * 5, 0, attributes)
    other = other._replace(positions={place: LearnedPosition(5, "s7") for place in other.positions})
    for pair in ((one, other), (other, one), (one, one)):
        with pytest.raises(
            ConfigError, match=r"topic 'events', partition 0 is learned by 's[07]', up to offset"
        ):
            merged(pair, configured(attributes))
    elsewhere = {PartitionId("events", 0, "of another cluster"): LearnedPosition(5, "s7")}
    assert merged([one, other._replace(positions=elsewhere)], configured(attributes)).model.n_events == 8


def test_shards_that_count_otherwise_are_refused_by_the_key(attributes):
    one = state([({}, "ham")], 0, attributes, "events.label=$.class")
    with pytest.raises(ConfigError, match=r'events.label is "\$.class", and "\$.label" of the merged model'):
        merged([one], configured(attributes))
    with pytest.raises(ConfigError, match="attributes"):
        merged([state([({}, "ham")], 0)], configured(attributes))
    as_read = state([({"text": "win"}, "ham")], 0, attributes, "model.alpha=0.1", "predictions.by=scorers")
    merged([as_read], configured(attributes, "model.alpha=3"))  # what counts are read by is no matter


def test_partitions_need_a_cluster(tmp_path):
    sets = ["--set", "model.kind=naive_bayes", "--set", "events.partitions=[0]"]
    said = run(["run", "--log", f"sqlite:///{tmp_path}/a.db", *sets], cwd=tmp_path)
    assert said.returncode == 2
    assert "an embedded log has one learner" in said.stderr
    said = run(["run", "--log", "kafka://127.0.0.1:9", "--set", "events.partitions=[0]"], cwd=tmp_path)
    assert said.returncode == 2
    assert "model.kind does not go with shards" in said.stderr


# -- on embedded logs -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Two learners, each with a log of its own, which have learned; and their events."""
    made = []
    for number in range(2):
        folder = tmp_path_factory.mktemp(f"site{number}")
        site = Program(
            folder, f"sqlite:///{folder}/log.db", model_keys={"kind": "naive_bayes"}, memory={"budget": 0}
        )
        raws = raw_events(300 + 100 * number, seed=number)
        (folder / "events.jsonl").write_bytes(b"\n".join(raws) + b"\n")
        site.run("topics", "create")
        site.run("replay", str(folder / "events.jsonl"))
        site.run("run", "--until-end")
        made.append((site, raws))
    yield made
    for site, _ in made:
        site.close()


def test_sites_are_added_exported_and_compared(sites, tmp_path):
    (one, raws), (other, more) = sites
    total = tmp_path / "sum.txt"
    one.run("model", "merge", str(one.file), str(other.file), "--out", str(total))
    found = of_text(total.read_bytes())
    assert differences(counted(found.model), recount(raws + more)) == []
    assert {learned.by for learned in found.positions.values()} == {one.model, other.model}
    texts = []
    for site in (one, other):
        texts.append(tmp_path / f"{site.model}.txt")
        site.run("model", "export", "--out", str(texts[-1]))
        assert of_text(texts[-1].read_bytes()).to_text() == texts[-1].read_bytes()
    assert (
        one.run("model", "merge", str(other.file), str(texts[0]), "--out", "-").encode() == total.read_bytes()
    )
    lines = total.read_bytes().split(b"\n")[1:-2]
    assert lines == sorted(lines)
    # Two texts differ where the models do.
    told = json.loads(differing(one, texts[0], total, "--json"))
    assert told["after"]["learned"] - told["before"]["learned"] == sum(
        json.loads(raw)["label"] is not None for raw in more
    )
    assert one.run("model", "diff", str(total), str(total)).count("is gone") == 0
    assert "words and values are new" in differing(one, one.file, total)
    said = json.loads(one.run("model", "diff", str(total), str(total), "--json"))
    assert [key for key, value in said.items() if isinstance(value, list) and value] == []


def differing(site, before, after, *words):
    """What `model diff` prints, which says by its exit code that there is a difference."""
    command = site.start("model", "diff", str(before), str(after), *words)
    command.finish()
    assert command.process.returncode == 1, command.said()
    return command.said(0)


def sizes(rows):
    """What each label had for `size`, in no order."""
    found = {}
    for x, label, _ in rows:
        if "size" in x:
            found.setdefault(label, []).append(x["size"])
    return {label: sorted(values) for label, values in found.items()}


@given(rows=ROWS, more=ROWS, shuffle=st.randoms(use_true_random=False))
def test_a_difference_tells_the_numbers_that_are_others_and_no_rounding(rows, more, shuffle, attributes):
    others = rows + more
    shuffle.shuffle(others)
    states = [state([row[:2] for row in some], 0, attributes) for some in (rows, others)]
    before, after = (StateAt(one.checkpoint, factories.learner(one.config, one.model)) for one in states)
    found = {moved["label"]: moved for moved in state_differences(before, after, 3)["numbers"]}
    then, now = sizes(rows), sizes(others)
    assert found.keys() == {label for label in now if now[label] != then.get(label)}
    for label, moved in found.items():
        for side, values in (("before", then.get(label)), ("after", now[label])):
            expected = values and {
                "weight": len(values),
                "mean": np.mean(values),
                "deviation": np.std(values),
            }
            assert moved[side] == (expected and pytest.approx(expected, rel=1e-6, abs=1e-6))


def test_one_example_more_is_told_however_large_numbers_are(attributes):
    """As times are: rounding is of means and deviations, and counts have none."""
    rows = [({"size": 1.7e12}, "a")] * 20
    states = [state(some, 0, attributes) for some in (rows, rows[1:])]
    before, after = (StateAt(one.checkpoint, factories.learner(one.config, one.model)) for one in states)
    (moved,) = state_differences(before, after, 3)["numbers"]
    assert (moved["before"]["weight"], moved["after"]["weight"]) == (20, 19)


def test_a_learner_that_has_learned_nothing_yet_holds_up_no_sum(sites, tmp_path):
    (one, raws), _ = sites
    new = Program(
        tmp_path, f"sqlite:///{tmp_path}/log.db", model_keys={"kind": "naive_bayes"}, memory={"budget": 0}
    )
    new.run("topics", "create")
    new.run("run", "--until-end")
    total = one.run("model", "merge", str(one.file), str(new.file), "--out", "-")
    found = of_text(total.encode())
    assert differences(counted(found.model), recount(raws)) == []
    assert {learned.by: learned.position for learned in found.positions.values()}[new.model] == 0
    new.close()


def test_a_learner_with_a_budget_is_read_and_not_added(tmp_path):
    site = Program(tmp_path, f"sqlite:///{tmp_path}/log.db", model_keys={"kind": "naive_bayes"})
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(raw_events(50, seed=3)) + b"\n")
    site.run("topics", "create")
    site.run("replay", str(tmp_path / "events.jsonl"))
    site.run("run", "--until-end")
    site.run("model", "export", "--out", str(tmp_path / "site.txt"))
    for place in (str(site.file), str(tmp_path / "site.txt")):
        assert '"learned": 0' not in site.run("model", "diff", place, str(site.file), "--json")
        line = site.fail("model", "merge", place, "--out", "-", code=2)
        assert f"'{site.model}': memory.budget does not go with shards" in line
        assert '"memory.budget = 0" has none' in line
    site.close()


def test_a_sum_as_a_snapshot_predicts_as_one_learner(sites, tmp_path):
    (one, raws), (other, more) = sites
    one.run("model", "merge", str(one.file), str(other.file), "--out", str(tmp_path / "sum.snb"))
    model = streamnb.load(tmp_path / "sum.snb")
    assert differences(counted(model), recount(raws + more)) == []
    config = configuration.load(one.file, {}, [])
    whole = factories.model(config)
    for raw in map(json.loads, raws + more):
        if raw["label"] is not None:
            whole.learn_one({"text": raw["text"], **raw["features"]}, raw["label"])
    said, expected = (
        one.predict_proba_one({"text": "w3 w4", "colour": "r", "x": 0.5}) for one in (model, whole)
    )
    assert said == pytest.approx(expected, rel=1e-9)
    answer = one.run("predict", "w3 w4", "--snapshot", str(tmp_path / "sum.snb"))
    assert answer.split()[0] in "abc"


def test_a_state_that_is_not_committed_is_no_part_of_a_sum(sites, tmp_path):
    """Of a snapshot that another journal has the record of, or none has."""
    (one, _), (other, _) = sites
    config = configuration.load(one.file, {}, [f"snapshots.folder={tmp_path / 'kept'}"])
    kept = configuration.load(one.file, {}, []).snapshot_folder
    shutil.copytree(configuration.load(other.file, {}, []).snapshot_folder, tmp_path / "kept")
    with pytest.raises(StreamnbError, match=r"belongs to another journal|beyond the journal's end"):
        of_learner(config)
    shutil.rmtree(tmp_path / "kept")
    with pytest.raises(SnapshotError, match="has kept no snapshot in"):
        of_learner(config)
    shutil.copytree(kept, tmp_path / "kept")
    assert of_learner(config).model.n_events


def test_what_is_refused_names_the_file(sites, tmp_path):
    (one, _), (other, _) = sites
    line = one.fail("model", "merge", str(one.file), str(one.file), "--out", "-", code=2)
    assert f"partition 0 is learned by '{one.model}'" in line
    line = one.fail("model", "merge", str(one.file), str(other.file), code=2)
    assert "a merged model is followed on a Kafka cluster" in line
    line = one.fail("model", "merge", str(tmp_path / "none.toml"), "--out", "-", code=2)
    assert "none.toml: No such file" in line
    (tmp_path / "cut.txt").write_bytes(b"# streamnb model, format 1\nclass")
    line = one.fail("model", "diff", str(tmp_path / "cut.txt"), str(one.file))
    assert "cut.txt: it is cut off" in line
    (tmp_path / "none.txt").write_bytes(b"")
    assert "none.txt: is empty; expected" in one.fail(
        "model", "diff", str(tmp_path / "none.txt"), "x", code=2
    )
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbf# streamnb model, format 1\n")
    line = one.fail("model", "diff", str(tmp_path / "bom.txt"), "x", code=2)
    assert line.count("bom.txt") == 1
    assert "or what `streamnb model export" in line
    assert "it is a folder" in one.fail("model", "export", "--out", ".")
    (tmp_path / "new.toml").write_text(other.file.read_text().replace("log.db", "none.db"))
    line = one.fail("model", "diff", str(tmp_path / "new.toml"), "x")
    assert f"`streamnb topics create --config {tmp_path}/new.toml` makes one" in line
    words = tmp_path / "words.txt"
    one.run("model", "export", "--out", str(words))
    rng = random.Random(1)
    text = bytearray(words.read_bytes())
    text[rng.randrange(100, len(text) - 100)] ^= 1
    words.write_bytes(text)
    assert "words.txt: " in one.fail("model", "merge", str(words), "--out", "-")


def test_what_is_read_is_not_overwritten(sites, tmp_path):
    site, _ = sites[0]
    words, link = tmp_path / "words.txt", tmp_path / "link.txt"
    site.run("model", "export", "--out", str(words))
    link.symlink_to(words)
    log = site.file.parent / "log.db"
    for out, arguments in (
        (words, ["merge", str(words)]),
        (link, ["merge", str(site.file), str(words)]),
        (site.file, ["merge", str(site.file)]),
        (site.file, ["export"]),
        (log, ["merge", str(site.file)]),
        (log, ["export"]),
    ):
        before = out.read_bytes()
        line = site.fail("model", *arguments, "--out", str(out), code=2)
        assert f"--out {out}: is {'a log' if out == log else 'read'}, and would be overwritten" in line
        assert out.read_bytes() == before
    site.run("model", "export", "--out", str(words))
