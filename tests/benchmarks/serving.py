"""How long `streamnb serve` takes to answer, beside a learner that is fed, and beside an endpoint that does nothing.

python tests/benchmarks/serving.py [SECONDS]
"""

# ruff: noqa: T201 - printing is what this program does, and it starts its own

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from streamnb.adapters.sqlite.log import SqliteLog
from streamnb.engine.ports import NewRecord

WORDS = [f"w{i}" for i in range(2000)]
RATE, FED = 200, 1000
NOTHING = """
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/predict")
def predict(question: dict): return {"predictions": []}
uvicorn.run(app, port=PORT, log_level="error", access_log=False)
"""


def text(rng):
    return " ".join(rng.choices(WORDS, k=15))


def event(rng, i):
    return json.dumps({"id": f"m{i}", "text": text(rng), "label": rng.choice(["spam", "ham"])}).encode()


def asked(port, seconds, rate, rng):
    """Seconds that each answer took, of one message each, `rate` of them a second; None is as fast as they come."""
    took, began = [], time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while (now := time.monotonic()) - began < seconds:
            if rate and (wait := began + len(took) / rate - now) > 0:
                time.sleep(wait)
            started = time.monotonic()
            body = json.dumps({"events": [text(rng)]})
            connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            assert connection.getresponse().read()
            took.append(time.monotonic() - started)
    return sorted(took)


def awaited(port):
    for _ in range(1200):
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
                connection.request("GET", "/ready")
                if connection.getresponse().status in (200, 404):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("nobody answers")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as scratch:
        url = f"sqlite:///{Path(scratch) / 'log.db'}"
        flags = ["--log", url, "--set", "http.listen="]
        streamnb = [sys.executable, "-m", "streamnb"]
        subprocess.run([*streamnb, "topics", "create", *flags], check=True, capture_output=True)
        stopping = threading.Event()

        def feed():
            with closing(SqliteLog(Path(scratch) / "log.db")) as log:
                i, began = 0, time.monotonic()
                while not stopping.is_set():
                    due = int((time.monotonic() - began) * FED)
                    log.append([NewRecord("events", None, event(rng, n)) for n in range(i, due)])
                    i = due
                    time.sleep(0.05)

        feeding = threading.Thread(target=feed)
        feeding.start()
        programs = [subprocess.Popen([*streamnb, "run", *flags], stderr=subprocess.DEVNULL)]
        try:
            time.sleep(15)
            serve = [*streamnb, "serve", "--listen", "127.0.0.1:18090", "--rate", "100000", *flags]
            programs.append(subprocess.Popen(serve, stderr=subprocess.DEVNULL))
            programs.append(
                subprocess.Popen(
                    [sys.executable, "-c", NOTHING.replace("PORT", "18091")], stderr=subprocess.DEVNULL
                )
            )
            for port in (18090, 18091):
                awaited(port)
            at_rate = asked(18090, seconds, RATE, rng)
            told = {p: 1000 * at_rate[int(len(at_rate) * p)] for p in (0.5, 0.99)}
            print(
                f"{RATE} a second, learner fed {FED} a second: p50 {told[0.5]:.1f} ms, p99 {told[0.99]:.1f} ms"
            )
            rates = {18090: [], 18091: []}
            for _ in range(3):
                for port, found in rates.items():
                    found.append(len(asked(port, seconds / 3, None, rng)) / (seconds / 3))
            served, bare = (sorted(found)[1] for found in rates.values())
            print(
                f"one client, as fast as it can: {served:.0f} a second; does nothing: {bare:.0f}; {served / bare:.2f}"
            )
        finally:
            stopping.set()
            feeding.join()
            for program in programs:
                program.terminate()
                program.wait()


if __name__ == "__main__":
    main()
