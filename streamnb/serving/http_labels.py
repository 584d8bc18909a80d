"""HTTP paths of labels: write, undo, and ask which label is in force."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from typing import Annotated, Any, Literal

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from streamnb.engine.labels.source_label_store import MOST_SOURCES_IN_ALL
from streamnb.engine.labels.source_labels import LIMIT_OF_SOURCES, SourceLabel
from streamnb.errors import ConfigError, LogError, MalformedEvent, told_as
from streamnb.events import LabelRecord, Retraction
from streamnb.formats.codec import decode_label, encode_label
from streamnb.formats.event_schema import EventSchema
from streamnb.queries.answers import held
from streamnb.serving.access import name_of
from streamnb.serving.http_schemas import Held, LabelInputs, Undo, Withdrawal, Withdrawn, Written
from streamnb.serving.label_undo import UNDO_SECONDS, UndoToken, undo_label
from streamnb.serving.problem_details import ProblemError
from streamnb.serving.replica import Replica
from streamnb.values.messages import Message
from streamnb.values.similar_labels import ALIKE, INVISIBLE, folded, is_visible, not_allowed

_NOT_FOUND, _CONFLICT, _WRONG = 404, 409, 422
_LABELS_SECONDS = 5.0  # to wait for other requests that write labels
_LABELS_AT_ONCE = 4  # requests that ask the replica about the labels that they wrote
_LOOK_SECONDS = 0.02


LabelWriter = Callable[[Sequence[LabelRecord | Retraction]], object]
"""Writes label records durably."""


def held_answer(replica: Replica, event_id: str) -> dict[str, Any]:
    """Return the label in force for an event. Needs the lock. Raises HTTPException."""
    following = replica.following
    assert following is not None  # noqa: S101  it was asked
    late = following.learner.late
    if late is None:
        raise HTTPException(_CONFLICT, "topics.labels is not set: labels arrive only inside their events")
    said = late.source_labels_of(event_id)
    if said is None:
        waits = "a label waits for it" if late.labels_before(event_id) else "nor did a label"
        forgotten = "was forgotten, or " if following.checkpoint.origin.floor >= 0 else ""
        raise ProblemError(
            _NOT_FOUND,
            f"no event of this id has come by journal record {following.checkpoint.n}, and {waits}; or it "
            f"{forgotten}is kept no longer (labels.window, labels.memory): "
            "`streamnb explain --id ID` looks in the log",
            "unknown-event",
        )
    return held(said, following.checkpoint.n)


async def label_now(
    replica: Replica, event_id: str, author: Callable[[str, str], str | None]
) -> dict[str, Any] | None:
    """Return the label in force for an event, its source, time and author; None if none is known."""
    said = await run_sync(replica.said_of, event_id)
    if said is None or (found := held(said, 0))["label"] is None:
        return None
    by = author(event_id, found["source"])
    return {name: found[name] for name in ("label", "source", "ts")} | ({} if by is None else {"by": by})


class LabelWriting:
    """Writes labels, and looks whether the model follows them.

    One request writes at a time, so that a log that hangs blocks no thread of the queries.

    Args:
        replica: the model.
        write: writes label records durably; None without a topic of labels.
    """

    def __init__(self, replica: Replica, write: LabelWriter | None) -> None:
        self._replica, self._write = replica, write
        self._one_writes, self._few_look = CapacityLimiter(1), CapacityLimiter(_LABELS_AT_ONCE)

    async def put(self, said: list[LabelRecord]) -> None:
        """Write labels, all or none.

        Raises ConfigError for a label that a learner would reject, HTTPException if none reads labels or a
        label is not allowed, and LogError if the log does not answer.
        """
        config, now = self._replica.config, time.time()
        schema = EventSchema(clock=config.events.clock)
        found = [_label_record(one, place, schema, now) for place, one in enumerate(said)]
        for place, one in enumerate(found):
            label = config.classes.aliases.get(one.label or "", one.label)
            if label is not None and (why := not_allowed(label, config.labels.allowed)):
                raise ProblemError(_WRONG, f"label {place}: {why}", "label-not-allowed")
        await self._put(found)

    async def withdraw(self, retraction: Retraction) -> None:
        """Write the withdrawal of a source's labels. Raises as `put`."""
        schema = EventSchema(clock=self._replica.config.events.clock)
        with told_as(ConfigError, "withdrawal", MalformedEvent, UnicodeEncodeError):
            decode_label(encode_label(retraction), schema, time.time())
        await self._put([retraction])

    async def _put(self, found: list[LabelRecord] | list[Retraction]) -> None:
        if self._write is None:
            raise HTTPException(_CONFLICT, "topics.labels is not set: no learner would read them")
        try:
            with anyio.fail_after(_LABELS_SECONDS):
                await run_sync(self._write, found, limiter=self._one_writes)
        except ConfigError as error:  # according to the journal, the learner does not read the topic
            raise HTTPException(_CONFLICT, str(error)) from error
        except TimeoutError as error:
            raise LogError("the log is busy with labels of others; none was written: ask again") from error

    async def own_labels(self, said: list[LabelRecord]) -> list[tuple[str | None] | None]:
        """Return `_own_labels`, in a thread."""
        return await run_sync(_own_labels, self._replica, said, limiter=self._few_look)

    async def accepted(self, said: list[LabelRecord]) -> dict[str, Any]:
        """Return `_accepted`, in a thread."""
        return await run_sync(_accepted, self._replica, said, limiter=self._few_look)

    async def until_learned(self, said: list[LabelRecord], seconds: float) -> list[bool]:
        """Return which labels their sources have in the model, at the latest after some seconds."""
        deadline = time.monotonic() + seconds
        while True:
            own = await self.own_labels(said)
            learned = [found == (one.label,) for one, found in zip(said, own, strict=True)]
            if all(learned) or time.monotonic() > deadline:
                return learned
            await anyio.sleep(_LOOK_SECONDS)


def add_labels(
    app: FastAPI, replica: Replica, write: LabelWriter | None, author: Callable[[str, str], str | None]
) -> LabelWriting:
    """Add the paths of labels; return the object that writes and undoes labels.

    Args:
        app: the application.
        replica: the model.
        write: writes label records durably; None without a topic of labels.
        author: returns the author of a source's label of an event, or None.
    """
    writing = LabelWriting(replica, write)

    @app.post("/labels", response_model=Written)
    async def write_labels(
        request: Request,
        verdicts: LabelInputs,
        wait: Literal["learned"] | None = None,
        timeout: Annotated[float, Query(gt=0.0, le=30.0, description="seconds to wait")] = 5.0,  # noqa: ASYNC109
    ) -> Response:
        """Write labels durably: late ones, corrections, and null to take back."""
        by = name_of(request.scope) or None
        said = [
            LabelRecord(**{"by": by, **one.model_dump(exclude_none=True), "label": one.label})
            for one in verdicts.labels
        ]
        before = await writing.own_labels(said)
        await writing.put(said)
        answer = await writing.accepted(said)
        for one, was, told in zip(said, before, answer["labels"], strict=True):
            is_new = was is not None and was != (one.label,)
            told["undo"] = str(UndoToken(one.id, one.source, one.label, was[0])) if was and is_new else None
        if wait:
            learned = await writing.until_learned(said, timeout)
            for told, is_learned in zip(answer["labels"], learned, strict=True):
                told["learned"] = is_learned
                if is_learned:  # the event may have come meanwhile
                    told["event_known"] = True
        return JSONResponse(answer)

    @app.post("/labels/undo", response_model=Written, name="undo_label")
    async def undo(request: Request, given: Undo) -> Response:
        """Write the label that the source had before, or null; refuse if it changed meanwhile."""
        token = UndoToken.parse(given.undo)
        written = LabelRecord(token.id, token.written, token.source)
        said = [LabelRecord(token.id, token.before, token.source, by=name_of(request.scope) or None)]

        async def holds() -> bool:
            return await writing.until_learned([written], UNDO_SECONDS) == [True]

        await undo_label(token, holds, lambda: writing.put(said))
        return JSONResponse(await writing.accepted(said))

    @app.post("/labels/withdraw", response_model=Withdrawn)
    async def withdraw_labels(given: Withdrawal) -> Response:
        """Write that the labels of a source no longer count, as if they had never been given."""
        await writing.withdraw(Retraction(given.source, given.since, given.ts))
        return JSONResponse(given.model_dump())

    _add_held(app, replica, author)
    return writing


def _add_held(app: FastAPI, replica: Replica, author: Callable[[str, str], str | None]) -> None:

    @app.get("/labels/{id:text}", response_model=Held)
    def get_label(id_: Annotated[str, Path(alias="id", min_length=1, max_length=1000)]) -> Response:
        """Return the label in force for the newest event of this id, its source, and other labels."""
        with replica.lock:
            replica.asked()
            found = held_answer(replica, id_)
        for one in (found, *found["others"]):
            if one["source"] is not None and (by := author(id_, one["source"])) is not None:
                one["by"] = by
        return JSONResponse(found)


def _own_labels(replica: Replica, said: Sequence[LabelRecord]) -> list[tuple[str | None] | None]:
    """Return the label that the source of each has now, as a tuple of one; None if the event is not known."""
    found: list[tuple[str | None] | None] = []
    for one, labels in zip(said, replica.said_of_all([one.id for one in said]), strict=True):
        own = [each.label for each in labels or () if each.source == one.source]
        found.append(None if labels is None else (own[0] if own else None,))
    return found


def _accepted(replica: Replica, said: Sequence[LabelRecord]) -> dict[str, Any]:
    with replica.lock:
        following = replica.following
        late = None if following is None else following.learner.late
        if following is None or late is None:  # no model yet, or one from before labels arrived separately
            unknown = {"event_known": None, "class_known": None, "holds": None}
            each = [{"id": one.id, **unknown} for one in said]
            return {"written": len(said), "labels": each, "journal": None}
        journal = following.checkpoint.n
        classes = {str(label): n for label, n in following.learner.model.class_weights.items()}
        statements = late.source_labels_of_all([one.id for one in said])
        each = [_known(one, found, classes, journal) for one, found in zip(said, statements, strict=True)]
        is_refused = late.refused_sources([(one.id, one.source) for one in said])
        alike = {folded(label): label for label in sorted(classes, key=classes.__getitem__) if classes[label]}
        schema = following.learner.settings.schema
    for one, known, is_one_too_many in zip(said, each, is_refused, strict=True):
        if is_one_too_many:
            text = too_many_sources(one.source)
            known["warning"] = Message("label-source-refused", text, source=one.source)
            continue
        label = one.label and schema.named(one.label)
        if label and not classes.get(label) and (near := alike.get(folded(label))) is not None:
            text = f"label {label!r}: did you mean {near!r}? {ALIKE}"
            known["warning"] = Message("labels-alike", text, labels=[label, near])
    return {"written": len(said), "labels": each, "journal": journal}


def has_refused(replica: Replica, said: Sequence[LabelRecord]) -> bool:
    """Return whether the learner would refuse one of these labels for its source."""
    with replica.lock:
        following = replica.following
        late = None if following is None else following.learner.late
        return late is not None and any(late.refused_sources([(one.id, one.source) for one in said]))


def too_many_sources(source: str) -> str:
    """Return why a label will be refused for its source."""
    return (
        f"the learner will refuse this label, because its source {source!r} is one too many: "
        f"{LIMIT_OF_SOURCES}, and a stream of {MOST_SOURCES_IN_ALL:,}"
    )


def _known(
    one: LabelRecord, said: Sequence[SourceLabel] | None, classes: Container[str], journal: int
) -> dict[str, Any]:
    state = held(said or (), journal)
    return {
        "id": one.id,
        "event_known": said is not None,
        "class_known": None if one.label is None else one.label in classes,
        "holds": None if state["label"] is None else {key: state[key] for key in ("label", "source", "ts")},
    }


def _label_record(said: LabelRecord, place: int, schema: EventSchema, now: float) -> LabelRecord:
    """Return a label record as a learner will read it if the log records it now.

    Raises ConfigError, with its position, if it would be a dead letter or is invisible.
    """
    with told_as(ConfigError, f"label {place}", MalformedEvent, UnicodeEncodeError):
        checked = decode_label(encode_label(said), schema, now)
    assert isinstance(checked, LabelRecord)  # noqa: S101
    if said.label is not None and not is_visible(said.label):
        raise ConfigError(f"label {place}: {INVISIBLE}")
    return checked
