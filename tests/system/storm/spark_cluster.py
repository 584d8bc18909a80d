"""A Spark cluster on this machine, without Docker: a master, workers of one core each, and drivers on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.brokers.broker import DIES_WITH_US, STARTER
from tests.brokers.cluster import free_ports
from tests.brokers.jars import CannotStartError, ToolMissingError, libraries

ROOT = Path(__file__).parents[3]
POM = ROOT / "deploy" / "spark" / "pom.xml"
SECONDS_TO_START = 120
MEMORY = "600m"


class SparkCluster:
    """Master and workers; each keeps a log in the folder.

    Raises ToolMissingError where pyspark, Java or Maven is not there.
    """

    def __init__(self, folder, workers=2):
        try:
            import pyspark
        except ImportError:
            raise ToolMissingError("pyspark is not installed: pip install 'streamnb[spark]'") from None
        self._bin = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self._jars = Path(libraries(pom=POM).removesuffix("/*"))
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, *_ = free_ports(1)
        self.master = self._start("master", "master.Master", "--port", self.port)
        self._await("master", "I have been elected leader")
        self.workers = [self._start_worker(number) for number in range(workers)]
        for number in range(workers):
            self._await(f"worker-{number}", "Successfully registered")

    @property
    def address(self):
        return f"spark://127.0.0.1:{self.port}"

    def driver(self, script, *arguments, environment=None):
        """A driver, in the background; what it says goes to a file of its own."""
        jars = ",".join(map(str, sorted(self._jars.glob("*.jar"))))
        given = {
            "spark.jars": jars, "spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
        }  # fmt: skip
        options = " ".join(f"--conf {key}={value}" for key, value in given.items())
        made = {
            "PYSPARK_SUBMIT_ARGS": f"--master {self.address} {options} pyspark-shell",
            **(environment or {}),
        }
        command = [sys.executable, script, *map(str, arguments)]
        number = len(list(self.folder.glob("driver-*.log")))
        return self._spawn(f"driver-{number}", command, made)

    def kill_worker(self, number):
        """SIGKILL of a worker; its executors end with it. And a new one."""
        self._kill(self.workers[number])
        self.workers[number] = self._start_worker(number)

    def kill_executor(self):
        """SIGKILL of an executor of any worker; whether there was one."""
        parents = {worker.pid for worker in self.workers}
        for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
            try:
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                is_executor = "CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_text()
            except (OSError, ValueError):
                continue  # it has ended
            if parent in parents and is_executor:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def close(self):
        for process in [*self.workers, self.master]:
            self._kill(process)

    def _start_worker(self, number):
        work = self.folder / f"work-{number}"
        return self._start(
            f"worker-{number}", "worker.Worker", "-c", 1, "-m", MEMORY, "-d", work, self.address, "--port", 0
        )

    def _start(self, name, kind, *arguments):
        command = [self._bin, f"org.apache.spark.deploy.{kind}", *map(str, arguments)]
        return self._spawn(name, [*command, "--host", "127.0.0.1", "--webui-port", "0"], {})

    def _spawn(self, name, command, environment):
        made = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"} | environment
        made |= {"SPARK_LOCAL_DIRS": str(self.folder / "local"), "SPARK_DAEMON_MEMORY": "300m"}
        with (self.folder / f"{name}.log").open("ab") as log:
            return STARTER.submit(
                subprocess.Popen,
                [*DIES_WITH_US, *command],
                stdout=log,
                stderr=log,
                env=made,
                start_new_session=True,
            ).result()

    def _await(self, name, word):
        deadline = time.monotonic() + SECONDS_TO_START
        log = self.folder / f"{name}.log"
        while word not in log.read_text(errors="replace"):
            if time.monotonic() > deadline:
                raise CannotStartError(f"{name} does not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)

    @staticmethod
    def _kill(process):
        if process.poll() is None:
            process.kill()
            process.wait()
