"""Senders of webhooks: each record of a topic, as a signed POST to one address, at least once and in order.

Every `serve` of a log runs a sender for each webhook. The sender that has the lease sends; all further
senders wait to take over. A sender has its own thread and connection to the log, so no address delays the
rest.

    state       meaning                                          next
    waiting     some other sender has the lease                  sending, when the lease is free or expires
    sending     one request at a time, in the order of a         failing, after an attempt that failed
                partition
    failing     repeats the message, later each time             sending, after an answer of 2xx; or after the
                                                                 message was skipped
    stopped     the address answered 410                         sends nothing until `serve` starts again

Invariants:

* The position passes a message only after an answer of 2xx, or after it was skipped, which is reported.
* No request begins unless the lease was renewed recently, and each ends before the lease could expire. So two
  senders never send at the same time.
* The position is written at most `_SAVE_SECONDS` after an answer, and when nothing is left to send. A sender
  that dies repeats the messages since then: hence at least once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing

from streamnb.config import Config, WebhookConfig
from streamnb.engine.ports import Log, Partition, Record
from streamnb.serving.erased_events import ErasedEvents
from streamnb.serving.leased_follower import LeasedFollower
from streamnb.serving.leased_position import LeasedPosition, Start
from streamnb.serving.webhook_client import WebhookAnswer, WebhookClient
from streamnb.serving.webhook_message import WebhookMessage, message_of, message_of_gap, without_event
from streamnb.serving.webhook_metrics import WebhookMetrics
from streamnb.values.messages import Message

LEASE_SECONDS, REQUEST_SECONDS = 30.0, 15.0
"""Length of the lease, and limit of one request: a third of the lease and a request end before the lease."""
_SAVE_SECONDS = 1.0
_LOOK_SECONDS, _POLL_SECONDS = 2.0, 0.25
_PARTITION_SECONDS = 5.0
_AT_ONCE = 100
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
_GONE = 410
_REFUSALS = frozenset({400, 413, 415, 422})
"""Statuses that refuse one message: the receiver may accept the next."""
_MOST_REFUSALS = 5


class WebhookSender(LeasedFollower):
    """Sends the messages of one webhook while it has the lease.

    Args:
        config: the learner's configuration.
        hook: the webhook. Raises ConfigError if its secrets cannot be read.
        erased: ids of erased events; used by this sender alone.
        metrics: counts the messages.
        report: callback that receives messages for the operator.
        lease_seconds: see `LeasedPosition`.
        first_pause: seconds before the second attempt; doubled after each.
    """

    _again = "the webhook continues"
    _join_seconds = 5.0

    def __init__(
        self,
        config: Config,
        hook: WebhookConfig,
        erased: ErasedEvents,
        metrics: WebhookMetrics,
        report: Callable[[Message], None],
        *,
        lease_seconds: float = LEASE_SECONDS,
        first_pause: float = _FIRST_PAUSE,
    ) -> None:
        super().__init__(config, report, lease_seconds)
        self._hook, self._erased, self._metrics, self._report = hook, erased, metrics, report
        self._secrets = hook.secrets()
        self._topic = config.topics.alerts if hook.send == "alerts" else config.topics.predictions
        self._first_pause = first_pause
        self._failures, self._reason = 0, ""
        self._is_gone = self._has_ended = False
        self._show_sending(is_sending=False)

    def position_in(self, log: Log) -> LeasedPosition:
        """Return the position of the webhook, which begins after the newest record."""
        return LeasedPosition(log, self._topic, f"webhook-{self._hook.name}", self.owner, self.lease_seconds)

    def work(self, log: Log, position: LeasedPosition, start: Start) -> None:
        """Send message after message."""
        if not start.is_continued:
            text = f"it sends what is published from now on ({self._topic}: {start.cursor})"
            self._report(Message("webhook-begins", self._named(text), webhook=self._hook.name))
        seconds = min(REQUEST_SECONDS, self.lease_seconds / 2)
        with closing(WebhookClient(self._hook.url, self._secrets, seconds)) as client:
            if self._passed_gaps(start, log, position, client):
                self._send(log, position, client)

    def show(self, *, is_working: bool) -> None:
        """Show whether this process sends."""
        self._show_sending(is_sending=is_working and not self._is_gone)

    def _passed_gaps(self, start: Start, log: Log, position: LeasedPosition, client: WebhookClient) -> bool:
        """Deliver what cannot be read as messages of type "gap"; return False at the end."""
        for gap in start.gaps:
            text = (
                f"{self._topic}/{gap.partition}: records from offset {gap.offset} on cannot be sent "
                f"({gap.reason}); the next is {gap.continues}"
            )
            self._report(Message("webhook-gap", self._named(text), webhook=self._hook.name, **gap._asdict()))
            if not self._deliver(
                message_of_gap(gap, start.cursor.topic_id, time.time()), log, position, client
            ):
                return False
        position.move(start.cursor)
        return True

    def _send(self, log: Log, position: LeasedPosition, client: WebhookClient) -> None:
        """Send record after record until the end, or until there are new partitions."""
        log.seek({Partition(self._topic, n): offset for n, offset in enumerate(position.offsets)})
        due = time.monotonic() + _PARTITION_SECONDS
        while not self.is_over():
            records = log.poll(_AT_ONCE, _POLL_SECONDS)
            self._metrics.behind.labels(self._hook.name).set(len(records) + sum(log.lag().values()))
            for record in records:
                if not self._is_done(record, log, position, client):
                    return
                position.offsets[record.partition.number] = record.offset + 1
                self._save_if_due(position, _SAVE_SECONDS)
            self._save_if_due(position, _SAVE_SECONDS if records else 0.0)
            if time.monotonic() > due:
                due = time.monotonic() + _PARTITION_SECONDS
                partitions, topic_id = log.partitions(self._topic), log.topic_id(self._topic)
                if len(partitions) != len(position.offsets) or topic_id != position.topic_id:
                    return

    def _save_if_due(self, position: LeasedPosition, seconds: float) -> None:
        """Write the position some seconds after the last write if messages ended since, or for the lease."""
        if position.is_due or (self._has_ended and position.saved_seconds > seconds):
            position.save()
            self._has_ended = False

    def _is_done(self, record: Record, log: Log, position: LeasedPosition, client: WebhookClient) -> bool:
        """Deliver the message of a record, if it has one; return False at the end."""
        message = message_of(record, position.topic_id, self._hook)
        if message is None:
            return True
        self._has_ended = self._deliver(message, log, position, client)
        return self._has_ended

    def _deliver(
        self, message: WebhookMessage, log: Log, position: LeasedPosition, client: WebhookClient
    ) -> bool:
        """Repeat a message until it is accepted, skipped or erased; return False at the end."""
        n_refused = 0
        while not self.is_over() and not self._is_gone:
            if position.is_due:
                position.save()
            is_erased = self._erased.has(message.event_id, log) if message.event_id else False
            if self._hook.send == "alerts" and is_erased is not False:
                message, is_erased = without_event(message), False
            if is_erased is None:  # the model is still loading
                self.wait(_LOOK_SECONDS, position)
                continue
            if is_erased:
                self._count("erased")
                return True
            answer = client.post(message, self.is_over)
            if self.is_over() and not answer.is_accepted:
                break
            if answer.is_accepted:
                self._accepted()
                return True
            self._failed(answer)
            n_refused += answer.status in _REFUSALS
            age = time.time() - message.published
            if answer.status != _GONE and (n_refused == _MOST_REFUSALS or age > self._hook.give_up_after):
                self._skipped(message, answer)
                return True
            longest = min(_LONGEST_PAUSE, self._first_pause * 2.0 ** min(self._failures - 1, 20))
            self.wait(max(answer.retry_after, random.uniform(longest / 2, longest)), position)  # noqa: S311
        while self._is_gone and not self.is_over():  # keep the lease: no other process may ask the address
            self.wait(_LOOK_SECONDS, position)
        return False

    def _accepted(self) -> None:
        self._count("delivered")
        if self._failures:
            text = f"accepts messages again, after {self._failures:,} failed attempts"
            self._report(Message("webhook-recovers", self._named(text), webhook=self._hook.name))
        self._set_failures(0)
        self._reason = ""

    def _failed(self, answer: WebhookAnswer) -> None:
        self._count("failed")
        self._set_failures(self._failures + 1)
        if answer.status == _GONE:
            self._is_gone = True
            self._show_sending(is_sending=False)
            text = (
                "HTTP status 410: nothing more is sent to this address; remove the webhook, or correct its "
                "url and start `serve` again, which continues at the same message"
            )
            self._report(
                Message("webhook-gone", self._named(text), webhook=self._hook.name, status=answer.status)
            )
        elif answer.reason != self._reason:
            self._reason = answer.reason
            what = (
                "; redirects are not followed: set its url to the final address" if answer.is_redirect else ""
            )
            text = f"an attempt failed ({answer.reason}){what}; it is repeated, later each time"
            fields = {"webhook": self._hook.name, "reason": answer.reason, "status": answer.status}
            self._report(Message("webhook-fails", self._named(text), **fields))

    def _skipped(self, message: WebhookMessage, answer: WebhookAnswer) -> None:
        """Count and report a message that is not sent any more."""
        self._count("skipped")
        text = (
            f"message {message.id} is skipped, after {self._failures:,} failed attempts ({answer.reason}); "
            f"GET /{self._topic_path} still has it"
        )
        fields = {"webhook": self._hook.name, "message": message.id, "reason": answer.reason}
        self._report(Message("webhook-skipped", self._named(text), **fields))
        if answer.status in _REFUSALS:
            self._set_failures(0)

    @property
    def _topic_path(self) -> str:
        return "alerts" if self._hook.send == "alerts" else "predictions"

    def _named(self, text: str) -> str:
        return f"webhook {self._hook.name}: {text}"

    def _count(self, outcome: str) -> None:
        self._metrics.messages.labels(self._hook.name, outcome).inc()

    def _set_failures(self, n: int) -> None:
        self._failures = n
        self._metrics.failures.labels(self._hook.name).set(n)

    def _show_sending(self, *, is_sending: bool) -> None:
        self._metrics.sending.labels(self._hook.name).set(int(is_sending))
