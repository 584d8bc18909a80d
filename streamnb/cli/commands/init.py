"""``streamnb init``: a configuration proposed from a sample of events."""

from __future__ import annotations

import argparse
import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from streamnb import config as configuration
from streamnb.cli.commands.read import records_of
from streamnb.config import Config
from streamnb.config.config_literals import literal
from streamnb.config.validators import JSON_PATH
from streamnb.errors import ConfigError, MalformedEvent
from streamnb.evaluation.event_input import (
    cells_of,
    columns_of,
    files_named,
    files_of,
    given_columns,
)
from streamnb.evaluation.input_files import sample_of, settled_files
from streamnb.evaluation.label_quality import aliases_of, label_warnings
from streamnb.evaluation.proposal_trial import ProposalTrial, mended, try_proposal
from streamnb.evaluation.rejections import RejectionCounts
from streamnb.features.attributes import some_of
from streamnb.features.number_notation import (
    COMMA_AND_POINTS,
    QUOTED,
    dates_of,
    is_grouped,
    markers_of,
    no_options,
    notation_of,
    spoilt,
    units_of,
)
from streamnb.features.schema_inference import A_DATE, MOST_VALUES, FieldSummary, Keys, look
from streamnb.formats.event_columns import CsvColumns, RowNote, ignore_note
from streamnb.formats.event_files import format_of, repeated_stdin
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.event_validity import refuse_odd_time
from streamnb.formats.json_paths import parse_path, render_path
from streamnb.formats.json_shapes import with_id
from streamnb.formats.json_value_checks import moment
from streamnb.formats.terminal_text import note, printable
from streamnb.runtime import context
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import did_you_mean, pluralize
from streamnb.values.time_parts import time_parts

_IDS = ("id", "_id", "uuid", "event_id", "message_id")
_LABELS = ("label", "class", "category", "target", "truth", "outcome", "y")
_TIMES = ("ts", "timestamp", "time", "created_at", "date")
_MOST_ATTRIBUTES = 100
_DAY = 86_400  # seconds
_YEAR = 365 * 86_400  # seconds
_MOST_NAMES = 10  # different numbers with a unit that may be names, such as "36 months" and "60 months"
_MOST_CANDIDATES = 5  # for the label
_LEFT_OUT = "# left out: "
_SNIFFED = {
    "delimiter": "delimiter",
    "quote": "quote",
    "quoting": "quoting",
    "header": "has_header",
    "skip": "skipped",
    "comment": "comment",
    "decimal": "decimal",
    "thousands": "thousands",
    "encoding": "encoding",
}
"""Option of text files -> attribute of `CsvColumns`."""
_AS_IT_IS = "# not declared, so read as it is: "


def run(options: argparse.Namespace) -> int:
    """Infer a configuration from events, write it, and print its effect on them."""
    with repeated_stdin():  # events are read again as their columns are declared
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    given = context.load_config(options)
    strings = frozenset(name for role, name in _columns(options).items() if role != "ts")
    raws, seen, n = _as_written(options, given, strings)
    if not n:
        raise ConfigError(_why_no_event(raws, context.schema(given), _source_named(options, given)))
    named = _named(options, seen)
    is_table = options.file is not None and format_of(options.file, options.format or "").has_columns
    places = _places(given, named, seen, n, needs_id=options.file is None)
    raws = _with_ids(raws, places)
    if "label" not in places and not given.topics.labels:
        raise ConfigError(_why_no_label(places, seen, is_table=is_table))
    forced = named.get("text")

    def read(schema: EventSchema) -> list[bytes]:
        if not is_table:
            return raws
        columns = columns_of(options, schema, has_content_ids=bool(options.more))
        _, files = settled_files(files_of(options), columns, ignore_note)
        return sample_of(files, options.events)  # again, as the columns are declared now

    def propose() -> str:
        return _proposed(options, given, (places, forced), seen, n)

    text, trial = _mended(propose, read, seen, places, forced)
    if trial.raws and trial.faults.total() == len(trial.raws):
        raise ConfigError(
            _why_no_event(trial.raws, context.schema(trial.config), _source_named(options, given))
        )
    text += _aliases(trial, is_all=len(trial.raws) < options.events)
    try:
        with Path(options.out).open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{options.out} is there: remove it, or name another file with --out") from error
    config, letters = trial.config, trial.faults.total()
    left_out = _named_behind(_LEFT_OUT, text)
    _print_what_is_read(_named_behind(_AS_IT_IS, text))
    summary = {
        "file": options.out,
        "events": len(trial.raws),
        "dead_letters": letters,
        "attributes": len(config.attributes),
        "left_out": left_out,
        **({"dead_letter_reasons": trial.tally.rows()} if letters else {}),
    }
    if options.json:
        print(json.dumps(summary | {"places": {name: render_path(path) for name, path in places.items()}}))
        return 0
    found = pluralize(len(config.attributes), "attribute") if config.attributes else "no attribute declared"
    found += f", by {pluralize(len(trial.raws), 'event')}"
    print(f"{options.out}: {found}; {pluralize(letters, 'dead letter')} under it")
    if left_out:
        print(f"left out: {some_of(left_out)}")
    trial.tally.print()
    return 0


def _with_ids(raws: list[bytes], places: Mapping[str, Keys]) -> list[bytes]:
    """Return the events with row numbers as ids if no field is an id, as `evaluate` reads them."""
    return raws if "id" in places else [with_id(raw, str(row)) for row, raw in enumerate(raws)]


def _source_named(options: argparse.Namespace, given: Config) -> str:
    return files_named(options) if options.file else f"topic {options.topic or given.topics.events[0]}"


def _why_no_event(raws: Sequence[bytes], schema: EventSchema, source: str) -> str:
    """Return why no event of a source could be decoded, with the most frequent fault."""
    tally = RejectionCounts(schema)
    for row, raw in enumerate(raws):
        tally.decode(row, raw)
    if raws:
        fault = tally.rows()[0]
        why = f"{fault['count']:,} {fault['reason']} at {fault['path']}, first row {fault['first_row']}: "
        events = pluralize(len(raws), "event")
        return f"none of {events} could be decoded; {why}{fault['detail']}; nothing was written"
    return f"{source} holds no event: give a file or a topic that has events"


def _why_no_label(places: Mapping[str, Keys], seen: Mapping[Keys, FieldSummary], *, is_table: bool) -> str:
    """Return why no label was found, with candidate fields of few values."""
    few = [
        path
        for path, one in seen.items()
        if one.kind == "nominal" and len(one.values) > 1 and path not in places.values()
        if not one.differ
    ]
    few = sorted(few, key=lambda path: len(seen[path].values))[:_MOST_CANDIDATES]
    hint = ": none has a few values and the usual name of one, such as label or class"
    if few:
        hint = f"; candidates, of few values, are {', '.join(printable(render_path(path)) for path in few)}"
    return (
        f"no field is surely the label{hint}: name it with "
        f"{'--label-column NAME' if is_table else '--set events.label=PATH'}, or "
        "declare that labels arrive separately, with --set topics.labels=labels; nothing was written"
    )


def _aliases(trial: ProposalTrial, *, is_all: bool) -> str:
    """Print warnings about labels, and return a comment with aliases for similar ones."""
    for _, message in label_warnings(trial.labels, is_all=is_all):
        note(message)
    aliases = aliases_of(trial.labels)
    return f"\n# [classes]\n# aliases = {aliases}\n" if aliases else ""


def _print_what_is_read(as_is: list[str]) -> None:
    """Print the undeclared fields that are read because none is declared."""
    if as_is:
        text = (
            "no field is an attribute for sure, so none is declared, and `features` and `text` are read as "
            f"they are: {some_of(as_is)}; declare informative ones as [[attributes]], to drop the rest"
        )
        note(Message("no-attribute-declared", text, paths=as_is))


def _named_behind(what: str, text: str) -> list[str]:
    """Return the names in the comments of a proposal that begin with `what`."""
    return [line.removeprefix(what) for line in text.split("\n") if line.startswith(what)]


def _mended(
    propose: Callable[[], str],
    read: Callable[[EventSchema], list[bytes]],
    seen: dict[Keys, FieldSummary],
    places: dict[str, Keys],
    forced: Keys | None,
) -> tuple[str, ProposalTrial]:
    """Return the proposal after trial and repair, and its last trial."""
    trial = try_proposal(text := propose(), read)
    while fault := mended(trial, seen, places, forced):
        note(Message("proposal-mended", fault))
        trial = try_proposal(text := propose(), read)
    if "ts" not in places and (path := _unread_time(seen)) is not None:
        note(Message("times-odd", _why_unread(path, seen[path]), path=render_path(path)))
    return text, trial


def _sample(
    options: argparse.Namespace, given: Config, strings: frozenset[str], note: RowNote = note
) -> tuple[list[bytes], dict[Keys, FieldSummary], int]:
    """Return the first events, a summary of each path, and the number of JSON objects."""
    finds_label = options.label_column == "label"
    columns = CsvColumns(
        **cells_of(options), strings=strings, finds_label=finds_label, has_content_ids=bool(options.more)
    )
    lost = set[str]()
    declared: dict[str, tuple[str, tuple[str, ...]]] = {}
    options.has_weights = False

    def take(message: Message) -> None:
        if message.event == "attributes-declared":
            declared.update(message.fields["attributes"])
            return
        if message.event == "weights-not-read":
            options.has_weights = True
            return
        lost.update(message.fields["columns"] if message.event == "digits-lost" else ())
        note(message)

    if options.file is None:
        with closing(_raws(options, given)) as source:
            raws = list(islice(source, options.events))
    else:
        columns, files = settled_files(files_of(options), columns, take)
        raws = sample_of(files, options.events)
        _write_down(options, columns)
    seen: dict[Keys, FieldSummary] = {}
    named = {*_IDS, *_LABELS, *_TIMES, *(name.lower() for name in _columns(options).values())}
    n = sum(look(raw, seen, named) for raw in raws)
    if options.file is not None and not any(
        marker in one.values for one in seen.values() for marker in columns.markers
    ):
        options.missing = ",".join(filter(None, [options.missing, *columns.markers]))
    _decide_kinds(options, seen, declared, lost)
    return raws, seen, n


def _decide_kinds(
    options: argparse.Namespace,
    seen: Mapping[Keys, FieldSummary],
    declared: Mapping[str, tuple[str, tuple[str, ...]]],
    lost: Container[str],
) -> None:
    """Set the kinds of attributes that the file declares, or that lose digits or units as numbers."""
    for path, one in seen.items():
        if path[0] == "features" and path[-1] in declared:
            one.decided, one.declared = declared[path[-1]]
        elif path[-1] in lost and path[0] == "features" and not one.differ:
            one.decided = "nominal"
        elif (notation := notation_of(one, options.decimal or ".")) and notation.written:
            one.decided = f"(numbers {notation.what}: write plain ones)"
        elif len(one.values) > _MOST_NAMES and units_of(one):
            one.decided = "(numbers with a unit: write the numbers alone)"


def _write_down(options: argparse.Namespace, columns: CsvColumns) -> None:
    """Set the options of text files to what was sniffed, unless it is the default."""
    if options.format is None and columns.format != format_of(options.file).name:
        options.format = columns.format
    usual = CsvColumns(delimiter=",", quote='"', quoting=True, has_header=True, skipped=0, decimal=".")
    for option, name in _SNIFFED.items():
        value = getattr(columns, name)
        if getattr(options, option) is None and value not in {getattr(usual, name), None, ""}:
            setattr(options, option, value)


def _as_written(
    options: argparse.Namespace, given: Config, strings: frozenset[str]
) -> tuple[list[bytes], dict[Keys, FieldSummary], int]:
    """Return what `_sample` does, of a text file by the options that read its numbers."""
    found = _sample(options, given, strings)
    if options.file is None or not format_of(options.file, options.format or "").has_cells:
        return found

    def again() -> tuple[list[bytes], dict[Keys, FieldSummary], int]:
        return _sample(options, given, strings, ignore_note)

    if text := _written_otherwise(options, found[1], lambda: again()[1]):
        note(Message("numbers-converted", f"{files_named(options)}: {text}", file=options.file))
        return again()
    return found


def _written_otherwise(
    options: argparse.Namespace,
    seen: Mapping[Keys, FieldSummary],
    again: Callable[[], Mapping[Keys, FieldSummary]],
) -> str:
    """Set the options that read numbers as they are written, and return a message about it.

    `again` returns what is at each path as it is read by the options that are set now.
    """
    decimal = options.decimal or "."
    columns = {render_path(path): one for path, one in seen.items() if path[0] == "features"}
    notations = {
        path: notation
        for path, one in columns.items()
        if (notation := notation_of(one, decimal)) and not notation.written and notation is not QUOTED
    }
    markers = {path: found for path, one in columns.items() if (found := markers_of(one, decimal))}
    notes = []
    if notations:
        most, _ = Counter(notations.values()).most_common(1)[0]
        paths = some_of([path for path, notation in notations.items() if notation == most])
        others = {p: one for p, one in seen.items() if p[0] == "features" and render_path(p) not in notations}
        fixed = list(map(render_path, spoilt(others, most, decimal)))
        if fixed and most.decimal == "," and most.thousands in {"", "."}:
            given, options.decimal = options.decimal, most.decimal
            if all(is_grouped(one) for path, one in again().items() if render_path(path) in fixed):
                paths, fixed, most = some_of([*notations, *fixed]), [], COMMA_AND_POINTS
            options.decimal = given
        if fixed:
            text = f"{paths}: numbers {most.what}: {no_options(fixed, options.decimal or '.')}"
            note(Message("numbers-as-values", text, paths=list(notations)))
        else:
            options.decimal, options.thousands = most.decimal, most.thousands or None
            notes.append(f"{paths}: read as numbers {most.what} ({most.options})")
    if markers:
        cells = dict.fromkeys(cell for found in markers.values() for cell in found)
        options.missing = ",".join(filter(None, [options.missing, *cells]))
        flag = shlex.join([f"--missing={options.missing}"])
        notes.append(f"{some_of(list(markers))}: read as numbers, some of which are missing ({flag})")
    return "; ".join(notes) + "; give `evaluate` and `replay` the same options" if notes else ""


def _raws(options: argparse.Namespace, config: Config) -> Generator[bytes, None, None]:
    """Yield the events of the topic."""
    with closing(context.existing_log(config)) as log:
        for record in records_of(log, options.topic or config.topics.events[0], defaultdict(int)):
            yield record.value


def _columns(options: argparse.Namespace) -> dict[str, str]:
    """Return role -> column for the roles whose column a flag names."""
    given = given_columns(options).items()
    return {role: name for role, name in given if name is not None and name != role}


def _named(options: argparse.Namespace, seen: Mapping[Keys, FieldSummary]) -> dict[str, Keys]:
    """Return the paths of the fields named by flags. Raises ConfigError if no event has one."""
    found = {
        role: [p for p in (("features", name), (name,)) if p in seen]
        for role, name in _columns(options).items()
    }
    for role, paths in found.items():
        if not paths:
            there, name = sorted({path[-1] for path in seen}), _columns(options)[role]
            known = f"there are {', '.join(map(printable, there))}{did_you_mean(name, there)}"
            raise ConfigError(f"--{role}-column {name}: no event has a value there; {known}")
    return {role: paths[0] for role, paths in found.items()}


def _places(
    config: Config,
    flags: Mapping[str, Keys],
    seen: Mapping[Keys, FieldSummary],
    n: int,
    *,
    needs_id: bool,
) -> dict[str, Keys]:
    """Return the paths of id, label and time, from flags, configuration or names; of an id also by values.

    Raises ConfigError if no field is an id, and one is needed: a file needs none.
    """
    default = configuration.EventsConfig()

    def named(role: str, names: tuple[str, ...]) -> Iterator[Keys]:
        path = getattr(config.events, role)
        if path and path != getattr(default, role) and parse_path(path) in seen:
            yield parse_path(path)
        yield from (p for name in names for p in seen if p[-1].lower() == name)

    ids = [*named("id", _IDS), *(p for p, one in seen.items() if one.types == {str} and one.words == n)]
    own = [p for p in ids if seen[p].n == n and len(seen[p].values) == min(n, MOST_VALUES)]
    unique = [p for p in own if seen[p].strings * 2 > n or p[-1].lower() in _IDS]  # else a number is no id
    if not unique and "id" not in flags and needs_id:
        raise ConfigError(
            "no field is an id, of which each event needs its own: add one, "
            "or name its path with --set events.id=PATH"
        )
    labels = (p for p in named("label", _LABELS) if seen[p].types <= {str, bool, int} and not seen[p].differ)
    times = (
        p
        for p in named("ts", _TIMES)
        if list not in seen[p].types and all(map(_is_time, seen[p].values)) and not _are_of_1970(seen[p])
    )
    found = {"id": next(iter(unique), None), "label": next(labels, None), "ts": next(times, None), **flags}
    return {role: path for role, path in found.items() if path is not None and role != "text"}


def _are_of_1970(one: FieldSummary) -> bool:
    """Return whether no number is a time after 1970, as with days, or milliseconds since a start."""
    return one.types <= {int, float} and all(value < _YEAR for value in one.values)


def _is_time(value: Any) -> bool:
    return not isinstance(value, bool) and not _why_no_time(value) and moment(value, ()) > 0


def _why_no_time(value: Any) -> str:
    """Return why a value is not a time, without the value itself; empty if it is one."""
    try:
        refuse_odd_time(moment(value, ()), value, ())
    except MalformedEvent as error:
        return error.detail if error.reason == "wrong-type" else "expected seconds, of the years 1900 to 2099"
    return ""


def _proposed(
    options: argparse.Namespace,
    given: Config,
    found: tuple[Mapping[str, Keys], Keys | None],
    seen: Mapping[Keys, FieldSummary],
    n: int,
) -> str:
    """Return the configuration as TOML; its comments hold counts and field names, but no value."""
    places, text = found
    what = printable(_source_named(options, given))
    lines = [
        f"# Proposed by `streamnb init` for {what}, by {pluralize(n, 'event')}. Look through it; then",
        f"#   streamnb config lint --config {printable(shlex.quote(options.out))}",
    ]
    if options.file is not None:
        flags = {
            "--member": options.member,
            "--format": options.format,
            "--delimiter": options.delimiter,
            "--missing": options.missing,
            "--decimal": (options.decimal or "").strip("."),
            "--skip": options.skip,
            "--comment": options.comment,
            "--thousands": options.thousands,
            "--quote": options.quote,
            "--encoding": options.encoding,
        }
        cells = [f"{flag}={value}" for flag, value in flags.items() if value]
        if options.quoting is not None:
            cells.append("--quoting" if options.quoting else "--no-quoting")
        if options.header is not None:
            cells.append("--header" if options.header else "--no-header")
        command = ["evaluate", *files_of(options), "--config", options.out, *cells]
        lines.append(f"#   streamnb {printable(shlex.join(command))}")
    if options.file is None or given.log != configuration.LogConfig():
        lines += ["", "[log]", f"url = {literal(given.log.url)}"]
    topics = (options.topic,) if options.topic else given.topics.events
    apart = {"events": topics, "labels": given.topics.labels}
    default = configuration.TopicsConfig()
    keys = [f"{key} = {literal(value)}" for key, value in apart.items() if value != getattr(default, key)]
    lines += ["", "[topics]", *keys] if keys else []
    lines += ["", "[events]"]
    for role in ("id", "label", "ts"):
        if role in places:
            one = seen[places[role]]
            classes = f"  # {len(one.values):,} classes, in {pluralize(one.n, 'event')}"
            comment = classes if role == "label" else ""
            lines.append(f"{role} = {literal(render_path(places[role]))}{comment}")
        elif role == "ts" and any(path[0] == role for path in seen):
            lines.append(f'ts = ""  # $.ts is not read: {_why_not_read(seen.get((role,), FieldSummary()))}')
        elif role == "ts" and (path := _unread_time(seen)) is not None:
            lines.append(f"# ts = {literal(render_path(path))}  # {printable(_why_unread(path, seen[path]))}")
        else:
            lines.append(f'# {role} = "$.{role}"  # no field looks like it')
    lines += ['weight = "$.weight"  # of rows of the file'] * options.has_weights
    return "\n".join([*lines, *_attributes(places, text, seen, n), ""])


def _why_not_read(one: FieldSummary) -> str:
    if one.values and _are_of_1970(one):
        return "its times are in 1970, and seconds since 1970 are expected"
    reasons = (why for value in one.values if (why := _why_no_time(value)))
    return next(reasons, "it is not a time, and would make events dead letters")


def _unread_time(seen: Mapping[Keys, FieldSummary]) -> Keys | None:
    """Return the path of the first field that may be the time, for a proposal without one."""
    return next((p for p, one in seen.items() if p == ("ts",) or one.kind == A_DATE), None)


def _why_unread(path: Keys, one: FieldSummary) -> str:
    """Return a message about a field that may be the time, without its values."""
    place = render_path(path)
    if all(map(_is_time, one.values)):
        return f"{place} can be read as the time: --set {shlex.quote(f'events.ts={place}')}"
    return f"{place} is not read as the time: {_why_not_read(one)}"


def _attributes(
    places: Mapping[str, Keys], text: Keys | None, seen: Mapping[Keys, FieldSummary], n: int
) -> Iterator[str]:
    """Yield a table for each attribute, and a comment for each uninformative field."""
    others = {path: one for path, one in seen.items() if path not in places.values()}
    if len(others) > _MOST_ATTRIBUTES:
        yield f"\n# Over {_MOST_ATTRIBUTES} fields, none declared: `text` and `features` are as they are."
        return
    names: set[str] = set()
    kinds = {path: _kind(path, one, text) for path, one in others.items()}
    is_open = all(kind.startswith("(") for kind in kinds.values())  # no attribute is declared
    for path, one in others.items():
        place, kind = render_path(path), kinds[path]
        if kind.startswith("("):
            is_read = is_open and (path[0] == "features" or path == ("text",)) and not dates_of(one)
            yield f"\n{_AS_IT_IS if is_read else _LEFT_OUT}{printable(place)} {kind}"
            yield from _time_table(path, one) if kind == A_DATE else ()
            continue
        name = ".".join(path[1:] if path[0] == "features" and len(path) > 1 else path)
        name = place if name in names or not name else name
        names.add(name)
        more = " or more" if len(one.values) >= MOST_VALUES else ""
        many = f"{len(one.values):,}{more} different values"
        yield f"\n[[attributes]]  # in {one.n / n:.0%} of the events, {many}"
        yield f"name = {literal(name)}"
        yield f'kind = "{kind}"'
        yield f"path = {literal(place)}"
        if one.declared:
            yield f"values = {literal(one.declared)}"


def _time_table(path: Keys, one: FieldSummary) -> Iterator[str]:
    """Yield a table, as a comment, that makes attributes of the parts of a time."""
    found = [time_parts(value) for value in one.values]
    times = [parts for parts in found if parts is not None]
    if len(times) < len(found):
        yield "# Its parts cannot be read: write the year first, as in 2026-01-31."
        return
    parts = ["hour"] * any(parts.seconds % _DAY for parts in times) + ["weekday", "month", "age"]
    yield "# [[attributes]]  # its parts, in UTC; the age is in days before the event"
    yield f"# name = {literal(path[-1])}"
    yield '# kind = "time"'
    yield f"# path = {literal(render_path(path))}"
    yield f"# parts = {literal(tuple(parts))}"


def _kind(path: Keys, one: FieldSummary, text: Keys | None) -> str:
    """Return the attribute kind of a field, or the reason for leaving it out, in parentheses."""
    place = render_path(path)
    kind = "(called like a label)" if path[-1].lower() in _LABELS else one.kind
    kind = "text" if path == text else kind
    return kind if kind.startswith("(") or JSON_PATH.parse(place) == place else "(a path too long)"
