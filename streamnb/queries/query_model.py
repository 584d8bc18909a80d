"""Model that commands query: which one, its age, and its questions."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from streamnb.config import CLASSIFIERS, Config
from streamnb.engine.journal.journal_history import find, last
from streamnb.engine.labels.batches import PredictedBatch
from streamnb.engine.processing.named_classes import ranked_by_class
from streamnb.engine.processing.prediction_pipeline import PredictionPipeline
from streamnb.engine.settings import Settings
from streamnb.errors import ConfigError, MalformedEvent, SnapshotError, StreamnbError
from streamnb.events import Event
from streamnb.features.attributes import some_of
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import ENTITY, EventSchema
from streamnb.formats.terminal_text import duration, emit, printable
from streamnb.models.interface.attribution_parts import LIMIT
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.river_stream_model import RiverStreamModel
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.unused_values import UnusedValue
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.persistence.model_files import LoadedModel, found, newest
from streamnb.runtime import context, factories
from streamnb.scoring.decision_scores import ServedDecisions
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import did_you_mean, pluralize

_MOST_TOLD = 10
_PLAIN = PredictionPipeline(Settings(EventSchema(), unseen=True))


class QueryModel(NamedTuple):
    """A model that answers queries.

    Attributes:
        model: the classifier.
        schema: decodes events.
        texts: attributes that are texts.
        told: facts about the snapshot: file, journal record, age, number of later journal records (None if
            unknown), and whether it belongs to another log.
        labels: hint for logs without labels.
        pipeline: steps from posteriors to predictions.
    """

    model: Any
    schema: EventSchema
    texts: Sequence[str]
    told: dict[str, Any]
    labels: str = "events.label is the path of labels"
    pipeline: PredictionPipeline = _PLAIN

    @property
    def min_learns(self) -> int:
        """Examples that a class needs to be predicted."""
        return self.pipeline.settings.min_learns

    def event(self, text: str) -> Event:
        """Return the event of a text, or of the JSON object in it; raise StreamnbError."""
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raise ConfigError("the text is not UTF-8: convert it, with iconv for example") from None
        if text.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):
                return self.of_object(json.loads(text))
            return self.decode(raw)
        return self.of_text(text)

    def of_object(self, given: Mapping[str, Any]) -> Event:
        """Return the event of a JSON object, with or without an id; raise MalformedEvent."""
        return self.decode(json.dumps(_with_id(given, *self.schema.id_keys)).encode())

    def of_text(self, text: str) -> Event:
        """Return the event of a text; raise ConfigError."""
        if not self.texts:
            example = '{"features": {"links": 3}}'
            text = f"this model reads no text: give an event as JSON, such as '{example}'"
            raise ConfigError(f"{text}; `streamnb inspect` shows its attributes")
        return Event("-", {self.texts[0]: text})

    def knows(self, attribute: str) -> bool:
        """Return True if the model has learned of an attribute, or does not list what it has learned."""
        knows = getattr(self.model, "knows", None)
        return attribute == ENTITY or knows is None or knows(attribute)

    def strange(self, event: Event) -> str:
        """Return a warning if the model has learned none of the event's attributes; else empty."""
        if any(map(self.knows, event.x)):
            return ""
        learned = getattr(self.model, "learned_attributes", [place.name for place in self.schema.places])
        asked_of = f"nothing was learned of {some_of(event.x)}" if event.x else "the event has no attribute"
        near = "".join(did_you_mean(str(name), list(map(str, learned))) for name in islice(event.x, 1))
        return f"{asked_of}; the model has learned {some_of(dict.fromkeys(learned))}{near}" if learned else ""

    def warnings(self, events: Sequence[Event], posteriors: Posteriors) -> list[Message | None]:
        """Return a warning for each event; None for an event that the model understands.

        A warning means that the model has learned no value of the event, or other types of its values.
        """
        if posteriors.used is None:
            return [self._warning(event) for event in events]
        xs = [{name: value for name, value in event.x.items() if name != ENTITY} for event in events]
        used = zip(events, posteriors.used.tolist(), self.model.lookup.other_spellings(xs), strict=True)
        return [self._unused(e, near) if is_used else self._nothing_used(e) for e, is_used, near in used]

    def _warning(self, event: Event) -> Message | None:
        model, event = self.own(event)
        if not isinstance(model.model, CountingModel):
            return _unknown(model.strange(event))
        (warning,) = model.warnings([event], model.model.predict_posteriors([event.x]))
        return warning

    def _nothing_used(self, event: Event) -> Message | None:
        unused = self.model.unused_values({name: value for name, value in event.x.items() if name != ENTITY})
        if all(one.reason == "attribute" for one in unused):
            return _unknown(self.strange(event))
        rest = len(unused) - _MOST_TOLD
        more = f", and {pluralize(rest, 'other value')}" if rest > 0 else ""
        told = "; ".join(one.message for one in unused[:_MOST_TOLD])
        return _unknown(
            f"the model knows no value of this event, so it goes by how frequent labels are: {told}{more}"
        )

    def _unused(self, event: Event, near: Sequence[UnusedValue]) -> Message | None:
        found = [*self.model.lookup.other_types(event.x), *near]
        text = "; ".join(one.message for one in found[:_MOST_TOLD])
        names = [str(one.attribute) for one in found]
        return Message("values-not-used", text, attributes=names) if text else None

    def own(self, event: Event) -> tuple[QueryModel, Event]:
        """Return the model of the event's tenant, if there are tenants, and the event without its tenant."""
        if not isinstance(self.model, TenantModels):
            return self, event
        name = self.model.tenant_of(event.x)
        alone = Event(event.id, self.model.without_tenant(event.x), event.label, event.weight, event.ts)
        told = {**self.told, "file": f"{self.told['file']}, tenant {name or '(none)'}"}
        return self._replace(model=self.model.speaking_of(event.x), told=told), alone

    def decode(self, raw: bytes) -> Event:
        """Decode the event of a record; raise MalformedEvent."""
        return decode_event(raw, self.schema)

    def predicted(self, events: Iterable[Event]) -> list[dict[str, float]]:
        """Return P(label | event) of each, the most probable label first; raise SnapshotError for none."""
        return ranked_by_class(self.predict(events).posteriors)

    def predict(self, events: Iterable[Event]) -> PredictedBatch:
        """Return the predictions of events; raise SnapshotError if nothing may be predicted."""
        events = list(events)
        try:
            posteriors = self.model.predict_posteriors([e.x for e in events], [e.ts for e in events])
        except (TypeError, ValueError) as error:
            raise MalformedEvent("wrong-type", "$", str(error)) from error
        predicted = self.pipeline.predict(posteriors, self.model)
        is_empty = ~predicted.posteriors.probabilities.any(axis=1)
        if is_empty.any() and isinstance(self.model, TenantModels):
            name = self.model.tenant_of(events[int(is_empty.argmax())].x)
            raise SnapshotError(
                f"{self.told['file']}: nothing has been learned yet of "
                + (f"the tenant {printable(name)}" if name else "events that name no tenant")
            )
        if is_empty.any():
            missing = "; ".join(readiness(self.model.class_weights, self.min_learns)["missing"])
            raise SnapshotError(
                f"{self.told['file']}: nothing may be predicted yet (classes.min_learns): {missing}"
                if self.quarantined
                else f"{self.told['file']}: nothing has been learned yet: no event had a label; "
                f"`streamnb run` learns, and {self.labels}"
            )
        return predicted

    @property
    def quarantined(self) -> set[Any]:
        """The classes that have too few examples to be predicted."""
        least = self.min_learns
        return {k for k, n in self.model.class_weights.items() if n < least} if least > 1 else set()

    def with_examples(self, said: Mapping[str, float]) -> list[str]:
        """Return the labels of an answer, without those whose examples were all unlearned."""
        weights = {str(label): weight for label, weight in self.model.class_weights.items()}
        return [label for label, p in said.items() if p or weights.get(label)]

    def say(self) -> None:
        """Print the snapshot that answers, on standard error."""
        n, behind = self.told["journal"], self.told["behind"]
        at = "" if n is None else f", journal record {n}"
        if self.told["strange"]:
            at += ", which the journal of this log does not have"
        if behind is not None:
            at += f", {pluralize(behind, 'record')} behind the last" if behind else ", the last"
        age = self.told["seconds"]
        old = "of unknown age" if age is None else f"{duration(age)} old"
        emit(Message("snapshot-answers", f"by {self.told['file']}{at}, {old}", **self.told))


def _unknown(text: str) -> Message | None:
    """Return the warning that no value of an event is known; None without a text."""
    return Message("event-unknown-to-model", text) if text else None


def _with_id(given: Mapping[str, Any], name: str, *more: str) -> Mapping[str, Any]:
    """Return the event with an id if it has none, or null; leave a value that cannot hold one."""
    found = given.get(name)
    if more and isinstance(found, dict | None):
        return {**given, name: _with_id(found or {}, *more)}
    return given if more or found is not None else {**given, name: "-"}


def open_query_model(options: argparse.Namespace, snapshot: str | None = None) -> QueryModel:
    """Open the model that the options name: the newest snapshot, or another; raise StreamnbError."""
    config = context.load_config(options)
    loaded = _loaded(config, snapshot or options.snapshot)
    model, learned = loaded.model, loaded.config
    if not hasattr(model, "predict_posteriors"):
        if not (hasattr(model, "predict_proba_one") and hasattr(model, "clone")):  # as River's have both
            raise SnapshotError(
                f"{loaded.path}: a {type(model).__name__} is not a classifier; `streamnb.load` loads it"
            )
        model = RiverStreamModel(model, "")
    told = _describe_loaded(loaded, config)
    if learned is None:
        return QueryModel(model, EventSchema(), ["text"], told)
    parts = loaded.snapshot.parts
    decisions = ServedDecisions.from_state(*parts["decisions"]) if "decisions" in parts else None
    return query_model_of(model, learned, told, decisions)


def query_model_of(
    model: Any, learned: Config, told: dict[str, Any], decisions: ServedDecisions | None = None
) -> QueryModel:
    """Return the model of a configuration, with the decisions that it has served so far."""
    settings = replace(factories.settings(learned), unseen=True)
    if settings.decision and decisions is None:
        decisions = ServedDecisions(settings.decision, 1)
    schema = settings.schema
    reads_texts = learned.model.kind not in CLASSIFIERS or CLASSIFIERS[learned.model.kind].reads_texts
    texts = [place.name for place in schema.places if place.kind == "text"] if reads_texts else []
    pipeline = PredictionPipeline(settings, decisions)
    made = QueryModel(model, schema, list(dict.fromkeys(texts)), told, pipeline=pipeline)
    topic = learned.topics.labels
    return made._replace(labels=f"`streamnb label ID LABEL` writes to {topic}") if topic else made


def log_odds(p: float, q: float) -> float:
    """Return log p/q in nats, within +-LIMIT."""
    return (math.log(p) if p > 0.0 else -LIMIT) - (math.log(q) if q > 0.0 else -LIMIT) if p != q else 0.0


def readiness(weights: Mapping[Any, float], min_learns: int) -> dict[str, Any]:
    """Return if a model distinguishes classes yet, and what is missing.

    The status is "empty" if nothing was learned, "warming" if fewer than two classes may be predicted, else
    "ready"; then only further classes are missing.
    """
    met = {str(label): weight for label, weight in weights.items() if weight > 0.0}
    few = [label for label, weight in met.items() if weight < min_learns] if min_learns > 1 else []
    missing = [f"label {label} has {met[label]:,g} of {min_learns:,} examples" for label in few[:_MOST_TOLD]]
    missing += [f"so have {len(few) - _MOST_TOLD:,} other labels"] if len(few) > _MOST_TOLD else []
    missing += ["no event has a second label"] if len(met) == 1 else [] if met else ["no event has a label"]
    status = "empty" if not met else "warming" if len(met) - len(few) < 2 else "ready"
    return {"status": status, "missing": missing}


def _loaded(config: Config, given: str | None) -> LoadedModel:
    report = factories.report_damaged_snapshot
    if given is None:
        return newest(config.snapshot_folder, report)
    is_number = given.isdecimal() and not Path(given).exists()
    return found(
        config.snapshot_folder / f"snapshot-{int(given):020d}.snb" if is_number else Path(given), report
    )


def _describe_loaded(loaded: LoadedModel, config: Config) -> dict[str, Any]:
    """Return facts about a snapshot; read the journal only of an embedded log, which is fast."""
    snapshot, written, behind, strange = loaded.snapshot, None, None, False
    with suppress(StreamnbError):
        if snapshot.journal_n >= 0 and not config.log.is_kafka:
            with closing(context.existing_log(config)) as log:
                journal = log.partitions(config.topics.journal)[0]
                own, end = find(log, journal, snapshot.journal_n), last(log, journal)
                strange = own is None or end is None or own.record.digest != snapshot.digest
                if own is not None and end is not None and not strange:
                    written, behind = own.record.now, end.record.n - snapshot.journal_n
    with suppress(OSError):  # removed since it was read
        written = os.path.getmtime(loaded.path) if written is None else written  # noqa: PTH204
    return {
        "file": str(loaded.path),
        "journal": snapshot.journal_n if snapshot.journal_n >= 0 else None,
        "seconds": None if written is None else round(max(0.0, time.time() - written), 3),
        "behind": behind,
        "strange": strange,
    }
