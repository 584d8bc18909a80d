"""Prometheus metrics of all webhooks."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class WebhookMetrics:
    """Metrics with the label `webhook`, the name of each.

    Attributes:
        messages: counter by outcome: "delivered", "skipped", "erased", and "failed" for attempts.
        sending: 1 in the process that sends.
        failures: attempts that failed since a message was last accepted.
        behind: records that the sender has not yet read.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "Messages that were delivered, skipped or erased, and attempts that failed."
        self.messages = Counter("streamnb_webhook_messages", text, ("webhook", "outcome"), registry=registry)
        text = "1 if this process sends; 0 if a different process does, or the address is gone."
        self.sending = Gauge("streamnb_webhook_sending", text, ("webhook",), registry=registry)
        text = "Attempts that failed since a message was last accepted."
        self.failures = Gauge("streamnb_webhook_failures", text, ("webhook",), registry=registry)
        text = "Records that the sender has not yet read."
        self.behind = Gauge("streamnb_webhook_behind_records", text, ("webhook",), registry=registry)
