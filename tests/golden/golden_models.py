"""Lives of models by the command line alone, and digests of all that they leave behind.

A life is a list of steps on a log of its own: events and labels are written, the learner runs to the end, its process
ends, commands correct the model. Only public contracts are used: commands, configuration keys, fields of records, and
the snapshot format. So no rename of a Python class, module or function can change a digest.

The clock stands still (`CLOCK`), except where a life moves it; `rewrite.py` installs it before streamnb is imported.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import re
import sqlite3
import struct
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import zstandard

STREAMS = Path(os.environ.get("LABELLED_STREAMS", Path(__file__).resolve().parents[3] / "shared" / "data"))
TOPICS = ("events", "labels", "predictions", "metrics", "dead_letters", "journal", "alerts", "tenants")
IF_WANTED = {"labels", "alerts", "tenants"}
"""Topics that there are in a life whose configuration names them; an empty name is the usual one."""
OUTPUTS = ("predictions", "metrics", "dead_letters", "alerts", "tenants")
STEP = 100
"""Records of a topic from one digest of its chain to the next."""
VOLATILE = {"config", "config_hash", "digest", "fingerprint", "machine", "model", "now", "outputs", "previous", "reading", "topic_ids", "version"}  # fmt: skip
"""Fields of journal records that depend on the machine, the version or the spelling of the configuration."""
UNSTEADY = {"digest", "file", "log", "model_digest", "remedy", "seconds", "ts"}
"""Fields of answers that depend on the machine or on the folder, and prose."""
UNLEARNED = {"journal"}
"""Parts of a snapshot that hold the configuration and the origin of the journal, and nothing that was learned."""

SEGMENT = re.compile(r'(?<=")[0-9a-f]{64}(?=")')
"""A digest of bytes that lie beside the snapshot; on Kafka they hold the names of this life's topics."""

WORDS = "free entry win cash call me at noon lunch see you STRASSE ärger 你好 ½ e-mail".split()
CLASSES = ("spam", "ham", "other")
TABLE = [
    {"name": "text", "kind": "text"},
    {"name": "subject", "kind": "text", "path": "$.features.subject"},
    {"name": "colour", "kind": "nominal"},
    {"name": "shape", "kind": "nominal", "values": ["round", "square", "oval"]},
    {"name": "size", "kind": "continuous"},
    {"name": "age", "kind": "continuous", "max": 30},
]


class Clock:
    """Seconds since the epoch, as `time.time` returns them to streamnb."""

    def __init__(self):
        self.now = self.start = (
            1_700_000_000.0  # behind the clock of any broker, which refuses times ahead of it
        )

    def __call__(self):
        return self.now


CLOCK = Clock()


# -- events that are made up -------------------------------------------------------------------------------


class Draw:
    """Draws that use `random.random` alone, the only method whose values Python keeps from version to version."""

    def __init__(self, seed):
        self._random = random.Random(seed).random

    def below(self, share):
        return self._random() < share

    def one(self, items):
        return items[int(self._random() * len(items))]

    def some(self, items, most):
        return [self.one(items) for _ in range(int(self._random() * (most + 1)))]

    def normal(self, mean):
        return round(mean + sum(self._random() for _ in range(12)) - 6.0, 3)


def made_up(n=240, seed=1, *, labelled=0.8, features=True, first=0, classes=CLASSES):
    """Events of three classes: some without a label, weighted, repeated, incomplete, odd or not readable."""
    draw = Draw(seed)
    for i in range(first, first + n):
        side = int(draw.one(range(len(classes))))
        event = {
            "id": f"e{i - (i % 50 == 7)}",
            "ts": CLOCK.start - 86_400 + 60 * i,
            "user": f"u{draw.one(range(9))}",
        }
        event["text"] = " ".join(draw.some(WORDS[4 * side :] or WORDS, 11))
        if features:
            event["features"] = {
                "size": draw.normal(side),
                "age": draw.one([17, 20, 33]) + side,
                "colour": draw.one([*["red", "green", "blue"][side % 3 :], "red"]),
                "shape": draw.one(["round", "square"]),
                "subject": " ".join(draw.some(WORDS, 3)),
            }
            if draw.below(0.1):
                del event["features"][draw.one(sorted(event["features"]))]
        if draw.below(labelled):
            event["label"] = classes[side]
        if draw.below(0.1):
            event["weight"] = draw.one([0.5, 2.0, 3])
        if i % 60 == 31:
            event["ts"] = CLOCK.start + 10 * 86_400
        raw = json.dumps(event, ensure_ascii=i % 2 == 0).encode()
        yield raw[: len(raw) // 2] if i % 40 == 39 else raw


def of_file(name, n):
    """The first events of a real stream in its shuffled order, so that all classes occur."""
    with gzip.open(STREAMS / f"{name}.shuffle7.txt.gz", "rt") as file:
        wanted = [int(line) for line in islice(file, n)]
    with gzip.open(STREAMS / f"{name}.jsonl.gz") as file:
        rows = dict(enumerate(islice(file, max(wanted) + 1)))
    for row in wanted:
        yield rows[row].strip()


def labels_of(ids, seed, *, sources=("expert", "crowd"), null=0.15):
    """Label records: from several sources, some of them null, some weighted, some with a time, some repeated."""
    draw = Draw(seed)
    for i in ids:
        record = {
            "id": f"e{i}",
            "label": None if draw.below(null) else draw.one(CLASSES),
            "source": draw.one(sources),
        }
        if draw.below(0.2):
            record["weight"] = draw.one([0.5, 2.0])
        if draw.below(0.3):
            record["ts"] = CLOCK.start - draw.one([0, 60, 3600])
        yield json.dumps(record).encode()


# -- lives -------------------------------------------------------------------------------------------------


class Life:
    """One model on one log, whose commands run in this process.

    Args:
        folder: of the log, the snapshots and the files.
        config: section -> key -> value; a list is one of tables.
        url: of the log; an embedded one in the folder if none is given.
        prefix: of topics and of the model's name, which many lives on one broker need.
    """

    def __init__(self, folder, config, url=None, prefix=""):
        self.folder, self.url, self.prefix = folder, url or f"sqlite:///{folder / 'log.db'}", prefix
        self.file = folder / "config.toml"
        self._configure(config)

    def _configure(self, config):
        own = {
            "log": {"url": self.url},
            "http": {"listen": ""},
            "memory": {"budget": "64MiB"},
            "commit": {"events": 50, "interval": "1ms" if self.url.startswith("sqlite") else "10s"},
            "metrics": {"every_events": 80, "every": "1d", "window": 100},
            "snapshots": {
                "folder": str(self.folder / "kept"),
                "every_events": 100,
                "every": "1h",
                "keep": 100,
            },
            "topics": {"retention": "36500d"},
        }
        sections = {
            name: own.get(name, {}) | config.get(name, {})
            for name in own | config
            if not isinstance(config.get(name), list)
        }
        sections.setdefault("model", {})
        sections["model"] = sections["model"] | {
            "name": self.prefix + sections["model"].get("name", "default")
        }
        chosen = config.get("topics", {})
        wanted = {
            name
            for name in TOPICS
            if name in chosen or name not in IF_WANTED or (name == "alerts" and "monitors" in config)
        }
        self.topics = {
            name: self.prefix + (chosen.get(name) or name.replace("_", "-"))
            for name in TOPICS
            if name in wanted
        }
        sections["topics"] |= self.topics
        text = [
            f"[[{name}]]\n{_keys(table)}"
            for name, tables in config.items()
            if isinstance(tables, list)
            for table in tables
        ]
        text += [f"[{name}]\n{_keys(keys)}" for name, keys in sections.items()]
        self.file.write_text("\n".join(text))

    def command(self, *arguments, given=b"", code=0):
        """The standard output of a command; raises AssertionError with what it reported if its exit code differs."""
        from streamnb.cli import main

        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        switch = sys.getswitchinterval()
        stdin = sys.stdin
        try:
            sys.stdin = io.TextIOWrapper(io.BytesIO(given))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                found = main([*map(str, arguments), "--config", str(self.file)])
        finally:
            sys.stdin = stdin
            sys.setswitchinterval(switch)
        said, complaint = (stream.buffer.getvalue().decode() for stream in (out, err))
        assert found == code, f"{' '.join(map(str, arguments))}: exit code {found}\n{said}{complaint}"
        return said

    def begin(self):
        """Create the topics. Those of an embedded log get ids that are no accident."""
        self.command("topics", "create")
        if self.url.startswith("sqlite"):
            with contextlib.closing(sqlite3.connect(self.folder / "log.db")) as database, database:
                database.execute("UPDATE topics SET uuid = name")

    def write(self, raws, topic="events"):
        file = self.folder / f"{topic}.jsonl"
        file.write_bytes(b"".join(raw + b"\n" for raw in raws))
        if topic == "labels":
            self.command("label", "--file", file)
        else:
            self.command("replay", file)

    def run(self):
        self.command("run", "--until-end")

    def read(self, role):
        """The records of a topic, without what depends on the log that holds them."""
        lines = (
            self.command("read", self.topics[role]).replace(self.prefix, "")
            if self.prefix
            else self.command("read", self.topics[role])
        )
        for line in lines.splitlines():
            record = json.loads(line)
            if isinstance(record, dict) and "value" in record:  # as a dead letter is printed
                record.pop("offset", None)
                record["headers"].pop("remedy", None)  # prose
            yield record


def _keys(table):
    return "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())


def _toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


# -- digests -----------------------------------------------------------------------------------------------


def rounded(value, digits=9):
    """A JSON value whose floats have at most nine significant digits, and twelve behind the point."""
    if isinstance(value, float):
        return float(f"{round(value, digits + 3) + 0.0:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one, digits) for one in value]
    return value


def text_of(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest(*pieces):
    found = hashlib.sha256()
    for piece in pieces:
        raw = piece if isinstance(piece, bytes) else str(piece).encode()
        found.update(struct.pack("<Q", len(raw)) + raw)
    return found.hexdigest()[:16]


def snapshot(raw):
    """(Header, (part, name) -> array) of the bytes of a snapshot, as docs/snapshot-format.md lays them out."""
    prelude = struct.Struct("<8sIQQ32s")
    _, _, length, _, _ = prelude.unpack_from(raw)
    header = json.loads(raw[prelude.size : prelude.size + length])
    start = prelude.size + length
    start += -start % 64
    arrays = {}
    for entry in header["arrays"]:
        begin, dtype = start + entry["offset"], np.dtype(entry["dtype"])
        octets, size = raw[begin : begin + entry["length"]], dtype.itemsize
        blocks = [np.frombuffer(octets[i : i + (1 << 20)], np.uint8) for i in range(0, len(octets), 1 << 20)]
        array = np.concatenate(
            [
                np.zeros(0, dtype),
                *(np.ascontiguousarray(b.reshape(size, -1).T).view(dtype).ravel() for b in blocks),
            ]
        )
        if entry["differences"]:
            array = np.cumsum(array, dtype=dtype)
        arrays[entry["part"], entry["name"]] = array.reshape(entry["shape"])
    return header, arrays


def array_digest(array, *, exact):
    head = f"{array.dtype}{list(array.shape)}"
    if array.dtype.kind == "f" and not exact:
        digits = 9 if array.dtype.itemsize == 8 else 6
        return f"{head} {digest(*(f'{round(one, digits + 3) + 0.0:.{digits}g}' for one in array.ravel().tolist()))}"
    return f"{head} {digest(np.ascontiguousarray(array).tobytes())}"


def state_of(raw, prefix, *, exact):
    """Part -> digest of its values, and of each array."""
    header, arrays = snapshot(raw)
    found = {}
    for part, meta in header["parts"].items():
        if part in UNLEARNED:
            continue
        text = SEGMENT.sub("", text_of(meta if exact else rounded(meta)))
        found[part] = digest(text.replace(prefix, "") if prefix else text)
    for (part, name), array in arrays.items():
        if part not in UNLEARNED:
            found[f"{part}.{name}"] = array_digest(array, exact=exact)
    return found


def chain(records, *, exact):
    """How many records there are, and the running digest after every hundred of them and after the last."""
    records = [text_of(record if exact else rounded(record)) for record in records]
    running, marks = "", {}
    for n, record in enumerate(records, 1):
        running = digest(running, record)
        if n % STEP == 0 or n == len(records):
            marks[str(n)] = running
    return marks


def samples(records, *places):
    """Few whole records, which show in which numbers two chains differ."""
    return {
        str(n): rounded(records[n])
        for n in sorted({int(place * (len(records) - 1)) for place in places})
        if records
    }


def of_model_text(text):
    """Digest of the facts of a model as text, without what names its stream."""
    facts = []
    for line in text.splitlines():
        kind, *fields = line.split("\t")
        if kind == "moments":  # whose last bits depend on the order of events
            fields[-2:] = (f"{float(one):.9g}" for one in fields[-2:])
        if kind in {"class", "events", "moments", "value", "word"}:
            facts.append("\t".join([kind, *fields]))
    return {"facts": len(facts), "digest": digest(*facts)}


def asked(life, arguments):
    """What a command answers, rounded; of a long answer a digest."""
    if "export" in arguments:
        return of_model_text(life.command(*arguments))
    given = [life.folder / one if one == "events.jsonl" else one for one in arguments]
    told = life.command(*given, "--json").replace(
        f"{life.folder}/", ""
    )  # `compare` names configuration files
    answer = rounded(_steady(json.loads(told)))
    return answer if len(text_of(answer)) < 2000 else {"digest": digest(text_of(answer))}


def _steady(value):
    """An answer, its records parsed, without what depends on the clock, the folder or the origin of the journal."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):  # one of hostile input
            value = json.loads(value)
    if isinstance(value, dict):
        return {key: _steady(one) for key, one in value.items() if key not in UNSTEADY}
    return [_steady(one) for one in value] if isinstance(value, list) else value


def results(life, asks=()):
    """All that a life left behind: what is equal on every machine, what on this one, and the raw bytes."""
    records = {role: list(life.read(role)) for role in OUTPUTS if role in life.topics}
    for found in records.values():
        for record in found:
            if isinstance(record.get("model"), dict):
                record["model"].pop("name", None)
    journal = [
        {key: value for key, value in record.items() if key not in VOLATILE}
        for record in life.read("journal")
    ]
    path = max((life.folder / "kept").glob("*.snb"))
    raw = zstandard.decompress(path.read_bytes())
    verified = json.loads(life.command("verify", "--json"))
    portable = {
        "state": state_of(raw, life.prefix, exact=False),
        "outputs": {role: chain(found, exact=False) for role, found in records.items()},
        "journal": chain(journal, exact=False),
        "verify": {key: value for key, value in verified.items() if isinstance(value, bool | int)},
        "samples": {
            "predictions": samples(records["predictions"], 0.5, 1.0),
            "metrics": samples(records["metrics"], 1.0),
        },
    }
    if asks:
        portable["asked"] = {" ".join(arguments): asked(life, arguments) for arguments in asks}
    exact = {
        "state": digest(text_of(state_of(raw, life.prefix, exact=True))),
        "outputs": {role: chain(found, exact=True) for role, found in records.items()},
    }
    header = snapshot(raw)[0]
    segments = sorted({name for meta in header["parts"].values() for name in SEGMENT.findall(text_of(meta))})
    parts = {name: meta for name, meta in header["parts"].items() if name not in UNLEARNED}
    arrays = raw[
        len(raw) - 32 - sum(entry["length"] + -entry["length"] % 64 for entry in header["arrays"]) : -32
    ]
    files = {"snapshot": digest(text_of(parts), text_of(header["arrays"]), arrays)}
    if segments:
        files["segments"] = digest(*segments)
    return {"portable": portable, "exact": exact, "raw": files, "fingerprint": header["fingerprint"]}
