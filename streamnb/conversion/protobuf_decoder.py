"""Decoder of Protobuf messages by the text of their schema, which protoc of grpcio-tools compiles.

Values become what the same values of Avro become: 64-bit integers are numbers, and bytes are text. A field
without presence that is not set has its default, as a producer that wrote 0 leaves the field out.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from streamnb.errors import ConfigError, MalformedEvent
from streamnb.values.json_conversion import bytes_text

try:
    import grpc_tools.protoc  # noqa: F401  it is run below
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message, message_factory
except ImportError as error:
    raise ConfigError(
        f"Protobuf records need protobuf and grpcio-tools ({error}): pip install 'streamnb[registry]'"
    ) from error

_MOST_VARINT = 10  # bytes
_FILE = "value.proto"
_FILE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}(/[A-Za-z0-9_.-]{1,200}){0,20}")
_PROTOC_SECONDS = 60.0
_WRAPPED = "value"
_NS = 1e9


def protobuf_decoder(text: str, references: Mapping[str, str]) -> Callable[[bytes], Any]:
    """Return the decoder of framed messages: the place of the message's type, then the message.

    Args:
        text: the schema.
        references: name -> text of each schema that it imports.

    Raises MalformedEvent if the schema cannot be compiled.
    """
    types = _MessageTypes(_compiled(text, references))

    def decode(body: bytes) -> Any:
        indexes, rest = _message_indexes(body)
        found = types.at(indexes)()
        try:
            found.ParseFromString(rest)
        except message.DecodeError as error:
            raise MalformedEvent("undecodable", "$", f"not of the Protobuf schema: {error}") from error
        if found.FindInitializationErrors():
            raise MalformedEvent("undecodable", "$", "a Protobuf message without its required fields")
        return _row(found)

    return decode


def _compiled(text: str, references: Mapping[str, str]) -> Sequence[Any]:
    """Return the descriptors of a schema's file, the last one, and of the files that it imports.

    protoc runs in a process of its own: whatever a schema does to it ends that process alone. Serializers of
    Python register a descriptor in base64 instead of text, and not every registry translates it.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        sources, given, out = root / "sources", root / "given", root / "descriptors"
        sources.mkdir()
        known = descriptor_pb2.FileDescriptorSet()
        for name, content in {**references, _FILE: text}.items():
            path = sources / name
            if not _FILE_NAME.fullmatch(name) or not path.resolve().is_relative_to(sources):
                raise MalformedEvent("undecodable", "$", f"a Protobuf schema imports {name[:100]!r}")
            if (described := _described(content)) is not None:
                described.name = name
                known.file.append(described)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        flags = [f"-I{sources}", "--include_imports", f"--descriptor_set_out={out}"]
        if known.file:
            given.write_bytes(known.SerializeToString())
            flags.append(f"--descriptor_set_in={given}")
        command = [sys.executable, "-m", "grpc_tools.protoc", *flags, _FILE]
        done = subprocess.run(command, capture_output=True, timeout=_PROTOC_SECONDS, check=False)  # noqa: S603
        if done.returncode != 0:
            why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2].replace(f"{sources}/", "")
            text = f"a Protobuf schema that protoc does not compile: {why[:300]}"
            raise MalformedEvent("undecodable", "$", text)
        files: Sequence[Any] = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
        return files


def _described(content: str) -> Any:
    """Return the descriptor of a file in base64; None for the text of a schema."""
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(b64decode(content, validate=True))
    except (ValueError, message.DecodeError):
        return None
    return found if found.message_type else None


class _MessageTypes:
    """The message types of a schema by their place: index in the file, then index in each outer message.

    Serializers disagree whether the type of a map's entries counts among the types of a message. A place that
    depends on it is refused.

    Args:
        files: descriptors of the schema's file, the last one, and of its imports.
    """

    def __init__(self, files: Sequence[Any]) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        for file in files:
            self._pool.Add(file)
        self._file = files[-1]
        self._classes: dict[tuple[int, ...], Any] = {}

    def at(self, indexes: tuple[int, ...]) -> Any:
        """Return the class of messages at a place. Raises MalformedEvent."""
        if indexes not in self._classes:
            names = {self._name(indexes, counts_maps=counts) for counts in (True, False)}
            if len(names) > 1:
                raise MalformedEvent(
                    "undecodable",
                    "$",
                    f"the message type {list(indexes)} depends on whether maps are counted",
                )
            (name,) = names
            if name is None:
                raise MalformedEvent("undecodable", "$", f"the schema has no message type {list(indexes)}")
            found = message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
            self._classes[indexes] = found
        return self._classes[indexes]

    def _name(self, indexes: Sequence[int], *, counts_maps: bool) -> str | None:
        kinds, names = self._file.message_type, [self._file.package] if self._file.package else []
        for index in indexes:
            counted = [kind for kind in kinds if counts_maps or not kind.options.map_entry]
            if not 0 <= index < len(counted):
                return None
            names.append(counted[index].name)
            kinds = counted[index].nested_type
        return ".".join(names)


def _message_indexes(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the place of the message's type, which precedes a message, and the message."""
    n, at = _signed_varint(body, 0)
    if n == 0:  # the first type
        return (0,), body[at:]
    indexes = []
    for _ in range(min(n, len(body))):
        index, at = _signed_varint(body, at)
        indexes.append(index)
    return tuple(indexes), body[at:]


def _signed_varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number in zigzag notation, and the place after it. Raises MalformedEvent."""
    value = 0
    for n, byte in enumerate(body[at : at + _MOST_VARINT]):
        value |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:  # the last one
            return (value >> 1) ^ -(value & 1), at + n + 1
    raise MalformedEvent("undecodable", "$", "a Protobuf frame without the place of its message type")


def _row(found: Any) -> dict[str, Any]:
    """Return the fields of a message by name; a field with presence that is not set is absent."""
    return {
        field.name: _field_value(getattr(found, field.name), field)
        for field in found.DESCRIPTOR.fields
        if not field.has_presence or found.HasField(field.name)
    }


def _field_value(value: Any, field: Any) -> Any:
    kind = field.message_type
    if not field.is_repeated:
        return _value(value, field)
    if kind is not None and kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return {str(key): _value(value[key], inner) for key in value}
    return [_value(one, field) for one in value]


def _value(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _well_known(value) if field.message_type.file.package == "google.protobuf" else _row(value)
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return value if found is None else found.name
    if isinstance(value, bytes):
        return bytes_text(value, is_fixed=False)
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _well_known(value: Any) -> Any:
    """Return a message of Protobuf's own types: a time as text, a duration in seconds, a wrapper's value."""
    kind = value.DESCRIPTOR
    if kind.name == "Duration":
        return value.seconds + value.nanos / _NS
    if kind.name.endswith("Value") and _WRAPPED in kind.fields_by_name:
        return _value(value.value, kind.fields_by_name[_WRAPPED])
    return json_format.MessageToDict(value)
