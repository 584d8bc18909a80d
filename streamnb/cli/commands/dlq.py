"""`streamnb dlq`: list, show, replay and skip dead letters."""

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
from typing import NamedTuple

from streamnb.cli.commands.read import records_of
from streamnb.config import Config
from streamnb.engine.ports import Log, Partition
from streamnb.errors import ConfigError
from streamnb.formats.terminal_text import emit, printable
from streamnb.reports.text_columns import table
from streamnb.runtime import context
from streamnb.runtime.resent_dead_letters import NEVER, SETTLED, ResendResult, ResentDeadLetters
from streamnb.runtime.stored_dead_letters import (
    DeadLetterReplay,
    ReplayOutcome,
    StoredDeadLetter,
    letter_at,
    settle_letters,
)
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_AT_ONCE = 500
_MOST_BYTES = 4 << 20  # batch size, plus one record
_MOST_TOLD = 20  # dead letters whose reason is printed
_SHOWN = 60  # characters of a value in a list


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
    ends: defaultdict[Partition, deque[StoredDeadLetter]] = defaultdict(partial(deque, maxlen=options.limit))
    handed = log.forwarded(config.topics.dead_letters)
    waiting = never = 0
    sent = {partition: ResentDeadLetters(at) for partition, at in handed.items()}
    for letter in map(StoredDeadLetter.from_record, records_of(log, config.topics.dead_letters, Counter())):
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
    letter = letter_at(log, config, options.place)
    summary, fate = letter.summary(), DeadLetterReplay(config, log).judged(letter)
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
    print(f"now     {printable(now or 'it can be read: `streamnb dlq replay` sends it again')}\n")
    print(printable(summary["value"]))
    return 0


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


def _skip(options: argparse.Namespace, config: Config, log: Log) -> int:
    """Settle dead letters without sending them: all or none of given places, and what waits of a reason."""
    if not options.places and not options.reason:
        raise ConfigError("dlq skip: name dead letters, or give --reason")
    topic, since = config.topics.dead_letters, log.forwarded(config.topics.dead_letters)
    chosen = [letter_at(log, config, place) for place in dict.fromkeys(options.places)]
    if chosen:
        settle_letters(log, config, chosen, None, is_dry=options.dry_run)
    n_skipped = len(chosen)
    walks = {partition: ResentDeadLetters(since.get(partition)) for partition in log.partitions(topic)}
    for letters in _parts(log, topic, {}) if options.reason else ():
        walk = walks[letters[0].record.partition]
        waiting = [
            one
            for one in letters
            if one.reason in options.reason
            and one.place not in options.places
            and not walk.why_settled(one.record.offset, one.reason)
        ]
        if waiting:
            settle_letters(log, config, waiting, None, is_dry=options.dry_run)
        n_skipped += len(waiting)
    answer = {"skipped": n_skipped, "dry_run": options.dry_run, "topic": topic, "log": config.log.url}
    verb = "would be skipped" if options.dry_run else "skipped"
    print(json.dumps(answer) if options.json else f"{pluralize(n_skipped, 'dead letter')} of {topic} {verb}")
    return 0


class Selection(NamedTuple):
    """Dead letters to send: all, if neither places nor reasons are given."""

    places: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()

    @property
    def is_all(self) -> bool:
        """True if neither places nor reasons are given."""
        return not self.places and not self.reasons

    def has(self, letter: StoredDeadLetter) -> bool:
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
    replay, why, n_sent = DeadLetterReplay(config, log), Counter[str](), 0
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


_SETTLED = f"{SETTLED}, or there is no such letter"
_CAME_BACK = "its record was sent again before, and was refused again"
_GIVEN_UP = "too many wait between those that were sent, and the oldest are given up"


def _walked(
    letters: Sequence[StoredDeadLetter],
    walk: ResentDeadLetters,
    replay: DeadLetterReplay,
    selected: Selection,
) -> Iterator[tuple[StoredDeadLetter, ReplayOutcome]]:
    """Yield the outcome of each selected dead letter that was not sent before; `walk` records all."""
    for letter in letters:
        offset = letter.record.offset
        if walk.has(offset):
            walk.send()
            if letter.place in selected.places:
                yield letter, ReplayOutcome(None, _SETTLED)
        elif not selected.has(letter):
            if letter.reason not in NEVER:
                walk.wait(offset)
        else:
            fate = replay.judged(letter)
            back = letter.came_back_from
            if fate.record is not None and selected.is_all and back:
                how = f": it was {back}; to try it again, name it: {letter.place}"
                fate = ReplayOutcome(None, _CAME_BACK, how, may_change=True)
            if fate.record is not None:
                walk.send()
            elif fate.may_change:
                walk.wait(offset)
            yield letter, fate


def _parts(log: Log, topic: str, since: Mapping[Partition, int]) -> Iterator[list[StoredDeadLetter]]:
    """Yield batches of one partition each, up to the current ends, so without records of this run."""
    ends = {partition: end for partition, (_, end) in log.offset_ranges(topic).items()}
    for _, found in groupby(records_of(log, topic, Counter(since)), key=attrgetter("partition")):
        letters = (
            StoredDeadLetter.from_record(record)
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


_ACTIONS = {"list": _list, "show": _show, "replay": _replay, "skip": _skip}
