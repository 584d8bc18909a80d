"""An HTTP server that receives webhooks, and a sender of one in a process of its own, which can be killed."""

from __future__ import annotations

import http.server
import json
import sys
import threading
import time
from contextlib import contextmanager

from prometheus_client import CollectorRegistry
from standardwebhooks import Webhook

from streamnb import config as configuration
from streamnb.formats.terminal_text import emit
from streamnb.runtime import context
from streamnb.serving.erased_events import ErasedEvents
from streamnb.serving.webhook_metrics import WebhookMetrics
from streamnb.serving.webhooks import WebhookSender

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"  # noqa: S105


class Receiver:
    """Keeps what arrives; `answer` gets the number of the request, and returns a status, or a status and headers."""

    def __init__(self, answer=lambda _: 200, secret=SECRET):
        self.answer, self.secret = answer, secret
        self.received, self.ids, self.paths, self.statuses = [], [], [], []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def _handler(receiver):  # noqa: N805
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.lock:
                    receiver.at_once += 1
                    receiver.most_at_once = max(receiver.most_at_once, receiver.at_once)
                    n = len(receiver.received)
                    receiver.received.append(json.loads(body))
                    receiver.ids.append(self.headers["webhook-id"])
                    receiver.paths.append(self.path)
                Webhook(receiver.secret).verify(body, {k.lower(): v for k, v in self.headers.items()})
                found = receiver.answer(n)
                status, headers = found if isinstance(found, tuple) else (found, {})
                with receiver.lock:
                    receiver.at_once -= 1
                    receiver.statuses.append(status)
                self.send_response(status)
                for name, value in {"content-length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_):
                pass

        return Handler

    def data(self):
        return [one["data"] for one in self.received]

    def accepted(self):
        """The ids of events whose message was answered with 200, in order."""
        return [
            one["data"]["id"]
            for one, status in zip(self.received, self.statuses, strict=False)
            if status == 200
        ]

    def await_n(self, n, seconds=30.0):
        deadline = time.monotonic() + seconds
        while len(self.statuses) < n:
            assert time.monotonic() < deadline, f"{len(self.statuses)} of {n}: {self.received}"
            time.sleep(0.01)


@contextmanager
def receiving(answer=lambda _: 200):
    """A receiver while the body runs."""
    receiver = Receiver(answer)
    threading.Thread(target=receiver.server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()


def loaded(folder, url, send="predictions", **keys):
    """A configuration with one webhook, and its secret."""
    (folder / "secret").write_text(SECRET + "\n")
    hook = {"name": "desk", "url": url, "send": send, "secret_file": str(folder / "secret"), **keys}
    table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in hook.items())
    monitors = 'monitors=[{ name = "new", kind = "new-class" }]'
    decision = "decision.costs={ spam = { ham = 5.0 } }"
    log = f"log.url=sqlite:///{folder / 'log.db'}"
    return configuration.load(None, {}, [log, monitors, decision, f"webhooks=[{{ {table} }}]"])


def sender_of(config, erased=dict, report=emit, metrics=None, **seconds):
    """A sender of the first webhook, with short times."""
    schema = context.schema(config)
    times = {"lease_seconds": 3.0, "first_pause": 0.05, **seconds}
    metrics = metrics or WebhookMetrics(CollectorRegistry())
    return WebhookSender(config, config.webhooks[0], ErasedEvents(schema, erased), metrics, report, **times)


if __name__ == "__main__":
    from pathlib import Path

    sender = sender_of(loaded(Path(sys.argv[1]), sys.argv[2]))
    sender.start()
    while True:
        time.sleep(1.0)
