"""What about the fields of events looks as if nobody had meant it; each is said once, by name.

Every way by which events come in looks at them here: files that are evaluated, replayed or asked about, and
the records that `run` reads. Nothing is changed or refused: only people are told.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from streamnb.cli.evaluation.seen_fields import (
    ENOUGH,
    MOST_VALUES,
    Keys,
    Seen,
    how_to_read,
    look,
    named,
    unread_texts,
)
from streamnb.cli.printable import printable
from streamnb.errors import MalformedEvent
from streamnb.model.attributes.attributes import some_of
from streamnb.model.attributes.nearest import nearest, slips
from streamnb.model.attributes.parameters import of
from streamnb.wire.codec import Rules, decode_event
from streamnb.wire.paths import render_path
from streamnb.wire.schema import EventSchema

LOOKED_AT = 1000
"""Events that are looked at one after the other; of later ones some may be."""

_LONGEST = 1 << 16  # bytes of an event that is looked at
_SOON = 4  # events, before anything is said
_MOST_WORDS = 5  # that mean that there is no number
_MOST_REFUSALS = 3  # that are told apart
_TOO_EARLY = 631152000.0  # 1990-01-01
_TEXT = ("text",)

Found = Iterator[tuple[str, str]]
"""What it is about, for it to be said once, and what there is to say."""


class Origin(NamedTuple):
    """Where events come from, for what is said of them.

    Attributes:
        file: its name; empty for a log.
        is_table: whether it has columns, which flags name.
    """

    file: str = ""
    is_table: bool = False

    @property
    def init(self) -> str:
        """The command that looks at it."""
        return f"`streamnb init {shlex.quote(self.file)}`" if self.file else "`streamnb init`"

    def remedy(self, role: str, path: Keys | None) -> str:
        """What says where the id, label, time or text is: at a path, or wherever it is."""
        if self.is_table:
            name = shlex.quote(path[-1]) if path else "NAME"
            return f"--{role}-column {name} says which column it is"
        if role == "text":
            return f"{self.init} declares where texts are"
        place = shlex.quote(render_path(path)) if path else "PATH"
        return f"--set events.{role}={place} says where it is"


_LOG = Origin()
_NEWEST = Rules()


class OddFields:
    """Looks at the first events, and at some later ones.

    Args:
        schema: how they are read.
        origin: where they come from.
        learns: whether they are to be learned, not only predicted.
        classes: how often each label was learned, where that is known.
        counts_refusals: whether it says which events are dead letters, where nobody else does.

    Attributes:
        n: how many were looked at.
        seen: what is at each path.
        expects_label: whether something is wrong where none has a label.
    """

    def __init__(
        self,
        schema: EventSchema,
        origin: Origin = _LOG,
        *,
        learns: bool = True,
        expects_label: bool = False,
        counts_refusals: bool = False,
    ) -> None:
        self.n, self.expects_label = 0, expects_label
        self._schema, self._origin, self._counts_refusals = schema, origin, counts_refusals
        self._learns = learns
        self.seen: dict[Keys, Seen] = {}
        self.classes: Mapping[Any, float] = {}
        self._not_utf8 = 0
        self._refused: Counter[tuple[str, str]] = Counter()  # by reason and path
        self._details: dict[tuple[str, str], str] = {}
        self._said: set[str] = set()
        self._due = _SOON
        self._roles = {"id": schema.id_keys, "label": schema.label_keys, "ts": schema.ts_keys or ("ts",)}
        self._places = {place.keys: place.kind for place in schema.places}
        self._read = {*self._places, *self._roles.values(), schema.entity_keys or schema.id_keys}

    def look(
        self, raw: bytes, key: bytes | None = None, recorded: float = 0.0, rules: Rules = _NEWEST
    ) -> None:
        """Note what an event holds; see `decode_event`."""
        if len(raw) > _LONGEST:
            return
        self.n += 1
        if not look(raw, self.seen):
            self._not_utf8 += not is_utf8(raw)
        if self._counts_refusals:
            try:
                decode_event(raw, self._schema, key, recorded, rules)
            except MalformedEvent as error:
                fault = error.reason, error.path
                self._refused[fault] += 1
                self._details.setdefault(fault, str(error))

    def watched(self, rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The same rows, the first of which are looked at as they go by."""
        for number, raw in rows:
            if self.n < LOOKED_AT:
                self.look(raw)
            yield number, raw

    def say(self, *, is_over: bool = False) -> None:
        """Print what is odd and was not said yet, where as many came again, or nothing more comes."""
        for text in self.news(is_over=is_over):
            print(f"streamnb: {printable(text)}", file=sys.stderr)

    def news(self, *, is_over: bool = False) -> list[str]:
        """What `say` prints."""
        if not self.n or (self.n < self._due and not is_over):
            return []
        self._due = 2 * self.n
        return [text for key, text in self._found(is_over=is_over) if self._is_new(key)]

    @property
    def refuses_all(self) -> bool:
        """Whether there are events, and each is a dead letter."""
        return 0 < self.n == self._refused.total()

    @property
    def is_label_misspelt(self) -> bool:
        """Whether no event has a label, and a field is called so but for its case."""
        keys = self._schema.label_keys
        return keys not in self.seen and self._alike(keys) is not None

    def _is_new(self, key: str) -> bool:
        is_new = key not in self._said
        self._said.add(key)
        return is_new

    def _found(self, *, is_over: bool) -> Found:
        if self._learns:
            yield from self._texts(is_over=is_over)
        else:
            yield from self._misspelt()
        yield from self._unread()
        if (is_over and self._learns) or self.n >= ENOUGH:  # a question may leave things out
            yield from self._absent()
        yield from self._cells()
        if self._learns:
            yield from hardly_meant(self.classes or self.seen.get(self._roles["label"], Seen()).values)
        if self._not_utf8:
            yield "utf8", not_utf8(self._not_utf8, self.n, self._origin)
        yield from self._ids_and_times()
        if most := self._refused.most_common(_MOST_REFUSALS):
            told = [f"{count:,} {self._details[fault]}" for fault, count in most]
            why = "; ".join(told) if len(most) > 1 else self._details[most[0][0]]
            text = f"{of(self._refused.total(), 'dead letter')} of {of(self.n, 'event')}: {why}"
            yield f"refused {sorted(fault for fault, _ in most)}", text

    def _open(self) -> Iterator[tuple[Keys, str, Seen]]:
        """The attributes that are taken by the type of their values: where they are, as text, too."""
        for path, one in self.seen.items() if self._schema.open_features else ():
            if path[0] == "features" and len(path) == 2 and path[1] not in self._schema.claimed:
                yield path, render_path(path), one

    def _texts(self, *, is_over: bool) -> Found:
        for path, place, one in self._open():
            if one.is_text(is_all=is_over and self.n < ENOUGH):
                flag = f"--text-column {shlex.quote(path[-1])} or " if self._origin.is_table else ""
                text = f"{place} looks like a text, and each is taken for one value: "
                yield f"text {path}", f"{text}{flag}{self._origin.init} declares it as a text"

    def _misspelt(self) -> Found:
        """Fields of a question that nothing reads, and whose names are near to what it does not have."""
        missing = {keys[-1]: render_path(keys) for keys in self._places if keys not in self.seen}
        for path in self.seen:
            near = None if path in self._read else nearest(path[-1], missing)
            if near is not None:
                hint = f"{render_path(path)} is not read; did you mean {missing[near]}?"
                yield f"misspelt {path}", hint

    def _unread(self) -> Found:
        """Fields beside `features`, which is where attributes stand while none is declared."""
        read = {keys[0] for keys in self._read} | {"features"}
        names = dict.fromkeys((path[0],) for path in self.seen if path[0] not in read)
        if names and self._schema.open_features:
            told = some_of(list(map(render_path, names)))
            text = f'{told}: not read, for attributes stand inside "features"; '
            yield f"unread {told}", f"{text}{self._origin.init} declares them where they are"

    def _absent(self) -> Found:
        """What stands in no event; of what need not be there, only where a field is alike."""
        none = f"none of {of(self.n, 'event')} has"
        for role, keys in self._roles.items():
            path = self._alike(keys)
            is_needed = self.expects_label if role == "label" else role == "id" or keys != ("ts",) or path
            if keys not in self.seen and is_needed:
                what = "a label at " if role == "label" else ""
                what += render_path(keys) + ", to be learned by" * (role == "label")
                yield role, f"{none} {what}{self._hint(role, path)}"
        missing = [keys for keys in self._places if keys not in self.seen]
        if self._schema.attributes:
            others = {path[-1]: render_path(path) for path in self.seen if path not in self._read}
            texts = unread_texts(self.seen, self._schema)
            like = f"; {named(texts)} looks like a text: {how_to_read(texts, self._schema)}" if texts else ""
            for keys in missing:
                place = render_path(keys)
                near = None if self._places[keys] == "text" else nearest(keys[-1], others)
                hint = like if near is None else f"; did you mean {others[near]}?"
                yield f"absent {place}", f"{none} {place}, which is declared{hint}"
            return
        path = self._alike(_TEXT) if len(missing) == len(self._places) else None
        if path is not None and f"text {path}" not in self._said:
            yield "text", f"{none} $.text{self._hint('text', path)}"

    def _alike(self, keys: Keys) -> Keys | None:
        """A field that nothing reads as what it is, and whose name differs in case alone."""
        name = keys[-1].casefold()
        return next((p for p in self.seen if p not in self._read and p[-1].casefold() == name), None)

    def _hint(self, role: str, path: Keys | None) -> str:
        near = f"; did you mean {render_path(path)}? " if path else ": "
        return near + self._origin.remedy(role, path)

    def _cells(self) -> Found:
        for path, place, one in self._open():
            yield from strings_for_numbers(path, one, self._origin)
            if one.quoted == one.n and one.differ:
                text = f"{place} is a number in quotes, so that each is one value of many: send it without "
                yield f"quoted {path}", f"{text}them, or {self._origin.init} declares what it is"
        for path, kind in self._places.items() if self._origin.is_table else ():
            if kind == "continuous" and path in self.seen:
                yield from strings_for_numbers(path, self.seen[path], self._origin, "a dead letter")

    def _ids_and_times(self) -> Found:
        ids, times = (self.seen.get(self._roles[role], Seen()) for role in ("id", "ts"))
        id_place, ts_place = (render_path(self._roles[role]) for role in ("id", "ts"))
        again = ids.n - len(ids.values)
        if again and ids.n <= MOST_VALUES:
            text = f"{again:,} of {of(ids.n, 'event')} have an id at {id_place} that came before: each is "
            yield "repeated ids", f"{text}learned, but a later label or question means only one of them"
        if times.n and times.types <= {int, float} and max(times.values) < _TOO_EARLY:
            text = f"the times at {ts_place} are all before 1990: expected are seconds since the epoch"
            yield "early times", text


def strings_for_numbers(
    path: Keys, one: Seen, origin: Origin, become: str = "one value of many, and no number"
) -> Found:
    """Of a field that has numbers, and what means that there is none; or numbers with a decimal comma."""
    place = render_path(path)
    if one.commas > one.n / 2:
        remedy = "--decimal-comma reads them" if origin.is_table else "send them with a point"
        text = f"{place} looks like a number with a decimal comma in {of(one.commas, 'event')}, each of which"
        yield f"comma {path}", f"{text} is {become}: {remedy}"
    elif one.strings and one.numbers:
        words = [value for value in one.values if isinstance(value, str)]
        remedy = "send it without quotes"
        if origin.is_table:
            remedy = "leave cells empty that have none"
            if len(words) <= _MOST_WORDS and not any("," in word for word in words):
                remedy += f", or say it with --missing {shlex.quote(','.join(words))}"
        text = f"{place} is a number in {of(one.numbers, 'event')}, and a string in {one.strings:,}, each"
        yield f"quoted {path}", f"{text} of which is {become}: {remedy}"


def hardly_meant(classes: Mapping[Any, float]) -> Found:
    """Of labels that are rare, and nearly like a frequent one."""
    for label, near in slips({label: often for label, often in classes.items() if isinstance(label, str)}):
        counts = f"{of(round(classes[label]), 'time')}, {near!r} {of(round(classes[near]), 'time')}"
        yield f"label {label}", f"{label!r} is a class of its own, {counts}: is it the same label?"


def is_utf8(raw: bytes) -> bool:
    """Whether a record is text as events have it."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def not_utf8(count: int, n: int, origin: Origin) -> str:
    """What to say of events that are not UTF-8."""
    text = f"{count:,} of {of(n, 'event')} {'is' if count == 1 else 'are'} not UTF-8, and so refused"
    file = shlex.quote(origin.file)
    return text + (f": if they are Latin-1, `iconv -f latin1 -t utf8 {file}` converts them" if file else "")


def say_what_is_odd(schema: EventSchema, text: str) -> None:
    """Of the fields of one event that is asked about."""
    odd = OddFields(schema, learns=False)
    odd.look(text.encode())
    odd.say(is_over=True)
