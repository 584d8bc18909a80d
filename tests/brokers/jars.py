"""The jars of Apache Kafka, fetched by Maven once and kept beside pytest's cache."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
LIBS = HERE.parents[1] / ".pytest_cache" / "kafka-libs"


class CannotStartError(Exception):
    """A broker does not start, and why."""


class ToolMissingError(CannotStartError):
    """This machine lacks what a broker needs: a test is skipped for it, where it is not CI."""


def require(tool, why):
    if shutil.which(tool) is None:
        raise ToolMissingError(f"{tool} is not installed: {why}")


def libraries(cache=LIBS, pom=POM):
    """The class path of the broker that pom.xml names, or of what another one does.

    A folder of the cache bears the digest of pom.xml and is there as a whole or not at all: Maven fills
    another one, which is renamed when it is complete. One process fetches, the others wait for its lock,
    which the kernel drops if that process dies.
    """
    require("java", "a Kafka broker needs Java 17")
    folder = Path(cache) / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    if not folder.is_dir():
        require("mvn", "a Kafka broker is fetched by Maven")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / "lock"):
            if not folder.is_dir():
                _fetch(folder, pom)
    return f"{folder}/*"


@contextlib.contextmanager
def locked(path):
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(folder, pom):
    for half_done in folder.parent.glob("partial-*"):
        shutil.rmtree(half_done, ignore_errors=True)
    partial = tempfile.mkdtemp(prefix="partial-", dir=folder.parent)
    command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime",
               f"-DoutputDirectory={partial}"]  # fmt: skip
    fetched = subprocess.run(command, capture_output=True, text=True, check=False)
    if fetched.returncode:
        raise ToolMissingError(f"Maven could not fetch what {pom} names: {fetched.stdout[-500:]}")
    Path(partial).rename(folder)
