"""Data-quality warnings: fields of events that look unintended, each reported once by name.

Files that are evaluated, replayed or asked about, and the records that `run` reads, are all checked here.
Nothing is changed or refused: the checks only print warnings.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from streamnb.errors import MalformedEvent
from streamnb.evaluation.label_quality import label_warnings
from streamnb.events import Event
from streamnb.features.attributes import some_of
from streamnb.features.number_notation import (
    COMMA_AND_POINTS,
    QUOTED,
    Notation,
    are_like_ids,
    are_mixed_booleans,
    dates_of,
    has_long_digits,
    is_rounded,
    markers_of,
    may_be_grouped,
    no_options,
    notation_of,
    odd_cells,
    spoilt,
    units_of,
    words_among_numbers,
)
from streamnb.features.schema_inference import ENOUGH, RISING, FieldSummary, Keys, look
from streamnb.features.sentinels import sentinel_remedy
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.event_validity import LATEST
from streamnb.formats.json_paths import parse_path, render_path
from streamnb.formats.json_value_checks import moment, nominal
from streamnb.formats.terminal_text import note
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import nearest, pluralize

LOOKED_AT = 1000
"""Events that are looked at one after the other; of later ones some may be."""

_EVERY = 100  # later events for each that is checked

_DAY = 86_400  # seconds
_YEAR = 365 * 86_400  # seconds
_LONGEST = 1 << 16  # bytes of the largest event that is checked
_SOON = 4  # events before the first report
_MOST_REFUSALS = 3  # reported separately

_APART = "; if labels arrive separately, --set topics.labels=TOPIC names their topic"

Found = Iterator[tuple[str, Message]]
"""The subject of a warning, so that it is reported once, and the message."""


class InputOrigin(NamedTuple):
    """The source of events, for messages.

    Attributes:
        file: its name; empty for a log.
        is_table: whether it has columns, which flags name.
        has_cells: whether these are text, whose format flags describe.
        decimal: the decimal separator by which cells are read.
    """

    file: str = ""
    is_table: bool = False
    has_cells: bool = False
    decimal: str = "."

    @property
    def init(self) -> str:
        """The command that looks at it."""
        return f"`streamnb init {shlex.quote(self.file)}`" if self.file else "`streamnb init`"

    def remedy(self, role: str, path: Keys | None) -> str:
        """Return the option that sets the path of the id, label, time, text or another attribute."""
        if role in {"nominal", "continuous"}:
            return "`path` in [[attributes]] locates it"
        if self.is_table:
            name = shlex.quote(path[-1]) if path else "NAME"
            return f"--{role}-column {name} names its column"
        if role == "text":
            return f"{self.init} declares where texts are"
        place = shlex.quote(render_path(path)) if path else "PATH"
        return f"--set events.{role}={place} sets its path"


_LOG = InputOrigin()


class DataQuality:
    """Checks the first events, and some of the later ones.

    Args:
        schema: how they are read.
        origin: their source.
        learns: whether they will be learned; a query may omit fields that learned events must have.
        counts_refusals: whether to report dead letters, if no other component does.
        key_path: path of the key of their records, which is read, too.
        repeats: whether repeated ids are expected.
        labels_topic: the topic of labels that arrive separately, or empty.
        now: the time from which later times are reported, if nothing else refuses their events.
        learned: returns the learned labels and their weights, of a learner that reads all events; without it,
            the labels of the checked events count.

    Attributes:
        n: number of checked events.
        seen: a summary of the field at each path.
        expects_label: whether events without any label are a fault.
        has_more: whether some events were not checked.
        origin: their source, which may be set until the first event.
        reported: the messages that `report` has printed.
    """

    def __init__(
        self,
        schema: EventSchema,
        origin: InputOrigin = _LOG,
        *,
        learns: bool = True,
        expects_label: bool = False,
        counts_refusals: bool = False,
        key_path: str | None = None,
        repeats: bool = False,
        labels_topic: str = "",
        now: float = math.inf,
        learned: Callable[[], Mapping[Any, float]] | None = None,
    ) -> None:
        self.n, self.expects_label = 0, expects_label
        self._schema, self.origin, self._counts_refusals = schema, origin, counts_refusals
        self._learns = learns
        self.seen: dict[Keys, FieldSummary] = {}
        self._refused: Counter[tuple[str, str]] = Counter()  # by (reason, path)
        self._details: dict[tuple[str, str], str] = {}
        self._various: set[tuple[str, str]] = set()  # faults whose details differ
        self.has_more = self._has_long = False
        self.reported: list[Message] = []
        self._repeats, self._labels_topic, self._learned = repeats, labels_topic, learned
        self._latest = math.inf if schema.clock == "event" else now + _DAY
        self._said: set[str] = set()
        self._due, self._classes = _SOON, 0
        self._roles = {"id": schema.id_keys, "label": schema.label_keys, "ts": schema.ts_keys or ("ts",)}
        self._places = {place.keys: place.kind for place in schema.places}
        self._read = {*self._places, *self._roles.values(), schema.entity_keys or schema.id_keys}
        self._read.add(schema.weight_keys or schema.id_keys)
        if key_path is not None:
            self._read.add(parse_path(key_path))
        self._names = frozenset(keys[-1].lower() for keys in self._read)

    def look(self, raw: bytes, key: bytes | None = None, recorded: float = 0.0) -> Event | None:
        """Note the fields of an event; return it decoded, or None if refused or if refusals do not count."""
        event = refusal = None
        if self._counts_refusals:
            try:
                event = decode_event(raw, self._schema, key, recorded)
            except MalformedEvent as error:
                refusal = error
        if len(raw) > _LONGEST:
            self._has_long = self.has_more = True
            return event
        self.n += 1
        look(raw, self.seen, self._names)
        if refusal is not None:
            fault = refusal.reason, refusal.path
            self._refused[fault] += 1
            if self._details.setdefault(fault, refusal.detail) != refusal.detail:
                self._various.add(fault)
        return event

    def watched(self, rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yield the same rows, and check the first and some of the later ones on the way."""
        for n, (number, raw) in enumerate(rows):
            if self.n < LOOKED_AT or n % _EVERY == 0:
                self.look(raw)
            self.has_more |= n >= LOOKED_AT
            yield number, raw

    def report(self, *, is_over: bool = False) -> None:
        """Print new warnings after the number of events has doubled, or at the end."""
        for text in self.news(is_over=is_over):
            self.reported.append(text)
            note(text)

    def news(self, *, is_over: bool = False) -> list[Message]:
        """Return the messages that `report` prints."""
        if not self.n or (self.n < self._due and not is_over):
            return [text for key, text in self._new_labels() if self._is_new(key)]
        self._due = 2 * self.n
        return [text for key, text in self._found(is_over=is_over) if self._is_new(key)]

    def _new_labels(self) -> Found:
        """Yield warnings of new classes since the last check, for labels may arrive separately."""
        n = 0 if self._learned is None else len(self._learned())
        if n > self._classes:
            self._classes = n
            yield from label_warnings(self._labels(), is_all=False, grows=True)

    @property
    def refuses_all(self) -> bool:
        """True if there are events and each is a dead letter; False if an event was too long to check."""
        return 0 < self.n == self._refused.total() and not self._has_long

    @property
    def is_table(self) -> bool:
        """True if columns hold the events."""
        return self.origin.is_table

    @property
    def is_label_misspelt(self) -> bool:
        """True if no event has a label, and a field differs from its name only by case."""
        keys = self._schema.label_keys
        return keys not in self.seen and self._alike(keys) is not None

    def _is_new(self, key: str) -> bool:
        is_new = key not in self._said
        self._said.add(key)
        return is_new

    def _found(self, *, is_over: bool) -> Found:
        if self._learns:
            yield from self._texts(is_over=is_over)
        yield from self._numbers(is_over=is_over)
        yield from self._unread()
        yield from self._times(is_over=is_over)
        if self.seen and (is_over or self.n >= ENOUGH):  # something could be read
            yield from self._absent()
            yield from self._ids()
        if self._learns and not self.refuses_all:
            yield from label_warnings(
                self._labels(), is_all=is_over and self._has_all_labels, grows=self._learned is not None
            )
        if most := self._refused.most_common(_MOST_REFUSALS):
            told = [f"{count:,} {self._refusal(fault)}" for fault, count in most]
            why = "; ".join(told) if len(most) > 1 else self._refusal(most[0][0])
            text = f"{pluralize(self._refused.total(), 'dead letter')} of {pluralize(self.n, 'event')}: {why}"
            reasons = sorted({reason for (reason, _), _ in most})
            message = Message(
                "dead-letters-found", text, count=self._refused.total(), events=self.n, reasons=reasons
            )
            yield f"refused {sorted(fault for fault, _ in most)}", message

    def _refusal(self, fault: tuple[str, str]) -> str:
        such_as = ", such as" if fault in self._various else ""
        return f"{' at '.join(fault)}{such_as}: {self._details[fault]}"

    def _texts(self, *, is_over: bool) -> Found:
        """Yield warnings of texts among attributes whose kind the type of their values decides."""
        for path, one in self.seen.items() if self._schema.open_features else ():
            is_open = path[0] == "features" and len(path) == 2 and path[1] not in self._schema.claimed
            if not is_open or not one.is_text(is_all=is_over and self.n < ENOUGH):
                continue
            if notation_of(one, self.origin.decimal) is None and not units_of(one):
                flag = f"--text-column {shlex.quote(path[-1])} or " if self.origin.is_table else ""
                text = f"{render_path(path)} looks like a text, and each is taken for one value: "
                text += f"{flag}{self.origin.init} declares it as a text"
                yield f"text {path}", Message("text-as-value", text, paths=[render_path(path)])

    def _numbers(self, *, is_over: bool) -> Found:
        """Yield warnings of attributes that are probably numbers but are not read as such."""
        if not is_over and self.n < ENOUGH:
            return
        found: dict[str, list[str]] = {}
        for path, one in self.seen.items():
            if self._may_be_number(path):
                for what, text in self._number_remedies(path, one, is_open=self._is_open(path)):
                    if self._is_new(f"{what} {path}"):
                        found.setdefault(text, []).append(render_path(path))
        for text, paths in found.items():
            message = Message("numbers-as-values", f"{some_of(paths)}: {text}", paths=paths)
            yield f"numbers {text} {paths}", message

    def _may_be_number(self, path: Keys) -> bool:
        is_number = self.origin.has_cells and self._places.get(path) == "continuous"
        return is_number or self._is_open(path)

    def _number_remedies(self, path: Keys, one: FieldSummary, *, is_open: bool) -> Iterator[tuple[str, str]]:
        """Yield the remedies for one attribute; `is_open`: the type of its values decides its kind."""
        has_cells = self.origin.has_cells
        has_digits = has_cells and has_long_digits(one)
        taken = "taken for one value" if is_open else "refused"
        if (notation := notation_of(one, self.origin.decimal)) is not None and not has_digits:
            notation, remedy = self._remedy(path, notation)
            written = notation.what
            if notation is QUOTED and not has_cells:
                written = "in strings" if self.origin.is_table else "in quotes"
            yield "notation", f"looks like numbers {written}, and each is {taken}: {remedy}"
        elif units := units_of(one):
            yield "unit", f"looks like numbers with {units}, and each is {taken}: write the numbers alone"
        what = "cell" if has_cells else "value"
        if markers := markers_of(one, self.origin.decimal):
            cells = shlex.quote(",".join(markers))
            remedy = (
                f"--missing={cells} takes them as missing" if has_cells else "leave these out, or write null"
            )
            told = odd_cells(one, markers, what) or some_of(markers)
            yield "markers", f"numbers, but for {told}, each {taken}: {remedy}"
        elif notation is None and not has_digits and (told := odd_cells(one, what=what)):
            yield "markers", f"numbers, but for {told}, each {taken}"
        if notation is not None and (words := words_among_numbers(one)):
            yield "words", f"numbers, but for {odd_cells(one, words, what)}, each {taken}"
        if is_open and self._learns and (told := sentinel_remedy(one, has_cells=has_cells)):
            yield "sentinels", told
        if is_open and has_digits:
            told = "whole numbers beyond 2^53 are taken for names, so that none is rounded; "
            yield "digits", f'{told}kind = "continuous" in [[attributes]] makes numbers of them'
        if is_open and self._learns:
            yield from self._misread_names(path, one)

    def _misread_names(self, path: Keys, one: FieldSummary) -> Iterator[tuple[str, str]]:
        """Yield the remedies for names and times that are taken for amounts or for single values."""
        if taken_for := dates_of(one):
            remedy = f"; a time of the event is RFC 3339, and {self.origin.remedy('ts', path)}"
            remedy = "" if self._roles["ts"] in self.seen else remedy
            text = f"looks like dates or times, and each is taken for {taken_for}: write what matters of them"
            yield "date", f"{text}, such as the weekday, as attributes{remedy}"
        elif self.origin.is_table and one.kind == RISING and not one.is_consecutive:
            # `column_checks` names a column that numbers the rows.
            remedy = self.origin.remedy("id", path)
            yield "rising", f"whole numbers that only rise, as ids do, are taken for an amount: {remedy}"
        elif self.origin.is_table and are_like_ids(one):
            text = (
                "whole numbers of equally many digits, nearly all different, as ids have, are taken for an "
            )
            yield "ids", f"{text}amount: {self.origin.remedy('id', path)}, or --drop leaves it out"
        if are_mixed_booleans(one):
            text = "some values are numbers and others booleans, of which a model uses one type: "
            yield "mixed", f'{text}kind = "nominal" in [[attributes]] reads all as names'
        if is_rounded(one):
            text = "whole numbers beyond 2^53 are rounded, so that neighbours become one: write strings, or "
            yield "rounded", f'{text}declare kind = "nominal" in [[attributes]]'

    def _remedy(self, path: Keys, notation: Notation) -> tuple[Notation, str]:
        """Return the notation of a column, given the notations of other columns, and how it can be read."""
        decimal = self.origin.decimal
        if notation.written:
            return notation, notation.written
        if notation.decimal != decimal and self.seen[path].strings <= self.seen[path].fractions:
            return notation, f"others have {decimal!r} as decimal separator; write all in one notation"
        others = {at: self.seen[at] for at in self.seen if at != path and self._may_be_number(at)}
        if notation.decimal == "," != decimal:
            ungrouped = {at: other for at, other in others.items() if not may_be_grouped(other)}
            notation = notation if notation.thousands or ungrouped == others else COMMA_AND_POINTS
            others = ungrouped if notation == COMMA_AND_POINTS else others
        if not self.origin.has_cells:
            return notation, self._write_numbers
        if paths := spoilt(others, notation, decimal):
            return notation, no_options(list(map(render_path, paths)), decimal)
        return notation, f"{notation.options} reads them"

    @property
    def _write_numbers(self) -> str:
        if self.origin.is_table:
            return "write a column of numbers, not of strings"
        return "write JSON numbers, such as 1010.44"

    def _is_open(self, path: Keys) -> bool:
        if not self._schema.open_features or len(path) != 2 or path[0] != "features":
            return False
        return path not in self._roles.values() and path[1] not in {"text", *self._schema.claimed}

    def _times(self, *, is_over: bool) -> Found:
        """Yield what is odd about times: of another unit, unknown but written as 0, or in the future."""
        keys = self._schema.ts_keys
        seen = self.seen.get(keys) if keys else None
        if keys is None or seen is None or not self._learns or (self.n < ENOUGH and not is_over):
            return
        place = render_path(keys)

        def odd(text: str) -> Message:
            return Message("times-odd", f"{place}: {text}", path=place)

        times = [(seconds, n) for value, n in seen.values.items() if (seconds := _seconds(value)) is not None]
        if n_ahead := sum(n for seconds, n in times if self._latest < seconds < LATEST):
            text = '`run` refuses such events, unless events.clock = "event"'
            where = "more than a day ahead of the clock of this machine"
            yield "ts ahead", odd(f"{pluralize(n_ahead, 'time')} {where}: {text}")
        n_early = sum(n for seconds, n in times if -1 <= seconds < _YEAR)
        if n_early == sum(seen.values.values()):
            if seen.types <= {int, float}:
                expected = "times are in 1970: seconds since 1970 are expected; write these, or "
                yield "ts 1970", odd(f"{expected}{self.origin.remedy('ts', None)}")
        elif n_early and not any(_YEAR <= seconds < 10 * _YEAR for seconds, _ in times):
            text = "in 1970, and none in the 9 years after: leave out a time that is not known"
            yield "ts some 1970", odd(f"{pluralize(n_early, 'time')} {text}")

    def _unread(self) -> Found:
        """Yield fields outside `features`, which are not read if no attributes are declared."""
        read = {keys[0] for keys in self._read} | {"features"}
        names = dict.fromkeys((path[0],) for path in self.seen if path[0] not in read)
        if names and self._schema.open_features:
            told = some_of(list(map(render_path, names)))
            text = f'{told}: not read, for attributes stand inside "features"; '
            text += f"{self.origin.init} declares them"
            yield f"unread {told}", Message("fields-not-read", text, paths=list(map(render_path, names)))

    def _labels(self) -> Mapping[str, float]:
        if self._learned is not None:
            return {str(label): weight for label, weight in self._learned().items() if weight > 0.0}
        seen, found = self.seen.get(self._schema.label_keys), Counter[str]()
        for value, n in seen.values.items() if seen is not None else ():
            is_number = isinstance(value, int | float) and math.isfinite(value)
            text = nominal(value, ()) if is_number else value if isinstance(value, str) else None
            if (label := self._schema.named(text)) is not None:
                found[label] += n
        return found

    @property
    def _has_all_labels(self) -> bool:
        return self._learned is not None or not self.has_more

    def _ids(self) -> Found:
        seen = self.seen.get(self._schema.id_keys)
        twice = {value: n for value, n in seen.values.items() if n > 1} if seen and not self._repeats else {}
        if twice:
            n = sum(twice.values()) - len(twice)
            such_as = next((f", such as {value!r}" for value in twice if isinstance(value, str)), "")
            has = "has" if n == 1 else "have"
            text = f"{pluralize(n, 'event')} of {self.n:,} {has} the id of an earlier event{such_as}: each "
            text += "is learned, and a label that arrives separately is the label of the newest; "
            text += f"{self.origin.remedy('id', None)}, or --set events.repeats=skip learns each id once"
            yield "ids", Message("ids-repeated", text, count=n, events=self.n)

    def _absent(self) -> Found:
        """Yield fields that no event has; optional fields only if another field may be meant."""

        def absent(keys: Keys, text: str) -> Message:
            none = f"none of {pluralize(self.n, 'event')} has {text}"
            return Message("field-absent", none, path=render_path(keys), events=self.n)

        for role, keys in self._roles.items():
            path = self._alike(keys)
            is_needed = self._needs_label if role == "label" else role == "id" or keys != ("ts",)
            if keys not in self.seen and (path or (is_needed and self._learns)):
                what = "a label at " if role == "label" else ""
                what += render_path(keys) + ", to be learned by" * (role == "label")
                apart = self._apart if role == "label" and path is None else ""
                yield role, absent(keys, f"{what}{self._hint(role, path)}{apart}")
        others = {path[-1]: path for path in self.seen if path not in self._read}
        missing = [keys for keys in self._places if keys not in self.seen]
        declared = [keys[-1] for keys in self._places]
        for keys in missing if self._schema.attributes else ():
            path = others.get(nearest(keys[-1], others) or "")
            if path is not None and nearest(path[-1], declared) not in {keys[-1], None}:
                path = None  # a misspelling of another attribute
            if path is None and self._places[keys] == "text":
                path = next((p for p in others.values() if self.seen[p].kind == "text"), None)
            if path or self._learns:
                told = self._hint(self._places[keys], path) if path else ""
                yield f"absent {keys}", absent(keys, f"{render_path(keys)}, which is declared{told}")
        path = self._alike(("text",)) if len(missing) == len(self._places) else None
        if path is not None and not self._schema.attributes and f"text {path}" not in self._said:
            yield "text", absent(("text",), f"$.text{self._hint('text', path)}")

    @property
    def _needs_label(self) -> bool:
        """True if missing labels are reported: of a table even if labels may arrive separately."""
        return self.expects_label or (self.origin.is_table and bool(self._labels_topic))

    @property
    def _apart(self) -> str:
        if self._labels_topic:
            return f"; none is needed for labels that arrive in topic {self._labels_topic}"
        return _APART

    def _alike(self, keys: Keys) -> Keys | None:
        name = keys[-1].casefold()
        return next((p for p in self.seen if p not in self._read and p[-1].strip().casefold() == name), None)

    def _hint(self, role: str, path: Keys | None) -> str:
        near = f"; did you mean {render_path(path)}?" if path else ":"
        return f"{near} {self.origin.remedy(role, path)}"


def _seconds(value: Any) -> float | None:
    try:
        return moment(value, ())
    except MalformedEvent:
        return None


def report_data_quality(schema: EventSchema, text: str) -> None:
    """Print warnings about the fields of one event of a query."""
    odd = DataQuality(schema, learns=False)
    odd.look(text.encode())
    odd.report(is_over=True)


def report_small_weights(n: int) -> None:
    """Print that `n` labels count more than their weight, if there are any."""
    if n:
        text = (
            f"{pluralize(n, 'label')} with a weight above 0 and below 1/1024: each counts 1/1024 example, "
            "the least there is; a label counts its weight times labels.weights of its source, and with 0 "
            "nothing is learned"
        )
        note(Message("weight-below-unit", text, count=n))
