"""Replicas beside the learners of a storm: `streamnb serve`, killed at random moments, too, and what each of them held.

Whatever befalls learners and replicas, a journal record has one state. A replica notes the digests of what it holds at
each record at which it is met; a learner leaves its own in snapshots.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.request import Request, urlopen

from streamnb.formats.snapshot_container import part_digest
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.serving import http_server
from streamnb.serving.replica import Replica
from tests.support.program import Command, Program, until
from tests.system.storm.misfortunes import Say
from tests.system.storm.reading import ends, last_journalled, read

LIVES = 0.0, 8.0  # seconds that one follows, or only begins
BEGUN_SECONDS = 60.0
LEARNER = "the learner"
LOOK_SECONDS = 0.01
NOTES = "from tests.system.storm.replicas import note; note({!r})"
LISTENS = re.compile(r"answering at (127\.0\.0\.1:\d+):")

Held = dict[str, str]
"""Digest of each part of a state."""


class Replicas:
    """So many replicas of one program, which one is struck after another, and starts again.

    Attributes:
        kills: how many were killed.
        faults: what no replica should have done.
    """

    def __init__(self, program: Program, seed: int, number: int = 2) -> None:
        self._program = program
        self._rng = random.Random(seed)
        self._folder = program.folder / "replicas"
        self._folder.mkdir()
        self._stopping = threading.Event()
        self.kills = self._begun = 0
        self.faults: list[str] = []
        self._seats = [self._start() for _ in range(number)]
        self._fate = threading.Thread(target=self._strike, name="replicas", daemon=True)
        self._fate.start()

    def spare(self) -> None:
        """Kill no more of them."""
        self._stopping.set()
        self._fate.join()

    def close(self) -> None:
        self.spare()
        for replica, _ in self._seats:
            replica.kill()

    def say(self, verdicts: list[dict[str, object]]) -> None:
        """Send verdicts to one of them, once it answers."""
        replica, _ = self._seats[0]
        address = until(lambda: LISTENS.search(replica.said()))[1]
        body = json.dumps({"labels": verdicts}).encode()
        head = {"Content-Type": "application/json"}
        with urlopen(Request(f"http://{address}/labels", body, head)) as answer:
            assert json.load(answer)["written"] == len(verdicts)

    def await_record(self, n: int) -> None:
        """Until each that goes has been met at a journal record."""
        for _, notes in self._seats:
            until(lambda notes=notes: n in dict(_noted(notes)))

    def held(self) -> Mapping[int, Sequence[tuple[str, Held]]]:
        """Journal record -> who held what there; the learner, where it left a snapshot, before the replicas."""
        held: dict[int, list[tuple[str, Held]]] = defaultdict(list)
        for file in SnapshotFolder(self._program.folder / "snapshots").list():
            parts = SnapshotFolder(file.path.parent).load(file.n).parts
            own = {name: part_digest(*part) for name, part in parts.items() if name != "journal"}
            held[file.n].append((LEARNER, own))
        for notes in sorted(self._folder.glob("*.notes")):
            for n, found in _noted(notes):
                held[n].append((notes.stem, found))
        return held

    def _start(self) -> tuple[Command, Path]:
        self._begun += 1
        notes = self._folder / f"replica-{self._begun}.notes"
        return self._program.start("serve", "--listen", "127.0.0.1:0", first=NOTES.format(str(notes))), notes

    def _strike(self) -> None:
        while not self._stopping.is_set():
            seat = self._rng.randrange(len(self._seats))
            replica, notes = self._seats[seat]
            deadline = time.monotonic() + BEGUN_SECONDS * (self._rng.random() < 0.8)
            while not any(_noted(notes)) and time.monotonic() < deadline:
                self._stopping.wait(0.1)
            if self._stopping.wait(self._rng.uniform(*LIVES)):
                return
            if not replica.is_going() or "Traceback" in replica.said():
                self.faults.append(
                    f"a replica ended with {replica.process.returncode}: {replica.said()[-2000:]}"
                )
            replica.kill()
            self.kills += 1
            self._seats[seat] = self._start()


def differences(held: Mapping[int, Sequence[tuple[str, Held]]]) -> Iterator[str]:
    """Records at which two states were held; and whether those of replicas were laid beside learners'."""
    if not any(states[0][0] == LEARNER and len(states) > 1 for states in held.values()):
        yield "no state of a replica could be laid beside one of a learner"
    for n, ((who, first), *others) in held.items():
        for other, found in others:
            parts = sorted(name for name in first.keys() | found if first.get(name) != found.get(name))
            if parts:
                yield f"at journal record {n}, {who} and {other} hold another {', '.join(parts)}"


def turned_about(program: Program, replicas: Replicas, address: str, tell: Say) -> Iterator[str]:
    """A rollback to the middle, what comes after it learned again, a model learned anew and taken up; the faults.

    The learner is killed at a random moment of it. Verdicts are sent to a replica, and are all that it writes.
    """
    labels = program.topics["labels"]
    before = ends(address, labels)
    kept = [file.n for file in SnapshotFolder(program.folder / "snapshots").list()]
    program.run("snapshot", "rollback", "--to", str(kept[len(kept) // 2]))
    tell(f"rolled back to journal record {kept[len(kept) // 2]} of {kept[-1]}")
    learner = program.start("run")
    time.sleep(random.uniform(2.0, 8.0))
    learner.kill()
    replicas.spare()
    said = [{"id": f"e-{i}", "label": "ham", "source": "analyst", "weight": 1.0} for i in range(100)]
    replicas.say(said)
    written = [one.value for one in read(address, labels) if one.offset >= before[str(one.partition)]]
    if sorted(map(str, map(json.loads, written))) != sorted(map(str, said)):
        yield f"a replica was sent {len(said)} verdicts, and wrote {len(written)}: {written[:3]}"
    program.run("run", "--until-end")
    tell(program.run("rebuild").strip())
    program.run("run", "--until-end")
    last = last_journalled(address, program.topics["journal"])
    replicas.await_record(last["n"])
    tell(f"{replicas.kills} replicas killed; the others stand at journal record {last['n']}")
    yield from differences(replicas.held())
    yield from replicas.faults


def _noted(notes: Path) -> Iterator[tuple[int, Held]]:
    """What a replica noted, but for a line that its end cut short."""
    lines = notes.read_text().splitlines(keepends=True) if notes.exists() else []
    for line in lines:
        if line.endswith("\n"):
            n, held = json.loads(line)
            yield n, held


class _Noting(Replica):
    """A replica that is asked what it holds, as often as it comes to another record."""

    notes = Path()

    def start(self) -> None:
        super().start()
        threading.Thread(target=self._note, daemon=True).start()

    def _note(self) -> None:
        last = None
        with self.notes.open("a", buffering=1) as file:
            while True:
                with self.lock:
                    n = self.state()["journal"]
                    if n not in (None, last):
                        parts = self._following.learner.parts()
                        held = {name: part_digest(*part) for name, part in parts.items()}
                if n != last:
                    file.write(json.dumps([n, held]) + "\n")
                    last = n
                time.sleep(LOOK_SECONDS)


def note(notes: str) -> None:
    """Have the replica that begins in this process note there what it holds."""
    _Noting.notes = Path(notes)
    http_server.Replica = _Noting
