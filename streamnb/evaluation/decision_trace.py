"""The best decision on each event of an evaluation, with its expected cost: for costs by threshold."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamnb.engine.labels.batches import EventBatch
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.scoring.baselines import LateTruths
from streamnb.scoring.decision_rule import DecisionBatch
from streamnb.scoring.decision_scores import DecisionCell
from streamnb.scoring.threshold_costs import ThresholdScores, by_expected_cost, costs_of

_NONE = -1


class DecisionTrace:
    """Keeps 16 bytes for each event, if the learner has a decision rule; otherwise nothing.

    Args:
        learner: whose decisions are kept.
        late: labels of events, if these may arrive separately.
    """

    def __init__(self, learner: EventProcessor, late: LateTruths) -> None:
        self._learner, self._late = learner, late
        self._expected, self._best, self._truths = array("d"), array("i"), array("i")
        self._numbers: dict[Any, int] = {}
        if learner.decisions is not None:
            learner.event_path.stages = (*learner.event_path.stages, self._add_batch)

    def _add_batch(self, batch: EventBatch) -> None:
        decided, posteriors = batch.predicted.decisions, batch.predicted.posteriors
        if decided is not None:
            self.add(decided, posteriors.classes, batch.labels)

    def add(self, decided: DecisionBatch, classes: Sequence[Any], labels: Sequence[Any]) -> None:
        """Keep the decisions on some events."""
        own = np.array([*map(self._number, classes), _NONE], dtype=np.int32)
        self._expected.frombytes(np.asarray(decided.least, dtype=np.float64).tobytes())
        self._best.frombytes(own[decided.choices].tobytes())
        self._truths.extend(_NONE if label is None else self._number(label) for label in labels)

    def _number(self, label: Any) -> int:
        return self._numbers.setdefault(label, len(self._numbers))

    @property
    def cells(self) -> list[DecisionCell]:
        """Labelled events by truth and decision."""
        return [] if self._learner.decisions is None else self._learner.decisions.cells

    @property
    def by_threshold(self) -> list[ThresholdScores]:
        """Costs by threshold of the expected cost, the configured one among them."""
        decisions = self._learner.decisions
        if decisions is None:
            return []
        rule, names = decisions.rule, [*self._numbers, None]
        late = self._learner.late
        truths = np.array(self._truths, dtype=np.int64) if late is None else self._late.truths
        known = np.flatnonzero(truths[: len(self._best)] != _NONE)
        own = names if late is None else late.scoring.names.names
        best = np.array(self._best, dtype=np.int64)[known]
        costs, is_right = costs_of(
            [names[k] for k in best.tolist()], [own[k] for k in truths[known].tolist()], rule.cost
        )
        expected = np.array(self._expected)[known]
        return by_expected_cost(expected, costs, is_right, rule.cost(None, None), rule.reject)
