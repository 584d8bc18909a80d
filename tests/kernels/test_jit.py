"""Machine code is kept from one start to the next, and never for longer than its sources stay the same."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import streamnb
from streamnb import models
from streamnb.engine.ports import Partition
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.kernels import jit, kernel_cache
from tests.support.program import until

pytestmark = [pytest.mark.slow, pytest.mark.early(43)]

PACKAGES = Path(streamnb.__file__).parents[1]
SHARED = """
from streamnb.kernels import kernel_cache as kept_code
print(kept_code.own_folder(), kept_code.sources("{file}"))
"""
KERNELS = [
    getattr(module, name)
    for found in pkgutil.walk_packages(models.__path__, "streamnb.models.")
    for module in [importlib.import_module(found.name)]
    for name in vars(module)
    if isinstance(getattr(module, name), jit._Kernel) and getattr(module, name).__module__ == found.name
]


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(
        Path(streamnb.__file__).parent, tmp_path / "streamnb", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def told(folder, **environment):
    """The folder for machine code of a copy of streamnb, and the digest of what a text's words are made of."""
    environ = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environ |= {"PYTHONPATH": str(folder), **environment}
    file = folder / "streamnb" / "models" / "naive_bayes" / "naive_bayes_kernels.py"
    command = [sys.executable, "-c", SHARED.format(file=file)]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, check=True, cwd=folder
    ).stdout.split()


def test_code_is_found_by_all_sources_that_it_was_made_of_and_by_no_others(copied):
    """A kernel may call into another file, of whose changes numba knows nothing."""
    before = told(copied)
    assert before[0] == str(copied / "streamnb" / "kernels" / "__pycache__" / "kernels")
    for file, is_part in [
        ("statistics/moments.py", True),
        ("kernels/jit.py", True),
        ("models/one_dependence/one_dependence_kernels.py", False),
    ]:
        with (copied / "streamnb" / file).open("a") as source:
            source.write("\n# another state\n")
        after = told(copied)
        assert (after != before) == is_part, file
        before = after
    for name in ("aaa", "zzz"):  # before and after "streamnb"
        copied = copied.rename(copied.with_name(name))
        assert told(copied)[1] == before[1]


def named_by(kernel):
    """The files of all that a kernel, and those that it calls, name: found through Python, not through imports."""
    files, left, seen = set(), [kernel], set()
    while left:
        function = left.pop().py_func
        if function not in seen:
            seen.add(function)
            named = [function.__globals__.get(name) for name in function.__code__.co_names]
            left += [found for found in named if isinstance(found, jit._Kernel)]
            owners = {getattr(found, "__module__", None) or "" for found in named}
            files |= {Path(sys.modules[owner].__file__) for owner in owners if owner.startswith("streamnb.")}
    return files


def test_every_file_that_a_kernel_names_something_of_is_one_of_its_sources():
    missed = {
        f"{kernel.__module__}.{kernel.__name__}": named_by(kernel) - found
        for kernel in KERNELS
        if not named_by(kernel) <= (found := kernel_cache.files(Path(kernel.py_func.__code__.co_filename)))
    }
    assert len(KERNELS) > 200
    assert missed == {}


def test_the_folder_can_be_set(copied, tmp_path):
    assert told(copied, NUMBA_CACHE_DIR=str(tmp_path / "there"))[0] == str(tmp_path / "there" / "kernels")


OWN = """
from streamnb.kernels.jit import inlined, kernel

@inlined
def twice(x):
    return x + x

@kernel
def four_times(x):
    return twice(twice(x))

print(four_times(3), len(four_times.signatures), four_times._cache.cache_path)
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
    kept = sorted(path.name.split("-")[0] for path in (tmp_path / "kept" / "kernels").iterdir())
    assert kept == ["__main__.four_times", "__main__.twice"]


def doubled(folder, *before):
    """Compile, or load, a kernel in a process of its own: its answer, and how many were compiled."""
    (folder / "own.py").write_text(OWN.partition("print")[0])
    (folder / "main.py").write_text("\n".join([*before, COUNTED]))
    environment = os.environ | {"PYTHONPATH": str(PACKAGES), "NUMBA_CACHE_DIR": str(folder / "kept")}
    done = subprocess.run(
        [sys.executable, folder / "main.py"], env=environment, capture_output=True, text=True, check=True
    )
    return [int(word) for word in done.stdout.split()]


COUNTED = """
from numba.core import event
begun = []
class Heard(event.Listener):
    def on_start(self, begins): begun.append(begins)
    def on_end(self, ends): pass
event.register("numba:compile", Heard())
import own
print(own.four_times(3), len(begun))
"""


def test_scipy_is_loaded_by_who_compiles_linear_algebra_and_by_nobody_else():
    """Whoever else uses numba in the process has its linear algebra."""
    program = """
import sys
from streamnb import NaiveBayes
model = NaiveBayes()
model.learn_one({"a": 1}, "x")
print(model.predict_one({"a": 1}), "scipy.linalg" in sys.modules)
import numba, numpy
matrix = numpy.array([[2.0, 1.0], [1.0, 1.0]])
print(numba.njit(lambda a: numpy.dot(numpy.linalg.inv(a), a))(matrix).round(9).tolist(), "scipy.linalg" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["x False", "[[1.0, 0.0], [0.0, 1.0]] True"]


@pytest.mark.thorough
def test_what_is_kept_is_loaded_and_what_is_damaged_is_compiled_again(tmp_path):
    assert doubled(tmp_path) == [12, 2]
    assert doubled(tmp_path) == [12, 0]
    (file,) = (tmp_path / "kept" / "kernels").iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:100] + b"?" + whole[101:]):
        file.write_bytes(damaged)
        assert doubled(tmp_path) == [12, 2]
        assert doubled(tmp_path) == [12, 0]


@pytest.mark.thorough
def test_code_that_came_with_the_package_goes_before_what_is_compiled_here(tmp_path):
    """It is for a level of processors, if this one is of that level."""
    level = [
        "from pathlib import Path",
        "from streamnb.kernels import kernel_cache as kept_code",
        f"kept_code.SHIPPED = Path({str(tmp_path)!r}) / 'kept' / 'kernels'",
        f"kept_code.own_folder = lambda: Path({str(tmp_path)!r})",
    ]
    weak = [*level, "kept_code.LEVELS = {'x86-64-v3': {'what this processor cannot'}}"]
    assert doubled(
        tmp_path, "import os; os.environ.update(NUMBA_CPU_NAME='x86-64-v3', NUMBA_CPU_FEATURES='')"
    ) == [12, 2]
    assert doubled(tmp_path, *level) == [12, 0]
    assert doubled(tmp_path, *weak) == [12, 2]


def test_a_cache_folder_that_cannot_be_written_is_survived(tmp_path):
    """The kernels are compiled in memory then."""
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
    assert done.stdout.split() == ["12", "1", "None"], done.stderr


def test_a_user_without_a_home_is_survived(monkeypatch, tmp_path):
    """As in a container that runs as a user whom nobody knows, beside a package that is not to be written."""

    def unknown(path):
        if str(path).startswith("~"):
            raise RuntimeError("Could not determine home directory.")
        return path

    (tmp_path / "file").touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(kernel_cache, "_PACKAGE", tmp_path / "file" / "streamnb")
    monkeypatch.setattr(Path, "expanduser", unknown)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert kernel_cache.own_folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernel_cache.own_folder() == tmp_path / "streamnb" / "kernels"


STOPPED = "stopped while the kernels were prepared; nothing is lost"


def test_what_is_told_to_stop_in_code_that_is_made_of_text_ends_as_it_says():
    """numba compiles such code; where KeyboardInterrupt leaves it, Python ends by the signal whoever caught that."""
    told = 'exec("import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)")'
    program = f"from streamnb.runtime.shutdown import Stop; print(Stop().interrupts(lambda: {told}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize(
    ("command", "number", "says"),
    [
        ("run", signal.SIGTERM, [STOPPED]),
        pytest.param("run", signal.SIGINT, [STOPPED], marks=pytest.mark.thorough),
        pytest.param("serve --listen 127.0.0.1:0", signal.SIGTERM, [], marks=pytest.mark.thorough),
    ],
)
def test_a_service_that_is_told_to_stop_while_kernels_are_compiled_stops(tmp_path, command, number, says):
    """A supervisor takes any other exit code for a failure; nothing was begun that could be lost."""
    with SqliteLog(tmp_path / "log.db") as log:
        log.create_topic("journal", 1)
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "STREAMNB_HTTP__LISTEN": ""}
    line = [sys.executable, "-m", "streamnb", *command.split(), "--log", f"sqlite:///{tmp_path}/log.db"]
    with subprocess.Popen(line, env=environ, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: any((tmp_path / "kernels").rglob("streamnb.*")))
        process.send_signal(number)
        told = process.communicate(timeout=300)[1]
    lines = told.splitlines()
    (at,) = [n for n, line in enumerate(lines) if " info kernels-compile compiling " in line]
    assert (process.returncode, [line.split(" ", 3)[3] for line in lines[at + 1 :]]) == (0, says)
    assert at == (2 if command == "run" else 0)  # what it reads, and how to feed it
    with SqliteLog(tmp_path / "log.db") as log:
        assert log.offsets(Partition("journal", 0)) == (0, 0)
