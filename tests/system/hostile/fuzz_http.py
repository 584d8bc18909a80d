"""`streamnb serve` beside a learner that is fed, asked by schemathesis with each role all that its OpenAPI allows.

No failure, no answer that OpenAPI does not describe, no record that was written without the role for it, and of each
kind some that were written with it.

python -m tests.system.hostile.fuzz_http [SECONDS] [SEED] [ROLE ...]: seconds for each role; by default for every role,
and for a wrong token (none). Its exit code is 1 if any run failed.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
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
WRITES = {
    "events": ("send", "events", "TRUE"),
    "labels": ("label", "labels", "json_extract(value, '$.label') IS NOT NULL"),
    "labels taken back": ("label", "labels", "json_type(value, '$.label') = 'null'"),
    "withdrawals": ("admin", "labels", "json_extract(value, '$.withdraw')"),
}
"""What is written -> the role that writes it, the topic, and the condition for its records; `admin` writes all."""
UNDONE = "undone"


def token_of(role):
    return f"the-token-of-{role}"


def run(role, port, seconds, seed, folder):
    """Whether schemathesis found nothing with the token of one role."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    asked = ["run", "openapi.json", "--url", f"http://127.0.0.1:{port}", "--continue-on-failure"]
    limits = ["--max-time", seconds, "--seed", seed, "--request-timeout", "60"]
    # An answer that never ends would take the time of all others: tests/system/service/test_applications.py does.
    limits += ["--exclude-path-regex", "^/stream/"]
    checks = ["--exclude-checks", UNKNOWN, "--phases", "examples,coverage,fuzzing"]
    headers = ["--header", f"Authorization: Bearer {token_of(role)}"]  # of nobody: a wrong one
    command = [shutil.which("schemathesis", path=folders), *asked, *limits, *checks, *headers]
    hooks = {
        "SCHEMATHESIS_HOOKS": "tests.system.hostile.http_hooks",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    return subprocess.run(command, check=False, cwd=folder, env=os.environ | hooks).returncode == 0


def written(folder, asked):
    """The number of records of each kind that no feeder has written, and of the labels that were undone."""
    query = """SELECT count(*) FROM records JOIN partitions ON partition_id = place >> 44,
        (SELECT CAST(value AS TEXT) AS value, place AS own FROM records) AS text ON own = place
        WHERE topic = ? AND (topic = 'labels' OR CAST(coalesce(key, '') AS TEXT) NOT GLOB 'm[0-9]*') AND """
    with closing(sqlite3.connect(folder / "log.db")) as db:
        found = {
            kind: db.execute(query + condition.replace("value", "text.value"), (topic,)).fetchone()[0]
            for kind, (_, topic, condition) in WRITES.items()
        }
    undone = re.search(
        r'requests_total{code="200",path="/labels/undo"} ([0-9.]+)', asked("/metrics").decode()
    )
    return found | {UNDONE: int(float(undone[1])) if undone else 0}


def may_write(role, kind):
    return role in {WRITES.get(kind, ("label",))[0], "admin"}


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

        def asked(path):
            with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
                connection.request("GET", path, headers={"Authorization": f"Bearer {token_of('admin')}"})
                return connection.getresponse().read()

        (programs.folder / "openapi.json").write_bytes(asked("/openapi.json"))
        for role in roles:
            before = written(programs.folder, asked)
            is_sound = run(role, port, seconds, seed, programs.folder)
            after = written(programs.folder, asked)
            wrote = {kind: after[kind] - before[kind] for kind in after}
            wrong = [kind for kind, n in wrote.items() if (n > 0) != may_write(role, kind)]
            print(f"{role}: {'sound' if is_sound else 'FAILURES'}; written: {wrote}", flush=True)  # noqa: T201
            failed += [] if is_sound else [role]
            failed += [f"{role}: {wrote[kind]} {kind}" for kind in wrong]
    print(f"failed: {failed}")  # noqa: T201
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
