"""What is published of predictions: what each says, and its record, or the dead letter in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from streamnb.engine.letters import unpublished
from streamnb.engine.named_classes import by_class, shortened
from streamnb.engine.ports import NewRecord, Record, tuples
from streamnb.engine.settings import Settings
from streamnb.engine.tally import LearnerTally
from streamnb.events import UNPUBLISHED, Event, Evidence, ModelInfo, Prediction
from streamnb.model.evaluation.decisions import Decided
from streamnb.model.evaluation.unseen import told_unseen
from streamnb.model.interface.predictions import Posteriors
from streamnb.wire.codec import encode_predictions
from streamnb.wire.values import LONGEST_NAME

_VALUE = attrgetter("value")
_UNDECIDED: Mapping[str, Any] = MappingProxyType({})  # where nobody asks what to decide


class Publishing(NamedTuple):
    """How a learner publishes.

    Attributes:
        settings: which topics, and what is told.
        tally: what is counted on the way.
        hypotheses: those of the model; none where it has no posterior over any.
    """

    settings: Settings
    tally: LearnerTally
    hypotheses: Sequence[str]

    def predictions(
        self,
        events: Sequence[Event],
        truths: Sequence[str | None],
        posteriors: Posteriors,
        ages: Sequence[int],
        decided: Decided | None,
        now: float,
        evidence: tuple[Evidence, ...] | None,
        journal: int | None = None,
    ) -> list[Prediction]:
        """What is said of events by a model that had learned so many."""
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
                repeat(_UNDECIDED, len(ages)) if decided is None else decided.told(),
                self._weighed(posteriors),
                ages,
                strict=True,
            )
        ]

    def published(
        self, predictions: Sequence[Prediction], records: Sequence[Record], now: float
    ) -> list[NewRecord]:
        """The records of predictions of the events of `records`."""
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
        """Predictions; of those that are too large for their topic as many classes as fit.

        Where none does, the dead letters of their events stand in place of them.
        """
        most = self.settings.max_bytes
        if most and max(map(len, map(_VALUE, outputs)), default=0) + LONGEST_NAME * 4 > most:
            for i, (output, record) in enumerate(zip(outputs, records, strict=True)):
                beyond = len(output.key or b"") + len(output.value) - most
                if beyond > 0 and self.settings.top:
                    smaller = encode_predictions([shortened(predictions[i], beyond)])[0]
                    output = output._replace(value=smaller)  # noqa: PLW2901
                    beyond = len(output.key or b"") + len(output.value) - most
                    outputs[i] = output
                if beyond > 0:
                    outputs[i] = unpublished(self.settings, output, record, now, predictions[i].model.journal)
                    self.tally.dead_letters[UNPUBLISHED] += 1
        return outputs

    def _unseen(self, ages: Sequence[int], posteriors: Posteriors) -> Iterable[float | None]:
        """P(a label that was never learned) of each event, where predictions tell it."""
        if not self.settings.unseen:
            return repeat(None, len(ages))
        unseen = told_unseen(np.array(ages, dtype=np.int64), posteriors.known, posteriors.held)
        found: list[float | None] = unseen.tolist()
        return found

    def _weighed(self, posteriors: Posteriors) -> Iterator[dict[str, float] | None]:
        """Hypothesis -> P(h | all learned before) of each event; None where nobody asks or there are none."""
        if not self.settings.hypotheses or not self.hypotheses or posteriors.hypotheses is None:
            return repeat(None, len(posteriors.known))
        return (dict(zip(self.hypotheses, row, strict=True)) for row in posteriors.hypotheses.tolist())
