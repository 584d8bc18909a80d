"""The HTTP client of a webhook: one attempt to deliver a message, bounded in time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import NamedTuple

import httpx

from streamnb.serving.webhook_message import WebhookMessage

_MOST_READ = 64 << 10  # bytes of an answer, so that the connection can be used again
_TURN_SECONDS = 0.25
_LONGEST_RETRY_AFTER = 3600.0


class WebhookAnswer(NamedTuple):
    """The outcome of one attempt.

    Attributes:
        status: HTTP status; 0 without an answer.
        reason: description for people.
        retry_after: seconds that the receiver asks to wait; 0 for none.
    """

    status: int
    reason: str
    retry_after: float = 0.0

    @property
    def is_accepted(self) -> bool:
        """True for a status of 2xx."""
        return 200 <= self.status < 300

    @property
    def is_redirect(self) -> bool:
        """True for a status of 3xx."""
        return 300 <= self.status < 400


class WebhookClient:
    """Posts messages to one address. It follows no redirects and keeps no cookies.

    Args:
        url: the address.
        secrets: sign each attempt.
        seconds: limit of a whole attempt, from the connection to the end of the answer.
    """

    def __init__(self, url: str, secrets: Sequence[bytes], seconds: float) -> None:
        self._url, self._secrets, self._seconds = url, secrets, seconds
        self._runner = asyncio.Runner()
        headers = {"user-agent": f"streamnb/{version('streamnb')}"}
        self._http = httpx.AsyncClient(timeout=None, headers=headers)  # noqa: S113  bounded as a whole

    def post(self, message: WebhookMessage, is_over: Callable[[], bool]) -> WebhookAnswer:
        """Return the outcome of one attempt; `is_over` ends it early."""
        return self._runner.run(self._bounded(message, is_over))

    def close(self) -> None:
        """Close the connection."""
        with suppress(RuntimeError):
            self._runner.run(self._http.aclose())
        self._runner.close()

    async def _bounded(self, message: WebhookMessage, is_over: Callable[[], bool]) -> WebhookAnswer:
        attempt = asyncio.ensure_future(self._post(message))
        deadline = time.monotonic() + self._seconds
        while not attempt.done():
            left = deadline - time.monotonic()
            if left <= 0 or is_over():
                attempt.cancel()
                await asyncio.wait({attempt})
                break
            await asyncio.wait({attempt}, timeout=min(left, _TURN_SECONDS))
        if attempt.cancelled():
            return WebhookAnswer(0, f"no answer within {self._seconds:g} s")
        return attempt.result()

    async def _post(self, message: WebhookMessage) -> WebhookAnswer:
        headers = message.headers(self._secrets, time.time())
        try:
            async with self._http.stream("POST", self._url, content=message.body, headers=headers) as answer:
                size = 0
                async for part in answer.aiter_raw():
                    size += len(part)
                    if size > _MOST_READ:
                        break
        except (httpx.HTTPError, OSError) as error:
            return WebhookAnswer(0, f"{type(error).__name__}: {error}".rstrip(": "))
        finally:
            self._http.cookies.clear()
        asked = answer.headers.get("retry-after", "")
        retry_after = float(asked) if re.fullmatch("[0-9]{1,9}", asked) else 0.0
        status = answer.status_code
        return WebhookAnswer(status, f"HTTP status {status}", min(retry_after, _LONGEST_RETRY_AFTER))
