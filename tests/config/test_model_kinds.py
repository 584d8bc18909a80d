"""Kinds of models that are classifiers: their keys, their refusals, and the commands that serve them."""

from __future__ import annotations

import json
import sys
import tomllib
from contextlib import closing
from typing import get_args

import pytest
from msgspec.structs import replace

from streamnb.cli import main
from streamnb.config import (
    CLASSIFIERS,
    KEYS,
    ClassifierKind,
    changes,
    load,
    restored,
    semantic_config_of,
    show,
)
from streamnb.config.model_kinds import ModelKind
from streamnb.engine.ports import NewRecord
from streamnb.errors import ConfigError
from streamnb.models.interface.river_stream_model import RiverStreamModel
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.runtime import context, factories
from streamnb.toolbox.semi_supervised.semi_supervised_nb import BOTH, LABELLED
from tests.benchmarks import measure
from tests.support.service import model_digest, predictions, raw_events, records
from tests.support.two_runs import run_stopped_run_again_and_verified

KIND = "model.kind=semi_supervised"
LOGISTIC = "model.kind=logistic_regression"
NETWORK = "model.kind=bayesian_network"
NOMINAL = 'attributes=[{name="subject", kind="nominal"}, {name="colour", kind="nominal"}]'
PARENTS = "model.parents={colour = ['label', 'subject']}"
TABLE = 'attributes=[{name="x", kind="continuous"}, {name="colour", kind="nominal"}]'


def answer(capsys, *arguments):
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def configured(*flags):
    return load(None, {}, list(flags))


# -- the table --------------------------------------------------------------------------------------------


def test_every_kind_is_in_the_table_and_its_keys_are_keys():
    assert set(get_args(ModelKind)) == {"naive_bayes", "mixture", *CLASSIFIERS}
    for kind in CLASSIFIERS.values():
        assert {f"model.{name}" for name in (*kind.own, *kind.shared)} <= KEYS.keys()
        for name, default in kind.own.items():  # a default is a value of its key
            key = KEYS[f"model.{name}"]
            written = tomllib.loads(f"it = {key.write(default)}")["it"]
            assert key.read(name, written) == default


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_every_kind_can_be_made_learns_and_goes_on(kind):
    made = CLASSIFIERS[kind]
    table = [] if made.reads_texts else [TABLE if made.reads_numbers else NOMINAL]
    config = configured(f"model.kind={kind}", *table)
    model = factories.model(config)
    assert isinstance(model, RiverStreamModel) != CLASSIFIERS[kind].learns_batches
    assert isinstance(model, CountingModel) == CLASSIFIERS[kind].counts
    learner, again = factories.learner(config), factories.learner(config)
    learner.process(records(raw_events(40)), 1.0)
    again.load(learner.parts())
    assert model_digest(again) == model_digest(learner)


def test_a_kind_more_is_a_line_more(monkeypatch):
    monkeypatch.setitem(
        CLASSIFIERS,
        "words",
        ClassifierKind("models.naive_bayes.naive_bayes_variants:MultinomialNB", shared=("alpha",)),
    )
    config = configured("model.alpha=0.5", KIND)
    model = factories.model(replace(config, model=replace(config.model, kind="words")))
    assert (type(model.classifier).__name__, model.classifier.alpha, model.kind) == (
        "MultinomialNB",
        0.5,
        "words",
    )


def test_the_keys_reach_the_model():
    flags = [
        "model.alpha=0.5",
        "model.prior=given",
        "model.priors={spam = 1, ham = 3}",
        "model.event_model=bernoulli",
    ]
    own = ["model.unlabelled_weight=0.25", "model.unlabelled_window=7", "model.revisits=3"]
    models = factories.model(configured(KIND, *flags, *own)).classifier.models
    for model in (models[LABELLED], models[BOTH].model):
        assert (model.alpha, model.prior, model.event_model) == (0.5, {"spam": 1.0, "ham": 3.0}, "bernoulli")
    taught = models[BOTH]
    assert (taught.unlabelled_weight, taught.window, taught.revisits) == (0.25, 7, 3)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["model.unlabelled_weight=0.5"], 'expected model.kind = "semi_supervised" with it'),
        (["model.kind=naive_bayes", "model.revisits=1"], "model.revisits is 1"),
        ([KIND, "model.unlabelled_weight=0"], "above 0, and at most 1"),
        ([KIND, "model.unlabelled_weight=1.5"], "above 0, and at most 1"),
        ([KIND, "model.unlabelled_window=0"], "model.unlabelled_window is 0"),
        ([KIND, "hypotheses=[{likelihood = 'bernoulli'}]"], '"mixture" with hypotheses'),
        (["model.kind=semi"], '"semi_supervised"'),
        ([LOGISTIC], "attributes is \\[\\]; expected the attributes to read"),
        ([LOGISTIC, 'attributes=[{name="text", kind="text"}]'], "which reads no texts"),
        ([LOGISTIC, TABLE, "model.C=0"], "model.C is 0; expected a number from 1e-12 to 1e12"),
        ([LOGISTIC, TABLE, "model.features=0"], "model.features is 0"),
        ([LOGISTIC, TABLE, "model.alpha=2"], "which does not read it"),
        ([LOGISTIC, TABLE, "model.revisits=2"], 'expected model.kind = "semi_supervised" with it'),
        ([NETWORK], "attributes is \\[\\]; expected the attributes to read"),
        ([NETWORK, TABLE], 'attributes\\[0\\].kind is "continuous"; expected "nominal"'),
        ([NETWORK, 'attributes=[{name="text", kind="text"}]'], '"text"; expected "nominal" with'),
        ([NETWORK, NOMINAL, "model.m=2", "model.p=0.5"], "model.p is 0.5; expected its default"),
        ([NETWORK, NOMINAL, "model.parents={colour='label'}"], "model.parents is .*; expected a table of"),
        ([NETWORK, NOMINAL, "model.parents={size=['label']}"], "model.parents.size is .*declared, which 'size'"),
        ([NETWORK, NOMINAL, "model.cells=0"], "model.cells is 0"),
        ([PARENTS], 'expected model.kind = "bayesian_network" with it'),
        (["model.C=2"], 'expected model.kind = "logistic_regression" with it'),
        ([LOGISTIC, TABLE, "model.memory=1MiB"], 'expected model.kind = "tenants" with it'),
    ],
)  # fmt: skip
def test_what_contradicts_the_kind_is_refused(flags, said):
    with pytest.raises(ConfigError, match=said):
        configured(*flags)


def test_what_a_kind_does_not_read_is_refused(monkeypatch):
    monkeypatch.setitem(
        CLASSIFIERS,
        "semi_supervised",
        ClassifierKind("models.naive_bayes.naive_bayes_variants:MultinomialNB", shared=("alpha",)),
    )
    assert configured(KIND, "model.alpha=0.5").model.own == {}
    pruning = (
        f"model.prune.{key}=2" for key in ("every", "min_count", "drop_most_frequent", "max_attributes")
    )
    for flag in ("model.event_model=bernoulli", "model.prior=uniform", *pruning):
        with pytest.raises(ConfigError, match="which does not read it"):
            configured(KIND, flag)


def test_a_configuration_survives_its_journal_and_its_text(tmp_path):
    config = configured(KIND, "model.revisits=4")
    shaping = semantic_config_of(config)
    assert shaping["model"]["unlabelled_window"] == 200  # a later program may have another default
    assert changes(semantic_config_of(restored(shaping)), shaping) == []
    path = tmp_path / "shown.toml"
    path.write_text(show(config))
    assert load(path, {}, []) == config


def test_other_kinds_do_not_have_the_keys():
    """So that the hash of a configuration is what it was before there were such kinds."""
    for kind in ("naive_bayes", "mixture"):
        shaping = semantic_config_of(configured(f"model.kind={kind}"))
        assert not {"unlabelled_weight", "unlabelled_window", "revisits"} & shaping["model"].keys()


@pytest.mark.parametrize(
    ("flag", "allowed"),
    [
        ("model.alpha=0.5", False),
        ("model.revisits=2", False),
        ("model.unlabelled_weight=0.5", False),
        ("model.kind=naive_bayes", False),
        ("predictions.evidence=2", True),
        ("metrics.every_events=7", True),
        ("posterior.seed=3", True),
    ],
)
def test_what_may_change_in_the_life_of_a_classifier(flag, allowed):
    found = changes(semantic_config_of(configured(KIND)), semantic_config_of(configured(KIND, flag)))
    assert found
    assert all(change.allowed for change in found) == allowed


# -- the commands -----------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A log with events, some of them without a label, and a configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.toml").write_text(
        "[log]\nurl = 'sqlite:///site.db'\n[model]\nkind = 'semi_supervised'\nunlabelled_window = 20\n"
        "[commit]\nevents = 30\n[snapshots]\nevery_events = 60\n[predictions]\nevidence = 2\nhypotheses = true\n"
        "[metrics]\nevery_events = 50\n[http]\nlisten = ''\n"
    )
    with closing(context.open_log(load(tmp_path / "site.toml", {}, []))) as log:
        log.append([NewRecord("events", None, raw) for raw in raw_events(200, labelled=0.3)])
    return tmp_path


def test_the_service_runs_verifies_and_inspects(site, capsys):
    assert main(["run", "--config", "site.toml", "--until-end"]) == 0
    capsys.readouterr()
    assert main(["verify", "--config", "site.toml", "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)
    assert verified["verified"]
    assert verified["events"] == 200
    verdicts = {(f["check"], f["verdict"]) for f in verified["findings"]}
    assert {
        ("recount", "not checked"),
        ("replay", "ok"),
        ("snapshots", "ok"),
        ("predictions", "ok"),
    } <= verdicts
    described = answer(capsys, "inspect", "--config", "site.toml")
    assert {h["name"] for h in described["posterior"]["hypotheses"]} == {LABELLED, BOTH}
    assert described["posterior"]["observations"] == described["learned"]
    config = load(site / "site.toml", {}, [])
    alone = factories.learner(config)
    outputs = alone.process(records(raw_events(200, labelled=0.3)), 1.0)
    with closing(context.existing_log(config)) as log:
        found = predictions(log)
    assert found == predictions(outputs)
    assert found[150]["evidence"]
    assert found[150]["hypotheses"].keys() == {LABELLED, BOTH}


def test_a_logistic_regression_is_run_stopped_run_again_and_verified(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = [
        LOGISTIC,
        TABLE,
        "model.C=50",
        "log.url=sqlite:///site.db",
        "http.listen=",
        "commit.events=30",
        "snapshots.every_events=60",
    ]
    config, given = configured(*flags), [word for flag in flags for word in ("--set", flag)]
    alone, found = run_stopped_run_again_and_verified(config, given, raw_events(200), capsys)
    assert (alone.model.classifier.C, alone.model.classifier.features) == (50.0, 512)
    assert set(found[-1]["probabilities"]) == {"a", "b", "c"}


def test_a_network_is_run_stopped_run_again_and_verified(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = [
        NETWORK,
        NOMINAL,
        PARENTS,
        "model.alpha=0.5",
        "log.url=sqlite:///site.db",
        "http.listen=",
        "commit.events=30",
        "snapshots.every_events=60",
    ]
    config, given = configured(*flags), [word for flag in flags for word in ("--set", flag)]
    alone, found = run_stopped_run_again_and_verified(config, given, raw_events(200), capsys)
    network = alone.model.classifier.network
    assert network.parents == {"label": (), "subject": ("label",), "colour": ("label", "subject")}
    assert set(found[-1]["probabilities"]) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("parents", "said"),
    [("{colour=['shape']}", "model: parents of 'colour': 'shape' is not a variable"),
     ("{colour=['subject'], subject=['colour']}", "model: parents form a cycle")],
)  # fmt: skip
def test_a_structure_that_is_none_is_a_mistake_in_the_configuration(parents, said, capsys):
    flags = [word for flag in (NETWORK, NOMINAL, f"model.parents={parents}") for word in ("--set", flag)]
    assert main(["config", "check", *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_snapshot_with_another_model_is_found_out(site, capsys):
    assert main(["run", "--config", "site.toml", "--until-end"]) == 0
    config = load(site / "site.toml", {}, [])
    folder = factories.snapshots(config)
    snapshot = folder.newest(None).snapshot
    part = snapshot.parts["model"]
    weights = [*part.meta["weights"][:-1], part.meta["weights"][-1] + 1]
    spoiled = part._replace(meta={**part.meta, "weights": weights})
    folder.save(replace(snapshot, parts={**snapshot.parts, "model": spoiled}))
    capsys.readouterr()
    assert main(["verify", "--config", "site.toml"]) == 1
    said = capsys.readouterr().out
    assert "holds another model than a replay gives" in said
    assert "differs with and without snapshots" in said


@pytest.mark.usefixtures("site")
def test_snapshots_are_listed_and_compared_without_tables(capsys):
    assert main(["run", "--config", "site.toml", "--until-end"]) == 0
    capsys.readouterr()
    listed = answer(capsys, "snapshot", "list", "--config", "site.toml")["snapshots"]
    first, last = min(one["n"] for one in listed), max(one["n"] for one in listed)
    assert first < last
    found = answer(capsys, "snapshot", "diff", str(first), str(last), "--config", "site.toml")
    assert (found["attributes"], found["strongest"]) == (None, [])
    assert {row["hypothesis"] for row in found["posterior"]} <= {LABELLED, BOTH}
    assert found["classes"]
    assert main(["snapshot", "diff", str(first), str(last), "--config", "site.toml"]) == 0
    assert "are gone" not in capsys.readouterr().out


@pytest.mark.usefixtures("site")
def test_ablation_says_why_not(capsys):
    assert measure.main(["ablate", "missing.jsonl", "--config", "site.toml"]) == 2
    assert 'model.kind is "semi_supervised", which has no [[hypotheses]]' in capsys.readouterr().err


# -- labels hidden ----------------------------------------------------------------------------------------


@pytest.fixture
def labelled(tmp_path, monkeypatch):
    """A file whose events have all labels but one, and a row that is no event."""
    monkeypatch.chdir(tmp_path)
    lines = [*raw_events(150, labelled=1.0), *raw_events(1, labelled=0.0), b"{]"]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return "events.jsonl"


# -- a classifier of the user's own -----------------------------------------------------------------------

MODULE = """
from river import naive_bayes
from streamnb import CategoricalNB, LogisticRegression

made = CategoricalNB()
of_river = naive_bayes.ComplementNB
def make():
    return LogisticRegression(C=50.0)
class Plain:
    # no more than what a command asks for
    said = None
    def learn_one(self, x, y):
        self.said = y
    def predict_one(self, x):
        return self.said
class Needy(Plain):
    def __init__(self, more):
        self.more = more
nothing = 3
lacking = "river_that_is_not_there"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module in the working directory, and a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    (tmp_path / "own_classifiers.py").write_text(MODULE)
    (tmp_path / "own_broken.py").write_text("import river_that_is_not_there")
    (tmp_path / "table.jsonl").write_bytes(b"\n".join(raw_events(120)))
    yield tmp_path
    sys.modules.pop("own_classifiers", None)


@pytest.mark.usefixtures("own")
def test_a_classifier_of_ones_own_is_evaluated_as_the_configured_one_is(capsys):
    configured_one = answer(
        capsys, "evaluate", "table.jsonl", "--set", LOGISTIC, "--set", TABLE, "--set", "model.C=50"
    )
    mine = answer(capsys, "evaluate", "table.jsonl", "--model", "own_classifiers:make", "--set", TABLE)
    assert mine["cumulative"] == configured_one["cumulative"]
    assert mine["class_rates"] == configured_one["class_rates"]
    assert configured_one["model_digest"]
    assert mine["model_digest"] is None
    held = answer(
        capsys,
        "evaluate",
        "table.jsonl",
        "--model",
        "own_classifiers:make",
        "--set",
        TABLE,
        "--holdout",
        "1/2",
    )
    assert held["cumulative"]["events"] > 40


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("name", ["made", "of_river"])
def test_instances_classes_and_classifiers_without_a_state_are_taken(name, capsys):
    table = (
        'attributes=[{name="colour", kind="nominal"}]'
        if name == "made"
        else 'attributes=[{name="x", kind="continuous"}]'
    )
    found = answer(capsys, "evaluate", "table.jsonl", "--model", f"own_classifiers:{name}", "--set", table)
    assert found["learned"] > 80
    assert main(["evaluate", "table.jsonl", "--model", f"own_classifiers:{name}", "--set", table]) == 0
    assert "; model " not in capsys.readouterr().out


@pytest.mark.usefixtures("own")
def test_a_classifier_without_probabilities_is_certain_of_its_label(capsys):
    found = answer(capsys, "evaluate", "table.jsonl", "--model", "own_classifiers:Plain", "--set", TABLE)
    (bin_,) = found["cumulative"]["reliability"]
    assert (bin_["confidence"], bin_["events"]) == (1.0, found["learned"] - 1)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model", "own_classifiers"], "expected MODULE:NAME"),
        (["--model", "own_classifiers:no such"], "expected MODULE:NAME"),
        (["--model", "not_there:made"], "expected a module that can be imported from"),
        (["--model", "own_classifiers:missing"], "expected a name in own_classifiers"),
        (["--model", "own_classifiers:nothing"], "a int has no learn_one"),
        (["--model", "own_classifiers:Needy"], "expected what can be made without arguments"),
    ],
)
def test_what_is_no_classifier_is_a_mistake_in_the_command(flags, said, capsys):
    assert main(["evaluate", "table.jsonl", *flags]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("own")
def test_a_module_that_lacks_something_says_what():
    with pytest.raises(ModuleNotFoundError, match="river_that_is_not_there"):
        main(["evaluate", "table.jsonl", "--model", "own_broken:made"])
