"""Decoders of encoded values by their schema: Avro, Protobuf and JSON Schema, into values that JSON has.

Avro is decoded by fastavro. A value of JSON Schema is JSON text, which its producer has validated.
docs/sources.md has the table of types.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from streamnb.errors import ConfigError, MalformedEvent
from streamnb.formats.avro_events import plain_value
from streamnb.formats.connect_values import Convert, convert_fields, named_converter, times_as_numbers
from streamnb.values.json_conversion import bytes_text

Decode = Callable[[bytes], Any]
"""Returns the value of encoded bytes. Raises MalformedEvent."""
_HINT = "pip install 'streamnb[registry]'"
_SAFE_BYTES = 1000
"""Bytes of a recursive value that fastavro's fast reader gets: at 8,000 levels it ends the process."""


class RegisteredSchema(NamedTuple):
    """A schema with the schemas that it refers to.

    Attributes:
        kind: "AVRO", "PROTOBUF" or "JSON".
        text: the schema.
        references: name -> text of each schema it refers to, those first to which others refer.
    """

    kind: str
    text: str
    references: Mapping[str, str]


def decoder_of(schema: RegisteredSchema) -> Decode:
    """Return the decoder of a schema.

    Raises:
        ConfigError: a library is missing.
        MalformedEvent: the schema itself cannot be read.
    """
    if schema.kind == "AVRO":
        return _avro_decoder(schema)
    if schema.kind == "PROTOBUF":
        from streamnb.conversion.protobuf_decoder import protobuf_decoder  # noqa: PLC0415  an extra

        return protobuf_decoder(schema.text, schema.references)
    if schema.kind == "JSON":
        return json_decoded
    raise MalformedEvent("undecodable", "$", f"schemas of type {schema.kind} are not read")


def json_decoded(body: bytes) -> Any:
    """Return the value of JSON text. Raises MalformedEvent."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedEvent("invalid-json", "$", str(error)) from error


def _is_recursive(parsed: Any, named: Mapping[str, Any]) -> bool:
    """Return whether a value may contain a value of its own type.

    Raises MalformedEvent for an array of values without bytes, such as null: a few bytes would be an array
    that fills the memory.
    """
    sizes: dict[str, bool | None] = {}  # name -> whether a value has bytes; None while its type is visited
    recursive = False

    def has_bytes(kind: Any) -> bool:
        nonlocal recursive
        if isinstance(kind, str):
            return has_bytes(named[kind]) if kind in named else kind != "null"
        if isinstance(kind, list):
            return len(list(map(has_bytes, kind))) > 0  # the index of a union
        if not isinstance(kind["type"], str):
            return has_bytes(kind["type"])
        if kind["type"] == "array" and not has_bytes(kind["items"]):
            raise MalformedEvent("undecodable", "$", "an Avro schema with an array of values without bytes")
        if kind["type"] == "map":
            has_bytes(kind["values"])
        if kind["type"] == "fixed":
            return bool(kind["size"] > 0)
        if kind["type"] not in {"record", "error"}:
            return kind["type"] != "null"
        name = kind["name"]
        if name not in sizes:
            sizes[name] = None
            sizes[name] = sum(has_bytes(field["type"]) for field in kind["fields"]) > 0  # all are visited
        recursive |= sizes[name] is None
        return sizes[name] is not False

    has_bytes(parsed)
    return recursive


def _avro_decoder(schema: RegisteredSchema) -> Decode:
    try:
        import fastavro  # noqa: PLC0415  an extra
        from fastavro._read_py import schemaless_reader as slow_reader  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"Avro records need fastavro: {_HINT}") from error
    named: dict[str, Any] = {}
    try:
        for text in schema.references.values():
            fastavro.parse_schema(times_as_numbers(msgspec.json.decode(text)), named_schemas=named)
        parsed = fastavro.parse_schema(
            times_as_numbers(msgspec.json.decode(schema.text)), named_schemas=named
        )
    except Exception as error:
        raise MalformedEvent("undecodable", "$", f"an Avro schema that cannot be read: {error}") from error
    convert, is_recursive = _AvroTypes(named).converter(parsed), _is_recursive(parsed, named)

    def decode(body: bytes) -> Any:
        stream = io.BytesIO(body)
        try:
            if is_recursive and len(body) > _SAFE_BYTES:
                value = slow_reader(stream, parsed, None)
            else:
                value = fastavro.schemaless_reader(stream, parsed, None)
        except Exception as error:  # fastavro raises many types
            raise MalformedEvent(
                "undecodable", "$", f"bytes that the Avro schema does not describe: {error}"
            ) from error
        if stream.tell() != len(body):
            left = len(body) - stream.tell()
            raise MalformedEvent("undecodable", "$", f"{left} bytes after a value of the Avro schema")
        return convert(value)

    return decode


class _AvroTypes:
    """Conversions of decoded Avro values, by their types.

    Args:
        named: the named types, parsed.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._records: dict[str, dict[str, Convert]] = {}

    def converter(self, kind: Any) -> Convert:
        """Return the conversion of values of a parsed type."""
        if isinstance(kind, list):
            others = [one for one in kind if one != "null"]
            kind = others[0] if len(others) == 1 else "null"
        if isinstance(kind, str):
            return self.converter(self._named[kind]) if kind in self._named else plain_value
        if (
            found := named_converter(kind.get("connect.name"), kind.get("connect.parameters") or kind)
        ) is not None:
            return found
        if kind["type"] == "record":
            return self._record(kind)
        if kind["type"] == "fixed" and "logicalType" not in kind:
            return partial(bytes_text, is_fixed=True)
        return plain_value

    def _record(self, kind: Mapping[str, Any]) -> Convert:
        """Return the conversion of a record, whose fields may have its own type."""
        name = kind["name"]
        if name not in self._records:
            fields = self._records[name] = {}
            fields |= {field["name"]: self.converter(field["type"]) for field in kind["fields"]}
        return partial(convert_fields, self._records[name])
