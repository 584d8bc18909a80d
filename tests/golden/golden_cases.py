"""The lives that are frozen: for each kind of model that a configuration can name, and each thing a learner can do."""

from __future__ import annotations

from tests.golden.golden_models import CLASSES, CLOCK, TABLE, labels_of, made_up, of_file

DAY = 86_400.0
NB = {"kind": "naive_bayes"}
NOMINAL = [{"name": name, "kind": "nominal"} for name in ("colour", "shape")]
TEXTS = [
    {**attribute, "event_model": "bernoulli"} if attribute["kind"] == "text" else attribute
    for attribute in TABLE
]
EVERY_HYPOTHESIS = [
    *({"likelihood": one, "alpha": 0.5} for one in ("multinomial", "presence", "bernoulli", "complement")),
    {"likelihood": "multinomial", "m": 2.0, "prior": "uniform"},
    {"likelihood": "multinomial", "alpha": 0.1, "half_life": "2h", "weight": 0.5, "name": "forgets"},
    {"likelihood": "presence", "alpha": 0.1, "half_life": "30m"},
    {"likelihood": "presence", "alpha": 0.1, "density": "binned"},
    {"likelihood": "complement", "alpha": 1.0, "calibrated": True},
    {"likelihood": "multinomial", "alpha": 1.0, "calibrated": True, "density": "binned"},
    {"kind": "softmax", "rate": 0.4},
    {"kind": "softmax", "rate": 0.6, "pairs": True},
    {"kind": "byte_softmax", "first_bytes": 500},
    {"kind": "one_dependence", "prior_weight": 2.0},
    {"kind": "one_dependence", "max_attributes": 3},
    {"kind": "pool", "variance": 0.05},
    {"kind": "pool", "calibrated": True},
]
MONITORS = [
    {"name": "errors", "kind": "error-rate", "tolerated": 0.05, "alarming": 0.15, "action": "pause", "pause_records": 40},
    {"name": "share", "kind": "class-rate", "label": "spam", "tolerated": [0.2, 0.4], "alarming": [0.05, 0.6]},
    {"name": "sure", "kind": "calibration", "tolerated": 0.05, "alarming": 0.15},
    {"name": "new classes", "kind": "new-class"},
    {"name": "renew", "kind": "error-rate", "tolerated": 0.1, "alarming": 0.3, "action": "renew"},
]  # fmt: skip


def events(*arguments, **options):
    return lambda life: life.write(made_up(*arguments, **options))


def stream(name, n):
    return lambda life: life.write(of_file(name, n))


def labels(ids, seed, **options):
    return lambda life: life.write(labels_of(ids, seed, **options), "labels")


def run(life):
    life.run()


def later(seconds):
    def wait(_):
        CLOCK.now += seconds

    return wait


def command(*arguments, given=b""):
    return lambda life: life.command(*arguments, given=given)


TWICE = [events(150, 1), run, events(120, 2, first=150), run]
"""Two processes after each other: the second one goes on from the snapshot of the first."""


def case(*steps, attributes=None, **config):
    if attributes is not None:
        config["attributes"] = attributes
    return config, list(steps) or TWICE


LATE = [
    labels(range(0, 20, 3), 4),
    run,
    events(120, 5, labelled=0.3),
    run,
    labels(range(60), 6),
    run,
    later(3600.0),
    events(60, 7, labelled=0.3, first=120),
    run,
    labels(range(30, 150, 2), 8),
    run,
    later(3 * DAY),
    command("labels", "withdraw", "--source", "crowd", "--since", CLOCK.start + 60),
    labels(range(0, 180, 3), 9, sources=("expert",), null=0.0),
    run,
]
"""A process ends between the writes to two topics, so that their order is the same on every log."""
BOTH_AT_ONCE = [step for step in LATE if step is not run] + [run]

WAITING = {
    "topics": {"labels": ""},
    "labels": {"window": "2d", "ranks": {"expert": 5}, "weights": {"crowd": 0.5}},
}

CASES = {
    "default": case(),
    "default on texts": case(stream("sms_spam", 300), run),
    "default on a table": case(stream("adult", 200), run, predictions={"evidence": 4, "hypotheses": True}),
    "default with many classes": case(stream("20news_bydate", 120), run),
    "naive Bayes": case(attributes=TABLE, model=NB, predictions={"evidence": 3}),
    "naive Bayes without attributes": case(model={**NB, "alpha": 0.3, "prior": "uniform"}),
    "naive Bayes, Bernoulli": case(
        attributes=TEXTS,
        model={**NB, "m": 3.0, "prior": "given", "priors": {"spam": 3.0, "ham": 1.0, "other": 2.0}},
        predictions={"evidence": 5},
    ),
    "naive Bayes, pruned": case(
        attributes=TABLE,
        model={**NB, "prune": {"every": 60, "min_count": 2.0, "drop_most_frequent": 2, "max_attributes": 40}},
    ),
    "naive Bayes, little memory": case(stream("20news_bydate", 200), run, model=NB, memory={"budget": "1MiB"}),
    "naive Bayes on numbers": case(stream("elec2", 300), run, model=NB),
    "mixture": case(
        attributes=TABLE,
        model={"alpha": 0.7},
        hypotheses=EVERY_HYPOTHESIS,
        predictions={"evidence": 4, "hypotheses": True},
        events={"clock": "event"},
    ),
    "mixture, most probable": case(
        attributes=TABLE[:3],
        hypotheses=EVERY_HYPOTHESIS[:4],
        posterior={"prediction": "map", "switching_rate": 0.01, "floor": False},
    ),
    "mixture, Gibbs": case(attributes=TABLE, hypotheses=EVERY_HYPOTHESIS[:10], posterior={"prediction": "gibbs", "seed": 7}),
    "semi-supervised": case(
        attributes=TABLE[:5],
        model={"kind": "semi_supervised", "unlabelled_weight": 0.25, "unlabelled_window": 20, "revisits": 2},
    ),
    "logistic regression": case(attributes=TABLE[2:], model={"kind": "logistic_regression", "C": 2.0}),
    "hidden Markov": case(
        attributes=TABLE,
        model={"kind": "hidden_markov", "transition_m": 0.5, "entities": 6, "time_to_live": "2h"},
        events={"entity": "$.user"},
    ),
    "Bayesian network": case(attributes=NOMINAL, model={"kind": "bayesian_network", "parents": {"shape": ["label", "colour"]}}),
    "tenants": case(attributes=TABLE, model={"kind": "tenants", "tenants": 5}, events={"entity": "$.user"}, topics={"tenants": ""}),
    "tenants with a shared prior": case(attributes=TABLE, model={"kind": "tenants", "shared": True, "memory": "128KiB"}, events={"entity": "$.user"}),
    "late labels": case(*LATE, attributes=TABLE, model=NB, **WAITING),
    "late labels, both topics at once": case(*BOTH_AT_ONCE, attributes=TABLE, model=NB, **WAITING),
    "late labels, mixture": case(*LATE, **WAITING),
    "late labels, chains": case(*LATE, attributes=TABLE, model={"kind": "hidden_markov"}, events={"entity": "$.user"}, **WAITING),
    "late labels, tenants": case(*LATE, attributes=TABLE, model={"kind": "tenants"}, events={"entity": "$.user"}, **WAITING),
    "rebuilt and forgotten": case(
        *LATE,
        command("forget", "--ids", "-", given=b"e3\ne40\ne41\n"),
        run,
        command("rebuild"),
        run,
        events(40, 10, first=200),
        run,
        attributes=TABLE,
        model=NB,
        **WAITING,
    ),
    "rolled back": case(*TWICE, command("snapshot", "rollback", "--to", "3"), events(60, 3, first=400), run, attributes=TABLE, model=NB),
    "repeats are skipped": case(events(120, 4), events(60, 4), run, attributes=TABLE, model=NB, events={"repeats": "skip"}),
    "decisions": case(
        attributes=TABLE,
        model=NB,
        decision={
            "costs": {"spam": {"ham": 9.0, "other": 4.0}},
            "reject": 0.4,
            "priors": "windowed",
            "window": 40,
            "novelty": 0.02,
        },
    ),
    "drift": case(
        events(200, 11),
        run,
        events(200, 12, classes=CLASSES[::-1], first=200),
        run,
        attributes=TABLE,
        model=NB,
        drift={"detectors": "adwin,page_hinkley,ddm,eddm,hddm_a,hddm_w,fhddm"},
    ),
    "monitors": case(
        events(200, 13),
        run,
        events(250, 14, classes=(*CLASSES[1:], "new"), first=200),
        run,
        attributes=TABLE,
        hypotheses=EVERY_HYPOTHESIS[8:12],
        monitors=MONITORS,
    ),
    "quarantine and aliases": case(
        attributes=TABLE,
        model=NB,
        classes={"min_learns": 60, "max": 2, "aliases": {"other": "ham"}},
        predictions={"top": 1},
    ),
    "shards": case(attributes=TABLE, model=NB, memory={"budget": "0B"}),
    "configuration changed": case(events(100, 15), run, events(100, 16, first=100), run, attributes=TABLE, model={**NB, "alpha": 0.01}),
}  # fmt: skip
"""Name -> (configuration, steps)."""

MESSAGE = '{"text": "free cash at noon", "features": {"colour": "red", "size": 1.5}}'
ASKS = {
    "default": [
        ["predict", MESSAGE],
        ["explain", MESSAGE],
        ["explain", "--id", "e120", "--as-served"],
        ["token", "cash"],
        ["inspect"],
        ["snapshot", "diff", "2", "6"],
        ["evaluate"],
        ["evaluate", "events.jsonl", "--delay", "20", "--noise", "0.1", "--reveal", "0.7"],
        ["compare", "--against", "posterior.switching_rate=0.01"],
    ],
    "naive Bayes": [
        ["predict", MESSAGE],
        ["explain", MESSAGE],
        ["token", "cash"],
        ["inspect"],
        ["snapshot", "diff", "2", "6"],
        ["model", "export"],
        ["dlq", "list"],
        ["evaluate"],
    ],
    "hidden Markov": [["predict", MESSAGE], ["inspect"], ["evaluate"]],
    "mixture": [["predict", MESSAGE], ["explain", MESSAGE], ["inspect"]],
    "late labels": [["evaluate"]],
    "tenants": [["evaluate"]],
    "naive Bayes on numbers": [
        ["evaluate", "events.jsonl", "--model", "river.naive_bayes:GaussianNB"],
        ["evaluate", "events.jsonl", "--model", "river.tree:HoeffdingTreeClassifier", "--holdout", "2/3"],
        ["evaluate", "events.jsonl", "--model", "streamnb:BayesOptimalNB"],
        ["evaluate", "events.jsonl", "--model", "streamnb:GaussianNB", "--delay", "10"],
    ],
    "shards": [["model", "export"]],
}
"""Life -> commands that are asked at its end; those that evaluate a file read what the life wrote."""

ON_KAFKA = (
    "default", "naive Bayes", "mixture", "semi-supervised", "logistic regression", "hidden Markov",
    "Bayesian network", "tenants", "late labels", "late labels, mixture", "rebuilt and forgotten",
    "decisions", "drift", "monitors", "quarantine and aliases",
)  # fmt: skip
"""Of these the state and the outputs are the same on a broker."""

ON_STREAMS = (
    "default on texts",
    "default on a table",
    "default with many classes",
    "naive Bayes, little memory",
    "naive Bayes on numbers",
)
"""Of these the events are those of real streams."""
