"""Dead letters that a user of the page looks at, corrects or skips, read from the log on demand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from streamnb.config import Config
from streamnb.engine.ports import Forwarded, Log, Partition
from streamnb.errors import StreamnbError
from streamnb.runtime.log_follower import LogThread
from streamnb.runtime.resent_dead_letters import ResentDeadLetters
from streamnb.runtime.stored_dead_letters import DeadLetterReplay, StoredDeadLetter, letter_at, settle_letters

_ANSWER_SECONDS = 10.0
_KEPT_SECONDS = 2.0


class InspectedLetter(NamedTuple):
    """A dead letter with its original record.

    Attributes:
        letter: the dead letter.
        key, value: of the original record, as far as the log still has them.
        is_whole: False if a part of the record is gone.
        id: the id in the record; None if there is none.
        outcome: why it cannot be sent as it is; empty if it can.
        settled: why it can neither be corrected nor skipped; empty if it can.
    """

    letter: StoredDeadLetter
    key: bytes | None
    value: bytes
    is_whole: bool
    id: str | None
    outcome: str
    settled: str


class DeadLetterDesk:
    """Reads and settles dead letters one at a time.

    Invariant: one thread uses the log, so that two users of one server never settle a letter at once.

    Args:
        config: the learner's configuration.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._log = LogThread(config, "deadletterdesk", _ANSWER_SECONDS)
        self._progress: tuple[float, Mapping[Partition, Forwarded] | None] = 0.0, None

    def inspect(self, place: str) -> InspectedLetter:
        """Return the dead letter at a place such as ``0/17``. Raises StreamnbError."""
        return self._log.answer(lambda log: self._inspected(log, place))

    def correct(self, place: str, value: bytes, new_id: str | None) -> str | None:
        """Send a corrected record in place of a dead letter; return the id of its event.

        Raises StreamnbError, and then sends nothing; after Unavailable the record may have been sent.
        """

        def work(log: Log) -> str | None:
            letter = letter_at(log, self._config, place)
            settle_letters(log, self._config, [letter], None, is_dry=True)
            record, id_ = DeadLetterReplay(self._config, log).corrected(letter, value, new_id)
            settle_letters(log, self._config, [letter], record)
            self._progress = 0.0, None
            return id_

        return self._log.answer(work)

    def skip(self, places: Sequence[str], *, dry_run: bool = False) -> None:
        """Settle dead letters without sending them, all or none. Raises StreamnbError."""

        def work(log: Log) -> None:
            letters = [letter_at(log, self._config, place) for place in places]
            settle_letters(log, self._config, letters, None, is_dry=dry_run)
            self._progress = 0.0, None

        self._log.answer(work)

    def is_settled(self) -> Callable[[str, str], bool | None]:
        """Return a function of place and reason: True for a settled letter, None if that is not known."""
        try:
            found = self._log.answer(self._forwarded)
        except StreamnbError:
            return lambda _place, _reason: None
        topic = self._config.topics.dead_letters
        walks: dict[int, ResentDeadLetters] = {}

        def known(place: str, reason: str) -> bool:
            number, offset = map(int, place.split("/"))
            if number not in walks:
                walks[number] = ResentDeadLetters(found.get(Partition(topic, number)))
            return bool(walks[number].why_settled(offset, reason))

        return known

    def close(self) -> None:
        """Read no more."""
        self._log.close()

    def _forwarded(self, log: Log) -> Mapping[Partition, Forwarded]:
        since, found = self._progress
        if found is None or time.monotonic() > since + _KEPT_SECONDS:
            found = log.forwarded(self._config.topics.dead_letters)
            self._progress = time.monotonic(), found
        return found

    def _inspected(self, log: Log, place: str) -> InspectedLetter:
        letter = letter_at(log, self._config, place)
        replay = DeadLetterReplay(self._config, log)
        whole = replay.original(letter)
        record = whole or replay.remains(letter)
        partition = letter.record.partition
        walk = ResentDeadLetters(log.forwarded(partition.topic).get(partition))
        settled = walk.why_settled(letter.record.offset, letter.reason)
        id_ = replay.id_of(record) if record.topic else None
        outcome = replay.judged(letter).message
        return InspectedLetter(letter, record.key, record.value, whole is not None, id_, outcome, settled)
