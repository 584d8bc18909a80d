"""A service loads the modules of its own kind of model, and of no other."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import streamnb.cli.commands.run
from streamnb.config import load
from streamnb.runtime import factories

for kind in ("mixture", "naive_bayes", "semi_supervised"):
    factories.learner(load(None, {}, ["log.url=sqlite:///unused.db", f"model.kind={kind}"]))
    rooms = {name.split(".")[2] for name in sys.modules if name.startswith("streamnb.toolbox.")}
    print(json.dumps([kind, sorted(rooms)]))
"""


@pytest.mark.thorough
def test_the_toolbox_is_loaded_for_its_own_kinds_alone():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert found == {"mixture": [], "naive_bayes": [], "semi_supervised": ["semi_supervised"]}
