"""What was learned by now, for the live page."""

from __future__ import annotations

import time
from collections import Counter

from streamnb.cli.reports import charts
from streamnb.cli.reports.charts import card, missing, tile
from streamnb.cli.serving.replica import Replica
from streamnb.errors import StreamnbError
from streamnb.model.naive_bayes.counting_model import CountingModel
from streamnb.model.naive_bayes.most_informative import strongest
from streamnb.pictures import Bar, Markup, bars, joined, number

_CLASSES, _TOP = 12, 8
_MODEL_SECONDS = 20.0


class Learned:
    """Shows it.

    Args:
        replica: the model by now.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._now: tuple[float, Markup] = 0.0, Markup()

    def shown(self) -> Markup:
        """Classes, size and strongest words; computed seldom, for the replica stands still for it."""
        self._replica.wake()
        made, shown = self._now
        if not shown or time.monotonic() > made + _MODEL_SECONDS:
            try:
                with self._replica.lock:
                    model = self._replica.asked().model
                    weights = Counter(dict(model.class_weights)).most_common(_CLASSES)
                    sizes = len(model.class_weights), model.n_attributes, model.n_events, model.n_bytes
                    counted = weights if isinstance(model, CountingModel) else []
                    words = [strongest(model.statistics, label, _TOP) if n else [] for label, n in counted]
            except StreamnbError as error:
                return missing(str(error))
            names = ("Classes", "Words and values", "Events learned", "Bytes of memory")
            tiles = charts.tiles(tile(a, number(n), value=n) for a, n in zip(names, sizes, strict=True))
            cards = [
                card(
                    bars(
                        f"{label}, {number(n)} learned: log odds",
                        [Bar(f"{a}: {v}", odds) for a, v, odds, _ in sorted(found, key=lambda row: -row[2])],
                    )
                )
                for (label, n), found in zip(counted, words, strict=True)
            ]
            shown = joined([tiles, *(cards or [missing("This kind of model keeps no counts of words.")])])
            self._now = time.monotonic(), shown
        return shown
