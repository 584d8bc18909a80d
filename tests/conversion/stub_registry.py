"""A schema registry of a few lines: what serializers and consumers ask of one, with faults on demand."""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StubRegistry:
    """Schemas by id, GUID, subject and version; `fault` is a status, and `page` an answer, instead."""

    def __init__(self):
        self.page, self.global_ids = None, {}
        self.schemas, self.subjects, self.fault, self.asked, self.authorization = {}, {}, 0, [], None

    def register(self, subject, schema):
        versions = self.subjects.setdefault(subject, [])
        number = next((n for n, known in self.schemas.items() if known == schema), len(self.schemas) + 1)
        self.schemas[number] = schema
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, method, path, body):  # noqa: PLR0911
        parts = [part for part in path.partition("?")[0].split("/") if part]
        match [method, *(parts[3:] if parts[:2] == ["apis", "ccompat"] else parts)]:
            case ["POST", "subjects", subject, "versions"]:
                number = self.register(subject, body)
                return {"id": number, "guid": guid_of(number)}
            case ["POST", "subjects", subject]:
                number = self.register(subject, body)
                return self._of_subject(subject, self.subjects[subject].index(number) + 1)
            case ["GET", "subjects", subject, "versions", version] if subject in self.subjects:
                return self._of_subject(subject, int(version))
            case ["GET", "schemas", "ids", number] if int(number) in self.schemas:
                return {**self.schemas[int(number)], "guid": guid_of(int(number))}
            case ["GET", "schemas", "guids", guid]:
                return next((each for n, each in self.schemas.items() if guid_of(n) == guid), None)
            case ["GET", "apis", "registry", "v3", "ids", "globalIds", number]:
                return self.global_ids.get(int(number))
        return None

    def _of_subject(self, subject, version):
        number = self.subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": number, **self.schemas[number]}


def guid_of(number):
    return str(uuid.UUID(int=number))


@contextmanager
def serving(registry):
    """Yield the URL of a registry that is served."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self):
            size = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            if body is not None:
                body = {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}
            registry.asked.append(self.path)
            registry.authorization = self.headers.get("authorization")
            found = None if registry.fault else registry.answer(self.command, self.path, body)
            status = registry.fault or (200 if found is not None else 404)
            raw = json.dumps(found or {"error_code": status * 100 + 3, "message": "no"}).encode()
            if "globalIds" in self.path and not registry.fault:
                raw = found["schema"].encode() if found else b'{"name": "VersionNotFoundException"}'
            if registry.page is not None:
                status, raw = registry.page
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.send_header("location", "/elsewhere")
            if registry.page is None and found:
                self.send_header("X-Registry-ArtifactType", found.get("schemaType", "AVRO"))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = handle_one  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
