"""What an open page costs the learner beside it (`make bench`): a backlog worked off alone, and watched, by turns.

python tests/benchmarks/watched.py [EVENTS]
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import http.client
import os
import shutil
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from fed import Programs, write_events

TURNS = 3
VIEWS = ["overview", "events", "quality", "posterior"]
EVERY = 2.0  # seconds, as the page's script


def watch(port, stopping):
    """Ask as an open page does, for one view after the other."""
    n = 0
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while not stopping.wait(EVERY):
            connection.request("GET", f"/page/{VIEWS[n % len(VIEWS)]}/live")
            assert connection.getresponse().read()
            n += 1


def turn(folder, *, is_watched):
    """Seconds by the clock, and of the processor, in which the learner works all off."""
    with closing(Programs(folder)) as programs:
        stopping, watching = threading.Event(), None
        if is_watched:
            _, port = programs.answering("dashboard", path="/page/page.css")
            watching = threading.Thread(target=watch, args=(port, stopping))
            watching.start()
        began = time.monotonic()
        learner, said = programs.start("run", "--until-end")
        _, status, usage = os.wait4(learner.pid, 0)
        seconds = time.monotonic() - began
        learner.returncode = os.waitstatus_to_exitcode(status)
        assert learner.returncode == 0, said.read_text()
        stopping.set()
        if watching is not None:
            watching.join()
    return seconds, usage.ru_utime + usage.ru_stime


def main():
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    found = {False: [], True: []}
    with tempfile.TemporaryDirectory() as scratch:
        first = Path(scratch) / "first"
        first.mkdir()
        with closing(Programs(first)) as programs:
            programs.run("topics", "create")
            write_events(first / "events.jsonl", events)
            programs.run("replay", str(first / "events.jsonl"))
        (first / "events.jsonl").unlink()
        for _ in range(TURNS):
            for is_watched, took in found.items():
                folder = Path(scratch) / "turn"
                shutil.copytree(first, folder)
                took.append(turn(folder, is_watched=is_watched))
                shutil.rmtree(folder)
                seconds, spent = took[-1]
                print(
                    f"{'watched' if is_watched else 'alone'}: {seconds:.1f} s, {spent:.1f} s of the processor",
                    flush=True,
                )
    clock, processor = (min(of) for of in zip(*found[True], strict=True))
    of_clock, of_processor = (min(of) for of in zip(*found[False], strict=True))
    print(
        f"{events:,} events, the best of {TURNS}: a page costs {clock / of_clock - 1:+.1%} by the clock, "
        f"{processor / of_processor - 1:+.1%} of the learner's processor time"
    )


if __name__ == "__main__":
    main()
