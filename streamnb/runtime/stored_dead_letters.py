"""Dead letters as the log has them: read one, judge if it can be sent again, correct it, or skip it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from streamnb.config import Config
from streamnb.engine.ports import Forwarded, Log, NewRecord, Partition, Record
from streamnb.errors import ConfigError, Fenced, LogError, MalformedEvent, OutOfRange, UnknownTopic
from streamnb.events import UNPUBLISHED, Retraction
from streamnb.formats.codec import decode_event, decode_label
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.json_value_checks import look_up
from streamnb.runtime import context
from streamnb.runtime.resent_dead_letters import DONE, OF_BYTES, ResentDeadLetters

ORIGINAL, DEAD_LETTER = "original.", "dead-letter"
"""Prefix of a record's own headers in its dead letter; header of a sent record with the letter's place."""
_STILL_FAILS = "it still fails under this configuration"
_PARTIAL = {"truncated", "key-dropped", "headers-dropped"}
_ATTEMPTS = 5  # if other processes send dead letters at the same time


class StoredDeadLetter(NamedTuple):
    """A dead letter with its headers as text."""

    record: Record
    headers: Mapping[str, str]

    @classmethod
    def from_record(cls, record: Record) -> StoredDeadLetter:
        """Return the dead letter of a record."""
        return cls(record, {name: value.decode(errors="replace") for name, value in record.headers})

    @property
    def place(self) -> str:
        """Its partition and offset, as ``0/17``."""
        return f"{self.record.partition.number}/{self.record.offset}"

    @property
    def reason(self) -> str:
        """Its reason."""
        return self.headers.get("reason", "unknown")

    @property
    def whence(self) -> str:
        """The position of the record that was refused."""
        return "/".join(self.headers.get(name, "?") for name in ("topic", "partition", "offset"))

    @property
    def came_back_from(self) -> str:
        """The place of an earlier dead letter whose record was sent and refused again; else empty."""
        return self.headers.get(f"{ORIGINAL}{DEAD_LETTER}", "")

    def summary(self) -> dict[str, Any]:
        """Return all fields for JSON."""
        record = self.record
        return {
            "place": self.place,
            "reason": self.reason,
            "path": self.headers.get("path", ""),
            "from": self.whence,
            "ts": record.timestamp,
            "key": None if record.key is None else record.key.decode(errors="replace"),
            "headers": dict(self.headers),
            "value": record.value.decode(errors="replace"),
        }


def record_at(log: Log, topic: str, number: int, offset: int) -> Record | None:
    """Return the record at an offset; None if the partition or record does not exist."""
    place = Partition(topic, number)
    found = log.read(place, offset, 1) if place in log.partitions(topic) else ()
    return found[0] if found and found[0].offset == offset else None


def letter_at(log: Log, config: Config, place: str) -> StoredDeadLetter:
    """Return the dead letter at a place such as ``0/17``. Raises ConfigError or LogError."""
    topic = config.topics.dead_letters
    number, _, offset = place.partition("/")
    if not (number.isdecimal() and offset.isdecimal()):
        raise ConfigError(f"PLACE: expected PARTITION/OFFSET as `streamnb dlq list` has it, got {place!r}")
    found = record_at(log, topic, int(number), int(offset))
    if found is None:
        raise LogError(f"no dead letter at {place} in {topic} of {config.log.url}")
    return StoredDeadLetter.from_record(found)


class ReplayOutcome(NamedTuple):
    """The record to send, or the reason for not sending it, which a configuration may change."""

    record: NewRecord | None
    why: str = ""
    detail: str = ""
    may_change: bool = False

    @property
    def message(self) -> str:
        """Return the reason as text; empty for a record that is sent."""
        return f"not sent: {self.why}{self.detail}" if self.why else ""


class DeadLetterReplay:
    """Judges which dead letters can be sent again, under a configuration."""

    def __init__(self, config: Config, log: Log) -> None:
        self._schema: EventSchema = context.schema(config)
        self._sources = {source.topic for source in config.sources}
        self._topics = ({*config.topics.events, config.topics.labels} - {""}) | self._sources
        self._labels = config.topics.labels
        self._log = log

    def judged(self, letter: StoredDeadLetter) -> ReplayOutcome:
        """Return the record, or the reason: no record is sent that would be rejected again."""
        topic = letter.headers.get("topic", "")
        if letter.reason in DONE:
            return ReplayOutcome(None, DONE[letter.reason])
        if topic not in self._topics:
            why = "this configuration reads no topic of its name"
            return ReplayOutcome(None, why, f": {topic}", may_change=True)
        found = self.original(letter)
        if found is None:
            return ReplayOutcome(
                None, "the letter is not whole, and its record is gone", f": {letter.whence}"
            )
        try:
            if topic not in self._sources:  # these are converted again, perhaps by other settings
                self._decoded_id(found)
        except MalformedEvent as error:
            if error.reason in OF_BYTES:
                return ReplayOutcome(None, f"no configuration can read its bytes ({error.reason})")
            return ReplayOutcome(None, f"{_STILL_FAILS} ({error.reason})", f": {error}", may_change=True)
        return ReplayOutcome(found._replace(headers=(*found.headers, (DEAD_LETTER, letter.place.encode()))))

    def original(self, letter: StoredDeadLetter) -> NewRecord | None:
        """Return the original record, from its own topic if the dead letter is truncated."""
        topic = letter.headers.get("topic", "")
        if letter.headers.keys().isdisjoint(_PARTIAL):
            return self.remains(letter)
        try:
            number, offset = int(letter.headers["partition"]), int(letter.headers["offset"])
            found = record_at(self._log, topic, number, offset)
        except (KeyError, ValueError, OutOfRange, UnknownTopic):
            return None
        if found is None:
            return None
        kept = tuple((name, content) for name, content in found.headers if name != DEAD_LETTER)
        return NewRecord(topic, found.key, found.value, kept)

    def remains(self, letter: StoredDeadLetter) -> NewRecord:
        """Return what the dead letter itself has of its record."""
        key, value, headers = letter.record.key, letter.record.value, letter.record.headers
        names = [(name.removeprefix(ORIGINAL), one) for name, one in headers if name.startswith(ORIGINAL)]
        kept = tuple((name, content) for name, content in names if name != DEAD_LETTER)
        return NewRecord(letter.headers.get("topic", ""), key, value, kept)

    def id_of(self, record: NewRecord) -> str | None:
        """Return the id that a record has, even if it cannot be read otherwise; None without an id."""
        try:
            found = look_up(msgspec.json.decode(record.value), self._id_keys(record.topic))
        except (msgspec.DecodeError, MalformedEvent, UnicodeDecodeError, RecursionError):
            return None
        return found if isinstance(found, str) else None

    def corrected(
        self, letter: StoredDeadLetter, value: bytes, new_id: str | None
    ) -> tuple[NewRecord, str | None]:
        """Return a corrected record and the id of its event; None for a retraction.

        Args:
            letter: the dead letter.
            value: the corrected value.
            new_id: the id that the record gets; None keeps its id.

        Raises ConfigError for a record that would be refused again, or whose id changed without a new one.
        """
        topic = letter.headers.get("topic", "")
        if letter.reason == UNPUBLISHED:
            raise ConfigError(f"{DONE[letter.reason]}: it would be learned twice")
        if topic not in self._topics:
            raise ConfigError(f"this configuration reads no topic {topic!r}")
        found = self.original(letter) or self.remains(letter)
        if letter.reason in DONE and new_id is None and value == found.value:
            raise ConfigError(DONE[letter.reason])
        known = self.id_of(found)
        key = found.key
        if new_id is not None:
            if topic == self._labels:
                raise ConfigError("a label has the id of its event: a new id would label another event")
            if new_id == known:
                raise ConfigError(f"the new id equals the old one: {known!r}")
            value = _with_id(value, self._schema.id_keys, new_id)
            key = new_id.encode() if known is not None and key == known.encode() else key
        headers = (*found.headers, (DEAD_LETTER, letter.place.encode()))
        record = NewRecord(topic, key, value, headers)
        try:
            id_ = self._decoded_id(record)
        except MalformedEvent as error:
            raise ConfigError(f"it would be refused again ({error.reason}): {error}") from error
        if new_id is None and known is not None and id_ != known:
            raise ConfigError(f"the id was {known!r} and is {id_!r} now: choose a new id, or restore the old")
        if letter.reason == "repeated" and id_ == known:
            raise ConfigError(f"{DONE[letter.reason]}: give it a new id")
        return record, id_

    def _id_keys(self, topic: str) -> tuple[str, ...]:
        return ("id",) if topic == self._labels else self._schema.id_keys

    def _decoded_id(self, record: NewRecord) -> str | None:
        """Return the id of a record. Raises MalformedEvent."""
        if record.topic == self._labels:
            label = decode_label(record.value, self._schema, time.time())
            return None if isinstance(label, Retraction) else label.id
        return decode_event(record.value, self._schema, record.key, time.time()).id


def _with_id(value: bytes, keys: Sequence[str], new_id: str) -> bytes:
    """Return a record with another id; all other values keep their bytes. Raises ConfigError."""
    if not keys:
        return msgspec.json.encode(new_id)
    try:
        fields = msgspec.json.decode(value or b"null", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"the record is not a JSON object ({error}): no id can be put into it") from error
    inner = bytes(fields.get(keys[0], b"{}")) if len(keys) > 1 else b""
    fields[keys[0]] = msgspec.Raw(_with_id(inner, keys[1:], new_id))
    return msgspec.json.encode(fields)


def settle_letters(
    log: Log,
    config: Config,
    letters: Iterable[StoredDeadLetter],
    record: NewRecord | None,
    *,
    is_dry: bool = False,
) -> None:
    """Settle dead letters, exactly once: in one transaction with the record that replaces them, if any.

    Args:
        log: the log of the dead letters.
        config: its configuration.
        letters: they are skipped, or replaced by the record.
        record: the record to send; None skips.
        is_dry: only check that none is settled.

    Raises ConfigError, and writes nothing, if one of them is settled already.
    """
    chosen = list(letters)
    for attempt in range(_ATTEMPTS):
        since = log.forwarded(config.topics.dead_letters)
        until: dict[Partition, Forwarded] = {}
        for partition in {letter.record.partition for letter in chosen}:
            walk = ResentDeadLetters(since.get(partition))
            mine = [one for one in chosen if one.record.partition == partition]
            for one in mine:
                if why := walk.why_settled(one.record.offset, one.reason):
                    raise ConfigError(f"dead letter {one.place}: {why}")
            until[partition] = walk.settle((one.record.offset, one.reason) for one in mine)
        if is_dry:
            return
        try:
            log.forward([] if record is None else [record], since, until)
        except Fenced:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return
