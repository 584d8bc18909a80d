"""A client of `streamnb serve`: send events, follow predictions, correct labels, and ask for predictions.

    from streamnb.client import Client

    with Client("http://127.0.0.1:8000") as client:
        client.send({"id": "m1", "text": "free money now"})
        for prediction in client.predictions():
            print(prediction.id, prediction.label, prediction.probability)

Every call may be repeated: `send` gives each request an idempotency key, and `correct` gives each label its
time. So the client repeats a request after a lost connection or a refusal for the moment, and the server
counts it once. `predictions` continues after a break at exactly the next prediction.

It needs httpx, and imports nothing else of streamnb: `streamnb-client` installs this module alone, as
`streamnb_client`.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import quote

import httpx

__all__ = [
    "AsyncClient",
    "Client",
    "Correction",
    "Explanation",
    "MissedRecords",
    "Prediction",
    "Refusal",
    "RequestFailed",
    "Sent",
]

Event: TypeAlias = Mapping[str, Any]
"""An event as on the events topic, such as ``{"id": "m1", "text": "free money", "label": "spam"}``."""

_AGAIN = {408, 425, 429, 502, 503, 504}
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_SILENT_SECONDS = 35.0  # a stream sends something every 10 s
_AT_ONCE = 1000


class RequestFailed(Exception):  # noqa: N818  what happened, not what the client did
    """A request that the server refused, or that did not reach it in time.

    Attributes:
        status: HTTP status; 0 without an answer.
        code: stable code of the problem, such as "key-reused"; "unreachable" without an answer.
        detail: text for people.
    """

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}" if code else detail)
        self.status, self.code, self.detail = status, code, detail


class MissedRecords(Exception):  # noqa: N818
    """Records cannot be read any more: the topic was trimmed, recreated, or has new partitions.

    Attributes:
        reason: "retention", "recreated", "lost" or "partitions".
        cursor: where `predictions(after=...)` continues.
    """

    def __init__(self, reason: str, cursor: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.cursor = reason, cursor


@dataclass(frozen=True)
class Prediction:
    """A prediction as published, or as answered.

    Attributes:
        id: id of the event; None if a question had none.
        label: the most probable class; None while the model knows no class.
        probability: its probability.
        probabilities: class -> probability.
        decision: the decided class; None if nothing was decided, or no costs are configured.
        cursor: the position after this prediction; empty for an answer to `ask`.
        record: all fields, as the server sent them.
    """

    id: str | None
    label: str | None
    probability: float | None
    probabilities: Mapping[str, float]
    decision: str | None = None
    cursor: str = ""
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of_record(cls, record: Mapping[str, Any], cursor: str = "") -> Self:
        """Return the prediction of a JSON object."""
        return cls(
            record.get("id"),
            record.get("label"),
            record.get("probability"),
            record.get("probabilities") or {},
            record.get("decision"),
            cursor,
            record,
        )


@dataclass(frozen=True)
class Sent:
    """An event that is written durably.

    Attributes:
        id: its id.
        topic, partition, offset: its position.
        prediction: its prediction, if `send` waited for it, and it arrived in time.
    """

    id: str
    topic: str
    partition: int
    offset: int
    prediction: Prediction | None = None


@dataclass(frozen=True)
class Refusal:
    """An event that was not written, because a learner would reject it.

    Attributes:
        reason: such as "missing" or "wrong-type".
        path: of the value, such as ``$.id``.
        detail: text for people.
    """

    reason: str
    path: str
    detail: str


@dataclass(frozen=True)
class Correction:
    """A label that is written durably.

    Attributes:
        id: id of the event.
        is_event_known: whether the event has come and still waits for labels; None if the server does not
            know it.
        warning: advice, such as that the label differs from a class only by case; empty for none.
        is_learned: whether the model has followed the label; None if `correct` did not wait for that.
    """

    id: str
    is_event_known: bool | None
    warning: str = ""
    is_learned: bool | None = None


Explanation: TypeAlias = Mapping[str, Any]
"""The answer of ``POST /explain``."""


class _Requests:
    """Requests and answers, without the connection.

    Args:
        url: address of the server, such as ``http://127.0.0.1:8000``.
        token: sent as bearer token; empty for none.
        patience: seconds for which a request is repeated while the server cannot be reached or is busy.
    """

    def __init__(self, url: str, token: str, patience: float) -> None:
        self.url, self.patience = url.rstrip("/"), patience
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def sending(
        self, events: Sequence[Event], key: str | None, wait: float, keys: Sequence[str] | None
    ) -> dict[str, Any]:
        if not 1 <= len(events) <= _AT_ONCE:
            raise ValueError(f"expected 1 to {_AT_ONCE:,} events, got {len(events):,}")
        params = {"wait": "prediction", "timeout": wait} if wait else {}
        body: dict[str, Any] = {"events": [dict(event) for event in events]}
        if keys is not None:
            body["keys"] = list(keys)
        headers = {"Idempotency-Key": key or str(uuid.uuid4())} if key != "" else {}
        return {"method": "POST", "url": "/events", "json": body, "params": params, "headers": headers}

    def correcting(
        self, id_: str, label: str | None, source: str, by: str | None, ts: float | None, wait: float
    ) -> dict[str, Any]:
        one = {"id": id_, "label": label, "source": source, "by": by, "ts": time.time() if ts is None else ts}
        params = {"wait": "learned", "timeout": wait} if wait else {}
        return {"method": "POST", "url": "/labels", "json": {"labels": [one]}, "params": params}

    def asking(self, event: Event | str) -> dict[str, Any]:
        return {"method": "POST", "url": "/predict", "json": {"events": [_plain(event)]}}

    def explaining(self, event: Event | str, against: str | None, top: int) -> dict[str, Any]:
        body = {"event": _plain(event), "top": top, **({"against": against} if against else {})}
        return {"method": "POST", "url": "/explain", "json": body}

    def getting(self, id_: str) -> dict[str, Any]:
        name = quote(id_, safe="") if id_.strip(".") else "%2E" * len(id_)  # "." and ".." are path segments
        return {"method": "GET", "url": f"/predictions/{name}"}

    def ending(self) -> dict[str, Any]:
        return {"method": "GET", "url": "/predictions", "params": {"limit": 1}}

    def streaming(self, cursor: str, of_class: str | None, decision: str | None) -> dict[str, Any]:
        params = {"class": of_class, "decision": decision}
        return {
            "method": "GET",
            "url": "/stream/predictions",
            "params": {name: value for name, value in params.items() if value is not None},
            "headers": {"Accept": "text/event-stream", **({"Last-Event-ID": cursor} if cursor else {})},
            "timeout": httpx.Timeout(10.0, read=_SILENT_SECONDS),
        }


def _plain(event: Event | str) -> str | dict[str, Any]:
    if isinstance(event, str):
        return event
    if not isinstance(event, Mapping):
        raise TypeError(f"expected one text, or one event as a mapping, not a {type(event).__name__}")
    return dict(event)


class _Retry:
    """Decides after each failure whether to repeat a request, and how long to wait before."""

    def __init__(self, patience: float) -> None:
        self._deadline = time.monotonic() + patience
        self._n = 0

    def pause(self, failure: RequestFailed, retry_after: str = "") -> float:
        """Return the seconds to wait. Raises the failure if the request should not be repeated."""
        may_pass = failure.status == 0 or failure.status in _AGAIN
        longest = min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2.0**self._n)
        self._n += 1
        seconds = random.uniform(longest / 2, longest)  # noqa: S311  no secret
        if retry_after.isdigit():
            seconds = max(seconds, float(retry_after))
        if not may_pass or time.monotonic() + seconds > self._deadline:
            raise failure
        return seconds


def _failure(answer: httpx.Response) -> RequestFailed:
    try:
        problem = answer.json()
        return RequestFailed(answer.status_code, problem["code"], problem["detail"])
    except (ValueError, KeyError, TypeError):
        return RequestFailed(answer.status_code, "", f"HTTP {answer.status_code}: {answer.text[:200]}")


def _unreachable(error: httpx.TransportError) -> RequestFailed:
    return RequestFailed(0, "unreachable", f"{type(error).__name__}: {error}")


def _sent(answer: httpx.Response) -> list[Sent | Refusal]:
    found: list[Sent | Refusal] = []
    for one in answer.json()["events"]:
        if "reason" in one:
            found.append(Refusal(one["reason"], one["path"], one["detail"]))
        else:
            published = one.get("prediction")
            prediction = None if published is None else Prediction.of_record(published)
            found.append(Sent(one["id"], one["topic"], one["partition"], one["offset"], prediction))
    return found


def _correction(answer: httpx.Response) -> Correction:
    one = answer.json()["labels"][0]
    return Correction(one["id"], one["event_known"], one.get("warning") or "", one.get("learned"))


class _Lines:
    """Parser of server-sent events. `cursor` is the id of the last event.

    It splits lines itself: `httpx` also splits at U+2028 and U+0085, which JSON may contain.
    """

    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        self._name, self._data, self._id = "", "", cursor
        self._part = b""

    def predictions(self, content: bytes) -> Iterator[Prediction]:
        """Yield the predictions that some bytes of the stream end. Raises MissedRecords."""
        *lines, self._part = (self._part + content).split(b"\n")
        for line in lines:
            if (found := self._feed(line.decode())) is not None:
                yield found

    def _feed(self, line: str) -> Prediction | None:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._name = value
            elif name == "data":
                self._data += value
            elif name == "id":
                self._id = value
            return None
        name, data = self._name, self._data
        self.cursor, self._name, self._data = self._id, "", ""
        if name == "gap":
            gap = json.loads(data)
            raise MissedRecords(
                gap["reason"],
                self.cursor,
                f"partition {gap['partition']}: {gap['reason']}: offset {gap['offset']} cannot be read; "
                f"the next is {gap['continues']}",
            )
        return Prediction.of_record(json.loads(data), self.cursor) if name == "prediction" else None


class Client:
    """A client whose calls block.

    Args:
        url: address of the server, such as ``http://127.0.0.1:8000``.
        token: token of the server; empty for none.
        patience: seconds for which a request is repeated while the server cannot be reached or is busy.
        verify: file of certificates to trust, for a server with its own.
    """

    def __init__(self, url: str, token: str = "", patience: float = 30.0, verify: str | None = None) -> None:
        self._requests = _Requests(url, token, patience)
        trusted: Any = True if verify is None else verify
        self._http = httpx.Client(base_url=self._requests.url, headers=self._requests.headers, verify=trusted)
        self._http.timeout = httpx.Timeout(45.0, connect=5.0)

    def send(
        self,
        events: Event | Iterable[Event],
        *,
        wait: float = 0.0,
        key: str | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[Sent | Refusal]:
        """Write events durably; return the outcome of each.

        Args:
            events: one event, or at most 1,000.
            wait: seconds to wait for the predictions; 0 does not wait.
            key: idempotency key, to repeat a request after a restart of your program; by default a new one.
                An empty key sends none: after a lost connection the events may be written twice.
            keys: keys of the records, if they name entities.

        Raises:
            RequestFailed: no event was written, and all were refused; or the server cannot be reached.
        """
        many = [events] if isinstance(events, Mapping) else list(events)
        return _sent(self._ask(self._requests.sending(many, key, wait, keys)))

    def correct(
        self,
        id_: str,
        label: str | None,
        *,
        source: str = "client",
        by: str | None = None,
        ts: float | None = None,
        wait: float = 0.0,
    ) -> Correction:
        """Write the label of an event durably; None withdraws the label of this source.

        Args:
            id_: id of the event.
            label: its class.
            source: name of the source; the newest label of the strongest source is in force.
            by: name of the author; by default the name of the token.
            ts: seconds since 1970; by default now.
            wait: seconds to wait until the model follows the label; 0 does not wait.
        """
        return _correction(self._ask(self._requests.correcting(id_, label, source, by, ts, wait)))

    def ask(self, event: Event | str) -> Prediction:
        """Predict a text or an event; nothing is learned from it, and nothing is published."""
        return Prediction.of_record(self._ask(self._requests.asking(event)).json()["predictions"][0])

    def explain(self, event: Event | str, *, against: str | None = None, top: int = 10) -> Explanation:
        """Return the evidence for the prediction of a text or an event."""
        found: Explanation = self._ask(self._requests.explaining(event, against, top)).json()
        return found

    def prediction(self, id_: str) -> Prediction | None:
        """Return the newest published prediction of an event; None if the server has none."""
        try:
            return Prediction.of_record(self._ask(self._requests.getting(id_)).json())
        except RequestFailed as failure:
            if failure.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def cursor(self) -> str:
        """Return the position after the newest prediction, from which `predictions` can begin later."""
        return str(self._ask(self._requests.ending()).json()["next"])

    def predictions(
        self, after: str = "", *, of_class: str | None = None, decision: str | None = None
    ) -> Iterator[Prediction]:
        """Yield predictions as they are published, for ever, each once, in the order of its partition.

        Args:
            after: `cursor` of the last prediction that was processed, or `cursor()`; empty begins with the
                next one after the first call of `next`.
            of_class: only predictions of this class.
            decision: only this decision; "none" for predictions without one.

        Raises:
            MissedRecords: predictions after the cursor cannot be read any more.
            RequestFailed: the server cannot be reached for `patience` seconds, or refuses.
        """
        lines, retry = _Lines(after), _Retry(self._requests.patience)
        while True:
            try:
                with self._http.stream(
                    **self._requests.streaming(lines.cursor, of_class, decision)
                ) as answer:
                    if answer.is_error:
                        answer.read()
                        raise _failure(answer)
                    retry = _Retry(self._requests.patience)
                    for content in answer.iter_bytes():
                        yield from lines.predictions(content)
                failure = RequestFailed(0, "unreachable", "the stream has ended")
            except httpx.TransportError as error:
                failure = _unreachable(error)
            except RequestFailed as error:
                failure = error
            lines = _Lines(lines.cursor)
            time.sleep(retry.pause(failure))

    def _ask(self, request: dict[str, Any]) -> httpx.Response:
        retry = _Retry(self._requests.patience)
        while True:
            again = ""
            try:
                answer = self._http.request(**request)
            except httpx.TransportError as error:
                failure = _unreachable(error)
            else:
                if not answer.is_error:
                    return answer
                failure, again = _failure(answer), answer.headers.get("retry-after", "")
            time.sleep(retry.pause(failure, again))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """A client for asyncio, with the arguments, methods and errors of `Client`."""

    def __init__(self, url: str, token: str = "", patience: float = 30.0, verify: str | None = None) -> None:
        self._requests = _Requests(url, token, patience)
        trusted: Any = True if verify is None else verify
        base = self._requests.url
        self._http = httpx.AsyncClient(base_url=base, headers=self._requests.headers, verify=trusted)
        self._http.timeout = httpx.Timeout(45.0, connect=5.0)

    async def send(
        self,
        events: Event | Iterable[Event],
        *,
        wait: float = 0.0,
        key: str | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[Sent | Refusal]:
        """Write events durably; see `Client.send`."""
        many = [events] if isinstance(events, Mapping) else list(events)
        return _sent(await self._ask(self._requests.sending(many, key, wait, keys)))

    async def correct(
        self,
        id_: str,
        label: str | None,
        *,
        source: str = "client",
        by: str | None = None,
        ts: float | None = None,
        wait: float = 0.0,
    ) -> Correction:
        """Write the label of an event durably; see `Client.correct`."""
        return _correction(await self._ask(self._requests.correcting(id_, label, source, by, ts, wait)))

    async def ask(self, event: Event | str) -> Prediction:
        """Predict a text or an event; see `Client.ask`."""
        return Prediction.of_record((await self._ask(self._requests.asking(event))).json()["predictions"][0])

    async def explain(self, event: Event | str, *, against: str | None = None, top: int = 10) -> Explanation:
        """Return the evidence for a prediction; see `Client.explain`."""
        found: Explanation = (await self._ask(self._requests.explaining(event, against, top))).json()
        return found

    async def prediction(self, id_: str) -> Prediction | None:
        """Return the newest published prediction of an event; see `Client.prediction`."""
        try:
            return Prediction.of_record((await self._ask(self._requests.getting(id_))).json())
        except RequestFailed as failure:
            if failure.status == httpx.codes.NOT_FOUND:
                return None
            raise

    async def cursor(self) -> str:
        """Return the position after the newest prediction; see `Client.cursor`."""
        return str((await self._ask(self._requests.ending())).json()["next"])

    async def predictions(
        self, after: str = "", *, of_class: str | None = None, decision: str | None = None
    ) -> AsyncIterator[Prediction]:
        """Yield predictions as they are published; see `Client.predictions`."""
        lines, retry = _Lines(after), _Retry(self._requests.patience)
        while True:
            request = self._requests.streaming(lines.cursor, of_class, decision)
            try:
                async with self._http.stream(**request) as answer:
                    if answer.is_error:
                        await answer.aread()
                        raise _failure(answer)
                    retry = _Retry(self._requests.patience)
                    async for content in answer.aiter_bytes():
                        for found in lines.predictions(content):
                            yield found
                failure = RequestFailed(0, "unreachable", "the stream has ended")
            except httpx.TransportError as error:
                failure = _unreachable(error)
            except RequestFailed as error:
                failure = error
            lines = _Lines(lines.cursor)
            await asyncio.sleep(retry.pause(failure))

    async def _ask(self, request: dict[str, Any]) -> httpx.Response:
        retry = _Retry(self._requests.patience)
        while True:
            again = ""
            try:
                answer = await self._http.request(**request)
            except httpx.TransportError as error:
                failure = _unreachable(error)
            else:
                if not answer.is_error:
                    return answer
                failure, again = _failure(answer), answer.headers.get("retry-after", "")
            await asyncio.sleep(retry.pause(failure, again))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()
