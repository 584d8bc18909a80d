"""``streamnb predict``: predictions of the newest snapshot for one message or a file of events."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from typing import Any

from streamnb.errors import ConfigError, LogError, MalformedEvent
from streamnb.evaluation.data_quality import DataQuality, InputOrigin, report_data_quality
from streamnb.evaluation.event_input import columns_of, origin_of
from streamnb.evaluation.input_files import settled_files
from streamnb.evaluation.prediction_files import PredictionFile
from streamnb.events import Event
from streamnb.features.attributes import some_of
from streamnb.formats.event_schema import ENTITY
from streamnb.formats.json_paths import render_path
from streamnb.formats.terminal_text import note, printable, warn
from streamnb.queries.answers import decision_of, predicted_answers
from streamnb.queries.query_model import QueryModel, open_query_model
from streamnb.runtime import context
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_AT_ONCE = 1000
_MOST_SHOWN = 5
_MOST_WARNINGS = 5
_FILE = re.compile(
    r"\S+\.((jsonl|ndjson|json|csv|tsv|arff|mbox|eml)(\.gz|\.zst|\.bz2|\.xz)?|parquet)", re.IGNORECASE
)


def run(options: argparse.Namespace) -> int:
    """Print one line for each event, in order; return 1 if one could not be decoded."""
    paths = _files(options)  # a wrong name is reported first
    if options.out is not None:
        read = [*paths, options.config, options.snapshot]
        context.refuse_overwriting("--out", options.out, read)
    model = open_query_model(options)
    answers: Iterable[dict[str, Any]]
    if not paths:
        event = one_event(model, options.event)
        answers = [{**next(predicted_answers(model, [event])), "snapshot": model.told}]
    else:
        columns = columns_of(options, model.schema, has_content_ids=len(paths) > 1)
        columns, files = settled_files(paths, columns)
        answers = _of_files(model, origin_of(paths[0], columns), chain.from_iterable(files))
    model.say()
    refused, n, warnings = 0, 0, Counter[Message]()
    with PredictionFile(options.out) if options.out else nullcontext() as file:
        for answer in answers:
            n += 1
            refused += "refused" in answer
            warnings.update([answer["warning"]] if "warning" in answer else [])
            if file is not None:
                file.write(json.dumps(answer).encode())
            else:
                print(json.dumps(answer) if options.json else _line(answer))
    if options.out:
        _print_written(options, n, refused)
    print_warnings(warnings, n)
    return int(refused > 0)


def _print_written(options: argparse.Namespace, n: int, refused: int) -> None:
    if options.json:
        print(json.dumps({"out": options.out, "events": n, "refused": refused}))
        return
    why = f", {refused:,} refused" if refused else ""
    print(f"{pluralize(n, 'event')}{why}, in {printable(options.out)}")


def print_warnings(warnings: Counter[Message], n: int) -> None:
    """Print the most frequent warnings of `n` events, with their counts."""
    for message, count in warnings.most_common(_MOST_WARNINGS):
        prefix = f"{count:,} of {pluralize(n, 'event')}: " if n > 1 else ""
        warn(message.reworded(f"{prefix}{message}", count=count, events=n))
    if (more := len(warnings) - _MOST_WARNINGS) > 0:
        text = f"{pluralize(more, 'other warning')}; --json shows the warning of each event"
        note(Message("more-warnings", text, count=more))


def one_event(model: QueryModel, text: str) -> Event:
    """Return the event of a text or JSON object, and print data quality warnings.

    Raises ConfigError if the model has learned none of its values.
    """
    event = model.event(text)
    report_data_quality(model.schema, text)
    if strange := model.strange(event):
        places = [render_path(place.keys) for place in model.schema.places]
        where = f"at {some_of(places)}" if model.schema.attributes else '{"features": {NAME: VALUE}}'
        raise ConfigError(f"{strange}: give one of these, as JSON, {where}")
    return event


def _files(options: argparse.Namespace) -> list[str]:
    """Return the files of a command; none for a text. Raises LogError for a missing one, or several texts."""
    given = [options.event, *options.more]
    are_files = [_is_file(one) for one in given]
    if len(given) > 1 and not all(are_files):
        text = given[are_files.index(False)]
        raise LogError(f"{text}: no such file; a text of several words is one argument, in quotes")
    return given if are_files[0] else []


def _is_file(given: str) -> bool:
    """Return whether the argument is a file, not a text. Raises LogError for a missing file."""
    is_path = os.sep in given or not os.path.isdir(given)  # noqa: PTH112  of any text
    if given == "-" or (os.path.exists(given) and is_path):  # noqa: PTH110  a word may be the name of a folder
        return True
    if _FILE.fullmatch(given):
        raise LogError(f"{given}: no such file; to ask about this text, give it with a blank behind it")
    return False


def _of_files(model: QueryModel, origin: InputOrigin, rows: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the answers to the events of files, in order, with rows numbered through all."""
    row = 0
    while part := list(islice(rows, _AT_ONCE)):
        found = [_decoded(model, raw) for raw in part]
        events = [event for event in found if isinstance(event, Event)]
        if not row:
            _check_fields(model, origin, part, events)
        answers = predicted_answers(model, events) if events else iter(())
        for one in found:
            if isinstance(one, Event):
                truth = {} if one.label is None else {"truth": one.label}
                yield {"id": one.id, **next(answers), **truth}
            else:
                yield {"row": row, "refused": str(one)}
            row += 1


def _check_fields(
    model: QueryModel, origin: InputOrigin, raws: Sequence[bytes], events: Sequence[Event]
) -> None:
    """Report data quality of the first events. Raises ConfigError if no value of any was learned."""
    odd = DataQuality(model.schema, origin, learns=False)
    for raw in raws:
        odd.look(raw)
    odd.report(is_over=True)
    strange = [model.strange(event) for event in events]
    if strange and all(strange):
        raise ConfigError(strange[0])
    asked = dict.fromkeys(name for event in events for name in event.x if name != ENTITY)
    _report_columns(model, asked, is_table=origin.is_table)


def _report_columns(model: QueryModel, asked: Mapping[str, None], *, is_table: bool) -> None:
    """Print the columns that the model has not learned, and the learned ones that the file lacks.

    Events that are not rows of a table may leave attributes out.
    """
    learned = [str(name) for name in getattr(model.model, "learned_attributes", ()) if name != ENTITY]
    unknown = [name for name in asked if not model.knows(name)]
    absent = [name for name in learned if name not in asked]
    if not (learned and asked and (unknown or (absent and is_table))):
        return
    parts = [f"nothing was learned of {some_of(unknown)}"] if unknown else []
    parts += [f"no event has {some_of(absent)}, which the model has learned"] if absent else []
    text = "; ".join(parts)
    if unknown and absent:
        warn(Message("columns-differ", f"{text}: rename a column that is the same", columns=unknown))
    else:
        note(Message("columns-differ", text, columns=unknown or absent))


def _decoded(model: QueryModel, raw: bytes) -> Event | MalformedEvent:
    try:
        return model.decode(raw)
    except MalformedEvent as error:
        return error


def _line(answer: dict[str, Any]) -> str:
    if "refused" in answer:
        return f"row {answer['row']}\t\t{printable(answer['refused'])}"
    shown = islice(answer["probabilities"].items(), _MOST_SHOWN)
    cells = [answer["label"], *(f"{v} {p:.4f}" for v, p in shown)]
    cells = [answer["id"], *cells] if "id" in answer else cells
    if "decision" in answer:
        cells.append(decision_of(answer))
    return "\t".join(map(printable, cells))
