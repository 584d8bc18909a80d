"""Compare published outputs with a replay, byte for byte.

Records of one partition are in the order of commits, interleaved with records of other models. Published and
replayed records are read in parallel; a window holds published records that no commit has matched yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from streamnb.engine.ports import Log, NewRecord, Partition, Record, bytes_of
from streamnb.errors import JournalError, LogError, OutOfRange
from streamnb.values.parameter_checks import pluralize
from streamnb.verification.check_results import CheckResults, place

OUTPUTS = "outputs"
_READ_AT_ONCE = 5000
_WINDOW = 64 << 20  # bytes of a topic
_SHOWN = 200  # characters of a record


class _OutputModel(msgspec.Struct):
    name: str


class _OutputHead(msgspec.Struct):
    ts: float
    model: _OutputModel
    id: str = ""
    kind: str = ""


Name = tuple[Any, ...]
"""Identity of a record independent of its other bytes: see `_what` and `_place`."""


class ReplayedOutputs:
    """Comparison of a replay's outputs with the records in the topics, up to their current ends.

    It reports records with different bytes, missing records of topics that are complete, and reports that no
    commit published. Predictions and dead letters that `PublishedOutputs` reports as missing are not reported
    again.
    """

    def __init__(self, log: Log, findings: CheckResults) -> None:
        self._log, self._findings = log, findings
        self._topics: dict[str, _OutputWindow] = {}
        self._missed: dict[str, tuple[int, NewRecord]] = {}  # topic -> how many, and the first
        self._equal = 0

    def expect(self, outputs: Sequence[NewRecord]) -> None:
        """Compare the outputs of one replayed commit, in order."""
        for output in outputs:
            if output.topic not in self._topics:
                self._topics[output.topic] = _OutputWindow(self._log, output)
            found = self._topics[output.topic].take(output)
            if found is None:
                missed, first = self._missed.get(output.topic, (0, output))
                self._missed[output.topic] = missed + 1, first
            elif bytes_of(found) == bytes_of(output):
                self._equal += 1
            else:
                self._report(output, found)

    def finish(
        self, reports: AbstractSet[str], *, is_all: bool, passed_over: str, is_reported: Callable[[str], bool]
    ) -> None:
        """Report missing and surplus records, and the number of equal ones.

        Args:
            reports: topics of reports and alerts, which no other check covers.
            is_all: True if every existing commit was expected, so any other record is a surplus.
            passed_over: which commits were not replayed, if any.
            is_reported: returns True if another check has reported the missing records of a topic.
        """
        self._open(reports)
        rest = 0
        for topic, window in self._topics.items():
            missed, first = self._missed.get(topic, (0, None))
            if window.is_full:
                text = f"topic {topic!r} holds more than {_WINDOW >> 20} MiB of others' records in one run"
                self._findings.unchecked(OUTPUTS, text, topic=topic)
            elif first is not None and window.is_whole and not is_reported(topic):
                self._report_missing(missed, first)
            elif missed and not window.is_whole:
                text = f"{pluralize(missed, 'record')} of topic {topic!r}, whose beginning is no longer kept"
                self._findings.unchecked(OUTPUTS, text, topic=topic)
            for error in window.errors:
                self._findings.differs(OUTPUTS, f"topic {topic!r} cannot be read: {error}", {"topic": topic})
            left = window.left(self._names)
            if topic in reports and is_all and not window.is_full:
                for one in left:
                    self._report_other(one)
            else:
                rest += sum(1 for _ in left)
        if rest and passed_over:
            text = f"{pluralize(rest, 'record')} in addition to a replay: {passed_over}"
            self._findings.unchecked(OUTPUTS, text)
        if self._equal and not self._findings.count(OUTPUTS):
            self._findings.ok(OUTPUTS, f"{pluralize(self._equal, 'record')} as published, byte for byte")

    def _open(self, reports: AbstractSet[str]) -> None:
        for topic in reports - self._topics.keys():
            window = _OutputWindow(self._log, NewRecord(topic, None, b""))
            if not window.errors:  # else there is none, and nothing in it is missed
                self._topics[topic] = window

    @property
    def _names(self) -> set[str]:
        return {name for window in self._topics.values() for name in window.models}

    def _report_missing(self, missed: int, first: NewRecord) -> None:
        name = (first.key or b"").decode(errors="backslashreplace")
        value = first.value[:_SHOWN].decode(errors="backslashreplace")
        text = f"topic {first.topic!r}: {missed:,} that a replay gives are not there, the first: {value}"
        self._findings.differs(OUTPUTS, text, {"topic": first.topic, "id": name}, found=0, expected=missed)

    def _report_other(self, one: Record) -> None:
        text = "is none that a replay gives, or one that was there before"
        at = place(one.partition, one.offset)
        self._findings.differs(OUTPUTS, f"{one.partition} offset {one.offset} {text}", at)

    def _report(self, output: NewRecord, found: Record) -> None:
        name = (output.key or b"").decode(errors="backslashreplace")
        what = ", ".join(_differences(found, output))
        self._findings.differs(
            OUTPUTS,
            f"{found.partition} offset {found.offset}, of {name!r}, is not what a replay gives: {what}",
            place(found.partition, found.offset, id=name),
            found=found.value.decode(errors="backslashreplace"),
            expected=output.value.decode(errors="backslashreplace"),
        )


class _OutputWindow:
    """Records of a topic between the last matched one and the last read one.

    Attributes:
        is_whole: True if the topic reaches back to its beginning.
        models: models with expected records.
        errors: why the topic cannot be read.
    """

    def __init__(self, log: Log, first: NewRecord) -> None:
        self.models: set[str] = set()
        self.errors: list[LogError | JournalError] = []
        self._log = log
        self._name = _place if "reason" in dict(first.headers) else _what
        self._unmet: dict[Name, list[Record]] = {}
        self._size = 0  # bytes
        self._ahead: dict[Partition, tuple[int, int]] = {}
        try:
            self._ahead = dict(log.offset_ranges(first.topic))
        except (LogError, JournalError) as error:
            self.errors.append(error)
        self.is_whole = not self.errors and not any(first for first, _ in self._ahead.values())

    @property
    def is_full(self) -> bool:
        return self._size >= _WINDOW

    def take(self, output: NewRecord) -> Record | None:
        """Remove and return the record with these bytes, else with this name; None if there is none."""
        name = self._name(output)
        if name is None:
            return None
        self.models.update(_models(name))
        if self.is_full:
            self._forget(name)
        alike = self._alike(name, output)
        while alike is None and not self.is_full and self._read():
            alike = self._alike(name, output)
        found = self._unmet.get(name)
        if not found:
            return None
        taken = alike or found[0]
        found.remove(taken)
        self._size -= len(taken.value)
        return taken

    def _alike(self, name: Name, output: NewRecord) -> Record | None:
        wanted = bytes_of(output)
        return next((found for found in self._unmet.get(name, ()) if bytes_of(found) == wanted), None)

    def _forget(self, name: Name) -> None:
        self._unmet = {n: found for n, found in self._unmet.items() if found and n >= name[:1]}
        self._size = sum(len(one.value) for found in self._unmet.values() for one in found)

    def left(self, models: AbstractSet[str]) -> Iterator[Record]:
        while self._unmet or self._read():
            for name, found in self._unmet.items():
                yield from found if _models(name) & models else ()
            self._unmet, self._size = {}, 0

    def _read(self) -> bool:
        is_more = False
        for partition, (offset, end) in list(self._ahead.items()):
            try:
                read = self._log.read(partition, offset, _READ_AT_ONCE) if offset < end else []
            except OutOfRange:  # it was deleted meanwhile
                read, self.is_whole = [], False
            except LogError as error:
                read = []
                self.errors.append(error)
            for record in read:
                self._add(record)
            is_more |= bool(read)
            self._ahead[partition] = (read[-1].offset + 1 if read else end, end)
        return is_more

    def _add(self, record: Record) -> None:
        name = self._name(record)
        if name is not None:
            self._unmet.setdefault(name, []).append(record)
            self._size += len(record.value)


_decode_head = msgspec.json.Decoder(_OutputHead).decode


def _place(letter: NewRecord | Record) -> Name | None:
    place = dict(letter.headers)
    return (
        (-math.inf, *(place.get(name, b"") for name in ("topic", "partition", "offset"))) if place else None
    )


def _models(name: Name) -> set[str]:
    return set() if name[0] == -math.inf else {name[3]}


def _what(output: NewRecord | Record) -> Name | None:
    """Return commit, event, kind and model of a prediction, report, drift or alert; else None."""
    try:
        said = _decode_head(output.value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return said.ts, said.id, said.kind, said.model.name


def _differences(found: Record, output: NewRecord) -> Iterator[str]:
    try:
        here, there = (msgspec.json.decode(value, type=dict) for value in (found.value, output.value))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        here, there = {}, {}
    names = sorted(name for name in {**here, **there} if here.get(name) != there.get(name))
    yield from (f"{name} is {here.get(name)}, expected {there.get(name)}" for name in names)
    if found.key != output.key:
        yield f"its key is {found.key!r}, expected {output.key!r}"
    if not names and found.key == output.key:
        yield "its bytes" if found.value != output.value else "its headers"
