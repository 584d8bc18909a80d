"""One message of a webhook: its content, identity and signature, as Standard Webhooks describes them.

Reference: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from streamnb.config import WebhookConfig
from streamnb.engine.ports import Record
from streamnb.serving.record_feed import Gap


class _Fields(msgspec.Struct):
    """The fields by which a webhook chooses records."""

    id: str = ""
    decision: str | msgspec.UnsetType | None = msgspec.UNSET


_fields_of = msgspec.json.Decoder(_Fields).decode
_object_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class WebhookMessage(NamedTuple):
    """A message.

    Attributes:
        id: identity, the same at each attempt; letters, digits, hyphens and underscores.
        body: JSON with `type`, `timestamp` and `data`.
        event_id: id of the event that it is about; empty for none.
        published: when its record was written, in seconds since 1970.
    """

    id: str
    body: bytes
    event_id: str
    published: float

    def headers(self, secrets: Sequence[bytes], now: float) -> dict[str, str]:
        """Return the headers of one attempt: id, time and a signature by each secret."""
        signed = b"%b.%d.%b" % (self.id.encode(), int(now), self.body)
        digests = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
        return {
            "content-type": "application/json",
            "webhook-id": self.id,
            "webhook-timestamp": str(int(now)),
            "webhook-signature": " ".join(f"v1,{b64encode(digest).decode()}" for digest in digests),
        }


def message_of(record: Record, topic_id: str, hook: WebhookConfig) -> WebhookMessage | None:
    """Return the message of a record; None if the webhook does not want it, or it is not a JSON object."""
    try:
        fields, data = _fields_of(record.value), _object_of(record.value)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # written by another program
        return None
    if not _is_wanted(fields, hook):
        return None
    id_ = f"{topic_id}-{record.partition.number}-{record.offset}"
    body = _body(hook.send.removesuffix("s"), record.timestamp, data)
    return WebhookMessage(id_, body, fields.id, record.timestamp)


def without_event(message: WebhookMessage) -> WebhookMessage:
    """Return the message of an alert without the id of its event."""
    content = msgspec.json.decode(message.body, type=dict[str, msgspec.Raw])
    data = _object_of(content["data"])
    data.pop("id", None)
    return message._replace(body=msgspec.json.encode({**content, "data": data}), event_id="")


def message_of_gap(gap: Gap, topic_id: str, now: float) -> WebhookMessage:
    """Return the message about records that cannot be read."""
    id_ = f"{topic_id}-{gap.partition}-{gap.offset}-gap-{gap.continues}"
    return WebhookMessage(id_, _body("gap", now, gap._asdict()), "", now)


def _is_wanted(fields: _Fields, hook: WebhookConfig) -> bool:
    if hook.send == "alerts":
        return True
    if hook.decision is not None:
        return (fields.decision if isinstance(fields.decision, str) else "none") == hook.decision
    return hook.send == "predictions" or isinstance(fields.decision, str)


def _body(kind: str, seconds: float, data: Mapping[str, object]) -> bytes:
    at = datetime.fromtimestamp(max(0.0, seconds), UTC).isoformat(timespec="milliseconds")
    return msgspec.json.encode({"type": kind, "timestamp": at.replace("+00:00", "Z"), "data": data})
