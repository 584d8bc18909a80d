"""What a model says of one event, as JSON has it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from streamnb.cli.asked import Asked, asked_of, log_odds
from streamnb.cli.rehearsal import rehearsed
from streamnb.config import Config
from streamnb.engine.learner import Learner
from streamnb.errors import ConfigError, StreamnbError
from streamnb.events import Event
from streamnb.model.attributes.attributes import some_of
from streamnb.model.attributes.nearest import did_you_mean
from streamnb.model.interface.evidence import Explanation, Item
from streamnb.model.interface.predictions import Posteriors
from streamnb.model.naive_bayes.counting_model import CountingModel


def explained(model: Asked, event: Event, against: str | None, top: int) -> dict[str, Any]:
    """Why an event has its label.

    Raises StreamnbError where nothing can be said.
    """
    model, event = model.own(event)
    told = model.posteriors([event])
    (said,) = model.by_label(told)
    found = _explanation(model, event, said, against, told)
    return {
        "label": str(found.predicted),
        "against": str(found.runner_up),
        "probabilities": said,
        **model.decided(told)[0],
        "prior": found.prior,
        "evidence": [_described(model.model, item) for item in found.items[:top]],
    }


def rehearse_answers(learner: Learner, config: Config) -> None:
    """Ask a learner that is thrown away all that can be asked: what that compiles, a replica needs."""
    model = asked_of(learner.model, config, learner.rules, {"file": "a rehearsal"}, learner.decisions)
    learner.process([rehearsed(model.schema, number) for number in range(20)], 1.0)
    event = model.decode(rehearsed(model.schema, 1).value)
    with suppress(StreamnbError):  # what this kind of model says nothing of
        explained(model, event, None, 10)


def decision_of(answer: Mapping[str, Any]) -> str:
    """What an answer decides, for people."""
    decision = answer["decision"]
    told = "nothing is decided" if decision is None else f"decision {decision}"
    usual = f", as unusual as {answer['novelty']:.2%} of its class" if "novelty" in answer else ""
    return f"{told}, expected cost {answer['expected_cost']:.4f}{usual}"


def _explanation(
    model: Asked,
    event: Event,
    said: Mapping[str, float],
    against: str | None,
    told: Posteriors,
) -> Explanation:
    """What the model says for its label. Raises ConfigError where it cannot say anything."""
    known = model.with_examples(said)
    if against is not None and against not in known:
        gone = "all of its examples were taken back" if against in said else "no such label"
        if against in model.quarantined:
            gone = f"it has fewer than {model.min_learns} examples (classes.min_learns)"
        raise ConfigError(
            f"--against {against}: {gone}; the model has {some_of(known)}{did_you_mean(against, known)}"
        )
    first, *others = known
    if not others:
        raise ConfigError(f"the model knows one label, {first}: there is nothing to tell it from")
    other = others[0] if against in {None, first} else against
    if isinstance(model.model, CountingModel):
        labels = {str(label): label for label in model.model.classes}
        found = model.model.explanation_one(event.x, event.ts, labels[other], labels[first])
        assert found is not None  # noqa: S101  there are two
        return found
    items = [] if told.hides_rival else model.model.explain_one(event.x)
    if against is not None:
        raise ConfigError("--against: this kind of model compares with the next label alone")
    if not items:
        raise ConfigError(
            "there is no evidence: no value of the event is known, or a class of fewer examples than "
            "classes.min_learns is nearly as probable, or this kind of model gives none; "
            "model.kind=mixture and naive_bayes do"
        )
    (before,) = model.predicted([Event("-", {})])
    return Explanation(first, other, log_odds(before[first], before[other]), items)


def _described(model: Any, item: Item) -> dict[str, Any]:
    counts = (
        model.value_counts(item.attribute, item.value)
        if isinstance(model, CountingModel) and isinstance(item.value, str | bool) and item.value != ""
        else {}
    )
    return {
        "attribute": str(item.attribute),
        "value": item.value,
        "log_odds": item.log_odds,
        "counts": {str(label): count for label, count in counts.items()},
    }
