"""An archive of the classes of the broker, as Java has them in memory: with it a start takes a third less of a processor.

It is kept beside the jars, one for each Java. A run of the tests makes it where there is none; Java passes one that
does not suit it over.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from tests.brokers.jars import CannotStartError, ToolMissingError, libraries, locked


def arguments():
    """What Java is told, to begin with the archive; nothing where there is none."""
    kept = place()
    return (f"-XX:SharedArchiveFile={kept}", "-Xshare:auto") if kept.exists() and kept.stat().st_size else ()


def prepare():
    """Make it, once: a broker is started, and writes it as it ends. One that cannot be made is left empty.

    Raises:
        ToolMissingError: this machine has no broker.
    """
    kept = place()
    if kept.exists():
        return
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            _make(kept)


def place():
    """By the class path, and by the Java that is found now."""
    folder = Path(libraries()).parent
    java = Path(os.path.realpath(shutil.which("java")))
    which = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return folder.with_name(f"{folder.name}-{which}.jsa")


def _make(kept):
    from tests.brokers.cluster import Cluster

    with tempfile.TemporaryDirectory(prefix="partial-", dir=kept.parent) as folder:
        made = Path(folder) / kept.name
        try:
            Cluster(Path(folder) / "broker", java=(f"-XX:ArchiveClassesAtExit={made}",)).start().stop()
        except ToolMissingError:
            raise
        except CannotStartError:
            pass  # the test that wants a broker says why
        made.touch()
        made.rename(kept)
