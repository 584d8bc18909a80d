"""Measure the processor time that kernels take to compile where none are kept, and record it as a baseline.

    python -m tests.benchmarks.compile_seconds            of the default model, and of all kernels
    python -m tests.benchmarks.compile_seconds default    of the default model alone

Nothing asserts these seconds: compile_seconds.json shows in a diff what a change of the kernels costs. Processor time
includes the imports; on a machine whose cores share their units with other work it is up to twice as long.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from streamnb.persistence.platform_fingerprint import fingerprint

RECORD = Path(__file__).with_suffix(".json")
SETS = {"default": [], "all": ["--all"]}


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compiled(arguments):
    """Processor seconds, number of kernels and their bytes, of `streamnb warm` with nothing kept."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "streamnb", "warm", *arguments]
        before = processor_seconds()
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        subprocess.run(command, check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        seconds = processor_seconds() - before
        kernels = [path for path in Path(folder, "kernels").iterdir() if path.stat().st_size > 1000]
        n_bytes = sum(path.stat().st_size for path in kernels)
    return {"processor_seconds": round(seconds, 1), "kernels": len(kernels), "bytes": n_bytes}


def main(names):
    machine = fingerprint()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in names or SETS:
        found = compiled(SETS[name])
        found["date"] = datetime.now(UTC).date().isoformat()
        found["load"] = round(os.getloadavg()[0], 1)
        found["cpu"], found["python"], found["numba"] = (
            machine["cpu_model"],
            machine["python"],
            version("numba"),
        )
        print(f"{name}: {json.dumps(found)}")
        record[name] = found
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
