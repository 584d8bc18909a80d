"""Hypotheses of three kinds as the configuration declares them, and the default ones of a mixture.

What `model.kind` is where nobody gives it may change: every test gives it, or asks `ModelConfig`.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest

from streamnb.config import (
    Config,
    HypothesisConfig,
    ModelConfig,
    changes,
    config_hash,
    load,
    restored,
    semantic_config_of,
    show,
)
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.errors import ConfigError, JournalError
from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.models.mixture.hypotheses import Hypothesis
from streamnb.models.mixture.hypothesis_kinds import DEFAULT_HYPOTHESES, Pool, Softmax
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.runtime import context, factories
from tests.support.service import digests, produce, records

NAIVE, MIXTURE = "model.kind=naive_bayes", "model.kind=mixture"
TABLES = """\
[[hypotheses]]
likelihood = "presence"
[[hypotheses]]
kind = "naive_bayes"
alpha = 0.1
calibrated = true
[[hypotheses]]
kind = "softmax"
rate = 0.25
pairs = true
weight = 2
[[hypotheses]]
kind = "pool"
variance = 0.01
name = "all of them"
"""


def from_text(text, folder, *flags):
    path = folder / "config.toml"
    path.write_text(text)
    return load(path, {}, flags)


def of(*flags):
    return load(None, {}, flags)


def message(text, folder, *flags):
    with pytest.raises(ConfigError) as error:
        from_text(text, folder, *flags)
    return str(error.value).removeprefix(f"{folder / 'config.toml'}: ")


# Tables


def test_tables_are_hypotheses_of_three_kinds(tmp_path):
    model = factories.model(from_text(TABLES, tmp_path, "model.alpha=0.5", "model.prior=uniform"))
    assert isinstance(model, BayesOptimalNB)
    assert model.hypotheses == [
        Hypothesis("presence", alpha=0.5, prior="uniform"),
        Hypothesis("multinomial", alpha=0.1, prior="uniform", calibrated=True),
        Softmax(0.25, pairs=True, weight=2.0),
        Pool(0.01, name="all of them"),
    ]


def test_a_hypothesis_may_be_there_for_a_pool_alone(tmp_path):
    text = "hypotheses = [{calibrated = true, weight = 0}, {kind = 'softmax', weight = 0}, {kind = 'pool'}]"
    model = factories.model(from_text(text, tmp_path))
    assert [h.weight for h in model.hypotheses] == [0.0, 0.0, 1.0]
    assert from_text(show(from_text(text, tmp_path)), tmp_path) == from_text(text, tmp_path)


def test_what_a_table_leaves_out_is_as_in_python():
    naive, softmax, pool = of(
        'hypotheses=[{ calibrated = true }, { kind = "softmax" }, { kind = "pool" }]'
    ).hypotheses
    assert naive == HypothesisConfig(calibrated=True)
    assert (softmax.rate, softmax.pairs, softmax.weight) == (
        Softmax().rate,
        Softmax().pairs,
        Softmax().weight,
    )
    assert (pool.variance, pool.calibrated, pool.weight) == (
        Pool().variance,
        Pool().calibrated,
        Pool().weight,
    )
    assert HypothesisConfig().calibrated == Hypothesis().calibrated
    assert HypothesisConfig().density == Hypothesis().density
    assert {
        softmax.calibrated,
        softmax.density,
        pool.density,
        pool.rate,
        pool.pairs,
        naive.rate,
        naive.variance,
    } == {None}


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("{}", '{ kind = "naive_bayes", density = "gaussian", calibrated = false }'),
        ('{ kind = "softmax" }', '{ kind = "softmax", rate = 0.6, pairs = false }'),
        (
            "{ calibrated = true }, { kind = 'pool' }",
            "{ calibrated = true }, { kind = 'pool', variance = 0.1, calibrated = false }",
        ),
    ],
)
def test_a_default_written_out_and_one_left_out_are_the_same(short, long):
    assert of(f"hypotheses=[{short}]") == of(f"hypotheses=[{long}]")


OWN = {
    "naive_bayes": {
        "likelihood": '"presence"', "alpha": "0.5", "m": "2.0", "p": "0.5", "prior": '"learned"',
        "half_life": '"36h"', "density": '"gaussian"', "calibrated": "false",
    },
    "softmax": {"rate": "0.5", "pairs": "false"},
    "byte_softmax": {"rate": "0.5", "first_bytes": "99"},
    "pool": {"variance": "0.5", "calibrated": "true"},
    "one_dependence": {"prior_weight": "5.0", "max_attributes": "64"},
    "mondrian_forest": {"trees": "10"},
    "recent_gaussian": {"half_life_events": "64"},
}  # fmt: skip
FOREIGN = [
    (kind, " or ".join(f'"{other}"' for other in OWN if key in OWN[other]), key, value)
    for kind in OWN
    for owner, keys in OWN.items()
    for key, value in keys.items()
    if key not in OWN[kind]
]


def test_every_key_is_tried():
    assert {key for keys in OWN.values() for key in keys} == set(HypothesisConfig.__struct_fields__) - {
        "kind", "weight", "name"
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "owner", "key", "value"), FOREIGN)
def test_a_key_of_another_kind_is_refused(tmp_path, kind, owner, key, value):
    """Its default, too: who gives it takes the hypothesis for one of another kind."""
    text = f'hypotheses = [{{ calibrated = true }}, {{ kind = "{kind}", {key} = {value} }}]'
    assert message(text, tmp_path) == (
        f'hypotheses[1].{key} is {value} and hypotheses[1].kind is "{kind}"; '
        f"expected {key} with kind = {owner} alone"
    )


def test_without_a_kind_a_hypothesis_is_naive_bayes(tmp_path):
    assert 'hypotheses[0].kind is "naive_bayes"; expected rate' in message(
        "hypotheses = [{rate = 1}]", tmp_path
    )


POOLED = (
    'expected another hypothesis to pool, of kind "softmax", "byte_softmax", "one_dependence", "mondrian_forest" '
    'or "recent_gaussian" or with calibrated = true'
)
REFUSED = [
    (
        "[{kind='byte_softmax'}, {alpha=1.0}, {kind='byte_softmax', first_bytes=99}]",
        "hypotheses[2].first_bytes is 99; expected 2000, as hypotheses[0] has: all share what they read",
    ),
    ("[{kind='byte_softmax', first_bytes=3}]", "hypotheses[0].first_bytes is 3; expected an integer from 4 to 1048576"),
    ("[{kind='forest'}]", 'hypotheses[0].kind is "forest"; expected "naive_bayes", "softmax", "byte_softmax", "pool", "one_dependence", "mondrian_forest" or "recent_gaussian"'),
    ("[{kind='softmax', rate=0}]", "hypotheses[0].rate is 0; expected a finite number above 0"),
    ("[{kind='softmax', rate=inf}]", "hypotheses[0].rate is inf; expected a finite number above 0"),
    ("[{kind='recent_gaussian', half_life_events=0}]", "hypotheses[0].half_life_events is 0; expected an integer from 1 to 1000000000"),
    ("[{kind='softmax', pairs=1}]", "hypotheses[0].pairs is 1; expected true or false"),
    ("[{kind='softmax', weight=-1}]", "hypotheses[0].weight is -1; expected a finite number of 0 or more"),
    ("[{weight=0}, {kind='softmax', weight=0}]", "hypotheses[0].weight is 0.0; expected a weight above 0 for at least one of the hypotheses"),
    ("[{density='kernel'}]", 'hypotheses[0].density is "kernel"; expected "gaussian" or "binned"'),
    (
        "[{}, {density='binned', half_life='36h'}]",
        'hypotheses[1].half_life is "36h"; expected no half_life with density = "binned", for bins do not forget',
    ),
    ("[{calibrated='yes'}]", 'hypotheses[0].calibrated is "yes"; expected true or false'),
    ("[{kind='softmax'}, {kind='pool', variance=-1}]", "hypotheses[1].variance is -1; expected a finite number above 0"),
    ("[{kind='softmax', name='x'}, {name='x'}]", 'hypotheses[1].name is "x"; expected another name than hypotheses[0] has'),
    ("[{kind='pool'}]", f'hypotheses[0].kind is "pool"; {POOLED}'),
    ("[{}, {alpha=2}, {kind='pool'}]", f'hypotheses[2].kind is "pool"; {POOLED}'),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "expected"), REFUSED)
def test_a_table_that_means_nothing_is_refused(tmp_path, tables, expected):
    assert message(f"hypotheses = {tables}", tmp_path) == expected


@pytest.mark.parametrize("beside", ["{ calibrated = true }", '{ kind = "softmax" }'])
def test_a_pool_may_stand_before_what_it_pools(beside):
    hypotheses = factories.model(of(f'hypotheses=[{{ kind = "pool" }}, {beside}]')).hypotheses
    assert [type(h) for h in hypotheses] in ([Pool, Hypothesis], [Pool, Softmax])


def test_two_hypotheses_alike_are_refused():
    with pytest.raises(ConfigError, match=r"hypotheses: .*softmax rate=0\.6"):
        factories.model(of('hypotheses=[{ kind = "softmax" }, { kind = "softmax", rate = 0.6 }]'))


def test_only_naive_bayes_takes_the_models_smoothing():
    """A smoothing of 0 is refused where a hypothesis would take it."""
    tables = 'hypotheses=[{ kind = "softmax" }, { kind = "pool" }, { alpha = 1 }]'
    assert len(factories.model(of(tables, "model.alpha=0")).hypotheses) == 3
    with pytest.raises(ConfigError, match=r"model\.alpha is 0\.0; .* for hypotheses\[2\] to take"):
        of(tables.replace("alpha = 1", ""), "model.alpha=0")


# The kind of the model


def test_naive_bayes_is_a_single_model():
    model = factories.model(of(NAIVE, "model.alpha=0.5"))
    assert type(model) is NaiveBayes
    assert model.alpha == 0.5


def test_a_mixture_weighs_the_default_hypotheses():
    model = factories.model(of(MIXTURE))
    assert isinstance(model, BayesOptimalNB)
    assert tuple(model.hypotheses) == DEFAULT_HYPOTHESES
    defaults = inspect.signature(BayesOptimalNB).parameters
    for name in ("switching_rate", "prediction", "seed", "memory"):
        assert getattr(model, name) == defaults[name].default


@pytest.mark.parametrize("flags", [["uniform"], ["given", "model.priors={ a = 1, b = 3 }"]])
def test_the_prior_of_the_model_is_that_of_default_naive_bayes(flags):
    config = of(MIXTURE, *(f"model.prior={flag}" if "=" not in flag else flag for flag in flags))
    prior = {"a": 1.0, "b": 3.0} if flags[0] == "given" else "uniform"
    hypotheses = factories.model(config).hypotheses
    assert len(hypotheses) == len(DEFAULT_HYPOTHESES)
    for found, default in zip(hypotheses, DEFAULT_HYPOTHESES, strict=True):
        if isinstance(default, Hypothesis):
            assert found.prior == prior
            assert (found.likelihood, found.alpha, found.calibrated) == (
                default.likelihood, default.alpha, default.calibrated
            )  # fmt: skip
        else:
            assert found == default


def test_what_is_declared_is_weighed_whatever_the_kind(tmp_path):
    """And said to be a mixture, so that what `show` writes contradicts nothing."""
    for flags in ([], [MIXTURE]):
        config = from_text(TABLES, tmp_path, *flags)
        assert len(factories.model(config).hypotheses) == 4
        assert config.model.kind == "mixture"
        assert from_text(show(config), tmp_path) == config
    unread = Config(model=ModelConfig(kind="naive_bayes"), hypotheses=config.hypotheses)
    assert semantic_config_of(unread)["model"]["kind"] == "mixture"


@pytest.mark.parametrize("kind", ["naive_bayes", "mixture"])
def test_what_show_writes_is_read_back(tmp_path, kind):
    config = of(f"model.kind={kind}")
    assert from_text(show(config), tmp_path) == config
    assert f'kind = "{kind}"' in show(config)
    assert "# switching_rate is not set" in show(config)


def test_naive_bayes_beside_hypotheses_is_refused(tmp_path):
    text = f'model.kind = "naive_bayes"\n{TABLES}'
    expected = 'model.kind is "naive_bayes"; expected "mixture" with hypotheses, or no hypotheses'
    assert message(text, tmp_path) == expected
    assert message(TABLES, tmp_path, NAIVE) == f"flag --set: {expected}"


def test_no_hypotheses_over_some_leaves_the_model_to_its_kind(tmp_path):
    assert type(factories.model(from_text(TABLES, tmp_path, "hypotheses=[]", NAIVE))) is NaiveBayes
    model = factories.model(from_text(TABLES, tmp_path, "hypotheses=[]", MIXTURE))
    assert tuple(model.hypotheses) == DEFAULT_HYPOTHESES


UNREAD = {"alpha": ["2.0"], "m": ["2.0"], "p": ["0.5", "model.m=1"], "event_model": ["bernoulli"]}


@pytest.mark.parametrize("key", UNREAD)
def test_what_the_default_hypotheses_do_not_read_is_refused(tmp_path, key):
    value, *beside = UNREAD[key]
    with pytest.raises(ConfigError) as error:
        of(MIXTURE, f"model.{key}={value}", *beside)
    first = "m is 1.0" if beside else f"{key} is " + (value if value[0] in "012" else f'"{value}"')
    assert str(error.value) == (
        f'flag --set: model.{first}; expected model.kind = "naive_bayes" with it, or [[hypotheses]]: '
        "the default ones do not read it"
    )
    of(NAIVE, f"model.{key}={value}", *beside)
    from_text(TABLES, tmp_path, f"model.{key}={value}", *beside)


def test_the_models_defaults_may_be_written_out():
    spelled = of(MIXTURE, "model.alpha=1.0", "model.event_model=multinomial")
    assert spelled == of(MIXTURE)


def test_attributes_beside_default_hypotheses(tmp_path):
    """As beside those that are declared; the message says what else can be done."""
    smoothed = 'attributes = [{ name = "text", kind = "text", alpha = 0.5 }]\n[model]\nkind = "mixture"'
    assert len(factories.model(from_text(smoothed, tmp_path)).hypotheses) == len(DEFAULT_HYPOTHESES)
    assert message(smoothed.replace("0.5", "0"), tmp_path) == (
        "attributes[0].alpha is 0.0; expected a finite number above 0 with hypotheses; "
        'or model.kind = "naive_bayes"'
    )
    read = smoothed.replace("alpha = 0.5", 'event_model = "bernoulli"')
    assert message(read, tmp_path) == (
        'attributes[0].event_model is "bernoulli"; expected no event_model with hypotheses, which define how '
        'texts are read; or model.kind = "naive_bayes"'
    )
    assert "or model.kind" not in message(f"hypotheses = [{{}}]\n{read}", tmp_path)


# The posterior


@pytest.mark.parametrize(
    ("flags", "rate"),
    [
        ([NAIVE], 0.0),
        ([MIXTURE], 1e-4),
        ([MIXTURE, "posterior.switching_rate=0.0"], 0.0),
        ([MIXTURE, "posterior.switching_rate=0.5"], 0.5),
        (["hypotheses=[{}]"], 0.0),
        ([MIXTURE, "hypotheses=[{}]"], 0.0),
        (["hypotheses=[{}]", "posterior.switching_rate=0.5"], 0.5),
    ],
)
def test_the_switching_rate_has_a_default_by_what_is_weighed(flags, rate):
    config = of(*flags)
    assert config.switching_rate == rate
    assert semantic_config_of(config)["posterior"]["switching_rate"] == rate
    assert getattr(factories.model(config), "switching_rate", 0.0) == rate


def test_memory_is_a_size(tmp_path):
    assert factories.model(of(MIXTURE, "posterior.memory=1MiB")).memory == 1 << 20
    assert of(NAIVE).posterior.memory == 256 << 20
    expected = r'posterior\.memory is 1000; expected a size above 0 with its unit .*, such as "512MiB"'
    with pytest.raises(ConfigError, match=expected):
        from_text("[posterior]\nmemory = 1000", tmp_path)


# The life of a model


def allowed(before, after):
    """Key -> whether it may change, of what is different."""
    found = changes(semantic_config_of(restored(semantic_config_of(before))), semantic_config_of(after))
    return {change.key: change.allowed for change in found}


@pytest.mark.parametrize("flags", [[NAIVE], [MIXTURE], [MIXTURE, "model.prior=uniform"], ["hypotheses=[{}]"]])
def test_a_configuration_is_restored_from_what_the_journal_holds(flags):
    config = of(*flags)
    then = restored(semantic_config_of(config))
    assert semantic_config_of(then) == semantic_config_of(config)
    assert config_hash(then) == config_hash(config)
    assert (
        vars(factories.model(then))["hypotheses" if config.weighs else "alpha"]
        == (vars(factories.model(config))["hypotheses" if config.weighs else "alpha"])
    )


def test_the_journal_holds_the_default_hypotheses():
    """A later program may have others: the model would be another one without its configuration's saying so."""
    shaping = semantic_config_of(of(MIXTURE))
    assert len(shaping["hypotheses"]) == len(DEFAULT_HYPOTHESES)
    shaping["hypotheses"][0]["alpha"] = 7.0
    assert factories.model(restored(shaping)).hypotheses[0] == replace(DEFAULT_HYPOTHESES[0], alpha=7.0)
    found = factories.ConfiguredJob(of(MIXTURE)).changes_since(shaping)
    assert [(c.key, c.before, c.after, c.allowed) for c in found] == [
        ("hypotheses[0].alpha", "7.0", "1.0", False)
    ]


def test_tables_of_the_default_hypotheses_are_the_default_hypotheses(tmp_path):
    config = of(MIXTURE)
    declared = Config(hypotheses=config.weighed, model=config.model)
    written = from_text(show(declared), tmp_path, "posterior.switching_rate=1e-4")
    assert config_hash(written) == config_hash(config)


WEIGHED = 'hypotheses=[{}, { calibrated = true }, { kind = "softmax" }, { kind = "pool" }]'


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("calibrated = true", "calibrated = false", "hypotheses[1].calibrated"),
        ("calibrated = true", 'calibrated = true, density = "binned"', "hypotheses[1].density"),
        ('"softmax" }', '"softmax", rate = 0.5 }', "hypotheses[2].rate"),
        ('"softmax" }', '"softmax", pairs = true }', "hypotheses[2].pairs"),
        ('"pool" }', '"pool", variance = 0.5 }', "hypotheses[3].variance"),
        ('"pool" }', '"pool", weight = 0.5 }', "hypotheses[3].weight"),
    ],
)
def test_what_was_weighed_may_not_change(old, new, key):
    assert WEIGHED.count(old) == 1
    assert allowed(of(WEIGHED), of(WEIGHED.replace(old, new))) == {key: False}


def test_a_kind_may_not_change():
    found = allowed(of(WEIGHED), of(WEIGHED.replace('kind = "pool"', "")))
    assert found["hypotheses[3].kind"] is False
    assert not any(found.values())


@pytest.mark.parametrize("flags", [[MIXTURE], [WEIGHED]])
@pytest.mark.parametrize("memory", ["1KiB", "1GiB"])
def test_memory_may_grow_and_shrink(flags, memory):
    assert allowed(of(*flags), of(*flags, f"posterior.memory={memory}")) == {"posterior.memory": True}


@pytest.mark.parametrize("other", [MIXTURE, WEIGHED])
def test_a_single_model_and_a_mixture_are_told_apart_by_the_kind(other):
    """Dozens of keys that only one of them reads would hide it."""
    assert allowed(of(NAIVE), of(other)) == {"model.kind": False}
    assert allowed(of(other), of(NAIVE)) == {"model.kind": False}
    assert allowed(of(NAIVE, "model.alpha=0.5"), of(other)) == {"model.kind": False, "model.alpha": False}


def test_the_default_is_a_kind():
    assert config_hash(Config()) == config_hash(of(f"model.kind={ModelConfig().kind}")) == config_hash(of())


def test_to_load_a_configuration_is_light():
    """Of a mixture, too: who only reads a log or shows its configuration does not wait for numba."""
    code = (
        "from streamnb.config import *; import sys; show(load(None, {}, [sys.argv[1]])); print(*sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, MIXTURE], check=True, capture_output=True, text=True
    ).stdout
    assert {name.partition(".")[0] for name in found.split()}.isdisjoint({"numba", "numpy", "river"})


# A model that runs

RAWS = [
    b'{"id":"%d","text":"w%d v%d both%d","label":"%s"}' % (i, i, i * i % 17, i % 3, b"ab"[i % 2 : i % 2 + 1])
    for i in range(120)
]
ATTRIBUTES = 'attributes=[{ name = "text", kind = "text" }]'


def test_a_model_goes_on_with_less_memory_and_with_more():
    """With less than is used nothing is forgotten and nothing is added; with more it grows again."""
    given = partial(of, WEIGHED, ATTRIBUTES, "predictions.hypotheses=true")
    learner = factories.learner(given())
    learner.process(records(RAWS[:40]), 1.0)
    sizes = [learner.model._learners.features.size]
    for memory, raws in (("1KiB", RAWS[40:80]), ("1MiB", RAWS[80:])):
        config = given(f"posterior.memory={memory}")
        learner.reconfigure(factories.settings(config), factories.model(config))
        assert learner.model.memory == config.posterior.memory
        learner.process(records(raws), 1.0)
        sizes.append(learner.model._learners.features.size)
    assert sizes[0] == sizes[1] > 40
    assert sizes[2] > sizes[1]
    assert learner.model.n_events == len(RAWS)


def test_a_mixture_on_a_log_goes_on_with_other_memory_and_never_as_naive_bayes(tmp_path):
    flags = [f"log.url=sqlite:///{tmp_path}/log.db", ATTRIBUTES, "commit.events=40"]
    mixture = of(*flags, MIXTURE)

    def learned(config, raws):
        log = context.open_log(config)
        produce(log, raws)
        worker = factories.worker(config, factories.learner(config), log)
        worker.start("test")
        worker.run(until_end=True)
        worker.close()
        return worker.learner

    learned(mixture, RAWS[:80])
    log = context.open_log(mixture)
    single = of(*flags, NAIVE)
    with pytest.raises(JournalError, match=r'model\.kind was "mixture" and is "naive_bayes"'):
        factories.worker(single, factories.learner(single), log).start("test")
    log.close()
    less = of(*flags, MIXTURE, "posterior.memory=1KiB")
    learner = learned(less, RAWS[80:])
    assert learner.model.n_events == len(RAWS)
    assert learner.model.memory == 1 << 10
    again = factories.learner(less)
    recover(context.open_log(less), NoSnapshots(), again, factories.identity(less))
    assert digests(again) == digests(learner)
