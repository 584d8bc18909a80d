"""A state that no model wrote, valid as its bytes are, is refused by name, or works: it crashes nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import ROOT
from tests.system.hostile.mutated_states import MODELS

pytestmark = [pytest.mark.thorough, pytest.mark.early(23)]


@pytest.fixture(scope="module")
def worker():
    """The program beside this file: it has no threads, and may be forked."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.system.hostile.mutated_states"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
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
