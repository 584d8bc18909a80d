"""`streamnb dlq`: list, show and replay dead letters."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, groupby, takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from streamnb.cli.commands.read import records_of
from streamnb.config import Config
from streamnb.engine.ports import Log, NewRecord, Partition, Record
from streamnb.errors import ConfigError, LogError, MalformedEvent, OutOfRange, UnknownTopic
from streamnb.formats.codec import decode_event, decode_label
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.terminal_text import emit, printable
from streamnb.reports.text_columns import table
from streamnb.runtime import context
from streamnb.runtime.resent_dead_letters import DONE, NEVER, OF_BYTES, ResendResult, ResentDeadLetters
from streamnb.values.messages import Message

_AT_ONCE = 500
_MOST_BYTES = 4 << 20  # batch size, plus one record
_MOST_TOLD = 20  # dead letters whose reason is printed
_SHOWN = 60  # characters of a value in a list
_ORIGINAL = "original."
_WHENCE = "dead-letter"
_STILL_FAILS = "it still fails under this configuration"


class _StoredDeadLetter(NamedTuple):
    record: Record
    headers: Mapping[str, str]

    @classmethod
    def from_record(cls, record: Record) -> _StoredDeadLetter:
        return cls(record, {name: value.decode(errors="replace") for name, value in record.headers})

    @property
    def place(self) -> str:
        return f"{self.record.partition.number}/{self.record.offset}"

    @property
    def reason(self) -> str:
        return self.headers.get("reason", "unknown")

    @property
    def whence(self) -> str:
        return "/".join(self.headers.get(name, "?") for name in ("topic", "partition", "offset"))

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


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    config = context.load_config(options)
    with closing(context.existing_log(config)) as log:
        action: Callable[[argparse.Namespace, Config, Log], int] = _ACTIONS[options.action]
        return action(options, config, log)


def _list(options: argparse.Namespace, config: Config, log: Log) -> int:
    """Count dead letters by reason and keep only the last of each partition in memory."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    ends: defaultdict[Partition, deque[_StoredDeadLetter]] = defaultdict(partial(deque, maxlen=options.limit))
    handed = log.forwarded(config.topics.dead_letters)
    waiting = never = 0
    sent = {partition: ResentDeadLetters(at) for partition, at in handed.items()}
    for letter in map(_StoredDeadLetter.from_record, records_of(log, config.topics.dead_letters, Counter())):
        counts[letter.reason] += 1
        sizes[letter.reason] += len(letter.record.value)
        was_sent = (found := sent.get(letter.record.partition)) and found.has(letter.record.offset)
        never += letter.reason in NEVER
        waiting += not was_sent and letter.reason not in NEVER
        ends[letter.record.partition].append(letter)
    last = list(chain.from_iterable(ends.values()))
    if options.json:
        reasons = {reason: {"letters": n, "bytes": sizes[reason]} for reason, n in counts.most_common()}
        answer = {"reasons": reasons, "not_replayed": waiting, "last": [letter.summary() for letter in last]}
        print(json.dumps(answer))
        return 0
    if not counts:
        print(f"no dead letters in {config.topics.dead_letters} of {config.log.url}")
        return 0
    by_reason = [(reason, n, sizes[reason]) for reason, n in counts.most_common()]
    print(table(by_reason, ("reason", "letters", "bytes")))
    settled = counts.total() - waiting - never
    print(
        f"\n{settled:,} were sent again or given up, {never:,} can never be sent, {waiting:,} wait: "
        "`streamnb dlq replay --dry-run` shows which of these can be sent now; the last of each partition:"
    )
    columns = ("place", "reason", "path", "from", "value")
    shown = ({**row, "value": row["value"][:_SHOWN]} for row in (letter.summary() for letter in last))
    print(table([[row[name] for name in columns] for row in shown], columns))
    return 0


def _show(options: argparse.Namespace, config: Config, log: Log) -> int:
    topic = config.topics.dead_letters
    number, _, offset = options.place.partition("/")
    if not (number.isdecimal() and offset.isdecimal()):
        raise ConfigError(
            f"PLACE: expected PARTITION/OFFSET as `streamnb dlq list` has it, got {options.place!r}"
        )
    found = _at(log, topic, int(number), int(offset))
    if found is None:
        raise LogError(f"there is no dead letter {options.place} in {topic} of {config.log.url}")
    letter = _StoredDeadLetter.from_record(found)
    summary, fate = letter.summary(), _DeadLetterReplay(config, log).judged(letter)
    now = fate.message
    if options.json:
        print(json.dumps(summary | {"now": now or "it can be read"}))
        return 0
    for name, value in summary.items():
        if name not in {"headers", "value"}:
            print(f"{name:<7} {'(no key)' if value is None else printable(str(value))}")
    for name, value in letter.headers.items():
        if name not in {"reason", "path", "topic", "partition", "offset"}:
            print(f"        {printable(name)}: {printable(value)}")
    print(f"now     {printable(now or 'it can be read: streamnb dlq replay sends it again')}\n")
    print(printable(summary["value"]))
    return 0


def _at(log: Log, topic: str, number: int, offset: int) -> Record | None:
    """Return the record at an offset; None if the partition or record does not exist."""
    place = Partition(topic, number)
    found = log.read(place, offset, 1) if place in log.partitions(topic) else ()
    return found[0] if found and found[0].offset == offset else None


class _ReplayOutcome(NamedTuple):
    """The record to send, or the reason for not sending it, which a configuration may change."""

    record: NewRecord | None
    why: str = ""
    detail: str = ""
    may_change: bool = False

    @property
    def message(self) -> str:
        """Return the reason as text; empty for a record that is sent."""
        return f"not sent: {self.why}{self.detail}" if self.why else ""


class _DeadLetterReplay:
    def __init__(self, config: Config, log: Log) -> None:
        self._schema: EventSchema = context.schema(config)
        self._topics = {*config.topics.events, config.topics.labels} - {""}
        self._labels = config.topics.labels
        self._log = log

    def judged(self, letter: _StoredDeadLetter) -> _ReplayOutcome:
        """Return the record, or the reason: no record is sent that would be rejected again."""
        topic = letter.headers.get("topic", "")
        if letter.reason in DONE:
            return _ReplayOutcome(None, DONE[letter.reason])
        if topic not in self._topics:
            why = "this configuration reads no topic of its name"
            return _ReplayOutcome(None, why, f": {topic}", may_change=True)
        found = self._record(letter, topic)
        if found is None:
            return _ReplayOutcome(
                None, "the letter is not whole, and its record is gone", f": {letter.whence}"
            )
        try:
            if topic == self._labels:
                decode_label(found.value, self._schema, time.time())
            else:
                decode_event(found.value, self._schema, found.key, time.time())
        except MalformedEvent as error:
            if error.reason in OF_BYTES:
                return _ReplayOutcome(None, f"no configuration can read its bytes ({error.reason})")
            return _ReplayOutcome(None, f"{_STILL_FAILS} ({error.reason})", f": {error}", may_change=True)
        return _ReplayOutcome(found._replace(headers=(*found.headers, (_WHENCE, letter.place.encode()))))

    def _record(self, letter: _StoredDeadLetter, topic: str) -> NewRecord | None:
        """Return the original record, from its own topic if the dead letter is truncated."""
        key, value, headers = letter.record.key, letter.record.value, letter.record.headers
        original = [
            (name.removeprefix(_ORIGINAL), content) for name, content in headers if name.startswith(_ORIGINAL)
        ]
        if not letter.headers.keys().isdisjoint({"truncated", "key-dropped", "headers-dropped"}):
            try:
                found = _at(self._log, topic, int(letter.headers["partition"]), int(letter.headers["offset"]))
            except (KeyError, ValueError, OutOfRange, UnknownTopic):
                return None
            if found is None:
                return None
            key, value, original = found.key, found.value, list(found.headers)
        kept = tuple((name, content) for name, content in original if name != _WHENCE)
        return NewRecord(topic, key, value, kept)


def _replay(options: argparse.Namespace, config: Config, log: Log) -> int:

    def report(place: str, fate: str) -> None:
        emit(Message("dead-letter-replay", f"{place}: {fate}", place=place, result=fate))

    selected = Selection(frozenset(options.places), frozenset(options.reason))
    found = send_again(config, log, selected, report, dry_run=options.dry_run)
    topic = config.topics.dead_letters
    answer = {
        "sent": found.sent,
        "not_sent": found.not_sent,
        "dry_run": options.dry_run,
        "topic": topic,
        "log": config.log.url,
    }
    text = found.message(f"of {topic} {'would be sent' if options.dry_run else 'sent'}")
    print(json.dumps(answer) if options.json else printable(text))
    return 0


class Selection(NamedTuple):
    """Dead letters to send: all, if neither places nor reasons are given."""

    places: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()

    @property
    def is_all(self) -> bool:
        """True if neither places nor reasons are given."""
        return not self.places and not self.reasons

    def has(self, letter: _StoredDeadLetter) -> bool:
        """Return whether a dead letter is selected."""
        return self.is_all or letter.place in self.places or letter.reason in self.reasons


def send_again(
    config: Config,
    log: Log,
    selected: Selection,
    report: Callable[[str, str], None] = lambda *_: None,
    *,
    dry_run: bool = False,
    most: float = math.inf,
    seconds: float = math.inf,
) -> ResendResult:
    """Send readable dead letters that were not sent before, in one transaction with the progress note.

    A record that was sent and rejected again is sent only if it is selected by name.

    Args:
        config: the configuration under which records must be readable.
        log: the log of the dead letters.
        selected: the selection.
        report: called with place and reason of the first few that are not sent.
        dry_run: send nothing.
        most: stop after this number; a started batch is completed.
        seconds: stop after this time.
    """
    topic, deadline = config.topics.dead_letters, time.monotonic() + seconds
    replay, why, n_sent = _DeadLetterReplay(config, log), Counter[str](), 0
    since = dict(log.forwarded(topic))
    walks = {partition: ResentDeadLetters(since.get(partition)) for partition in log.partitions(topic)}
    missing = set(selected.places)
    passed = not missing and any(one.offset or one.note for one in since.values())
    for letters in _parts(log, topic, {partition: walk.start for partition, walk in walks.items()}):
        partition = letters[0].record.partition
        walk, going = walks[partition], []
        for letter, fate in _walked(letters, walk, replay, selected):
            missing.discard(letter.place)
            if fate.record is not None:
                going.append(fate.record)
            else:
                why[fate.why] += 1
                if why.total() <= _MOST_TOLD:
                    report(letter.place, fate.message)
        if going and not dry_run:
            until, n_given_up = walk.at(letters[-1].record.offset + 1)
            log.forward(going, since, {partition: until})
            since[partition] = until
            why += Counter({_GIVEN_UP: n_given_up})
        n_sent += len(going)
        if n_sent >= most or time.monotonic() > deadline:
            return ResendResult(n_sent, why, is_whole=False, has_passed=passed)
    for place in sorted(missing):
        why[_SETTLED] += 1
        report(place, f"not sent: {_SETTLED}")
    return ResendResult(n_sent, why, has_passed=passed)


_SETTLED = "it was sent before, or there is no such letter"
_CAME_BACK = "its record was sent again before, and was refused again"
_GIVEN_UP = "too many wait between those that were sent, and the oldest are given up"


def _walked(
    letters: Sequence[_StoredDeadLetter],
    walk: ResentDeadLetters,
    replay: _DeadLetterReplay,
    selected: Selection,
) -> Iterator[tuple[_StoredDeadLetter, _ReplayOutcome]]:
    """Yield the outcome of each selected dead letter that was not sent before; `walk` records all."""
    for letter in letters:
        offset = letter.record.offset
        if walk.has(offset):
            walk.send()
            if letter.place in selected.places:
                yield letter, _ReplayOutcome(None, _SETTLED)
        elif not selected.has(letter):
            if letter.reason not in NEVER:
                walk.wait(offset)
        else:
            fate = replay.judged(letter)
            back = letter.headers.get(f"{_ORIGINAL}{_WHENCE}")
            if fate.record is not None and selected.is_all and back is not None:
                how = f": it was {back}; to try it again, name it: {letter.place}"
                fate = _ReplayOutcome(None, _CAME_BACK, how, may_change=True)
            if fate.record is not None:
                walk.send()
            elif fate.may_change:
                walk.wait(offset)
            yield letter, fate


def _parts(log: Log, topic: str, since: Mapping[Partition, int]) -> Iterator[list[_StoredDeadLetter]]:
    """Yield batches of one partition each, up to the current ends, so without records of this run."""
    ends = {partition: end for partition, (_, end) in log.offset_ranges(topic).items()}
    for _, found in groupby(records_of(log, topic, Counter(since)), key=attrgetter("partition")):
        letters = (
            _StoredDeadLetter.from_record(record)
            for record in takewhile(lambda r: r.offset < ends[r.partition], found)
        )
        part, size = [], 0
        for letter in letters:
            part.append(letter)
            size += len(letter.record.value)
            if len(part) == _AT_ONCE or size > _MOST_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part


_ACTIONS = {"list": _list, "show": _show, "replay": _replay}
