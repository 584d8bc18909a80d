"""Frames of serializers that use a schema registry: the id of a schema, then the encoded value.

    record                                    schema          body
    value: 00, id (4 bytes, big-endian), …    id              what follows
    value: 00, id (8 bytes), below 2**32      global id       what follows
    header: 00, id (4 bytes), …               id              rest of the header, then the value
    header: 01, GUID (16 bytes), …            GUID            rest of the header, then the value
    Apicurio's header: id (8 bytes)           id, global id   the value

The rest of a header is what a Protobuf frame has between the id and the message. JSON text never begins
with a zero byte, so a frame cannot be confused with JSON. No id is 0, so eight bytes cannot be confused with
four. A value without a frame may begin with a zero byte, so headers count before it.

Source: `IdHandler` and `HeadersHandler` of Apicurio 2.6, whose defaults are global ids in headers (Connect)
or in eight bytes (serializers).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"
"""Headers in which newer serializers write the id, so that the value has no prefix."""
_APICURIO = {VALUE_HEADER: "apicurio.value.", KEY_HEADER: "apicurio.key."}
_BY_ID, _BY_GUID = 0, 1
_ID_BYTES, _LONG_BYTES, _GUID_BYTES = 5, 9, 17
GLOBAL = "globalId "
"""Beginning of a schema that is not a GUID but a global id: Apicurio numbers versions, too."""


class SchemaFrame(NamedTuple):
    """A framed value.

    Attributes:
        schema: id of the schema, or as text its GUID, or `GLOBAL` and its global id.
        body: the encoded value.
    """

    schema: int | str
    body: bytes


def schema_frame(
    value: bytes, headers: Iterable[tuple[str, bytes]] = (), header: str = VALUE_HEADER
) -> SchemaFrame | None:
    """Return the frame of a record's value or key; None if it has none.

    Args:
        value: bytes of the value or key.
        headers: of the record.
        header: name of the header that may have the id: `VALUE_HEADER` or `KEY_HEADER`.
    """
    own = _APICURIO[header]
    for name, raw in headers:
        if name in {f"{own}contentId", f"{own}globalId"} and len(raw) == _LONG_BYTES - 1:
            return SchemaFrame(_apicurio_id(raw, is_global=name.endswith("globalId")), value)
        if name == header and raw:
            if raw[0] == _BY_GUID and len(raw) >= _GUID_BYTES:
                return SchemaFrame(str(UUID(bytes=bytes(raw[1:_GUID_BYTES]))), raw[_GUID_BYTES:] + value)
            if raw[0] == _BY_ID and len(raw) >= _ID_BYTES:
                return SchemaFrame(_id(raw), raw[_ID_BYTES:] + value)
    if len(value) >= _LONG_BYTES and not any(value[:_ID_BYTES]):
        return SchemaFrame(_apicurio_id(value[1:_LONG_BYTES], is_global=True), value[_LONG_BYTES:])
    if len(value) >= _ID_BYTES and value[0] == _BY_ID:
        return SchemaFrame(_id(value), value[_ID_BYTES:])
    return None


def framed(schema: int, body: bytes) -> bytes:
    """Return an encoded value behind the id of its schema."""
    return bytes([_BY_ID]) + schema.to_bytes(_ID_BYTES - 1, "big") + body


def _apicurio_id(raw: bytes, *, is_global: bool) -> int | str:
    number = int.from_bytes(raw, "big")
    return f"{GLOBAL}{number}" if is_global else number


def _id(raw: bytes) -> int:
    return int.from_bytes(raw[1:_ID_BYTES], "big")
