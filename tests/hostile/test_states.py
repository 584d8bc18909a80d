"""A state that no model wrote, valid as its bytes are, is refused by name, or works: it crashes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mutated_states import BEFORE, MODELS, ROWS, bytes_of, state_of

from streamnb.errors import SnapshotError


@pytest.fixture(scope="module")
def worker():
    """The program beside this file: it has no threads, and may be forked."""
    program = Path(__file__).with_name("mutated_states.py")
    with subprocess.Popen(
        [sys.executable, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=program.parent,
    ) as process:
        yield process
        process.stdin.close()


@pytest.mark.parametrize("name", MODELS)
def test_a_damaged_state_is_refused_and_changes_nothing_or_it_works(worker, name):
    """Each array and value in turn: extreme elements, other shapes and types, one too few or too many."""
    print(name, file=worker.stdin, flush=True)
    n, faults = json.loads(worker.stdout.readline())
    assert n > 20
    assert faults == []


EMPTY_TEXT, NUMBER = b"\xa4text\xa0", b"\xa4text\x07"  # an event's attribute, as msgpack has it


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("changing0/pruned", lambda pruned: pruned + 1, "learned after 1 prunings, and there were 0"),
        ("model/class_weights", np.zeros_like, "no class of the model has a weight"),
        (
            "fixed0/rest",
            lambda rest: np.frombuffer(rest.tobytes().replace(EMPTY_TEXT, NUMBER, 1), np.uint8),
            "attribute 'text': expected str, found float",
        ),
    ],
)
def test_events_that_wait_for_labels_fit_the_model_beside_them(name, change, why):
    kind = MODELS["Learner-late"]
    meta, arrays = state_of(kind, kind.learned(ROWS))
    target = kind.learned(BEFORE)
    before = bytes_of(kind, target)
    with pytest.raises(SnapshotError, match=why):
        kind.load(target, meta, arrays | {name: change(arrays[name])})
    assert bytes_of(kind, target) == before
