"""A proposed configuration, tried on the events that it was proposed for.

A field may hold one type in most events and another in some. A proposal that would turn these events into
dead letters is mended: the field becomes an attribute of another kind, or is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from streamnb import config as configuration
from streamnb.config import Config
from streamnb.errors import MalformedEvent
from streamnb.evaluation.rejections import RejectionCounts
from streamnb.features.schema_inference import FieldSummary, Keys
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.json_paths import parse_path, render_path
from streamnb.runtime import context

_RARE = 0.05  # of the events: up to this share, dead letters are reported and the attribute stays


class ProposalTrial(NamedTuple):
    """The outcomes of events under a configuration.

    Attributes:
        config: the configuration that was tried.
        raws: the events, as it reads them.
        faults: path, detail -> how many dead letters.
        tally: of the same dead letters, for people.
        labels: label -> how many of the events have it.
    """

    config: Config
    raws: Sequence[bytes]
    faults: Counter[tuple[str, str]]
    tally: RejectionCounts
    labels: Counter[str]


def try_proposal(text: str, read: Callable[[EventSchema], Sequence[bytes]]) -> ProposalTrial:
    """Decode events, which `read` returns for the schema of a configuration in TOML."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "proposed.toml")
        path.write_text(text, encoding="utf-8")
        config = configuration.load(path, {}, [])
    schema = context.schema(config)
    trial = ProposalTrial(config, read(schema), Counter(), RejectionCounts(schema), Counter())
    for row, raw in enumerate(trial.raws):
        try:
            event = decode_event(raw, schema)
        except MalformedEvent as error:
            trial.faults[error.path, error.detail] += 1
            trial.tally.add(error.reason, error.path, row, raw)
        else:
            trial.labels.update([event.label] if event.label is not None else [])
    return trial


def mended(
    trial: ProposalTrial,
    seen: MutableMapping[Keys, FieldSummary],
    places: MutableMapping[str, Keys],
    forced: Keys | None,
) -> str:
    """Change the proposal for the field with the most dead letters; return a message, or "" without a change.

    Args:
        trial: of the proposal.
        seen: summaries of the fields; a changed field gets another kind.
        places: paths of id, label and time; a time that cannot be read is removed.
        forced: the text that a flag names, which stays one.
    """
    for (path, detail), count in trial.faults.most_common():
        if count <= _RARE * len(trial.raws) or path == "$":
            continue
        keys = parse_path(path)
        why = f"{count:,} of {len(trial.raws):,} events would be dead letters: {detail}"
        if keys == places.get("ts"):
            del places["ts"]
            return f"{path} is not read as the time, for {why}"
        found, leads_on = [], detail.startswith("expected an object")  # on the way to an attribute
        for one in trial.config.attributes:
            at = parse_path(one.path)
            is_at_fault = at[: len(keys)] == keys and (len(at) > len(keys)) == leads_on
            if is_at_fault and at != forced:
                may_be_nominal = one.kind == "text" and not leads_on and not seen[at].differ
                seen[at].decided = "nominal" if may_be_nominal else f"(as {one.kind}, {why})"
                found.append(f"{render_path(at)} is {'nominal' if may_be_nominal else 'left out'}")
        if found:
            return f"{', '.join(found)}, for {why}"
    return ""
