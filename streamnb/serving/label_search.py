"""The labels of one event, searched in the whole topic of labels, a part at each request."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from typing import NamedTuple

import msgspec

from streamnb.config import Config
from streamnb.engine.ports import Log, Partition
from streamnb.errors import MalformedEvent, OutOfRange
from streamnb.queries.resolved_labels import ResolvedLabels
from streamnb.runtime.log_follower import LogThread

_STEP_SECONDS, _ANSWER_SECONDS = 0.5, 0.05
_MOST_TOLD = 0.99  # share of a search that continues
_MOST_SEARCHES, _AT_ONCE = 20, 1000


class _Named(msgspec.Struct):
    """The field that names the event of a label record; a retraction has none."""

    id: str | None = None


_named = msgspec.json.Decoder(_Named).decode


class SearchedLabels(NamedTuple):
    """Labels of an event, as far as the topic was searched.

    Attributes:
        labels: those found.
        share: of the topic's records that were read, 1 if all.
        is_whole: True if the topic still has its first records, so that no label is missing.
    """

    labels: ResolvedLabels
    share: float
    is_whole: bool


class _Search:
    """One search: the labels found, the next offset of each partition, and the step that runs or ran last."""

    def __init__(self, config: Config) -> None:
        self.labels = ResolvedLabels(config)
        self.next: dict[Partition, int] = {}
        self.is_whole = True
        self.share = 0.0
        self.step: Future[SearchedLabels] | None = None


class LabelSearch:
    """Searches of the newest ids, each of which continues at its last offset.

    Invariant: one thread searches, and each search has at most one step that waits or runs. So a request is
    answered as fast for a long topic as for a short one.

    Args:
        config: the learner's configuration, with a topic of labels.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._log = LogThread(config, "labelsearch", _ANSWER_SECONDS)
        self._lock = threading.Lock()
        self._searches: OrderedDict[str, _Search] = OrderedDict()

    def find(self, event_id: str) -> SearchedLabels:
        """Continue the search for half a second, and return its result, without labels if it takes longer.

        Raises StreamnbError.
        """
        with self._lock:
            search = self._searches.setdefault(event_id, _Search(self._config))
            self._searches.move_to_end(event_id)
            if len(self._searches) > _MOST_SEARCHES:
                self._searches.popitem(last=False)
            if search.step is None or search.step.done():
                search.step = self._log.submit(lambda log: self._find(log, event_id, search))
            step = search.step
        try:
            return step.result(_ANSWER_SECONDS)
        except LateError:
            share = min(search.share, _MOST_TOLD)
            return SearchedLabels(ResolvedLabels(self._config), share, is_whole=False)

    def close(self) -> None:
        """Search no more."""
        self._log.close()

    def _find(self, log: Log, event_id: str, search: _Search) -> SearchedLabels:
        deadline = time.monotonic() + _STEP_SECONDS
        n_read = n_records = 0
        for partition, (first, end) in log.offset_ranges(self._config.topics.labels).items():
            at = max(first, search.next.get(partition, first))
            search.is_whole &= first == 0
            while at < end and time.monotonic() < deadline:
                at = self._read(log, search, partition, at, event_id) or end
            search.next[partition] = at
            n_read, n_records = n_read + at - first, n_records + end - first
        search.share = n_read / n_records if n_records else 1.0
        return SearchedLabels(search.labels, search.share, search.is_whole)

    def _read(self, log: Log, search: _Search, partition: Partition, at: int, event_id: str) -> int | None:
        """Read some records; return the next offset, None after the last record."""
        try:
            records = log.read(partition, at, _AT_ONCE)
        except OutOfRange:  # retention has just removed them
            search.is_whole = False
            return log.offsets(partition)[0]
        for record in records:
            named = None
            with suppress(msgspec.MsgspecError, ValueError, RecursionError):
                named = _named(record.value).id
            if named in {event_id, None}:
                with suppress(MalformedEvent, ValueError, RecursionError):
                    search.labels.add(record)
        return records[-1].offset + 1 if records else None
