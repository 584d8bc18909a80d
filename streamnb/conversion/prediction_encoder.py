"""Encoder of predictions as Avro, with a schema that it registers: what `registry.predictions` names."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from streamnb.conversion.schema_registry import SchemaRegistry
from streamnb.engine.ports import NewRecord, Record
from streamnb.errors import ConfigError, MalformedEvent
from streamnb.events import Prediction
from streamnb.formats.codec import decode_prediction
from streamnb.formats.schema_frames import framed

_SCALARS: Mapping[Any, str] = {
    inspect.StrType: "string",
    inspect.FloatType: "double",
    inspect.IntType: "long",
    inspect.NoneType: "null",
}


def avro_schema(kind: Any) -> Any:
    """Return the Avro schema of a type that `msgspec.inspect` describes; an optional field has a default."""
    if isinstance(kind, inspect.StructType):
        fields = [
            {"name": field.encode_name, "type": avro_schema(field.type)}
            | ({} if field.required else {"default": None})
            for field in kind.fields
        ]
        return {"type": "record", "name": kind.cls.__name__, "namespace": "streamnb", "fields": fields}
    if isinstance(kind, inspect.UnionType):
        return sorted(map(avro_schema, kind.types), key=lambda one: one != "null")  # its type comes first
    if isinstance(kind, inspect.DictType):
        return {"type": "map", "values": avro_schema(kind.value_type)}
    if isinstance(kind, inspect.VarTupleType):
        return {"type": "array", "items": avro_schema(kind.item_type)}
    return _SCALARS[type(kind)]


class PredictionEncoder:
    """Encoder of the records of a topic of predictions; it stands in the place of a `RecordConverter`.

    Args:
        topic: the topic of the encoded predictions.
        registry: holds the schema.
        notice: receives what is not encoded, and why.

    Attributes:
        counts: number of outputs and passed records, by one of `results`.
        floor: unused.
        sizes: maximum bytes of a record with its key, of topics that have such a limit.
    """

    results = ("predictions", "others")

    def __init__(self, topic: str, registry: SchemaRegistry, notice: Callable[[str, str], None]) -> None:
        try:
            import fastavro  # noqa: PLC0415  an extra
        except ImportError as error:
            raise ConfigError(
                "registry.predictions needs fastavro: pip install 'streamnb[registry]'"
            ) from error
        self._topic, self._registry, self._notice = topic, registry, notice
        schema = avro_schema(inspect.type_info(Prediction))
        self._text, self._parsed = msgspec.json.encode(schema).decode(), fastavro.parse_schema(schema)
        self._write: Callable[..., None] = fastavro.schemaless_writer
        self._schema_id: int | None = None
        self.counts: Counter[str] = Counter()
        self.floor = 0.0
        self.sizes: Mapping[str, int] = {}

    def outputs(self, record: Record) -> list[NewRecord]:
        """Return the encoded prediction; nothing for a foreign record, or for one that its topic refuses.

        Raises Unavailable if the registry does not answer, or refuses the schema.
        """
        try:
            decode_prediction(record.value)
        except MalformedEvent:
            return self._passed("foreign")
        if self._schema_id is None:
            self._schema_id = self._registry.registered(f"{self._topic}-value", self._text)
        body = io.BytesIO()
        self._write(body, self._parsed, msgspec.json.decode(record.value))
        output = NewRecord(self._topic, record.key, framed(self._schema_id, body.getvalue()))
        if len(output.value) + len(output.key or b"") > self.sizes.get(self._topic, sys.maxsize):
            return self._passed("large")
        self.counts["predictions"] += 1
        return [output]

    def _passed(self, why: str) -> list[NewRecord]:
        self._notice(self._topic, why)
        self.counts["others"] += 1
        return []
