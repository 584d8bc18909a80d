"""What all tests share: hypothesis without deadlines (no test asserts a time), and the real streams."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# The kernel cache knows only the file that a kernel stands in, not those it calls into: after an edit there
# it would go on with old machine code. So every state of the sources has a cache of its own.
SOURCES = hashlib.sha256(
    b"".join(path.read_bytes() for path in sorted((ROOT / "streamnb").rglob("model/*.py")))
)
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".pytest_cache" / "kernels" / SOURCES.hexdigest()[:16]))

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

STREAMS = Path(os.environ.get("STREAMNB_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def streams():
    """The folder of real labelled streams; tests that need them are skipped where it is absent."""
    if not STREAMS.is_dir():
        pytest.skip(f"no labelled streams at {STREAMS} (set STREAMNB_DATA)")
    return STREAMS


@pytest.fixture(params=["sqlite"])
def open_log(request, tmp_path):
    """Open the log of this test, once more each time; topics are made where they are given."""
    from streamnb.adapters.sqlite_log import SqliteLog

    opened = []

    def opener(**topics):
        log = SqliteLog(tmp_path / "log.db", session_timeout=5.0)
        opened.append(log)
        for name, partitions in topics.items():
            log.create_topic(name.replace("_", "-"), partitions)
        return log

    assert request.param == "sqlite"
    yield opener
    for log in opened:
        log.close()
