"""What was saved is loaded as it was: states and predictions to the bit; and it goes on learning alike."""

from __future__ import annotations

import copy
import inspect
import json
import math
import os
import pickle
import re
import resource
import signal
import struct
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import streamnb
import streamnb.persistence.model_files
from streamnb import (
    BayesianNetwork,
    BayesOptimalNB,
    ConceptLearner,
    Conjunction,
    Hypothesis,
    MultinomialNB,
    NaiveBayes,
    Nominal,
    Text,
)
from streamnb import config as configured
from streamnb.cli import main
from streamnb.engine.ports import NewRecord
from streamnb.errors import SnapshotError
from streamnb.formats.codec import encode_event
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, encode
from streamnb.runtime.context import open_log
from streamnb.values.savable import Savable
from tests.support.program import Program
from tests.system.hostile.mutated_states import AFTER, MODELS, ROWS, Made

pytestmark = pytest.mark.early(63)

SAVABLE = {name: one for name, one in MODELS.items() if isinstance(one.make(), Savable)}


def parameters(model):
    return {
        name: value if isinstance(value, (int, float, str, tuple, list, dict)) else repr(value)
        for name, value in ((n, getattr(model, n, None)) for n in inspect.signature(type(model)).parameters)
        if not isinstance(value, Savable) and name != "models"
    }


def answers(kind, model):
    """All that a model says of some events."""
    ask = next(
        (getattr(model, name) for name in ("predict_proba_one", "predict_one") if hasattr(model, name)), None
    )
    return [] if ask is None or isinstance(kind, Made) else [ask(x) for x, *_ in kind.events(AFTER)]


@pytest.mark.parametrize("name", SAVABLE)
def test_what_was_saved_is_loaded_as_it_was_and_goes_on_alike(name, tmp_path):
    kind = SAVABLE[name]
    model = kind.learned(ROWS)
    model.save(tmp_path / "model.snb")
    again = streamnb.load(tmp_path / "model.snb")
    assert type(again) is type(model)
    assert parameters(again) == parameters(model)
    assert again.digest() == model.digest()
    for _ in range(2):
        assert answers(kind, again) == answers(kind, model)  # to the bit: floats are compared
        kind.learn(model, AFTER)
        kind.learn(again, AFTER)
        assert again.digest() == model.digest()
    again.save(tmp_path / "again.snb")
    model.save(tmp_path / "model.snb")
    assert (tmp_path / "again.snb").read_bytes() == (tmp_path / "model.snb").read_bytes()


@pytest.mark.parametrize("copied", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy])  # noqa: S301
@pytest.mark.parametrize("name", SAVABLE)
def test_what_was_pickled_or_copied_is_as_it_was_and_goes_on_alike(name, copied):
    kind = SAVABLE[name]
    model = kind.learned(ROWS)
    again = copied(model)
    assert type(again) is type(model)
    assert parameters(again) == parameters(model)
    for _ in range(2):
        assert again.digest() == model.digest()
        assert answers(kind, again) == answers(kind, model)  # to the bit: floats are compared
        kind.learn(again, AFTER)
        kind.learn(model, AFTER)


@pytest.mark.parametrize("name", SAVABLE)
def test_a_pickle_of_few_events_is_not_much_larger_than_a_file(name, tmp_path):
    model = SAVABLE[name].learned(ROWS)
    model.save(tmp_path / "model.snb")
    assert len(pickle.dumps(model)) < 8 * (tmp_path / "model.snb").stat().st_size


def test_every_model_that_has_a_state_can_be_saved():
    learners = {name for name in streamnb.__all__ if hasattr(getattr(streamnb, name), "load_state")}
    assert {type(one.make()).__name__ for one in SAVABLE.values()} == learners


@pytest.mark.parametrize(
    "model",
    [
        NaiveBayes({3: Nominal(values=["x", 2, True]), None: Text(alpha=0.5)}, m=2.0),
        NaiveBayes(prior={"a": 1.0, True: 2.0, 3: 0.5}),
        BayesOptimalNB({"t": "text"}, [Hypothesis("bernoulli", prior={"a": 2.0, "b": 1.0})], 0.01),
        ConceptLearner({"sunny": Conjunction({"sky": "sunny"}), "none": Conjunction(None)}),
        BayesianNetwork(
            {"a": [], "b": ["a"]},
            tables={"b": {("x",): {"u": 0.25, "v": 0.75}}, "a": {"x": 1.0}},
            attributes={"a": Nominal(values=("x",))},
        ),
        MultinomialNB(alpha=np.float64(0.5)),
    ],
)
def test_parameters_of_every_form_come_back(model, tmp_path):
    model.save(tmp_path / "m")
    again = streamnb.load(str(tmp_path / "m"))
    made = [getattr(one, "made_with", None) or one._get_params() for one in (model, again)]
    assert made[0] == made[1]


def test_two_are_told_apart_by_what_they_learned():
    one, other = MultinomialNB(), MultinomialNB()
    assert one.digest() == other.digest()
    one.learn_one("a b", "x")
    assert one.digest() != other.digest()
    other.learn_one("a b", "x")
    assert one.digest() == other.digest()
    assert one != other  # as any two estimators of River
    assert len({one, other}) == 2


class Own(MultinomialNB):
    """A class that a file cannot name."""


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (Own(), "Own"),
        (ConceptLearner({"odd": lambda x: x["n"] % 2 == 1}), "function"),
        (MultinomialNB(prior={"a": 1.0, frozenset(): 2.0}), "frozenset"),
    ],
)
def test_what_has_no_form_is_refused_by_its_name(model, named, tmp_path):
    (tmp_path / "m.snb").write_bytes(b"before")
    with pytest.raises(SnapshotError, match=named):
        model.save(tmp_path / "m.snb")
    assert (tmp_path / "m.snb").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "none" / "m.snb"):
        with pytest.raises(SnapshotError, match=re.escape(f"cannot save {path}: ")):
            MultinomialNB().save(path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def saved(tmp_path):
    model = NaiveBayes({"text": Text()})
    model.learn_one({"text": "free entry"}, "spam")
    model.save(tmp_path / "m.snb")
    return tmp_path / "m.snb"


def test_a_file_has_the_permissions_of_any_other_that_is_written(saved, tmp_path):
    (tmp_path / "other").write_text("")
    assert saved.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_every_cut_and_every_changed_byte_is_refused_by_the_name_of_the_file(saved):
    whole = saved.read_bytes()
    for length in (*range(0, len(whole), 101), len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(SnapshotError, match=r"m\.snb: "):
            streamnb.load(saved)
    for place in range(0, len(whole), 61):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(SnapshotError, match=r"m\.snb: "):
            streamnb.load(saved)


def test_a_later_version_is_refused_with_what_to_do(saved):
    whole = saved.read_bytes()
    saved.write_bytes(whole[:8] + struct.pack("<I", 2) + whole[12:])
    with pytest.raises(SnapshotError, match=r"m.snb: its format is version 2.*pip install --upgrade"):
        streamnb.load(saved)


def put(path, made, model=None):
    """A file that says it is made so."""
    state = MultinomialNB().state() if model is None else model
    parts = {"model": SnapshotPart(*state), "classifier": SnapshotPart({"made": made}, {})}
    path.write_bytes(encode(Snapshot(-1, "", {}, "", {"streamnb": "9.9"}, parts)))


@pytest.mark.parametrize(
    "made",
    [
        None,
        3,
        [],
        {},
        {"a": 1, "b": 2},
        {"os": {}},
        {"ProgressiveValidation": {"window_size": 3}},
        {"load": {"where": "x"}},
        {"merge_all": {}},
        {"NaiveBayes": {"unheard": 1}},
        {"NaiveBayes": {"alpha": "x"}},
        {"NaiveBayes": 3},
        {"NaiveBayes": {"attributes": {"mapping": [[{"mapping": []}, "text"]]}}},
        {"NaiveBayes": {"attributes": {"mapping": 3}}},
        {"tuple": 1},
        {"Text": {}},
        {"GaussianNB": {}},
        {"BayesOptimalClassifier": {"models": [{"Text": {}}]}},
        {"__import__": {"name": "os"}},
    ],
)
def test_parameters_that_nobody_saved_are_refused(made, tmp_path):
    put(tmp_path / "m.snb", made)
    with pytest.raises(SnapshotError, match=r"m\.snb: .*streamnb 9\.9"):
        streamnb.load(tmp_path / "m.snb")


NEEDED = {  # what a constructor cannot do without
    "BayesianNetwork": {"parents": {"mapping": [["a", []]]}},
    "BayesianNetworkClassifier": {"parents": {"mapping": [["a", ["label"]]]}},
    "BayesOptimalClassifier": {"models": [{"NaiveBayes": {}}]},
    "NetworkEM": {"network": {"BayesianNetwork": {"parents": {"mapping": [["a", []]]}}}},
    "SemiSupervisedNB": {"model": {"NaiveBayes": {}}},
    "ConceptLearner": {"hypotheses": {"Conjunctions": {"attributes": {"mapping": [["a", ["x"]]]}}}},
}


def loads_in_little_memory(path):
    """What is wrong with how a process of half a gibibyte more loads it, in seconds; "" is nothing."""
    used = re.search(r"VmSize:\s*(\d+)", Path("/proc/self/status").read_text())
    resource.setrlimit(resource.RLIMIT_AS, ((int(used[1]) << 10) + (512 << 20),) * 2)
    began = time.process_time()
    try:
        streamnb.load(path)
    except SnapshotError as error:
        if "MemoryError" in str(error):
            return str(error)
    return "" if time.process_time() - began < 5 else "slow"


@pytest.mark.parametrize("name", sorted({type(one.make()).__name__ for one in SAVABLE.values()}))
def test_a_number_in_a_file_takes_no_memory(name, tmp_path):
    """Of every whole number that a constructor takes; in a process of its own."""
    found = inspect.signature(getattr(streamnb, name)).parameters.values()
    for parameter in [one.name for one in found if str(one.annotation).startswith("int")]:
        for huge in (10**4, 10**9, 2**62):
            put(tmp_path / "m.snb", {name: {**NEEDED.get(name, {}), parameter: huge}})
            child = os.fork()
            if not child:
                signal.alarm(60)
                try:
                    wrong = loads_in_little_memory(tmp_path / "m.snb")
                except BaseException as error:  # noqa: BLE001  the process ends here
                    wrong = repr(error)
                os.write(2, wrong.encode())
                os._exit(bool(wrong))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, (parameter, huge)


SERVED = {
    "default": "BayesOptimalNB",
    "naive_bayes": "NaiveBayes",
    "hidden_markov": "HiddenMarkovNB",
    "semi_supervised": "BayesOptimalClassifier",
    "logistic_regression": "LogisticRegression",
    "bayesian_network": "BayesianNetworkClassifier",
}
TABLE = {
    "logistic_regression": ["size:continuous", "colour:nominal"],
    "bayesian_network": ["colour:nominal", "shape:nominal"],
}


def served(folder, kind):
    """Let a service learn some events; the folder of its snapshots, of which there are several."""
    folder.mkdir()
    chosen = [] if kind == "default" else [f"model.kind={kind}"]
    chosen += ["events.entity=$.sender"] if kind == "hidden_markov" else []
    toml, declared = folder / "streamnb.toml", [one.split(":") for one in TABLE.get(kind, ())]
    toml.write_text("".join(f'[[attributes]]\nname = "{name}"\nkind = "{of}"\n' for name, of in declared))
    settings = [
        f"log.url=sqlite:///{folder}/log.db",
        "snapshots.every_events=40",
        "commit.events=20",
        *chosen,
    ]
    config = configured.load(toml, {}, settings)
    with closing(open_log(config)) as log:
        log.append([NewRecord("events", None, encode_event(mixed_event(i))) for i in range(100)])
    options = [word for one in [*settings, "http.listen="] for word in ("--set", one)]
    assert main(["run", "--until-end", "--config", str(toml), *options]) == 0
    return config.snapshot_folder


def mixed_event(i):
    features = {
        "size": i % 7 + 0.5,
        "colour": "red" if i % 3 else "blue",
        "shape": "round" if i % 4 else "flat",
    }
    text, label = ("free lunch", "spam") if i % 3 else ("see you at noon", "ham")
    return {"id": str(i), "text": text, "features": features, "label": label, "sender": f"s{i % 5}"}


@pytest.mark.parametrize("kind", SERVED)
def test_what_a_service_kept_is_loaded_from_its_file_its_folder_and_its_log(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMNB_LOG__URL", "sqlite:///another.db")  # the one that is asked for comes first
    snapshots = served(tmp_path / "log", kind)
    places = (max(snapshots.glob("*.snb")), snapshots, f"sqlite:///{tmp_path}/log/log.db")
    models = [streamnb.load(place) for place in places]
    assert len({model.digest() for model in models}) == 1
    assert {type(model).__name__ for model in models} == {SERVED[kind]}
    models[0].save(tmp_path / "again.snb")
    again = streamnb.load(tmp_path / "again.snb")
    for x in ({"text": "free lunch"}, {"size": 3.0}, {}):
        said = models[1].predict_proba_one(x)
        assert math.fsum(said.values()) == pytest.approx(1.0)
        assert again.predict_proba_one(x) == said
    for model in (models[1], again):
        model.learn_one({"text": "free lunch"}, next(iter(said)))
    assert again.digest() == models[1].digest() != models[0].digest()


def test_a_newer_snapshot_that_is_damaged_is_passed_over_and_said(tmp_path):
    files = sorted(served(tmp_path / "log", "default").glob("*.snb"))
    files[-1].write_bytes(files[-1].read_bytes()[:-1])
    with pytest.warns(UserWarning, match=f"passing over {re.escape(str(files[-1]))}: it is cut off"):
        assert streamnb.load(files[0].parent).digest() == streamnb.load(files[-2]).digest()


@pytest.mark.parametrize("where", ["nothing.snb", "nothing", "sqlite:///nothing.db", "."])
def test_where_there_is_none_it_says_where_it_looked(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = r"nothing(\.snb|\.db\.snapshots)?: .*snapshot list|in \S+: .*streamnb run"
    with pytest.raises(SnapshotError, match=told):
        streamnb.load(where)


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_a_learner_on_a_broker_is_loaded_by_its_url_while_it_runs(client, broker, tmp_path, monkeypatch):
    """From the folder where it works, or by its configuration; what the file says beside the URL counts, too."""
    name = f"loaded-{client}"
    program = Program(tmp_path, broker.address, model=name, model_keys={"kind": "naive_bayes"})
    program.file.write_text(program.file.read_text().replace("[log]\n", f'[log]\nclient = "{client}"\n'))
    lines = [
        json.dumps({"id": f"e{i}", "text": "free cash" if i % 2 else "lunch", "label": str(i % 2)})
        for i in range(40)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n")
    program.run("topics", "create")
    program.run("replay", "events.jsonl")
    program.run("run", "--until-end")
    with closing(program):
        program.start("run").await_word(program.topics["events"])
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("STREAMNB_MODEL__NAME", name)
        url = f"kafka://{broker.address}"
        models = [streamnb.load(url), streamnb.load(url, program.file), streamnb.load(f"{name}.snapshots")]
    assert len({model.digest() for model in models}) == 1
    assert models[0].class_weights == {"0": 20.0, "1": 20.0}
    monkeypatch.setenv("STREAMNB_MODEL__NAME", "another")
    with pytest.raises(SnapshotError, match=r"there is no snapshot in another\.snapshots"):
        streamnb.load(url)


def test_the_page_names_what_a_file_may_make():
    page = (Path(__file__).parents[2] / "docs" / "snapshot-format.md").read_text()
    told = re.search(r"The classes are the classifiers of streamnb, and (.*?)\.", page, re.DOTALL)
    assert re.findall(r"`(\w+)`", told[1]) == [*streamnb.persistence.model_files._VALUES]
