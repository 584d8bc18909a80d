"""``python -m streamnb.kernels.wheel``: compile machine code for the package, for levels of processors.

For wheels and images, whose users then compile nothing. Levels are compiled in parallel. With `--from`, copy
the code out of wheels instead.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from streamnb.kernels.kernel_cache import LEVELS, SHIPPED, own_folder


def main(arguments: list[str] | None = None) -> int:
    """Compile again for every requested level, or copy; return 0, or the first other exit code."""
    parser = argparse.ArgumentParser("python -m streamnb.kernels.wheel", description=__doc__)
    parser.add_argument("--level", action="append", choices=LEVELS, help="of processors (default: all)")
    parser.add_argument("--default", action="store_true", help="only what the default configuration needs")
    text = "compile nothing: copy the machine code of the wheels in a folder to the cache of this machine"
    parser.add_argument("--from", metavar="FOLDER", dest="source", type=Path, help=text)
    options = parser.parse_args(arguments)
    if options.source is not None:
        if copied := copy_code(options.source):
            sys.stderr.write(f"{copied:,} kernels copied from the wheels in {options.source}\n")
        return 0
    shutil.rmtree(SHIPPED.parent, ignore_errors=True)
    warm = [sys.executable, "-m", "streamnb", "warm", *([] if options.default else ["--all"])]
    processor = {"NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(SHIPPED.parent)}
    running = [
        subprocess.Popen(warm, env=os.environ | processor | {"NUMBA_CPU_NAME": level})
        for level in options.level or LEVELS
    ]
    return next((code for code in [process.wait() for process in running] if code), 0)


def copy_code(source: Path) -> int:
    """Copy machine code from the wheels in a folder to this machine's cache; return the number of files.

    Names are digests of all that the code depends on, so code of other sources is never found. Wheels without
    code, and a missing folder, have nothing to copy.
    """
    cache, copied = own_folder(), 0
    if cache is None:
        return 0
    for path in sorted(source.glob("streamnb-*.whl")):
        with zipfile.ZipFile(path) as wheel:
            for member in wheel.infolist():
                folder, _, name = member.filename.rpartition("/")
                if folder == SHIPPED.relative_to(SHIPPED.parents[3]).as_posix() and name:
                    final = cache / name
                    if not final.exists():
                        final.write_bytes(wheel.read(member))
                        copied += 1
    return copied


if __name__ == "__main__":
    sys.exit(main())
