"""What is installed from a wheel compiles nothing."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from streamnb.kernels import kernel_cache

pytestmark = [pytest.mark.storm, pytest.mark.early(9)]

LEVEL = "x86-64-v3"
if LEVEL not in {target[1] for target in kernel_cache.targets(kernel_cache._host())}:
    pytest.skip(f"this processor is not of level {LEVEL}", allow_module_level=True)

ROOT = Path(__file__).parents[2]
HEARD = """
import json
from numba.core import event
import streamnb
begun = []
class Heard(event.Listener):
    def on_start(self, begins): begun.append(begins.data["dispatcher"].py_func.__name__)
    def on_end(self, ends): pass
event.register("numba:compile", Heard())
"""
LEARNED = """
import random
model = streamnb.BayesOptimalNB({"text": "text"})
draw = random.Random(1)
for number in range(1000):
    text = " ".join(f"n{draw.randrange(200)}" for _ in range(9))
    model.learn_one({"text": text, "length": draw.random()}, "ab"[number % 5 % 2])
print(json.dumps([streamnb.__file__, begun, model.digest()]))
"""
CUT = """
from streamnb.features.tokenizer import words
words("so many words")
print(json.dumps(begun))
"""


def made_from(tree, *command):
    return subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with streamnb alone, from a wheel with code for one level, that nobody can write to."""
    folder = tmp_path_factory.mktemp("wheel")
    tree, site = folder / "tree", folder / "site"
    shutil.copytree(
        ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "machine_code", "tests", "dist")
    )
    ship = [sys.executable, "-m", "streamnb.kernels.wheel", "--default", "--level", LEVEL]
    subprocess.run(ship, cwd=tree, check=True, env=os.environ | {"PYTHONPATH": str(tree)})
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    made_from(tree, *pip, "wheel", "--no-deps", "--wheel-dir", folder / "dist", ".")
    (wheel,) = (folder / "dist").iterdir()
    assert wheel.name.endswith(f"-cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64.whl")
    made_from(folder, *pip, "install", "--no-deps", "--target", site, wheel)
    shutil.rmtree(tree)
    for path in [site, *site.rglob("*")]:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return site


def answer(installed, *command, **environment):
    """What a command says where there is no folder for machine code but the wheel's own."""
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "NUMBA_CACHE_DIR": os.devnull}
    environ = os.environ | nowhere | {"PYTHONPATH": str(installed)} | environment
    return subprocess.run(
        [sys.executable, *command], env=environ, cwd="/", capture_output=True, text=True, check=True
    )


def test_the_default_model_compiles_nothing_whatever_the_processor_calls_itself(installed):
    file, compiled, digest = json.loads(answer(installed, "-c", HEARD + LEARNED).stdout)
    assert Path(file).is_relative_to(installed)
    assert compiled == []
    # numpy's own loops and the C library's log for another processor: the machine code is the same.
    later = "glibc.cpu.hwcaps=-AVX512F,-AVX512BW,-AVX512CD,-AVX512DQ,-AVX512VL"
    other = {"NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512_SKX", "NUMBA_ENABLE_AVX": "0"}
    other["GLIBC_TUNABLES"] = later
    assert json.loads(answer(installed, "-c", HEARD + LEARNED, **other).stdout)[1:] == [[], digest]


def test_a_file_is_learned_without_a_word_of_kernels(installed, tmp_path):
    rows = [
        {"id": str(i), "text": f"one n{i % 5}", "label": "ab"[i % 2], "features": {"x": i / 7.0}}
        for i in range(100)
    ]
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    done = answer(installed, "-m", "streamnb", "evaluate", tmp_path / "events.jsonl")
    assert "compiling" not in done.stderr
    assert "100" in done.stdout


def test_a_processor_that_the_code_is_not_for_compiles_its_own(installed):
    assert json.loads(answer(installed, "-c", HEARD + CUT).stdout) == []
    assert "tokenize" in json.loads(answer(installed, "-c", HEARD + CUT, NUMBA_CPU_NAME="generic").stdout)
