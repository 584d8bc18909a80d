#!/usr/bin/env bash
# confluent-kafka (Python) 2.16.1 writes a nested Protobuf message that @confluentinc/schemaregistry (JavaScript)
# 1.10.1 decodes as another message, without an error.
#
# One would guess: both are Confluent's own serializers for one frame, so a record of one is read by the other. The
# frame has the place of the message's type: its index in the file, then its index in the outer message. Seen: if the
# outer message has a map field, Python counts the type that Protobuf makes of the map's entries, and JavaScript does
# not. With a map before two nested messages, Python writes 1 for the first of them, and JavaScript decodes place 1 as
# the second. If both have compatible fields, the values arrive under the wrong type. Messages at the top of a file,
# which most topics have, are not affected.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check 'confluent-kafka[protobuf,schemaregistry]==2.16.1' 'grpcio-tools==1.76.0'
npm install --silent --no-audit --no-fund @confluentinc/schemaregistry@1.10.1
cat >orders.proto <<'PROTO'
syntax = "proto3";
message Order {
  map<string, int32> counts = 1;
  message Placed { string name = 1; }
  message Cancelled { string name = 1; }
  Placed placed = 2;
  Cancelled cancelled = 3;
}
PROTO
python/bin/python -m grpc_tools.protoc -I. --python_out=. orders.proto
cat >write.py <<'PY'
import json

import orders_pb2
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

client = SchemaRegistryClient.new_client({"url": "mock://"})
serializer = ProtobufSerializer(orders_pb2.Order.Placed, client, {"use.deprecated.format": False})
raw = serializer(orders_pb2.Order.Placed(name="n"), SerializationContext("orders", MessageField.VALUE))
schema = client.get_latest_version("orders-value").schema.schema_str
print(json.dumps({"raw": raw.hex(), "id": int.from_bytes(raw[1:5], "big"), "schema": schema}))
PY
python/bin/python write.py >written.json
cat >read.js <<'JS'
const { SchemaRegistryClient, ProtobufDeserializer, SerdeType } = require('@confluentinc/schemaregistry');
const written = require('./written.json');

(async () => {
  const client = SchemaRegistryClient.newClient({ baseURLs: ['mock://'] });
  const id = await client.register('orders-value', { schemaType: 'PROTOBUF', schema: written.schema });
  if (id !== written.id) throw new Error(`the schema has id ${id}, not ${written.id}`);
  const found = await new ProtobufDeserializer(client, SerdeType.VALUE, {}).deserialize('orders', Buffer.from(written.raw, 'hex'));
  console.log(`written: Order.Placed ${written.raw}; read: ${found.$typeName}, name ${found.name}`);
  process.exit(found.$typeName === 'Order.Cancelled' ? 0 : 1);
})().catch((error) => { console.error(error); process.exit(1); });
JS
node read.js
