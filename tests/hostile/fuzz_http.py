"""`streamnb serve` beside a learner that is fed, asked by schemathesis: no failure, no answer that OpenAPI does not describe.

python tests/hostile/fuzz_http.py [SECONDS] [SEED]; its exit code is that of schemathesis.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from streamnb.adapters.sqlite.log import SqliteLog
from streamnb.engine.ports import NewRecord

RATE = 50
UNKNOWN = "positive_data_acceptance"
"""A class that is unknown, or a feature of another kind, is refused with 422, and no schema can tell."""


def feed(path: Path, stopping: threading.Event) -> None:
    rng, n = random.Random(1), 0
    with closing(SqliteLog(path)) as log:
        while not stopping.wait(1.0):
            made = [
                {
                    "id": f"m{n + i}",
                    "text": " ".join(rng.choices(["free", "cash", "lunch", "noon"], k=6)),
                    "label": rng.choice(["spam", "ham"]),
                }
                for i in range(RATE)
            ]
            log.append([NewRecord("events", None, json.dumps(one).encode()) for one in made])
            n += RATE


def main() -> int:
    seconds, seed = (sys.argv[1:] + ["600", "1"][len(sys.argv) - 1 :])[:2]
    stopping = threading.Event()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "log.db"
        flags = ["--log", f"sqlite:///{path}", "--set", "http.listen=", "--set", "topics.labels=labels"]
        streamnb = [sys.executable, "-m", "streamnb"]
        subprocess.run([*streamnb, "topics", "create", *flags], check=True, capture_output=True)
        feeding = threading.Thread(target=feed, args=(path, stopping))
        feeding.start()
        said = Path(scratch) / "serve.err"
        with said.open("wb") as file:
            programs = [
                subprocess.Popen([*streamnb, "run", *flags], stderr=subprocess.DEVNULL),
                subprocess.Popen(
                    [*streamnb, "serve", "--listen", "127.0.0.1:0", "--rate", "100000", *flags], stderr=file
                ),
            ]
        try:
            while not (found := re.search(r"answering at (\S+):(\d+):", said.read_text())):
                time.sleep(0.2)
            url = f"http://{found[1]}:{found[2]}"
            time.sleep(5.0)  # until there is a model: before, all is 503
            asked = ["-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--continue-on-failure"]
            limits = ["--max-time", seconds, "--seed", seed, "--request-timeout", "60"]
            checks = ["--exclude-checks", UNKNOWN, "--phases", "examples,coverage,fuzzing"]
            return subprocess.run([sys.executable, *asked, *limits, *checks], check=False).returncode
        finally:
            stopping.set()
            feeding.join()
            for program in programs:
                program.terminate()
                program.wait()


if __name__ == "__main__":
    sys.exit(main())
