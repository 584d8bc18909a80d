"""Rewrite the golden files, or print in what they differ from what this program does now.

    python -m tests.golden.rewrite            rewrites them and prints the differences
    python -m tests.golden.rewrite --check    prints the differences; exit code 1 if there are any

Names of cases or files after that limit it to these. A golden file changes on purpose only: the commit says why each
difference is right.

| file | what it holds |
|---|---|
| models.json | state by array, outputs by topic, journal and recount of each life; floats rounded to 9 digits |
| exact.json | the same digests with every bit of every float, on the machine of the fingerprint in it |
| raw.json | how the bytes of the last snapshot lie in its file, and the segments beside it, on the same machine |
| *.txt, openapi.json | texts and names, see `golden_texts.py` |
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from streamnb.persistence.platform_fingerprint import fingerprint
from tests import ROOT
from tests.golden import golden_models
from tests.golden.golden_cases import ASKS, CASES
from tests.golden.golden_texts import TEXTS

HERE = Path(__file__).parent
LIVES = {"models.json": "portable", "exact.json": "exact", "raw.json": "raw"}
SAME_MACHINE = ("exact.json", "raw.json")
MOST_LINES = 60


class Frozen:
    """A process whose clock stands still, in which lives are lived and texts are made."""

    def __init__(self):
        command = [sys.executable, "-m", "tests.golden.rewrite", "--answer"]
        environment = os.environ | {"COLUMNS": "100", "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
        if fingerprint()["cpu_level"] in {"x86-64-v3", "x86-64-v4"}:
            environment["OPENBLAS_CORETYPE"] = "Haswell"  # sums of one order on processors of both levels
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def life(self, name, url=None, prefix=""):
        return self.ask(kind="life", name=name, url=url, prefix=prefix)

    def shards(self, url, prefix):
        return self.ask(kind="shards", url=url, prefix=prefix)

    def text(self, file):
        return self.ask(kind="text", file=file)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def live(name, url=None, prefix=""):
    """What the life of this name leaves behind, on an embedded log of its own or on the log of this URL."""
    config, steps = CASES[name]
    golden_models.CLOCK.now = golden_models.CLOCK.start
    with tempfile.TemporaryDirectory() as folder:
        life = golden_models.Life(Path(folder), config, url, prefix)
        life.begin()
        for step in steps:
            step(life)
        return golden_models.results(life, () if url else ASKS.get(name, ()))


def merged_shards(url, prefix):
    """The sum of two shards that learn the events of the life "shards", one partition each, as text."""
    config, _ = CASES["shards"]
    golden_models.CLOCK.now = golden_models.CLOCK.start
    with tempfile.TemporaryDirectory() as folder:
        lives = []
        for name, partitions in (("a", [0]), ("b", [1]), ("merged", [])):
            (Path(folder) / name).mkdir()
            topics = {"journal": f"journal-{name}", "partitions": 2}
            one = {
                **config,
                "events": {"partitions": partitions},
                "topics": topics,
                "predictions": {"by": "scorers"},
            }
            one["model"] = config["model"] | {"name": name}
            lives.append(golden_models.Life(Path(folder) / name, one, url, prefix))
            lives[-1].begin()
        *shards, sum_of_all = lives
        for number, n, seed in ((0, 150, 1), (150, 120, 2)):
            sum_of_all.write(golden_models.made_up(n, seed, first=number))
        for shard in shards:
            shard.run()
        text = sum_of_all.command("model", "merge", "--out", "-", *(shard.file for shard in shards))
        return golden_models.of_model_text(text)


KINDS = {"life": live, "shards": merged_shards, "text": lambda file: TEXTS[file]()}


def answer_all():
    """Answer questions on standard input, one a line, until it ends."""
    time.time = golden_models.CLOCK
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        try:
            kind = question.pop("kind")
            found = {"answer": KINDS[kind](**question)}
        except BaseException:  # noqa: BLE001  the process that asked reports it
            found = {"error": traceback.format_exc()}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


# -- golden files ------------------------------------------------------------------------------------------


def read(file):
    """The golden content of a file: a text, or the value of a JSON file; empty if there is no such file."""
    path = HERE / file
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return path.read_text(encoding="utf-8") if path.exists() else ""


def write(file, content):
    text = content if isinstance(content, str) else laid_out(content) + "\n"
    (HERE / file).write_text(text, encoding="utf-8")


def laid_out(value, levels=5, margin=""):
    """The JSON of a value, in which objects down to some level have a line for each key."""
    if not levels or not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    inner = margin + " "
    lines = (
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {laid_out(value[key], levels - 1, inner)}"
        for key in value
    )
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


def machine(fingerprint):
    """What the bits of floats depend on, without the version of streamnb."""
    return {key: value for key, value in fingerprint.items() if key != "streamnb"}


def expected(name, fingerprint):
    """File -> what it holds of a life; those that hold for one machine are left out on another one."""
    found = {}
    for file in LIVES:
        content = read(file)
        if file not in SAME_MACHINE or content.get("machine") == machine(fingerprint):
            found[file] = content.get("lives", {}).get(name)
    return found


def lines_of(value, path=""):
    """The lines of a text, or of a JSON value one line for each leaf, with the path to it."""
    if isinstance(value, str) and not path:
        return value.splitlines()
    if isinstance(value, dict) and value:
        return [
            line for key in sorted(value) for line in lines_of(value[key], f"{path} > {key}" if path else key)
        ]
    if isinstance(value, list) and value:
        return [line for i, one in enumerate(value) for line in lines_of(one, f"{path}[{i}]")]
    return [f"{path}: {json.dumps(value, ensure_ascii=False)}"]


def difference(title, golden, found):
    """A readable difference; empty if there is none."""
    if golden == found:
        return ""
    lines = list(
        difflib.unified_diff(
            lines_of(golden), lines_of(found), f"golden {title}", f"now {title}", lineterm="", n=0
        )
    )
    more = [f"... and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return "\n".join([*lines[:MOST_LINES], *more, "If this is right: python -m tests.golden.rewrite"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help="of cases, or of text files")
    options = parser.parse_args()
    if options.answer:
        return answer_all()
    if unknown := {*options.names} - {*CASES, *TEXTS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join([*CASES, *TEXTS])}")
    frozen = Frozen()
    names = options.names or [*CASES, *TEXTS]
    differences = compare_lives(frozen, [name for name in names if name in CASES], is_check=options.check)
    differences += compare_texts(frozen, [name for name in names if name in TEXTS], is_check=options.check)
    frozen.close()
    return 1 if differences and options.check else 0


def compare_lives(frozen, names, *, is_check):
    """Print how lives differ from the golden files, and rewrite these unless it is a check; how many differ."""
    n_differences = 0
    contents = {file: read(file) or {"lives": {}} for file in LIVES}
    for name in names:
        found = frozen.life(name)
        here = machine(found["fingerprint"])
        for file in SAME_MACHINE:
            if contents[file].get("machine") != here:
                contents[file] = {"machine": here, "lives": {}}
        for file, kind in LIVES.items():
            lives = contents[file]["lives"]
            is_comparable = file not in SAME_MACHINE or read(file).get("machine") == here
            if is_comparable and (text := difference(f"{file} > {name}", lives.get(name), found[kind])):
                n_differences += 1
                print(text, flush=True)
            lives[name] = found[kind]
    if not is_check:
        for file, content in contents.items():
            content["lives"] = {name: content["lives"][name] for name in CASES if name in content["lives"]}
            write(file, content)
    return n_differences


def compare_texts(frozen, files, *, is_check):
    """The same of texts."""
    n_differences = 0
    for file in files:
        found = frozen.text(file)
        if text := difference(file, read(file), found):
            n_differences += 1
            print(text, flush=True)
        if not is_check:
            write(file, found)
    return n_differences


if __name__ == "__main__":
    sys.exit(main())
