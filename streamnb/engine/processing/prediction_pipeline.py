"""From posteriors to published predictions: one path for learner, scorers, Spark, HTTP and commands.

    posteriors -> quarantine -> probability of a new class -> decision -> most probable classes -> records

The first three steps give a `PredictedBatch`, from which queries answer. The last two make the records of the
predictions topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

import msgspec
import numpy as np

from streamnb.engine.labels.batches import EventBatch, PredictedBatch
from streamnb.engine.ports import NewRecord, tuples
from streamnb.engine.processing.counters import Counters
from streamnb.engine.processing.dead_letters import unpublished
from streamnb.engine.processing.named_classes import by_class, shortened
from streamnb.engine.settings import Settings
from streamnb.events import UNPUBLISHED, ModelInfo, Prediction
from streamnb.formats.codec import encode_predictions
from streamnb.formats.json_value_checks import LONGEST_NAME
from streamnb.formats.prediction_columns import PredictionColumns, encode_prediction_columns
from streamnb.formats.trace_context import Headers, trace_headers
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import StreamModel
from streamnb.scoring.decision_rule import weights_before
from streamnb.scoring.decision_scores import ServedDecisions
from streamnb.scoring.new_class_probability import published_new_class_probability


def with_fewer_items(prediction: Prediction, n_bytes: int) -> Prediction:
    """Return a prediction shortened by `n_bytes` if possible; the strongest evidence that fits stays."""
    sizes = [len(msgspec.json.encode(item)) + 1 for item in prediction.evidence or ()]  # with a comma
    left, kept = sum(sizes) - n_bytes, []
    for item, size in zip(prediction.evidence or (), sizes, strict=True):
        if size <= left:
            kept.append(item)
            left -= size
    return msgspec.structs.replace(prediction, evidence=tuple(kept)) if sizes else prediction


class PredictionPipeline:
    """The steps from a posterior to a published prediction, made once for settings and a decision rule.

    Args:
        settings: quarantine, contents and topic of predictions.
        decisions: decides; None without a decision rule.
    """

    def __init__(self, settings: Settings, decisions: ServedDecisions | None = None) -> None:
        self.settings, self.decisions = settings, decisions
        self._is_weighing = decisions is not None and decisions.rule.is_weighing

    @property
    def uses_weights(self) -> bool:
        """True if the learned weights of classes change a prediction."""
        return self._is_weighing or self.settings.min_learns > 1

    def predict(
        self,
        posteriors: Posteriors,
        model: StreamModel,
        ages: Sequence[int] | None = None,
        before: Floats | None = None,
        truths: Sequence[str | None] = (),
    ) -> PredictedBatch:
        """Return what may be published of n posteriors.

        Args:
            posteriors: of the model.
            model: has made them.
            ages: events learned before each; None for an unchanged model.
            before: class weights before each, see `weights_before`; None for an unchanged model.
            truths: labels known at prediction time.
        """
        if self.uses_weights and before is None:
            before = weights_before(posteriors.classes, model.class_weights)
        if before is not None and self.settings.min_learns > 1:
            posteriors = posteriors.quarantine(before, self.settings.min_learns)
        if not (self.settings.unseen or self.decisions is not None):
            return PredictedBatch(posteriors)
        known = posteriors.known
        events = np.full(len(known), model.n_events) if ages is None else np.array(ages, dtype=np.int64)
        unseen = published_new_class_probability(events, known, posteriors.held)
        if self.decisions is None:
            return PredictedBatch(posteriors, unseen)
        weights = before if self._is_weighing else None
        return PredictedBatch(posteriors, unseen, self.decisions.decide(posteriors, unseen, weights, truths))

    def predictions(self, batch: EventBatch, hypotheses: Sequence[str] = ()) -> list[Prediction]:
        """Return the predictions of a predicted batch; the model has these `hypotheses`."""
        name, posteriors = self.settings.name, batch.predicted.posteriors
        evidence, priors = batch.evidence, batch.priors or repeat(None, len(batch))
        if evidence is not None and posteriors.quarantined is not None:
            hides = posteriors.hides_rival.tolist()
            evidence = [() if hidden else own for own, hidden in zip(evidence, hides, strict=True)]
            priors = [None if hidden else own for own, hidden in zip(priors, hides, strict=True)]
        unseen: Iterable[float | None] = repeat(None, len(batch))
        if self.settings.unseen and batch.predicted.unseen is not None:
            unseen = batch.predicted.unseen.tolist()
        return [
            Prediction(
                id=id_,
                label=label,
                probability=None if label is None else probabilities[label],
                probabilities=probabilities,
                rest=rest,
                status="empty" if label is None else "ready",
                unseen=new,
                truth=truth,
                evidence=items,
                prior=prior,
                hypotheses=weighed,
                model=ModelInfo(name, age, batch.journal),
                ts=batch.now,
                **decided,
            )
            for id_, truth, label, (probabilities, rest), new, decided, items, prior, weighed, age in zip(
                batch.ids,
                batch.labels,
                posteriors.labels(),
                by_class(posteriors, self.settings.top),
                unseen,
                batch.predicted.decided_fields(),
                repeat(None, len(batch)) if evidence is None else evidence,
                priors,
                self._weighed(posteriors, hypotheses),
                batch.ages,
                strict=True,
            )
        ]

    def encode(self, batch: EventBatch, hypotheses: Sequence[str], tally: Counters) -> list[NewRecord]:
        """Return the records of a batch's predictions, or dead letters; count them in `tally`."""
        columns, predictions = self._columns(batch, hypotheses), list[Prediction]()
        if columns is not None:
            counts = np.bincount(columns.best).tolist()
            tally.predicted.update({columns.classes[k]: times for k, times in enumerate(counts) if times})
            values = encode_prediction_columns(columns)
        else:
            tally.predicted.update(batch.predicted.posteriors.labels())
            predictions = self.predictions(batch, hypotheses)
            values = encode_predictions(predictions)
        keys = [event_id.encode() for event_id in batch.ids]
        headers: Iterable[Headers] = repeat(())
        if self.settings.traceparent:
            headers = [trace_headers(record.headers) for record in batch.records]
        outputs = tuples(NewRecord, zip(repeat(self.settings.predictions), keys, values, headers))
        most = self.settings.max_bytes
        if most and max(map(len, values), default=0) + LONGEST_NAME * 4 > most:
            self._shorten(outputs, predictions or self.predictions(batch, hypotheses), batch, tally)
        return outputs

    def _columns(self, batch: EventBatch, hypotheses: Sequence[str]) -> PredictionColumns | None:
        """Return the predictions as columns; None if one has what these do not express."""
        (posteriors, unseen, decisions), settings = batch.predicted, self.settings
        table, n_classes = posteriors.probabilities, len(posteriors.classes)
        is_partial = 0 < settings.top < n_classes or posteriors.quarantined is not None
        if not n_classes or is_partial or decisions is not None:
            return None
        best = table.argmax(axis=1)
        if table[np.arange(best.size), best].min(initial=1.0) <= 0.0:  # the model was empty
            return None
        weights = posteriors.hypotheses
        is_weighed = settings.hypotheses and weights is not None
        return PredictionColumns(
            batch.ids,
            posteriors.classes,
            best,
            table,
            posteriors.known,
            unseen if settings.unseen else None,
            batch.labels,
            batch.evidence,
            batch.priors,
            hypotheses if is_weighed else (),
            np.zeros((best.size, 0)) if weights is None or not is_weighed else weights,
            settings.name,
            batch.ages,
            batch.journal,
            batch.now,
        )

    def _shorten(
        self, outputs: list[NewRecord], predictions: Sequence[Prediction], batch: EventBatch, tally: Counters
    ) -> None:
        """Shorten evidence, then probabilities, of large predictions, else put a dead letter in its place."""
        most = self.settings.max_bytes
        shorteners = [with_fewer_items, *([shortened] if self.settings.top else [])]
        for i, (output, record) in enumerate(zip(outputs, batch.records, strict=True)):
            prediction, limit = predictions[i], most - len(output.key or b"")
            for shorten in shorteners:
                if len(outputs[i].value) > limit:
                    prediction = shorten(prediction, len(outputs[i].value) - limit)
                    outputs[i] = output._replace(value=encode_predictions([prediction])[0])
            if len(outputs[i].value) > limit:
                outputs[i] = unpublished(self.settings, outputs[i], record, batch.now, batch.journal)
                tally.dead_letters[UNPUBLISHED] += 1

    def _weighed(self, posteriors: Posteriors, names: Sequence[str]) -> Iterator[dict[str, float] | None]:
        """Return hypothesis -> P(h | events learned before) of each event, if published."""
        if not self.settings.hypotheses or not names or posteriors.hypotheses is None:
            return repeat(None, len(posteriors.known))
        return (dict(zip(names, row, strict=True)) for row in posteriors.hypotheses.tolist())
