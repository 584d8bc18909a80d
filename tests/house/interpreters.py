"""Run the suite's core on each Python that is here: what pyproject.toml says of versions rests on this.

python -m tests.house.interpreters            # all that there are
python -m tests.house.interpreters 3.13 -x    # one of them, with options for pytest
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv/interpreters"
CORE = ["README.md", "tests/laws", "tests/formats", "tests/config"]


def claimed():
    """The versions that the package says it runs on, such as "3.11"."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    prefix = "Programming Language :: Python :: 3."
    return ["3." + one.removeprefix(prefix) for one in classifiers if one.startswith(prefix)]


def interpreter(version):
    """One that can make an environment; None where there is none. Shims that start nothing are passed over."""
    found = shutil.which(f"python{version}")
    others = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    for program in [*([found] if found else []), *sorted(map(str, others))]:
        if not subprocess.run(
            [program, "-c", "import ensurepip, venv"], capture_output=True, check=False
        ).returncode:
            return program
    return None


def tested(version, program, options):
    """The exit code of the core, in an environment of this interpreter alone."""
    python = ENVIRONMENTS / version / "bin/python"
    if not python.exists():
        subprocess.run([program, "-m", "venv", python.parents[1]], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--editable", ".[dev]"], cwd=ROOT, check=True)
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not broker and not thorough"]
    environ = os.environ | {"HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE", "fast")}
    return subprocess.run([*pytest, *CORE, *options], cwd=ROOT, env=environ, check=False).returncode


def main(arguments):
    """Test them; 0 where all passed, and at least one did."""
    wanted = [one for one in arguments if re.fullmatch(r"3\.\d+", one)]
    options = [one for one in arguments if one not in wanted]
    outcomes = {}
    for version in wanted or claimed():
        program = interpreter(version)
        outcomes[version] = "not here" if program is None else tested(version, program, options)
    for version, outcome in outcomes.items():
        sys.stdout.write(f"Python {version}: {'passed' if outcome == 0 else outcome}\n")
    failed = [outcome for outcome in outcomes.values() if outcome not in {0, "not here"}]
    return 1 if failed or 0 not in outcomes.values() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
