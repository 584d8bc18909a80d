"""How long `streamnb serve` takes to answer, beside a learner that is fed, and beside an endpoint that does nothing.

python -m tests.benchmarks.serving [SECONDS] [FOLDER]: of every turn, by turns with the streamnb in that folder.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import http.client
import json
import random
import sys
import time
from contextlib import closing
from pathlib import Path

from tests.support.fed import end, fed_learner, text, until_ready

RATE, FED, TURNS = 200, 1000, 3
PORT = 18091
NOTHING = f"""
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/predict")
def predict(question: dict): return {{"predictions": []}}
uvicorn.run(app, port={PORT}, log_level="error", access_log=False)
"""


def asked(port, seconds, rate=None):
    """Seconds that each answer took, of one message each, `rate` of them a second; None is as fast as they come."""
    rng, took, began = random.Random(2), [], time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while (now := time.monotonic()) - began < seconds:
            if rate and (wait := began + len(took) / rate - now) > 0:
                time.sleep(wait)
            started = time.monotonic()
            body = json.dumps({"events": [text(rng)]})
            connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.read()
            assert answer.status == 200
            took.append(time.monotonic() - started)
    return sorted(took)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    trees = {"serve": Path(__file__).parents[2]} | (
        {"of that folder": Path(sys.argv[2])} if sys.argv[2:] else {}
    )
    print(
        f"{RATE} a second of one message each, the learner fed {FED} a second; then one client, as fast as it can"
    )
    with fed_learner(FED) as programs:
        time.sleep(15)
        programs.start_python("-c", NOTHING)
        until_ready(PORT)
        for _ in range(TURNS):
            for name, tree in trees.items():
                program, port = programs.answering("serve", "--rate", "100000", tree=tree)
                asked(port, 1.0)
                took = asked(port, seconds, RATE)
                p50, p99 = (1000 * took[int(len(took) * p)] for p in (0.5, 0.99))
                served, bare = (len(asked(each, seconds / 3)) / (seconds / 3) for each in (port, PORT))
                end(program)
                print(
                    f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms; {served:.0f} a second, "
                    f"{served / bare:.2f} of {bare:.0f} of an endpoint that does nothing",
                    flush=True,
                )


if __name__ == "__main__":
    main()
