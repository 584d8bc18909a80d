"""Errors over HTTP: one shape for all of them, as RFC 9457 describes it.

Every answer with a status of 400 or above has the media type `application/problem+json` and the fields
`type`, `title`, `status`, `detail` and `code`. `code` is stable and meant for programs, `detail` is meant for
people and may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException

from streamnb.formats.json_parsing import repeated_key

MEDIA_TYPE = "application/problem+json"
CODES = {
    400: "invalid-json",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "timeout",
    409: "labels-not-read",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid-request",
    429: "too-many-requests",
    500: "internal-error",
    503: "unavailable",
}
"""Status -> the code of an error that has no code of its own. `PROBLEMS` lists all codes."""

_MAX_DETAIL = 500  # characters


class ProblemError(HTTPException):
    """An error with a code of its own, and perhaps more fields."""

    def __init__(
        self, status: int, detail: str, code: str = "", more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(status, detail)
        self.code, self.more = code, dict(more or {})


def refuse_repeated_key(body: bytes) -> None:
    """Raise ProblemError if an object of a JSON body has one key twice: parsers would keep the last value."""
    if (key := repeated_key(body)) is not None:
        raise ProblemError(400, f"the key {key[:100]!r} comes twice in one object", "key-repeated")


def problem(status: int, detail: str, code: str = "") -> dict[str, Any]:
    """Return the fields of an error.

    Args:
        status: the HTTP status, 400 or above.
        detail: what is wrong and what to do; cut after 500 characters. Lone surrogates, which UTF-8 cannot
            hold, become escapes.
        code: one of `streamnb.values.message_names.PROBLEMS`; by default the code of the status.
    """
    told = detail.encode(errors="backslashreplace").decode()[:_MAX_DETAIL]
    title = HTTPStatus(status).phrase
    code = code or CODES.get(status, "internal-error")
    return {"type": "about:blank", "title": title, "status": status, "detail": told, "code": code}


def encoded_problem(status: int, detail: str, code: str = "", more: Mapping[str, Any] | None = None) -> bytes:
    """Return the fields of an error, and perhaps more fields, as JSON."""
    return msgspec.json.encode({**problem(status, detail, code), **(more or {})})
