"""One tenant's model with the shared prior, as one model for queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from streamnb.features.event_reader import EventReader
from streamnb.models.interface.attribution import Item, Items, ranked, single_events
from streamnb.models.interface.attribution_parts import LIMIT
from streamnb.models.interface.predictions import Posteriors
from streamnb.values.nominal_values import as_event
from streamnb.values.type_aliases import Times


class TenantView:
    """One tenant's model with the shared prior, as one model for queries.

    Args:
        models: the `TenantModels`, which predict and explain.
        reader: knows the text attributes.
        names: the attribute that names the tenant.
    """

    def __init__(self, models: Any, reader: EventReader, names: Mapping[Any, Any]) -> None:
        self._models, self._reader, self._names = models, reader, names
        self.class_weights, self.n_events = models.class_weights, models.n_events

    def predict_posteriors(self, xs: Iterable[Any], ts: Times = None) -> Posteriors:
        """Return P(v | x) of each event of this tenant."""
        posteriors: Posteriors = self._models.predict_posteriors([{**as_event(x), **self._names} for x in xs])
        return posteriors

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """Explain the first choice against the second; see `NaiveBayes.explain_one`."""
        singles = single_events(*self._reader.texts(x))
        events = [x, {}, *(single.event for single in singles)]
        shown = self.predict_posteriors(events).probabilities
        order = np.argsort(-shown[0], kind="stable")[:2]
        if order.size < 2 or not shown[0, order[1]]:
            return Items.of_classes(int(np.count_nonzero(shown[0])))
        with np.errstate(divide="ignore"):
            odds = np.log(shown[:, order[0]]) - np.log(shown[:, order[1]])
        bases = [1 + single.base for single in singles]
        evidence = np.clip(odds[2:] - odds[bases], -LIMIT, LIMIT).tolist()
        items = (Item(single.name, single.value, odd) for single, odd in zip(singles, evidence, strict=True))
        prior = float(np.clip(odds[1], -LIMIT, LIMIT))
        return Items.with_prior(prior, ranked(items)[:top])
