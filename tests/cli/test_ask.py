"""``streamnb predict``, ``explain`` and ``token``, as a user asks them."""

from __future__ import annotations

import csv
import json
import math
import random
import re
import shlex
import threading
from itertools import combinations
from pathlib import Path

import pytest

import streamnb
from streamnb import (
    BayesOptimalNB,
    HiddenMarkovNB,
    LinearRegression,
    LogisticRegression,
    MultinomialNB,
    NaiveBayes,
    Text,
)
from streamnb.config import load
from streamnb.engine.ports import NewRecord
from streamnb.errors import ConfigError, MalformedEvent, SnapshotError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.events import Event
from streamnb.formats.event_schema import EventSchema
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.queries.answers import explained, known_of
from streamnb.queries.query_model import QueryModel, query_model_of
from streamnb.values.parameter_checks import pluralize
from tests.support import commands

pytestmark = pytest.mark.early(64)

MAILS = [
    ("free entry win cash", "spam", "x.org", 3),
    ("lunch at noon", "ham", "work", 0),
    ("you win a free phone", "spam", "x.org", 2),
    ("minutes of the meeting at noon", "ham", "work", 1),
] * 5
RAWS = [
    json.dumps({"id": f"m{i}", "text": text, "label": label, "features": {"sender": sender, "links": links}})
    for i, (text, label, sender, links) in enumerate(MAILS)
]
FLAGS = ["--log", "sqlite:///mails.db"]
NAIVE = ["--set", "model.kind=naive_bayes"]
TEXT = "You WIN a free lunch"


def learn(folder, raws=RAWS, *flags):
    with SqliteLog(folder / "mails.db") as log:
        if "events" not in log.topics():
            log.create_topic("events", 1)
        log.append([NewRecord("events", None, raw.encode()) for raw in raws])
    done = commands.run(["run", "--until-end", "--set", "http.listen=", *FLAGS, *flags], cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def naive(tmp_path_factory):
    return learn(tmp_path_factory.mktemp("naive"), RAWS, *NAIVE)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    return learn(tmp_path_factory.mktemp("mixture"))


def ask(folder, *arguments, code=0, flags=FLAGS):
    done = commands.run([*arguments, *flags], cwd=folder)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def answer(folder, *arguments, **more):
    return json.loads(ask(folder, *arguments, "--json", **more).stdout)


@pytest.mark.parametrize("kind", ["naive", "mixture"])
def test_a_text_is_predicted_as_by_the_loaded_model(kind, request):
    """No configuration is given: the snapshot names it."""
    folder = request.getfixturevalue(kind)
    model = streamnb.load(f"sqlite:///{folder}/mails.db")
    found = answer(folder, "predict", TEXT)
    assert found["probabilities"] == model.predict_proba_one({"text": TEXT})
    assert found["label"] == model.predict_one({"text": TEXT}) == "spam"
    assert list(found["probabilities"].values()) == sorted(found["probabilities"].values(), reverse=True)
    assert found["snapshot"]["behind"] == 0
    line = ask(folder, "predict", TEXT)
    assert line.stdout == f"spam\tspam {found['probability']:.4f}\tham {1 - found['probability']:.4f}\n"
    assert "journal record 1, the last, " in line.stderr


FIELDS = "nothing was learned of Message, x; the model has learned text, sender, links"
STRANGE = [  # a file, its content, flags, the exit code, what is said
    ("a.csv", "Message,\nfree cash now,\n", [], 2, "nothing was learned of Message; the model has learned text, sender, links"),
    ("a.csv", "Message,\nfree cash now,\n", ["--text-column", "Message"], 0, "no event has sender, links, which the model has learned"),
    ("a.csv", "text,from\nfree cash now,work\n", [], 0, "learned of from; no event has sender, links, which the model has learned: rename"),
    ("a.csv", "text,sender,links\nfree cash now,work,3\n", [], 0, ""),
    ("a.jsonl", '{"id": "1", "text": "free cash now"}', [], 0, ""),  # such an event may leave things out
    ("a.jsonl", '{"id": "1", "Message": "free cash now", "x": 1}', [], 2, FIELDS),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "flags", "code", "said"), STRANGE)
def test_an_event_that_has_nothing_of_what_was_learned_is_refused(
    naive, tmp_path, name, content, flags, code, said
):
    (tmp_path / name).write_text(content)
    done = commands.run(["predict", str(tmp_path / name), *flags, *FLAGS], cwd=naive)
    assert (done.returncode, bool(done.stdout)) == (code, code == 0), done.stderr
    assert said in done.stderr
    assert ("streamnb: " in done.stderr) == bool(said)


@pytest.mark.parametrize("kind", ["naive", "mixture"])
@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("!!!", "no word of text was learned"),
        ("\u043f\u0440\u0438\u0432\u0435\u0442", "no word of text was learned"),
        (
            '{"features": {"links": "3"}}',
            'links is a string ("3"), and was learned as a number: send the number 3',
        ),
        ('{"features": {"sender": "y.org"}}', 'sender was never learned with the value "y.org"'),
    ],
)
def test_a_question_whose_values_are_all_unknown_is_answered_with_a_warning(kind, question, said, request):
    folder = request.getfixturevalue(kind)
    found = ask(folder, "predict", question, "--json")
    told = json.loads(found.stdout)
    assert told["warning"].endswith(said)
    assert f"streamnb: warning: {told['warning']}\n" in found.stderr
    found = ask(folder, "explain", question, "--json")
    assert json.loads(found.stdout)["warning"] == told["warning"]
    assert told["warning"] in found.stderr


def test_a_file_of_questions_counts_its_warnings(naive):
    rows = [
        '{"id": "a", "text": "!!!"}',
        RAWS[0],
        '{"id": "b", "text": "win", "features": {"links": "3"}}',
    ] * 2
    (naive / "odd.jsonl").write_text("\n".join(rows))
    done = ask(naive, "predict", "odd.jsonl", "--json")
    told = [json.loads(line).get("warning", "") for line in done.stdout.splitlines()]
    assert [bool(one) for one in told] == [True, False, True] * 2
    assert f"streamnb: warning: 2 of 6 events: {told[0]}\n" in done.stderr
    assert 'warning: 2 of 6 events: links is a string ("3"), and was learned as a number' in done.stderr
    assert done.stderr.count("warning") == 2


def test_absent_words_have_a_name_in_evidence(mixture):
    found = answer(mixture, "explain", "free lunch phone")
    names = {one["value"]: one["name"] for one in found["evidence"]}
    assert names == {"free": "free", "lunch": "lunch", "phone": "phone", "": "(absent words)"}
    assert "(absent words)" in ask(mixture, "explain", "free lunch phone").stdout


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_so_is_one_that_is_given_alone(naive, command):
    done = commands.run([command, '{"Message": "free cash"}', *FLAGS], cwd=naive)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the event has no attribute; the model has learned text, sender, links" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [([], "and events.label is the path of labels"), (["topics.labels=told"], "ID LABEL` writes to told")],
)
def test_before_the_first_label_it_says_where_labels_come_from(given, said):
    empty = query_model_of(NaiveBayes(), load(None, {}, given), {"file": "x.snb"})
    with pytest.raises(SnapshotError, match="nothing has been learned yet") as refused:
        empty.predicted([Event("-", {"text": "a"})])
    assert said in str(refused.value)


def test_an_event_is_a_json_object_and_a_file_is_a_line_each(naive):
    event = '{"text": "lunch", "features": {"links": 3, "sender": "x.org"}}'
    x = {"text": "lunch", "links": 3.0, "sender": "x.org"}
    model = streamnb.load(naive / "mails.db.snapshots")
    assert answer(naive, "predict", event)["probabilities"] == model.predict_proba_one(x)
    (naive / "new.jsonl").write_text("\n".join([*RAWS, '{"id": [3]}', "no JSON", RAWS[0]]))
    done = ask(naive, "predict", "new.jsonl", "--json", code=1)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(RAWS) + 3
    assert [(line["id"], line["label"]) for line in lines[:20]] == [
        (f"m{i}", label) for i, (_, label, *_) in enumerate(MAILS)
    ]
    assert [line["row"] for line in lines if "refused" in line] == [20, 21]
    assert lines[-1]["id"] == "m0"
    text = ask(naive, "predict", "new.jsonl", code=1).stdout.splitlines()
    assert text[0].startswith("m0\tspam\tspam ")
    assert text[21] == "row 21\t\t" + lines[21]["refused"]
    for name in ("out.jsonl", "out.csv"):
        done = ask(naive, "predict", "new.jsonl", "--out", name, code=1)
        assert done.stdout == f"23 events, 2 refused, in {name}\n"
    assert [json.loads(line) for line in (naive / "out.jsonl").read_text().splitlines()] == lines
    with (naive / "out.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row["label"] for row in rows[:20]] == [label for _, label, *_ in MAILS]
    assert [row["predicted"] for row in rows] == [line.get("label", "") for line in lines]
    assert [row["refused"] for row in rows] == [line.get("refused", "") for line in lines]
    assert float(rows[3]["probability_spam"]) == lines[3]["probabilities"]["spam"]


def test_predictions_are_not_written_over_what_is_read(naive):
    (naive / "read.jsonl").write_text(RAWS[0])
    done = ask(naive, "predict", "read.jsonl", "--out", "read.jsonl", code=2)
    assert "--out read.jsonl: is read, and would be overwritten" in done.stderr
    assert (naive / "read.jsonl").read_text() == RAWS[0]


@pytest.mark.parametrize(
    ("path", "given", "found"),
    [
        ("$.id", {}, "-"),
        ("$.id", {"id": None}, "-"),
        ("$.id", {"id": "m7"}, "m7"),
        ("$.meta.id", {"id": "m7"}, "-"),
        ("$.meta.id", {"meta": None}, "-"),
        ("$.meta.id", {"meta": {"x": 1}}, "-"),
        ("$.meta.id", {"meta": {"id": None}}, "-"),
        ("$.meta.id", {"meta": {"id": "m7"}}, "m7"),
        ("$.meta.of.id", {"meta": {"of": None}}, "-"),
        ("$.id", {"id": []}, None),
        ("$.meta.id", {"meta": []}, None),
    ],
)
def test_an_id_may_be_left_out_or_null_wherever_it_stands(path, given, found):
    asked = QueryModel(None, EventSchema(id_path=path), ["text"], {})
    before = json.dumps(given)
    if found is None:
        with pytest.raises(MalformedEvent):
            asked.of_object(given)
    else:
        assert asked.of_object(given).id == found
    assert json.dumps(given) == before


def test_a_csv_file_and_standard_input(naive):
    (naive / "new.csv").write_text("id,message\n1,free cash\n2,noon\n")
    done = ask(naive, "predict", "new.csv", "--text-column", "message")
    assert [line.split("\t")[:2] for line in done.stdout.splitlines()] == [["1", "spam"], ["2", "ham"]]
    done = piped(naive, "predict", "-", given="\n".join(RAWS[:2]).encode())
    assert [line.split("\t")[1] for line in done.stdout.splitlines()] == ["spam", "ham"]
    done = piped(naive, "explain", "-", "--json", given=TEXT.encode())
    assert json.loads(done.stdout)["label"] == "spam"
    done = piped(naive, "explain", "-", given="caf\xe9".encode("latin-1"), code=2)
    assert "not UTF-8 at byte 3" in done.stderr


def piped(folder, *arguments, given, code=0):
    """With a standard input."""
    done = commands.run([*arguments, *FLAGS], cwd=folder, given=given)
    assert done.returncode == code, done.stderr
    return done


def test_many_events_are_answered_in_order(mixture):
    (mixture / "many.jsonl").write_text(
        "\n".join(RAWS[i % 20].replace(f'"m{i % 20}"', f'"e{i}"') for i in range(2500))
    )
    done = ask(mixture, "predict", "many.jsonl")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [f"e{i}" for i in range(2500)]


def test_events_are_read_as_the_journal_says(tmp_path):
    raws = [
        json.dumps({"nr": str(i), "body": {"said": text}, "y": label})
        for i, (text, label, *_) in enumerate(MAILS)
    ]
    (tmp_path / "c.toml").write_text(
        '[events]\nid = "$.nr"\nlabel = "$.y"\n'
        '[[attributes]]\nname = "said"\nkind = "text"\npath = "$.body.said"\n'
    )
    learn(tmp_path, raws, "--config", "c.toml")
    assert answer(tmp_path, "predict", "free cash")["label"] == "spam"
    assert answer(tmp_path, "predict", '{"body": {"said": "free cash"}}')["label"] == "spam"
    (tmp_path / "new.jsonl").write_text(raws[1])
    assert ask(tmp_path, "predict", "new.jsonl").stdout.startswith("1\tham\t")


def test_evidence_has_counts_and_adds_up_to_the_log_odds(naive):
    found = answer(naive, "explain", TEXT)
    evidence = {item["value"]: item for item in found["evidence"]}
    assert evidence["free"]["counts"] == {"spam": 10.0}
    assert evidence["lunch"]["counts"] == {"ham": 5.0}
    assert evidence["lunch"]["log_odds"] < 0 < evidence["free"]["log_odds"]
    odds = math.fsum([found["prior"], *(item["log_odds"] for item in found["evidence"])])
    assert odds == pytest.approx(math.log(found["probabilities"]["spam"] / found["probabilities"]["ham"]))
    text = ask(naive, "explain", TEXT).stdout
    assert "for spam, against ham" in text
    assert len(answer(naive, "explain", TEXT, "--top", "1")["evidence"]) == 1


@pytest.mark.parametrize("kind", ["naive", "mixture"])
def test_what_turns_the_label_is_the_least_of_the_leading_words(kind, request):
    folder = request.getfixturevalue(kind)
    text = "free free win lunch at noon meeting win cash phone"
    found = answer(folder, "explain", text)
    turns = found["turns"]
    assert turns is not None
    assert turns["label"] != found["label"]
    model = streamnb.load(folder / "mails.db.snapshots")

    def without(words):
        return model.predict_proba_one({"text": " ".join(word for word in text.split() if word not in words)})

    assert without(turns["without"])[turns["label"]] == turns["probability"]
    fewer = without(turns["without"][:-1])
    assert max(fewer, key=fewer.get) == found["label"]
    assert f"without {', '.join(turns['without'])}: " in ask(folder, "explain", text).stdout
    assert (
        answer(folder, "explain", "free")["turns"] is not None or answer(folder, "explain", "free")["label"]
    )


@pytest.mark.parametrize(("kind", "seed"), [(NaiveBayes, 3), (BayesOptimalNB, 3), (BayesOptimalNB, 214)])
def test_of_what_turns_nothing_can_be_spared(kind, seed):
    """Beside all sets of words, of three classes: the one that takes over need not be the next one.

    Labels in turn would be learned as such, and words would turn nothing. With the last seed there is a word
    that can be spared only when another one is.
    """
    rng = random.Random(seed)
    model, words = kind({"text": Text()}), [f"w{i}" for i in range(12)]
    for _ in range(60):
        label = rng.choice("abc")
        likely = words[4 * "abc".index(label) :] + words[:2]
        model.learn_one({"text": " ".join(rng.choices(likely, k=6))}, label)
    asked_of = QueryModel(model, EventSchema(), ["text"], {"file": "none"})
    claims = []
    for _ in range(40):
        text = rng.choices(words, k=6)
        found = explained(asked_of, Event("-", {"text": " ".join(text)}), None, 10)

        def turns(gone, text=text, label=found["label"]):
            said = model.predict_proba_one({"text": " ".join(word for word in text if word not in gone)})
            return max(said, key=said.get) != label

        sets = [c for n in range(1, 7) for c in combinations(sorted(set(text)), n) if turns(c)]
        if found["turns"] is None:
            assert not any(len(one) == 1 for one in sets)
            continue
        without = found["turns"]["without"]
        assert turns(without)
        assert not any(turns([one for one in without if one != spared]) for spared in without)
        claims.append(len(without))
        if len(without) == 1:
            assert min(map(len, sets)) == 1
    assert len(claims) > 2


def test_a_text_of_which_nothing_is_known_may_have_been_an_id(naive):
    assert "an event with this id: --id m-17" in ask(naive, "explain", "m-17").stderr
    for text in ("free", "m-17 again", "x" * 2000, "{}"):
        assert "--id" not in commands.run(["explain", text, *FLAGS], cwd=naive).stderr


def test_values_that_are_no_words_turn_it_too(naive):
    found = answer(naive, "explain", '{"features": {"links": 3, "sender": "x.org"}}')
    assert {item["attribute"] for item in found["evidence"]} == {"links", "sender"}
    assert {item["attribute"]: item["counts"] for item in found["evidence"]} == {
        "sender": {"spam": 10.0},
        "links": {},
    }


def test_another_label_to_compare_with(tmp_path):
    rows = [*RAWS, *(json.dumps({"id": str(i), "text": "invoice due", "label": "bill"}) for i in range(3))]
    learn(tmp_path, rows, *NAIVE)
    found = answer(tmp_path, "explain", "free entry", "--against", "bill")
    assert (found["label"], found["against"]) == ("spam", "bill")
    done = ask(tmp_path, "explain", "free", "--against", "junk", code=2)
    assert "against junk: no such label; the model has spam, ham, bill" in done.stderr


@pytest.mark.parametrize("kind", [NaiveBayes, BayesOptimalNB, HiddenMarkovNB])
def test_a_label_whose_examples_were_all_taken_back_is_compared_with_nothing(kind):
    """Whichever of three labels it is, or two of them: what is told is as if it had never been learned."""

    def learned(gone, *, taken_back):
        model = kind()
        for i, (label, sender) in enumerate([*zip("aabbcc", "xyxyzz", strict=True)]):
            if label not in gone or taken_back:
                model.learn_one({"sender": sender, "hour": str(i % 2)}, label)
                if label in gone:
                    model.unlearn_many([{"sender": sender, "hour": str(i % 2)}], [label])
        return QueryModel(model, EventSchema(), [], {"file": "none"})

    event = Event("-", {"sender": "x", "hour": "1"})
    for gone in ("a", "b", "c", "ab", "bc", "ac"):
        model, fresh = learned(gone, taken_back=True), learned(gone, taken_back=False)
        assert known_of(model, "x")
        if len(gone) == 2:
            with pytest.raises(
                ConfigError, match=f"the model knows one label, {min(set('abc') - set(gone))}:"
            ):
                explained(model, event, None, 9)
            continue
        found, expected = (explained(one, event, None, 9) for one in (model, fresh))
        assert {found["label"], found["against"]} == set("abc") - set(gone)
        if kind is not BayesOptimalNB:  # whose hypotheses remember how well they did
            told = ("label", "against", "evidence", "turns")
            assert [found[name] for name in told] == [expected[name] for name in told]
        with pytest.raises(ConfigError, match=f"against {gone}: all of its examples were taken back"):
            explained(model, event, gone, 9)
        with pytest.raises(ValueError, match=f"nothing has been learned of a class '{gone}'"):
            model.model.explanation_one(event.x, against=gone)


@pytest.mark.parametrize("kind", ["naive", "mixture"])
def test_a_word_with_its_counts_and_weights(kind, request):
    folder = request.getfixturevalue(kind)
    (found,) = answer(folder, "token", "FREE")["found"]
    assert (found["attribute"], found["value"], found["counts"]) == ("text", "free", {"spam": 10.0})
    assert found["weights"]["spam"] == pytest.approx(-found["weights"]["ham"])
    assert found["weights"]["spam"] > 0
    if kind == "naive":
        (item,) = (i for i in answer(folder, "explain", "free")["evidence"] if i["value"] == "free")
        assert item["log_odds"] == pytest.approx(found["weights"]["spam"])
    assert "free, of text" in ask(folder, "token", "free").stdout
    assert answer(folder, "token", "x.org")["found"][0]["attribute"] == "sender"


def test_a_word_that_is_unknown(naive):
    assert answer(naive, "token", "fre", code=1)["found"] == []
    assert "fre was never learned" in ask(naive, "token", "fre", code=1).stdout
    assert answer(naive, "token", "", code=1)["found"] == []


def test_an_older_snapshot_by_its_number_and_by_its_file(tmp_path):
    learn(tmp_path, RAWS[:4])
    learn(tmp_path, RAWS)
    numbers = [file.n for file in SnapshotFolder(tmp_path / "mails.db.snapshots").list()]
    assert len(numbers) == 2
    by_number = answer(tmp_path, "predict", TEXT, "--snapshot", str(numbers[0]))
    path = f"mails.db.snapshots/snapshot-{numbers[0]:020d}.snb"
    by_file = answer(tmp_path, "predict", TEXT, "--snapshot", path)
    assert (
        by_number["probabilities"]
        == by_file["probabilities"]
        != answer(tmp_path, "predict", TEXT)["probabilities"]
    )
    assert by_file["snapshot"]["behind"] == numbers[1] - numbers[0]
    assert (
        f", {pluralize(numbers[1] - numbers[0], 'record')} behind the last, "
        in ask(tmp_path, "predict", TEXT, "--snapshot", path).stderr
    )
    done = ask(tmp_path, "predict", TEXT, "--snapshot", "77", code=1)
    assert "there is no such file or folder" in done.stderr
    assert "streamnb snapshot list" in done.stderr


def test_a_classifier_that_was_saved_answers_too(tmp_path):
    model = MultinomialNB()
    for text, label, *_ in MAILS:
        model.learn_one(text, label)
    model.save(tmp_path / "words.snb")
    found = answer(tmp_path, "predict", TEXT, "--snapshot", "words.snb", flags=[])
    assert found["probabilities"] == model.predict_proba_one(TEXT)
    assert (found["snapshot"]["journal"], found["snapshot"]["behind"]) == (None, None)
    assert answer(tmp_path, "explain", TEXT, "--snapshot", "words.snb", flags=[])["turns"]
    assert answer(tmp_path, "token", "free", "--snapshot", "words.snb", flags=[])["found"]


def test_a_model_that_counts_no_words_says_so(tmp_path):
    model = LogisticRegression()
    for _, label, sender, links in MAILS:
        model.learn_one({"sender": sender, "links": float(links)}, label)
    model.save(tmp_path / "m.snb")
    flags = ["--snapshot", "m.snb"]
    event = '{"features": {"links": 3, "sender": "x.org"}}'
    assert answer(tmp_path, "predict", event, flags=flags)["label"] == "spam"
    assert "model.kind=mixture" in ask(tmp_path, "token", "x.org", code=2, flags=flags).stderr
    assert "there is no evidence" in ask(tmp_path, "explain", event, code=2, flags=flags).stderr


def test_a_snapshot_of_another_log_is_said_to_be_one(naive, tmp_path):
    learn(tmp_path, RAWS[:4])
    (theirs,) = (naive / "mails.db.snapshots").glob("*.snb")
    done = ask(tmp_path, "predict", TEXT, "--snapshot", theirs)
    assert "which the journal of this log does not have" in done.stderr
    assert "which" not in ask(tmp_path, "predict", TEXT).stderr


def test_what_is_wrong_is_said_with_what_to_do(tmp_path):
    done = ask(tmp_path, "predict", "free", code=1)
    assert (
        "there is no snapshot in mails.db.snapshots: `streamnb run --log sqlite:///mails.db` keeps"
        in done.stderr
    )
    MultinomialNB().save(tmp_path / "empty.snb")
    for command in ("predict", "explain", "token"):
        done = ask(tmp_path, command, "free", code=1, flags=["--snapshot", "empty.snb"])
        assert "empty.snb: nothing has been learned yet" in done.stderr
    LinearRegression().save(tmp_path / "line.snb")
    done = ask(tmp_path, "predict", "free", code=1, flags=["--snapshot", "line.snb"])
    assert "a LinearRegression is not a classifier" in done.stderr
    for odd in (streamnb.SigmoidUnit(), streamnb.HiddenMarkovModel()):
        odd.save(tmp_path / "odd.snb")
        assert (
            "is not a classifier"
            in ask(tmp_path, "predict", "free", code=1, flags=["--snapshot", "odd.snb"]).stderr
        )
    one = MultinomialNB()
    one.learn_one("free", "spam")
    one.save(tmp_path / "one.snb")
    flags = ["--snapshot", "one.snb"]
    assert ask(tmp_path, "predict", "free", flags=flags).stdout == "spam\tspam 1.0000\n"
    assert "knows one label, spam" in ask(tmp_path, "explain", "free", code=2, flags=flags).stderr
    assert "no such file" in ask(tmp_path, "predict", "gone.jsonl", code=1, flags=flags).stderr
    assert "invalid-json" in ask(tmp_path, "predict", '{"text": ', code=1, flags=flags).stderr
    (tmp_path / "one.snb").write_bytes((tmp_path / "one.snb").read_bytes()[:-9])
    assert "one.snb: it is cut off" in ask(tmp_path, "predict", "free", code=1, flags=flags).stderr


@pytest.mark.parametrize("text", ["", " ", "\t\x1b[31m", "\ud800", "x" * 50_000, "漢字 emoji 🎉", ".", "-1"])
def test_any_text_is_answered_or_refused(naive, text):
    for command in ("predict", "explain"):
        done = commands.run([command, *FLAGS, "--", text], cwd=naive)
        assert "Traceback" not in done.stderr
        assert done.returncode == (2 if text == "\ud800" else 0), done.stderr
        assert "\x1b" not in done.stdout


def test_a_model_without_its_segments_can_be_asked(tmp_path):
    learn(tmp_path, RAWS, "--set", "topics.labels=labels", *NAIVE)
    segments = list((tmp_path / "mails.db.snapshots" / "segments").iterdir())
    assert segments
    for segment in segments:
        segment.unlink()
    assert answer(tmp_path, "predict", TEXT)["label"] == "spam"
    assert streamnb.load(tmp_path / "mails.db.snapshots").predict_one({"text": TEXT}) == "spam"


def test_a_learner_may_drop_snapshots_meanwhile(naive, tmp_path):
    """The newest is asked for again and again while others are kept and dropped."""
    (found,) = SnapshotFolder(naive / "mails.db.snapshots").list()
    snapshot = SnapshotFolder(naive / "mails.db.snapshots").load(found.n)
    folder, stop = SnapshotFolder(tmp_path / "s", keep=1), threading.Event()
    folder.save(snapshot)

    def keep():
        from msgspec.structs import replace

        n = found.n
        while not stop.is_set():
            folder.save(replace(snapshot, journal_n=(n := n + 1)))

    writer = threading.Thread(target=keep)
    writer.start()
    try:
        digests = {streamnb.load(tmp_path / "s").digest() for _ in range(100)}
    finally:
        stop.set()
        writer.join()
    assert len(digests) == 1


PAGE = Path(__file__).parents[2] / "docs" / "ask.md"


@pytest.mark.parametrize("line", re.findall(r"^streamnb (?!serve).*$", PAGE.read_text(), re.MULTILINE))
def test_the_commands_of_the_page_answer(line, naive):
    (naive / "mails.jsonl").write_text("\n".join(RAWS))
    done = commands.run(shlex.split(line)[1:], cwd=naive)
    assert done.returncode == 0, done.stderr
    assert "spam" in done.stdout
