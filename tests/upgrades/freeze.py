"""Freeze logs as this version of the program leaves them behind, for the versions that come after it.

    PYTHONPATH=. python tests/upgrades/freeze.py 0.1.0

Each is an embedded log and its snapshots, of a learner that was killed: what it committed last is in no snapshot.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
TABLE = ["text:text", "size:continuous", "colour:nominal", "age:continuous", "subject:bernoulli"]
MODELS = {
    "default": ("", []),
    "naive-bayes": ("", TABLE),
    "mixture": ("", TABLE),
    "hidden-markov": ('kind = "hidden_markov"\nentities = 20', TABLE),
    "semi-supervised": ('kind = "semi_supervised"\nrevisits = 1', TABLE[:3]),
    "logistic-regression": ('kind = "logistic_regression"', TABLE[1:4]),
    "bayesian-network": ('kind = "bayesian_network"\nparents = {shape = ["label", "colour"]}', ["colour:nominal", "shape:nominal"]),
}  # fmt: skip
"""Name -> more of [model], and its attributes; none declared takes them as they come."""

KEYS = (b"1", b"5")
"""One for each of two partitions, whichever log divides them."""

WORDS = [
    "free",
    "entry",
    "win",
    "cash",
    "call",
    "me",
    "at",
    "noon",
    "lunch",
    "see",
    "you",
    "STRASSE",
    "\u00c4rger",
    "\u4f60\u597d",
]


def raw_events(n, seed):
    """Mixed events of three classes: some without a label, weighted, repeated, or not to be read at all."""
    rng = random.Random(seed)
    for i in range(n):
        label = rng.choice(["spam", "ham", "other"])
        side = ["spam", "ham", "other"].index(label)
        features = {
            "size": round(rng.gauss(side, 1.0), 3),
            "age": rng.choice([17, 20, 33]) + side,
            "colour": rng.choice([*["red", "green", "blue"][side:], "red"]),
            "shape": rng.choice(["round", "square"]),
            "subject": " ".join(rng.choices(WORDS, k=3)),
        }
        if rng.random() < 0.1:
            del features[rng.choice(sorted(features))]
        event = {
            "id": f"e{i - (i % 50 == 7)}",
            "ts": 1_790_000_000 + 60 * i,
            "sender": f"s{rng.randrange(30)}",
        }
        event |= {
            "text": " ".join(rng.choices(WORDS[4 * side :] or WORDS, k=rng.randrange(12))),
            "features": features,
        }
        if rng.random() < 0.8:
            event["label"] = label
        if rng.random() < 0.1:
            event["weight"] = rng.choice([0.5, 2.0])
        raw = json.dumps(event).encode()
        yield raw[: len(raw) // 2] if i % 40 == 39 else raw


def configuration(model, url="sqlite:///log.db"):
    """The TOML of one of MODELS."""
    more, attributes = MODELS[model]
    lines = ["[log]", f'url = "{url}"', "[topics]", "partitions = 2", "[model]", more]
    if model == "naive-bayes":
        lines += ['kind = "naive_bayes"']
    if model == "hidden-markov":
        lines += ["[events]", 'entity = "$.sender"']
    if model == "default":
        lines += ["[drift]", 'detectors = ["page_hinkley"]']
    lines += [
        "[snapshots]",
        "every_events = 120",
        "[commit]",
        "events = 40",
        "[metrics]",
        "every_events = 100",
        "[http]",
        'listen = ""',
    ]
    for attribute in attributes:
        name, kind = attribute.split(":")
        lines += ["[[attributes]]", f'name = "{name}"', f'kind = "{"text" if kind == "bernoulli" else kind}"']
        lines += ['event_model = "bernoulli"'] if kind == "bernoulli" and model == "naive-bayes" else []
    return "\n".join(lines) + "\n"


def freeze(folder, model, n=300):
    """Learn n events in `folder`, and be killed."""
    from streamnb import config as configured
    from streamnb.cli import opening
    from streamnb.engine.ports import NewRecord

    toml = folder / "streamnb.toml"
    toml.write_text(configuration(model, f"sqlite:///{folder / 'log.db'}"))
    raws = list(raw_events(n, seed=18))
    with closing(opening.open_log(configured.load(toml, {}, []))) as log:
        log.append([NewRecord("events", KEYS[i % 3 == 0], raw) for i, raw in enumerate(raws)])
    run = subprocess.Popen([sys.executable, "-m", "streamnb", "run", "--config", toml], cwd=folder)
    while outputs(folder) < n:
        time.sleep(0.1)
    run.send_signal(signal.SIGKILL)
    run.wait()
    database = sqlite3.connect(folder / "log.db")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute("VACUUM")
    database.close()


def outputs(folder):
    """How many predictions and dead letters are visible."""
    from streamnb.adapters.sqlite.log import SqliteLog

    with closing(SqliteLog(folder / "log.db")) as log:
        return sum(
            log.offsets(p)[1] for topic in ("predictions", "dead-letters") for p in log.partitions(topic)
        )


def main(version):
    archive = HERE / f"{version}.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        for model in MODELS:
            folder = Path(tempfile.mkdtemp())
            freeze(folder, model)
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.name not in {"streamnb.toml", "log.db-wal", "log.db-shm"}:
                    info = tarfile.TarInfo(f"{model}/{path.relative_to(folder)}")
                    content = path.read_bytes()
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
            shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
