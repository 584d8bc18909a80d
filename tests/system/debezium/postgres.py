"""A PostgreSQL server and a Debezium engine of their own, and what the engine sends, as records of a topic."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

from streamnb.engine.ports import NewRecord
from tests.brokers.jars import libraries, require

HERE = Path(__file__).parent
TOPIC = "crm.public.tickets"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Postgres:
    """A server with logical decoding, in a folder; root cannot run one, so the user of Debian's package does."""

    def __init__(self, folder):
        binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not binaries:
            require("initdb", "a PostgreSQL server is Debian's package postgresql")
        self.folder, self._bin, self.port = folder / "pg", binaries[-1], free_port()
        self.folder.mkdir()
        for each in (self.folder, *self.folder.parents):
            if each.owner() == "root" and each not in (Path("/"), Path("/tmp")):  # noqa: S108
                each.chmod(each.stat().st_mode | 0o111)
        shutil.chown(self.folder, "postgres")

    def start(self):
        settings = f"-p {self.port} -c wal_level=logical -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        self._run(f"{self._bin}/initdb -D {self.folder}/data -A trust")
        self._run(f"{self._bin}/pg_ctl -D {self.folder}/data -o '{settings}' -l {self.folder}/log -w start")
        return self

    def stop(self):
        """End the server by the signal that makes it end at once; a container may not reap its process."""
        number = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(number, signal.SIGQUIT)

    def _run(self, command):
        subprocess.run(
            ["su", "postgres", "-s", "/bin/sh", "-c", command], check=True, capture_output=True, cwd="/"
        )

    def sql(self, statements):
        """Run statements, each in a transaction of its own; return the rows of the last one, as lists of texts."""
        command = [
            "psql",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "postgres",
            "-qAtX",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        done = subprocess.run(command, input=statements, text=True, check=True, capture_output=True)
        return [line.split("|") for line in done.stdout.splitlines()]


class Engine:
    """A Debezium engine whose records go to a topic; `kill` is the end of a connector's process."""

    def __init__(self, folder, postgres, append, **settings):
        self._append, self._process, self._thread = append, None, None
        self._libraries = libraries(pom=HERE / "pom.xml")
        self._properties = folder / "engine.properties"
        self.count = 0
        given = {
            "name": "engine",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": folder / "offsets",
            "offset.flush.interval.ms": 200,
            "database.hostname": "127.0.0.1",
            "database.port": postgres.port,
            "database.user": "postgres",
            "database.dbname": "postgres",
            "topic.prefix": "crm",
            "plugin.name": "pgoutput",
            "table.include.list": "public.tickets",
            "skipped.operations": "none",
            **settings,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in given.items()))

    def start(self):
        command = [
            "java",
            "-Xmx300m",
            "-cp",
            self._libraries,
            str(HERE / "Runner.java"),
            str(self._properties),
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self._thread = threading.Thread(target=self._pump, args=(self._process,), daemon=True)
        self._thread.start()

    def kill(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()

    def _pump(self, process):
        for line in process.stdout:
            if not line.endswith("\n") or line.startswith("ended"):
                continue
            _, key, value, *headers = line.split()
            pairs = (header.split(":") for header in headers)
            found = tuple((name, _decoded(content)) for name, content in pairs)
            self._append([NewRecord(TOPIC, _decoded(key), _decoded(value) or b"", found)])
            self.count += 1


def _decoded(text):
    return None if text == "-" else base64.b64decode(text)
