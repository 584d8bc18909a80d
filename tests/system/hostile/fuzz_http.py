"""`streamnb serve` beside a learner that is fed, asked by schemathesis with each role all that its OpenAPI allows.

No failure, no answer that OpenAPI does not describe, and no record that was written without the role for it.

python -m tests.system.hostile.fuzz_http [SECONDS] [SEED] [ROLE ...]: seconds for each role; by default for every role,
and for a wrong token (none). Its exit code is 1 if any run failed.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from streamnb.serving.access import ROLES
from tests.support.fed import fed_learner

RATE = 50
UNKNOWN = "positive_data_acceptance"
"""A class that is unknown, or a feature of another kind, is refused with 422, and no schema can tell."""
NOBODY = "none"
WRITES = {"events": "send", "labels": "label"}
"""Topic -> the role that writes to it; `admin` writes to both."""


def token_of(role):
    return f"the-token-of-{role}"


def run(role, port, seconds, seed, folder):
    """Whether schemathesis found nothing with the token of one role."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    asked = ["run", "openapi.json", "--url", f"http://127.0.0.1:{port}", "--continue-on-failure"]
    limits = ["--max-time", seconds, "--seed", seed, "--request-timeout", "60"]
    checks = ["--exclude-checks", UNKNOWN, "--phases", "examples,coverage,fuzzing"]
    headers = ["--header", f"Authorization: Bearer {token_of(role)}"]  # of nobody: a wrong one
    command = [shutil.which("schemathesis", path=folders), *asked, *limits, *checks, *headers]
    return subprocess.run(command, check=False, cwd=folder).returncode == 0


def written(folder):
    """The number of records of each topic that no feeder has written."""
    query = """SELECT count(*) FROM records JOIN partitions ON partition_id = place >> 44
        WHERE topic = ? AND CAST(coalesce(key, '') AS TEXT) NOT GLOB 'm[0-9]*'"""
    with closing(sqlite3.connect(folder / "log.db")) as db:
        return {topic: db.execute(query, (topic,)).fetchone()[0] for topic in WRITES}


def main() -> int:
    seconds, seed, *roles = sys.argv[1:] + ["600", "1"][len(sys.argv) - 1 :]
    roles = roles or [NOBODY, *sorted(ROLES)]
    flags = ["--set", "topics.labels=labels", "--set", "predictions.evidence=3"]
    failed = []
    with fed_learner(RATE, *flags, words=["free", "cash", "lunch", "noon"]) as programs:
        file = programs.folder / "tokens"
        lines = [
            f"{role} {role} {hashlib.sha256(token_of(role).encode()).hexdigest()}" for role in sorted(ROLES)
        ]
        file.write_text("\n".join(lines))
        _, port = programs.answering("serve", "--rate", "100000", "--token-file", str(file))
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request(
                "GET", "/openapi.json", headers={"Authorization": f"Bearer {token_of('admin')}"}
            )
            (programs.folder / "openapi.json").write_bytes(connection.getresponse().read())
        for role in roles:
            before = written(programs.folder)
            is_sound = run(role, port, seconds, seed, programs.folder)
            after = written(programs.folder)
            illegal = [
                topic
                for topic, of in WRITES.items()
                if before[topic] != after[topic] and role not in {of, "admin"}
            ]
            print(f"{role}: {'sound' if is_sound else 'FAILURES'}; written {before} -> {after}", flush=True)  # noqa: T201
            failed += [] if is_sound and not illegal else [f"{role}: wrote {illegal}" if illegal else role]
    print(f"failed: {failed}")  # noqa: T201
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
