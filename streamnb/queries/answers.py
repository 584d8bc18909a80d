"""Answers of a model for one event or one word, as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from streamnb.config import Config
from streamnb.engine.labels.source_labels import SourceLabel
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.named_classes import ranked_by_class
from streamnb.errors import ConfigError, StreamnbError
from streamnb.events import Event
from streamnb.features.attributes import some_of
from streamnb.features.tokenizer import words
from streamnb.models.interface.attribution import Explanation, Item
from streamnb.models.interface.attribution_parts import LIMIT
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.queries.query_model import QueryModel, log_odds, query_model_of
from streamnb.runtime.warmup import rehearsed
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.parameter_checks import did_you_mean

PRIOR = "(the labels alone)"
"""Name of the class prior in evidence, from label frequencies or the configuration."""
_MOST_LEFT_OUT = 100
_AT_ONCE = 25  # events that have something left out


def explained(
    model: QueryModel, event: Event, against: str | None, top: int, of: str | None = None
) -> dict[str, Any]:
    """Return why an event has its label, or the evidence for label `of`; raise StreamnbError without one."""
    model, event = model.own(event)
    predicted = model.predict([event])
    told = predicted.posteriors
    (said,) = ranked_by_class(told)
    (decided,) = predicted.decided_fields()
    found = _explanation(model, event, said, against, of, told)
    (warning,) = model.warnings([event], told)
    return {
        "label": str(found.predicted),
        "against": str(found.runner_up),
        "probabilities": said,
        **decided,
        "prior": found.prior,
        "evidence": [_described(model.model, item) for item in found.items[:top]],
        "turns": _turning(model, event, found, next(iter(said))),
        **({"warning": warning} if warning else {}),
    }


def predicted_answers(model: QueryModel, events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """Yield the prediction of each event, with a warning if it needs one; raise StreamnbError."""
    predicted = model.predict(events)
    posteriors = predicted.posteriors
    assert predicted.unseen is not None  # noqa: S101  a query asks for it
    each = zip(
        ranked_by_class(posteriors),
        predicted.unseen.tolist(),
        predicted.decided_fields(),
        model.warnings(events, posteriors),
        strict=True,
    )
    for said, unseen, decided, warning in each:
        label = next(iter(said))
        yield {
            "label": label,
            "probability": said[label],
            "probabilities": said,
            "unseen": unseen,
            **decided,
            **({"warning": warning} if warning else {}),
        }


def held(said: Sequence[SourceLabel], journal: int) -> dict[str, Any]:
    """Return the label in force after a journal record, its source and time, and the other labels."""
    told = [{"label": one.label, "source": one.source, "ts": one.time} for one in said]
    is_held = bool(told) and told[0]["label"] is not None
    holds = told.pop(0) if is_held else {"label": None, "source": None, "ts": None}
    return {**holds, "journal": journal, "others": told}


def rehearse_answers(learner: EventProcessor, config: Config) -> None:
    """Ask a learner that is thrown away all that can be asked: what that compiles, a replica needs."""
    model = query_model_of(learner.model, config, {"file": "a rehearsal"}, learner.decisions)
    learner.process([rehearsed(model.schema, number) for number in range(20)], 1.0)
    event = model.decode(rehearsed(model.schema, 1).value)
    with suppress(StreamnbError):  # this kind of model may have no explanation
        explained(model, event, None, 10)
    with suppress(StreamnbError):
        known_of(model, "one")


def value_name(value: Any) -> Any:
    """Return a value of the evidence as text; the empty word means the absent words of a text."""
    return "(absent words)" if value == "" else value


def decision_of(answer: Mapping[str, Any]) -> str:
    """Return a decision as text."""
    decision = answer["decision"]
    told = "nothing is decided" if decision is None else f"decision {decision}"
    usual = f", as unusual as {answer['novelty']:.2%} of its class" if "novelty" in answer else ""
    return f"{told}, expected cost {answer['expected_cost']:.4f}{usual}"


def _explanation(
    model: QueryModel,
    event: Event,
    said: Mapping[str, float],
    against: str | None,
    of: str | None,
    told: Posteriors,
) -> Explanation:
    known = model.with_examples(said)
    if against is not None and against == (known[0] if of is None and known else of):
        raise ConfigError(f"against {against}: that is the explained label; name another label, or none")
    if against is not None and against not in known:
        gone = "all of its examples were taken back" if against in said else "no such label"
        if against in model.quarantined:
            gone = f"it has fewer than {model.min_learns} examples (classes.min_learns)"
        raise ConfigError(
            f"against {against}: {gone}; the model has {some_of(known)}{did_you_mean(against, known)}"
        )
    first, *others = known
    if not others:
        raise ConfigError(f"the model knows one label, {first}: there is no second label to compare with")
    if of is not None:
        first, others = of, [label for label in known if label != of]
    other = others[0] if against is None else against
    if isinstance(model.model, CountingModel):
        labels = {str(label): label for label in model.model.classes}
        found = model.model.explanation_one(event.x, event.ts, labels[other], labels[first])
        assert found is not None  # noqa: S101  there are two
        return found
    items = [] if told.hides_rival.any() else model.model.explain_one(event.x)
    if against is not None:
        raise ConfigError("against: this kind of model compares with the next label alone")
    if not items:
        raise ConfigError(
            "there is no evidence: no value of the event is known, or a class of fewer examples than "
            "classes.min_learns is nearly as probable, or this kind of model gives none; "
            "model.kind=mixture and naive_bayes do"
        )
    prior = getattr(items, "prior", None)
    if prior is None:
        (before,) = model.predicted([Event("-", {})])
        prior = log_odds(before[first], before[other])
    return Explanation(first, other, prior, items)


def _described(model: Any, item: Item) -> dict[str, Any]:
    counts = (
        model.value_counts(item.attribute, item.value)
        if isinstance(model, CountingModel) and isinstance(item.value, str | bool) and item.value != ""
        else {}
    )
    return {
        "attribute": str(item.attribute),
        "value": item.value,
        "name": value_name(item.value),
        "log_odds": item.log_odds,
        "counts": {str(label): count for label, count in counts.items()},
    }


def _turning(model: QueryModel, event: Event, found: Explanation, label: str) -> dict[str, Any] | None:
    """Return words and values whose removal changes the label; None if there are none.

    Try each alone. Else remove the strongest ones cumulatively until the label changes, and keep a minimal
    set.
    """
    leaving = [item for item in found.items if item.value != ""][:_MOST_LEFT_OUT]
    speaking = [item for item in leaving if item.log_odds > 0]
    tried = [*([item] for item in leaving), *(speaking[:n] for n in range(2, len(speaking) + 1))]
    turned = next(_turned(model, event, tried, label), None)
    if turned is None:
        return None
    chosen, said = turned
    before = 0
    while len(chosen) != before:  # an item that was needed may be redundant once another is kept
        before = len(chosen)
        for item in chosen[::-1]:
            rest = [one for one in chosen if one is not item]
            chosen, said = next(_turned(model, event, [rest], label), (chosen, said))
    first = next(iter(said))
    values = [item.value for item in chosen]
    names = [
        str(one.value) if one.attribute in model.texts else f"{one.attribute}={one.value}" for one in chosen
    ]
    return {"without": values, "named": names, "label": first, "probability": said[first]}


def _turned(
    model: QueryModel, event: Event, tried: Iterable[Sequence[Item]], label: str
) -> Iterator[tuple[Sequence[Item], dict[str, float]]]:
    """Yield the sets of words and values whose removal changes the label, with the new probabilities."""
    said = {name: words(str(event.x[name])) for name in model.texts if name in event.x}
    left = iter(tried)
    while part := list(islice(left, _AT_ONCE)):
        answers = model.predicted(_without(event, items, said) for items in part)
        yield from (pair for pair in zip(part, answers, strict=True) if next(iter(pair[1])) != label)


def _without(event: Event, items: Sequence[Item], said: Mapping[Any, Sequence[str]]) -> Event:
    x: dict[Any, Any] = dict(event.x)
    for name in {item.attribute for item in items}:
        gone = {item.value for item in items if item.attribute == name}
        if name in said:
            x[name] = " ".join(word for word in said[name] if word not in gone)
        else:
            x.pop(name, None)
    return Event(event.id, x, ts=event.ts)


def known_of(model: QueryModel, word: str) -> dict[str, Any]:
    """Return counts and weights of a word or value; raise StreamnbError if the model does not count."""
    if not isinstance(model.model, CountingModel):
        raise ConfigError(
            "this kind of model keeps no counts of words: model.kind=mixture and naive_bayes do"
        )
    model.predicted([Event("-", {})])  # refuses a model that has learned nothing
    return {"word": word, "found": list(_entries(model, model.model, word))}


def _entries(asked_of: QueryModel, model: CountingModel, word: str) -> Iterator[dict[str, Any]]:
    tokens = list(dict.fromkeys(words(word)))
    stopped = model.statistics.stop_words()
    for kind, name in model.statistics.layout.groups:
        for value in [word] if kind == NOMINAL else tokens:
            counts = model.value_counts(name, value)
            if counts or (name, value.encode()) in stopped:
                yield {
                    "attribute": str(name),
                    "value": value,
                    "counts": {str(label): count for label, count in counts.items()},
                    "weights": _weights(asked_of, name, value, is_text=kind != NOMINAL) if counts else {},
                    "is_stop_word": not counts,
                }


def _weights(model: QueryModel, name: Any, value: str, *, is_text: bool) -> dict[str, float]:
    """Return the value's contribution, alone, to the log odds of each label against all others (nats)."""
    base: dict[Any, Any] = {name: ""} if is_text else {}
    with_it, without = model.predicted([Event("-", {name: value}), Event("-", base)])
    odds = {v: log_odds(p, 1.0 - p) - log_odds(without[v], 1.0 - without[v]) for v, p in with_it.items()}
    return {label: max(-LIMIT, min(LIMIT, one)) for label, one in odds.items()}
