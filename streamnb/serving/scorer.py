"""Predicts a share of the events of a log by a replica's model, and publishes that exactly once."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress

from streamnb.config import Config, restored
from streamnb.config.config_literals import literal
from streamnb.engine.journal.checkpoint import positions_of
from streamnb.engine.journal.journal_history import entries, with_heartbeat
from streamnb.engine.journal.recovery import JournalTail
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.engine.processing.counters import Counters
from streamnb.engine.sensor import Committed, WorkerState
from streamnb.engine.worker_states import WorkerStates
from streamnb.errors import ConfigError, JournalError, LogError, MalformedEvent, OutOfRange, UnknownTopic
from streamnb.event_logs.kafka.kafka_log import KafkaLog
from streamnb.event_logs.kafka.partition_sharing import GroupShare
from streamnb.formats.codec import decode_prediction
from streamnb.runtime import factories
from streamnb.serving.replica import Replica
from streamnb.values.messages import Message

_TURN_SECONDS = 0.2
_REST_SECONDS = 0.05
_LOOK_SECONDS = 1.0
_STEP_SECONDS = 2.0  # time to predict for one commit; the consumer group waits for each member
_STEP_BYTES = 16 << 20  # of events, or of outputs
_AT_ONCE = 1000  # records, while the replica stands still
_LOOK_BACK = 100  # offsets, in search of a scorer's prediction
_NUMBERS = re.compile(r"[\d,.%]+")


class Scorer:
    """One of any number of processes that predict in place of the learner.

    It learns nothing: a replica follows the learner. It reads the partitions that its consumer group assigns,
    and predicts only by a model that was at most `scorers.behind` journal records behind the learner at the
    time of the prediction; otherwise it waits.

    Args:
        config: of the learner, its log on Kafka.
        log: used by this scorer only.
        replica: follows, or is about to.
        states: of the scorer; its sensor receives the events.
        stopping: returns True after a request to stop.
        accepts_loss: continue although events were deleted that were never predicted.
    """

    def __init__(
        self,
        config: Config,
        log: KafkaLog,
        replica: Replica,
        states: WorkerStates,
        stopping: Callable[[], bool],
        *,
        accepts_loss: bool = False,
    ) -> None:
        self._config, self._log, self._replica = config, log, replica
        self.commit = config.commit
        self._states, self._sensor = states, states.sensor
        self._stopping, self._accepts_loss = stopping, accepts_loss
        self._journal = log.partitions(config.topics.journal)[0]
        self._journal_id = log.topic_id(config.topics.journal)
        self._topics: Sequence[str] = ()  # event topics, as the learner reads them
        self._left: Sequence[Record] = ()  # read, and not predicted yet
        self._waits_for = "the beginning"
        self._looked = 0.0

    def run(self) -> None:
        """Predict from the first model on, until `stopping`. Raises StreamnbError."""
        self._states.enter(WorkerState.RECOVERING)
        while self._is_hindered():
            if self._stopping():
                return
            self._rest()
        following = self._replica.following
        assert following is not None  # noqa: S101  else it would be hindered
        self._check_name(following.learner.settings.name)
        self._topics = restored(following.checkpoint.origin.config).topics.events
        with closing(self._log.share(self._config.scorers_group, self._topics, factories.owner())) as share:
            try:
                while not self._stopping():
                    self._turn(share)
            except OutOfRange as error:
                way = "bring them back, or go on without them: `streamnb score --accept-loss`"
                if self._accepts_loss:
                    way = "start it again"
                raise OutOfRange(f"events are gone that were not predicted: {error}; {way}") from error

    def _turn(self, share: GroupShare) -> None:
        self._sensor.heartbeat()
        if share.turn():
            self._left = ()
            self._check_topics()
            share.resume(self._begins, self._published, accepts_loss=self._accepts_loss)
            places = list(map(str, sorted(share.positions)))
            text = f"predicts {', '.join(places) or 'no partition'}"
            self._sensor.noted(Message("scorer-assigned", text, partitions=places))
        self._left = self._left or self._gather(share)
        if self._left:
            self._step(share)
        self._look_around()

    def _gather(self, share: GroupShare) -> Sequence[Record]:
        records: list[Record] = []
        pace, size = self.commit, 0
        due = time.monotonic() + pace.interval
        while len(records) < pace.events and size < _STEP_BYTES and not self._stopping():
            if share.turn() or not share.positions:
                self._rest()
                return ()
            left = max(0.0, min(_TURN_SECONDS, due - time.monotonic()))
            found = self._log.poll(pace.events - len(records), left)
            records += found
            size += sum([len(record.value) for record in found])
            if time.monotonic() >= due and not found:
                break
        return records

    def _step(self, share: GroupShare) -> None:
        """Commit as many of the records as the model, the time and the size limits allow.

        1. Read the clock, then the end of the journal: this bounds how far behind the model was at that time.
        2. Predict, in parts between which the replica may follow.
        3. Publish, and move the group's offsets, in one transaction. If that fails the records are read
           again, by the member that then has their partitions.
        """
        now, end = time.time(), self._log.offsets(self._journal)[1]
        until = time.monotonic() + _STEP_SECONDS
        outputs: list[NewRecord] = []
        tally, taken, journal, size = Counters(), 0, 0, 0
        while taken < len(self._left) and size < _STEP_BYTES and time.monotonic() < until:
            scored = self._score(self._left[taken : taken + _AT_ONCE], now, end, tally)
            if scored is None:
                break
            made, more, journal = scored
            outputs, taken = outputs + made, taken + more
            size += sum([len(output.value) for output in made])
            self._sensor.heartbeat()
        if not taken:
            self._rest()
            return
        records, self._left = self._left[:taken], self._left[taken:]
        seconds = share.commit(outputs, records)
        if seconds is None:
            self._left = ()
            text = "a commit was not made: the scorer with its partitions reads the events again"
            self._sensor.noted(Message("scorer-commit-lost", text))
            return
        at = time.time()
        latencies = [at - record.timestamp for record in records]
        self._sensor.committed(Committed(journal, taken, tally, seconds, at, latencies, records))

    def _score(
        self, records: Sequence[Record], now: float, end: int, tally: Counters
    ) -> tuple[list[NewRecord], int, int] | None:
        """Return the outputs, the number of records and the journal position; None while it must wait."""
        with self._replica.lock:
            following = self._replica.following
            obstacle = self._obstacle(following, end)
            self._wait(obstacle)
            if obstacle or following is None:
                return None
            learner, journal = following.learner, following.checkpoint.n
            learner.tally = tally
            outputs, taken = learner.score(records, now, journal, _STEP_BYTES)
            learner.tally = Counters()  # the learner itself counts what it learns next
        return outputs, taken, journal

    def _obstacle(self, following: JournalTail | None, end: int) -> str:
        """Return why a model must not predict, or "". Raises LogError if no model will ever."""
        if not self._replica.is_alive:
            raise LogError("the thread that follows the journal ended with the error above: start again")
        if following is None or end <= following.offset:  # or its journal is no more
            return self._replica.status
        if following.learner.settings.by != "scorers":
            return (
                'the learner has not taken up predictions.by = "scorers" yet: start it again with '
                "`streamnb run --learn-only`, unless it has just been started so"
            )
        behind = _behind(following, end)
        if behind:
            self._replica.look()
        if behind > self._config.scorers.behind:
            return (
                f"the replica is at journal record {following.checkpoint.n}, {behind:,} behind the learner, "
                f"and scorers.behind is {self._config.scorers.behind}"
            )
        return ""

    def _wait(self, obstacle: str) -> None:
        """Log what it waits for, or that it no longer waits, if more than a number changed."""
        if obstacle and (what := _NUMBERS.sub("", obstacle)) != self._waits_for:
            self._sensor.noted(Message("scorer-waits", f"waiting: {obstacle}", reason=obstacle))
            self._states.enter(WorkerState.RECOVERING)
            self._waits_for = what
        elif self._waits_for and not obstacle:
            self._states.enter(WorkerState.RUNNING)
            self._waits_for = ""

    def _is_hindered(self) -> bool:
        end = self._log.offsets(self._journal)[1]
        with self._replica.lock:
            obstacle = self._obstacle(self._replica.following, end)
        self._wait(obstacle)
        return bool(obstacle)

    def _rest(self) -> None:
        self._sensor.heartbeat()
        time.sleep(_REST_SECONDS)

    def _look_around(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        self._check_topics()
        waits = Counter(record.partition for record in self._left)
        lag = {partition: behind + waits[partition] for partition, behind in self._log.lag().items()}
        self._is_hindered()
        end = self._log.offsets(self._journal)[1]
        with self._replica.lock:
            following = self._replica.following
            told = None if following is None else (following.learner.n_bytes, _behind(following, end))
        if told is not None:
            self._sensor.observed(lag, told[0])
            self._sensor.followed(told[1])

    def _check_name(self, learned: str) -> None:
        """Raise ConfigError for another name: its group would predict all events again."""
        name = self._config.model.name
        if name != learned:
            raise ConfigError(
                f"model.name is {literal(name)}, and the learner of this journal is {literal(learned)}: "
                "scorers of another name would predict each event again; give the configuration of the "
                "learner, --config FILE"
            )

    def _check_topics(self) -> None:
        """Raise if a topic was deleted, or a topic of events was recreated since it was learned."""
        following = self._replica.following
        journal, of = self._journal.topic, self._config.topics
        topics = (*self._topics, of.predictions, of.dead_letters)
        found = self._log.topic_ids([*topics, journal])
        if found.get(journal) != self._journal_id:
            raise JournalError(f"topic {journal!r} was deleted or recreated: its model is a different model")
        known = {} if following is None else following.checkpoint.origin.topic_ids
        for topic in topics:
            if topic not in found:
                raise UnknownTopic(f"there is no topic {topic!r} any more; `streamnb topics create` makes it")
            if known.get(topic, found[topic]) != found[topic]:
                raise JournalError(
                    f"topic {topic!r} was deleted and recreated; `streamnb run --accept-loss` continues with "
                    "it, and then scorers do"
                )

    def _begins(self) -> Mapping[Partition, int]:
        """Return the offsets from which scorers predict; the learner predicted earlier events itself.

        Raises JournalError if the journal no longer contains them.
        """
        begins: dict[Partition, int] | None = None
        was_scorers = False
        for entry in with_heartbeat(entries(self._log, self._journal), self._sensor.heartbeat):
            record = entry.record
            if record.config:
                is_scorers = record.config.get("predictions", {}).get("by") == "scorers"
                begins = positions_of(record) if is_scorers and not was_scorers else begins
                was_scorers = is_scorers
            elif record.kind == "loss" and begins is not None:  # recreated topics start at their first record
                begins = {p: at for p, at in begins.items() if p.topic not in record.topic_ids}
        if begins is None:
            raise JournalError(
                "the journal no longer contains the offsets where scorers begin, and their group has none; "
                f"set them: {self._set_offsets()}"
            )
        return begins

    def _published(self) -> str:
        """Return an error message if scorers have published and their group has no offsets; otherwise ""."""
        for partition, (first, end) in self._log.offset_ranges(self._config.topics.predictions).items():
            start = max(first, end - _LOOK_BACK)
            for record in self._log.read(partition, start, _LOOK_BACK) if start < end else ():
                with suppress(MalformedEvent):
                    said = decode_prediction(record.value).model
                    if said.name == self._config.model.name and said.journal is not None:
                        return (
                            f"scorers have predicted, and group {self._config.scorers_group} has no offsets, "
                            "which brokers delete a week after the last scorer has ended; set them: "
                            f"{self._set_offsets()}"
                        )
        return ""

    def _set_offsets(self) -> str:
        topics = [word for topic in self._topics for word in ("--topic", topic)]
        at = ("--reset-offsets", "--to-datetime", "YYYY-MM-DDTHH:MM:SS.000", "--execute")
        return self._log.line("kafka-consumer-groups.sh", "--group", self._config.scorers_group, *topics, *at)


def _behind(following: JournalTail, end: int) -> int:
    """Return an upper bound of the journal records that a replica is behind the end of the journal's topic.

    Each record has a transaction of its own, whose marker takes an offset, too. A replica that has reached
    the end is not behind: the rest is aborted or foreign.
    """
    return 0 if following.end >= end else max(0, (end - following.offset) // 2 - 1)
