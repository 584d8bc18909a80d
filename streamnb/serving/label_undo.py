"""Undo of one label, over HTTP and on the page: the label that its source had before is written again."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from streamnb.errors import ConfigError
from streamnb.serving.problem_details import ProblemError

_CONFLICT = 409
UNDO_SECONDS = 5.0
"""Seconds to wait until the label that was written is read."""


class UndoToken(NamedTuple):
    """The label of a source that was written, and the label that the source had before."""

    id: str
    source: str
    written: str | None
    before: str | None

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode()

    @classmethod
    def parse(cls, text: str) -> UndoToken:
        """Return the token of a text. Raises ConfigError."""
        try:
            return msgspec.json.decode(urlsafe_b64decode(text), type=UndoToken)
        except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
            raise ConfigError("undo: expected the `undo` of a label that was written") from error


async def undo_label(
    token: UndoToken, holds: Callable[[], Awaitable[bool]], write: Callable[[], Awaitable[None]]
) -> None:
    """Write the label that a source had before, unless the source changed its label meanwhile.

    Args:
        token: the label that was written.
        holds: waits up to `UNDO_SECONDS` until the source has this label; returns False if it has another.
        write: writes `token.before`.

    Raises ProblemError, and writes nothing, if the label was changed.
    """
    if not await holds():
        text = f"the source {token.source!r} has another label of {token.id!r} now: nothing was undone"
        raise ProblemError(_CONFLICT, text, "label-changed")
    await write()
