"""Published predictions: content, records, and dead letters in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamnb.engine.ports import NewRecord, Record, tuples
from streamnb.engine.processing.counters import Counters
from streamnb.engine.processing.dead_letters import unpublished
from streamnb.engine.processing.named_classes import by_class, shortened
from streamnb.engine.settings import Settings
from streamnb.events import UNPUBLISHED, Attribution, Event, ModelInfo, Prediction
from streamnb.formats.codec import encode_predictions
from streamnb.formats.json_value_checks import LONGEST_NAME
from streamnb.models.interface.predictions import Posteriors
from streamnb.scoring.decision_rule import DecisionBatch
from streamnb.scoring.new_class_probability import published_new_class_probability

_VALUE = attrgetter("value")
_UNDECIDED: Mapping[str, Any] = MappingProxyType({})  # without a decision rule


def with_fewer_items(prediction: Prediction, n_bytes: int) -> Prediction:
    """Return a prediction shortened by `n_bytes` if possible; the strongest evidence that fits stays."""
    sizes = [len(msgspec.json.encode(item)) + 1 for item in prediction.evidence or ()]  # with a comma
    left, kept = sum(sizes) - n_bytes, []
    for item, size in zip(prediction.evidence or (), sizes, strict=True):
        if size <= left:
            kept.append(item)
            left -= size
    return msgspec.structs.replace(prediction, evidence=tuple(kept)) if sizes else prediction


class PredictionPublishing(NamedTuple):
    """Publisher of a learner's predictions.

    Attributes:
        settings: topics and contents.
        tally: counters.
        hypotheses: hypotheses of the model, or none.
    """

    settings: Settings
    tally: Counters
    hypotheses: Sequence[str]

    def predictions(
        self,
        events: Sequence[Event],
        truths: Sequence[str | None],
        posteriors: Posteriors,
        ages: Sequence[int],
        decided: DecisionBatch | None,
        now: float,
        evidence: tuple[Attribution, ...] | None,
        journal: int | None = None,
    ) -> list[Prediction]:
        """Return the predictions of events, given the model's age at each."""
        name = self.settings.name
        if evidence and posteriors.hides_rival:
            evidence = ()
        return [
            Prediction(
                id=event.id,
                label=label,
                probability=None if label is None else probabilities[label],
                probabilities=probabilities,
                rest=rest,
                status="empty" if label is None else "ready",
                unseen=unseen,
                truth=truth,
                evidence=evidence,
                hypotheses=hypotheses,
                model=ModelInfo(name, age, journal),
                ts=now,
                **what,
            )
            for event, truth, label, (probabilities, rest), unseen, what, hypotheses, age in zip(
                events,
                truths,
                posteriors.labels(),
                by_class(posteriors, self.settings.top),
                self._unseen(ages, posteriors),
                repeat(_UNDECIDED, len(ages)) if decided is None else decided.fields(),
                self._weighed(posteriors),
                ages,
                strict=True,
            )
        ]

    def published(
        self, predictions: Sequence[Prediction], records: Sequence[Record], now: float
    ) -> list[NewRecord]:
        """Return the records of the predictions of `records`."""
        self.tally.predicted.update([prediction.label for prediction in predictions])
        keys, values = [one.id.encode() for one in predictions], encode_predictions(predictions)
        outputs = tuples(NewRecord, zip(repeat(self.settings.predictions), keys, values, repeat(())))
        return self._fitting(outputs, predictions, records, now)

    def _fitting(
        self,
        outputs: list[NewRecord],
        predictions: Sequence[Prediction],
        records: Sequence[Record],
        now: float,
    ) -> list[NewRecord]:
        """Shorten evidence, then probabilities, of large predictions, else make a dead letter."""
        most = self.settings.max_bytes
        shorteners = [with_fewer_items, *([shortened] if self.settings.top else [])]
        if most and max(map(len, map(_VALUE, outputs)), default=0) + LONGEST_NAME * 4 > most:
            for i, (output, record) in enumerate(zip(outputs, records, strict=True)):
                prediction, limit = predictions[i], most - len(output.key or b"")
                for shorten in shorteners:
                    if len(outputs[i].value) > limit:
                        prediction = shorten(prediction, len(outputs[i].value) - limit)
                        outputs[i] = output._replace(value=encode_predictions([prediction])[0])
                if len(outputs[i].value) > limit:
                    outputs[i] = unpublished(self.settings, outputs[i], record, now, prediction.model.journal)
                    self.tally.dead_letters[UNPUBLISHED] += 1
        return outputs

    def _unseen(self, ages: Sequence[int], posteriors: Posteriors) -> Iterable[float | None]:
        """Return P(new class) of each event, if published."""
        if not self.settings.unseen:
            return repeat(None, len(ages))
        unseen = published_new_class_probability(
            np.array(ages, dtype=np.int64), posteriors.known, posteriors.held
        )
        found: list[float | None] = unseen.tolist()
        return found

    def _weighed(self, posteriors: Posteriors) -> Iterator[dict[str, float] | None]:
        """Return hypothesis -> P(h | events learned before) of each event, if published."""
        if not self.settings.hypotheses or not self.hypotheses or posteriors.hypotheses is None:
            return repeat(None, len(posteriors.known))
        return (dict(zip(self.hypotheses, row, strict=True)) for row in posteriors.hypotheses.tolist())
