"""One request to an ASGI application, without a server."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from urllib.parse import urlencode

ORIGIN = {"origin": "http://localhost:8000"}


def page_request(app, path, fields=None, **headers):
    """Return status, headers and text; fields are sent as a form."""
    path, _, query = path.partition("?")
    body = urlencode(fields).encode() if fields is not None else b""
    given = {"host": "localhost:8000"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http", "method": "GET" if fields is None else "POST", "path": path, "raw_path": path.encode(),
        "query_string": query.encode(), "headers": [(k.encode(), v.encode()) for k, v in given.items()],
        "http_version": "1.1", "scheme": "http", "server": ("localhost", 8000), "client": ("127.0.0.1", 1), "root_path": "",
    }  # fmt: skip
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    text = b"".join(one.get("body", b"") for one in sent[1:]).decode()
    return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}, text


def password(token):
    """Return the header by which a browser sends a token."""
    return {"authorization": "Basic " + b64encode(f"x:{token}".encode()).decode()}
