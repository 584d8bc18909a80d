"""`streamnb serve` beside a learner that is fed, asked by schemathesis: no failure, no answer that OpenAPI does not describe.

python -m tests.system.hostile.fuzz_http [SECONDS] [SEED]; its exit code is that of schemathesis.
"""

from __future__ import annotations

import subprocess
import sys

from tests.support.fed import fed_learner

RATE = 50
UNKNOWN = "positive_data_acceptance"
"""A class that is unknown, or a feature of another kind, is refused with 422, and no schema can tell."""


def main() -> int:
    seconds, seed = (sys.argv[1:] + ["600", "1"][len(sys.argv) - 1 :])[:2]
    with fed_learner(
        RATE, "--set", "topics.labels=labels", words=["free", "cash", "lunch", "noon"]
    ) as programs:
        _, port = programs.answering("serve", "--rate", "100000")
        asked = ["run", f"http://127.0.0.1:{port}/openapi.json", "--continue-on-failure"]
        limits = ["--max-time", seconds, "--seed", seed, "--request-timeout", "60"]
        checks = ["--exclude-checks", UNKNOWN, "--phases", "examples,coverage,fuzzing"]
        command = [sys.executable, "-m", "schemathesis.cli", *asked, *limits, *checks]
        return subprocess.run(command, check=False, cwd=programs.folder).returncode


if __name__ == "__main__":
    sys.exit(main())
