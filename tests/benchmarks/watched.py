"""What pages that are open on the overview and the alerts cost the learner beside it (`make bench`): alone, and watched, by turns.

python -m tests.benchmarks.watched [EVENTS [RATE]]

A backlog of so many events is worked off as fast as may be; with a rate, events come so many a second while it learns.
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

from tests.support.fed import Programs, write_events

TURNS = 3
EVERY = 2.0  # seconds, as the page's script


def watch(port, stopping):
    """Ask as two open pages do: on the overview, and on the alerts with the drift of attributes."""
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while not stopping.wait(EVERY):
            for view in ("overview", "alerts"):
                connection.request("GET", f"/page/{view}/live")
                assert connection.getresponse().read()


def spent(program):
    """Seconds by the clock until it ends, and those of the processor that it took."""
    began = time.monotonic()
    _, status, usage = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime


def turn(folder, rate, *, is_watched):
    """Seconds by the clock, of the learner's processor time, and of the page's."""
    with closing(Programs(folder)) as programs:
        stopping, page, of_page = threading.Event(), None, 0.0
        if is_watched:
            page, port = programs.answering("dashboard", path="/page/page.css")
            watching = threading.Thread(target=watch, args=(port, stopping))
            watching.start()
        if rate:
            learner, said = programs.start("run")
            programs.run("replay", str(folder / "events.jsonl"), "--rate", str(rate))
            learner.terminate()
        else:
            learner, said = programs.start("run", "--until-end")
        seconds, of_learner = spent(learner)
        assert learner.returncode == 0, said.read_text()
        stopping.set()
        if page is not None:
            watching.join()
            page.terminate()
            of_page = spent(page)[1]
    return seconds, of_learner, of_page


def main():
    events, rate = (*map(int, sys.argv[1:]), *(200_000, 0)[len(sys.argv) - 1 :])
    found = {False: [], True: []}
    with tempfile.TemporaryDirectory() as scratch:
        first = Path(scratch) / "first"
        first.mkdir()
        with closing(Programs(first)) as programs:
            programs.run("topics", "create")
            write_events(first / "events.jsonl", events)
            if not rate:
                programs.run("replay", str(first / "events.jsonl"))
                (first / "events.jsonl").unlink()
        for _ in range(TURNS):
            for is_watched, took in found.items():
                folder = Path(scratch) / "turn"
                shutil.copytree(first, folder)
                took.append(turn(folder, rate, is_watched=is_watched))
                shutil.rmtree(folder)
                seconds, of_learner, of_page = took[-1]
                print(
                    f"{'watched' if is_watched else 'alone'}: {seconds:.1f} s, {of_learner:.1f} s of the processor, "
                    f"the page {of_page:.1f} s; load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
    clock, processor, _ = (min(of) for of in zip(*found[True], strict=True))
    of_clock, of_processor, _ = (min(of) for of in zip(*found[False], strict=True))
    by_clock = "" if rate else f"{clock / of_clock - 1:+.1%} by the clock, "
    print(
        f"{events:,} events, the best of {TURNS}: a page costs {by_clock}"
        f"{processor / of_processor - 1:+.1%} of the learner's processor time"
    )


if __name__ == "__main__":
    main()
