"""How long `streamnb serve` takes to answer, beside a learner that is fed, and beside an endpoint that does nothing.

python -m tests.benchmarks.serving [--seconds 15] [--rate 200] [--fed 1000] [--other FOLDER] [FLAG ...]: seconds of every
turn, by turns with the bare endpoint and the streamnb in that folder; flags such as --set predictions.evidence=5.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import time
from contextlib import closing
from pathlib import Path

from tests.support.fed import end, fed_learner, text, until_ready

PORT = 18091
SLICES = 5
"""Of a turn: serve and the bare endpoint alternate."""
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


def percentiles(took):
    """The median and the 99th percentile, in milliseconds."""
    return [1000 * took[int(len(took) * p)] for p in (0.5, 0.99)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rate", type=float, default=200.0, help="questions a second")
    parser.add_argument("--fed", type=int, default=1000, help="events a second")
    parser.add_argument("--other", type=Path, help="another checkout of streamnb")
    options, flags = parser.parse_known_args()
    trees = {"serve": Path(__file__).parents[2]} | ({"other": options.other} if options.other else {})
    print(
        f"{options.rate:g} a second of one message each, the learner fed {options.fed} a second; then one client alone"
    )
    with fed_learner(options.fed, *flags) as programs:
        time.sleep(15)
        programs.start_python("-c", NOTHING)
        until_ready(PORT)
        for _ in range(options.turns):
            for name, tree in trees.items():
                program, port = programs.answering("serve", "--rate", "100000", tree=tree)
                asked(port, 1.0)
                found = {port: [], PORT: []}
                for _ in range(SLICES):
                    for each in found:
                        found[each] += asked(each, options.seconds / SLICES, options.rate)
                (p50, p99), (bare_p50, bare_p99) = (percentiles(sorted(took)) for took in found.values())
                served, bare = (
                    len(asked(each, options.seconds / 3)) / (options.seconds / 3) for each in (port, PORT)
                )
                end(program)
                print(
                    f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, {p99 / bare_p99:.1f} times that of an endpoint "
                    f"that does nothing ({bare_p50:.1f}, {bare_p99:.1f}); {served:.0f} a second, "
                    f"{served / bare:.2f} of {bare:.0f}; load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
