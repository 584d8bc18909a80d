"""Machine code is kept from one start to the next, and never for longer than its sources stay the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import streamnb
from streamnb.model import jit

WHERE = "import numba; from streamnb.model import jit, kernels; print(jit._CACHE_FOLDER, repr(numba.config.CACHE_DIR))"


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(
        Path(streamnb.__file__).parent, tmp_path / "streamnb", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def told(folder, **environment):
    environ = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environ |= {"PYTHONPATH": str(folder), **environment}
    command = [sys.executable, "-c", WHERE]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, check=True, cwd=folder
    ).stdout.split()


def test_every_state_of_the_sources_has_a_cache_of_its_own(copied):
    """A kernel may call into another file, of whose changes numba knows nothing."""
    before = told(copied)
    assert told(copied) == before
    assert before[0].startswith(str(copied / "streamnb" / "model" / "__pycache__" / "kernels-"))
    with (copied / "streamnb" / "model" / "vocabulary.py").open("a") as source:
        source.write("\n# another state\n")
    assert told(copied)[0] != before[0]


def test_the_folder_can_be_set(copied, tmp_path):
    folder, config = told(copied, NUMBA_CACHE_DIR=str(tmp_path / "there"))
    assert Path(folder).parent == tmp_path / "there"
    assert config == repr(str(tmp_path / "there"))


def test_other_peoples_kernels_are_kept_where_they_always_were():
    before = numba.config.CACHE_DIR
    compiled = jit.kernel(test_the_folder_can_be_set)
    assert before == numba.config.CACHE_DIR
    assert str(compiled._cache.cache_path).startswith(jit._CACHE_FOLDER)
