"""Apicurio, a real registry of schemas, as a process."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.brokers.cluster import free_ports
from tests.brokers.jars import LIBS, locked, require

PAUSE, VERSION = 0.2, "3.0.9"


def archive():
    """The registry, fetched by Maven once; its own pom.xml has a parent that is not published."""
    require("java", "the registry needs Java 17")
    path = LIBS / "registry" / f"apicurio-registry-app-{VERSION}-all.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(LIBS / "registry" / "lock"):
        if not path.exists():
            require("mvn", "the registry is fetched by Maven")
            artifact = f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                command = ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={folder}"]
                subprocess.run(command, check=True, cwd=folder)
                (Path(folder) / path.name).rename(path)
    return path


class Registry:
    """Apicurio as a process, with a database of its own that outlives it."""

    def __init__(self, folder):
        with tarfile.open(archive()) as packed:
            packed.extractall(folder, filter="data")
        self._folder, (self._port,) = folder, free_ports(1)
        self.root = f"http://127.0.0.1:{self._port}"
        self.url = f"{self.root}/apis/ccompat/v7"

    def start(self):
        (runner,) = self._folder.glob("*-runner.jar")
        settings = {
            "quarkus.http.port": self._port,
            "quarkus.http.host": "127.0.0.1",
            "apicurio.datasource.url": f"jdbc:h2:file:{self._folder}/schemas",
        }
        flags = [f"-D{name}={value}" for name, value in settings.items()]
        with (self._folder / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                ["java", "-Xmx300m", *flags, "-jar", runner], cwd=self._folder, stdout=out, stderr=out
            )
        until(self._answers, 90)
        return self

    def stop(self):
        self._process.terminate()  # a killed one forgets schemas that were registered in the last moment
        self._process.wait(30)

    def _answers(self):
        try:
            return urllib.request.urlopen(f"{self.url}/subjects", timeout=2).status == 200  # noqa: S310
        except (urllib.error.URLError, OSError):
            return False


def until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(PAUSE)
