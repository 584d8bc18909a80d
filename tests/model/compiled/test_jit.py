"""Machine code is kept from one start to the next, and never for longer than its sources stay the same."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from program import until

import streamnb
from streamnb.adapters.sqlite.log import SqliteLog
from streamnb.engine.ports import Partition
from streamnb.model.compiled import jit

PACKAGES = Path(streamnb.__file__).parents[1]
WHERE = "import numba; from streamnb.model.compiled import jit; from streamnb.model.naive_bayes import kernels; print(jit._CACHE_FOLDER, repr(numba.config.CACHE_DIR))"


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


@pytest.mark.parametrize("room", ["encoding/vocabulary.py", "compiled/jit.py", "warm.py"])
def test_every_state_of_the_sources_has_a_cache_of_its_own(copied, room):
    """A kernel may call into another file, of whose changes numba knows nothing."""
    before = told(copied)
    assert told(copied) == before
    assert before[0].startswith(str(copied / "streamnb" / "model" / "__pycache__" / "kernels-"))
    with (copied / "streamnb" / "model" / room).open("a") as source:
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


OWN = """
import numba
from streamnb.model.compiled.jit import inlined, kernel

@inlined
def twice(x):
    return x + x

@kernel
def four_times(x):
    return twice(twice(x))

print(four_times(3), len(four_times.signatures), type(four_times._cache).__name__, numba.config.CACHE_DIR)
"""


def test_a_kernel_in_another_is_made_machine_code_with_it_alone(tmp_path):
    """Else it is optimised anew at every level of calls, and for Python, which does not call it."""
    (tmp_path / "own.py").write_text(OWN + "print(len(twice.signatures), twice(0.5))")
    done = subprocess.run(
        [sys.executable, tmp_path / "own.py"],
        env=os.environ | {"PYTHONPATH": str(PACKAGES), "NUMBA_CACHE_DIR": str(tmp_path / "kept")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-2:] == ["0", "1.0"]
    kept = sorted(path.name.split("-")[0] for path in tmp_path.rglob("*.nbc"))
    assert kept == ["own.four_times", "own.twice"]


def test_a_cache_folder_that_cannot_be_written_is_survived(tmp_path):
    """The kernels are compiled in memory then; numba's settings are what they were."""
    for taken in ("taken", "__pycache__"):  # root may write to any folder, but not below a file
        (tmp_path / taken).write_text("a file, where a folder would have to be made")
    (tmp_path / "own.py").write_text(OWN)
    blocked = str(tmp_path / "taken" / "cache")
    nowhere = dict.fromkeys(["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"], blocked)
    done = subprocess.run(
        [sys.executable, tmp_path / "own.py"],
        env=os.environ | {"PYTHONPATH": str(PACKAGES)} | nowhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["12", "1", "NullCache", blocked], done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_learner_that_is_told_to_stop_while_kernels_are_compiled_stops(tmp_path, number):
    """A supervisor takes any other exit code for a failure; nothing was begun that could be lost."""
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "STREAMNB_HTTP__LISTEN": ""}
    command = [sys.executable, "-m", "streamnb", "run", "--log", f"sqlite:///{tmp_path}/log.db"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: any((tmp_path / "kernels").rglob("*.nb[ic]")))
        process.send_signal(number)
        said = process.communicate(timeout=300)[1]
    compiling, stopped = said.splitlines()
    assert compiling.startswith("compiling ")
    assert (process.returncode, stopped) == (0, "stopped while the kernels were prepared; nothing is lost")
    with SqliteLog(tmp_path / "log.db") as log:
        assert log.offsets(Partition("journal", 0)) == (0, 0)
