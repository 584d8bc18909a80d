"""Schemas by id from a Confluent-compatible registry, each fetched once, and the same for good.

A registry may forget: one that keeps its schemas in memory gives id 1 to another schema after a restart, and
frames of the old one then decode to wrong values without an error. So the digest of each used schema is kept
with the position of the conversion and compared when the schema is fetched again.
"""

from __future__ import annotations

import base64
import hashlib
import ssl
import urllib.request
from typing import Any
from urllib.error import HTTPError

from streamnb.config.source_config import RegistryConfig
from streamnb.conversion.schema_decoders import Decode, RegisteredSchema, decoder_of
from streamnb.errors import ConfigError, MalformedEvent, StreamnbError, Unavailable
from streamnb.formats.schema_frames import GLOBAL

_HINT = "pip install 'streamnb[registry]'"
_HINT_PATH = (
    ". No registry answers there: check the path of registry.url, such as /apis/ccompat/v7 of Apicurio"
)
_NOT_FOUND = range(40_401, 40_404)  # codes for an unknown subject, version or schema
_NO_PAGE = 404
_APICURIO = "/apis/ccompat/"
_GLOBAL_PATH = "/apis/registry/v3/ids/globalIds/{}?references=DEREFERENCE&returnArtifactType=true"
_MOST_ID = (1 << 31) - 1
_DIGEST_DIGITS = 12
_MOST_NOTED = 3_800  # bytes of digests, which fit in the note of a position
_BESIDE_A_DIGEST = 6  # quotes, a colon and a comma
_DEEPEST = 50  # references of references


class SchemaChangedError(StreamnbError):
    """The registry answers an id with another schema than before."""


class SchemaRegistry:
    """Decoders of schemas by their id or GUID.

    Args:
        config: where the registry is.

    Attributes:
        digests: id -> beginning of the digest of its schema, of all schemas that were used.

    Raises ConfigError without the client library.
    """

    def __init__(self, config: RegistryConfig) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415  an extra
        except ImportError as error:
            raise ConfigError(f"registry.url: a schema registry needs a client ({error}): {_HINT}") from error
        settings: dict[str, Any] = {"url": config.url, "timeout": config.timeout, "max.retries": 0}
        self._login, self._timeout, self._ca_file = config.login(), config.timeout, config.ca_file or None
        if self._login:
            settings["basic.auth.user.info"] = self._login
        if config.ca_file:
            settings["ssl.ca.location"] = config.ca_file
        try:
            self._client = SchemaRegistryClient(settings)
        except Exception as error:  # the type depends on the setting
            raise ConfigError(f"the section [registry] is refused by its client: {error}") from error
        self._url = config.url
        self._decoders: dict[int | str, Decode | MalformedEvent] = {}
        self.digests: dict[str, str] = {}

    def decode(self, schema: int | str, body: bytes) -> Any:
        """Return the value of encoded bytes.

        Raises:
            MalformedEvent: the registry knows no such schema, or the bytes are not of this schema.
            Unavailable: the registry does not answer, or refuses to.
            SchemaChangedError: the schema differs from an earlier one of this id.
        """
        if schema not in self._decoders:
            try:
                self._decoders[schema] = decoder_of(self._fetched(schema))
            except MalformedEvent as error:
                if error.reason == "unknown-schema":
                    raise  # the schema may be registered later
                self._decoders[schema] = error
            except (ValueError, RecursionError) as error:
                text = f"a schema that cannot be read: {type(error).__name__}: {error}"
                self._decoders[schema] = MalformedEvent("undecodable", "$", text)
        found = self._decoders[schema]
        if isinstance(found, MalformedEvent):
            raise MalformedEvent(found.reason, found.path, found.detail, found.remedy) from found
        return found(body)

    def registered(self, subject: str, text: str) -> int:
        """Register an Avro schema, and return its id. Raises Unavailable, also if the schema is refused."""
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415  an extra

        return int(
            self._asked(f"subject {subject}", self._client.register_schema, subject, Schema(text, "AVRO"))
        )

    def _fetched(self, schema: int | str) -> RegisteredSchema:
        is_global = isinstance(schema, str) and schema.startswith(GLOBAL)
        number = schema if isinstance(schema, int) else int(schema.removeprefix(GLOBAL)) if is_global else 0
        if number > _MOST_ID:  # a registry may answer as for a missing page, which would hold the source up
            text = f"no registry has schema {schema}: its id is too large"
            raise MalformedEvent("unknown-schema", "$", text)
        registered = self._of_global_id(schema) if is_global else self._of_id(schema)
        content = repr((registered.kind, registered.text, list(registered.references.items())))
        digest = hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]
        before = self.digests.get(str(schema))
        if before not in {None, digest}:
            raise SchemaChangedError(
                f"registry {self._url}: id {schema} is another schema than before (digest {digest}, was "
                f"{before}). Records of the earlier schema would be misread. Restore the registry's content, "
                "or give the source another `name` to begin again with the schemas as they are now"
            )
        noted = sum(len(name) + len(each) + _BESIDE_A_DIGEST for name, each in self.digests.items())
        if noted + len(str(schema)) + len(digest) < _MOST_NOTED:
            self.digests[str(schema)] = digest
        return registered

    def _of_id(self, schema: int | str) -> RegisteredSchema:
        by_id = isinstance(schema, int)
        found = self._asked(
            f"schema {schema}", self._client.get_schema if by_id else self._client.get_schema_by_guid, schema
        )
        if not isinstance(found.schema_str, str) or not found.schema_str:
            self._client.clear_caches()
            raise Unavailable(f"registry {self._url}: its answer for schema {schema} has no schema")
        references: dict[str, str] = {}
        self._add_references(found, references, 0)
        return RegisteredSchema(found.schema_type or "AVRO", found.schema_str, references)

    def _of_global_id(self, schema: Any) -> RegisteredSchema:
        """Return a schema by Apicurio's global id, which the API of Confluent does not have."""
        root, path, _ = self._url.partition(_APICURIO)
        if not path:
            remedy = f"set registry.url to Apicurio's, with the path {_APICURIO}v7"
            raise MalformedEvent("unknown-schema", "$", f"{schema} is an id of Apicurio", remedy)
        url = root + _GLOBAL_PATH.format(schema.removeprefix(GLOBAL))
        request = urllib.request.Request(url)  # noqa: S310  the configured one
        if self._login:
            login = base64.b64encode(self._login.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {login}")
        try:
            tls = ssl.create_default_context(cafile=self._ca_file)
            with urllib.request.urlopen(request, timeout=self._timeout, context=tls) as answer:  # noqa: S310
                kind, text = answer.headers.get("X-Registry-ArtifactType"), answer.read().decode()
        except Exception as error:  # of HTTP, sockets, TLS and texts
            if isinstance(error, HTTPError) and b"VersionNotFound" in error.read():
                text = f"the registry has no {schema}"
                raise MalformedEvent("unknown-schema", "$", text, f"register it in {self._url}") from error
            raise Unavailable(f"registry {url}: {type(error).__name__}: {error}") from error
        if kind is None:
            raise Unavailable(f"registry {url}: its answer has no type of a schema")
        if kind not in {"AVRO", "JSON"}:
            text = f"{schema} is of type {kind}, which is read by the ids of Confluent alone"
            raise MalformedEvent("undecodable", "$", text, "set apicurio.registry.as-confluent=true")
        return RegisteredSchema(kind, text, {})

    def _add_references(self, schema: Any, references: dict[str, str], depth: int) -> None:
        """Add the schemas that a schema refers to; those that they refer to come before them."""
        if depth > _DEEPEST:
            raise MalformedEvent("undecodable", "$", f"a schema with references more than {_DEEPEST} deep")
        for one in schema.references or ():
            if one.name not in references:
                what = f"{one.subject} version {one.version}"
                found = self._asked(what, self._client.get_version, one.subject, one.version).schema
                self._add_references(found, references, depth + 1)
                references[one.name] = found.schema_str or ""

    def _asked(self, what: str, ask: Any, *arguments: Any) -> Any:
        """Return the registry's answer. Raises MalformedEvent if it has none, and Unavailable."""
        from confluent_kafka.schema_registry import SchemaRegistryError  # noqa: PLC0415

        try:
            return ask(*arguments)
        except SchemaRegistryError as error:
            if error.error_code in _NOT_FOUND:
                raise MalformedEvent(
                    "unknown-schema",
                    "$",
                    f"the registry has no {what}",
                    f"register it in {self._url}, then send again",
                ) from error
            hint = _HINT_PATH if error.http_status_code == _NO_PAGE else ""
            raise Unavailable(f"registry {self._url}: {what}: {error}{hint}") from error
        except Exception as error:  # types of an HTTP library that differs by version
            raise Unavailable(f"registry {self._url}: {type(error).__name__}: {error}") from error
