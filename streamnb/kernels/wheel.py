"""``python -m streamnb.kernels.wheel``: compile machine code for the package, for levels of processors.

For wheels and images, whose users then compile nothing. Levels are compiled in parallel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys

from streamnb.kernels.kernel_cache import LEVELS, SHIPPED


def main(arguments: list[str] | None = None) -> int:
    """Compile again for every requested level; return 0, or the first other exit code."""
    parser = argparse.ArgumentParser("python -m streamnb.kernels.wheel", description=__doc__)
    parser.add_argument("--level", action="append", choices=LEVELS, help="of processors (default: all)")
    parser.add_argument("--default", action="store_true", help="only what the default configuration needs")
    options = parser.parse_args(arguments)
    shutil.rmtree(SHIPPED.parent, ignore_errors=True)
    warm = [sys.executable, "-m", "streamnb", "warm", *([] if options.default else ["--all"])]
    processor = {"NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(SHIPPED.parent)}
    running = [
        subprocess.Popen(warm, env=os.environ | processor | {"NUMBA_CPU_NAME": level})
        for level in options.level or LEVELS
    ]
    return next((code for code in [process.wait() for process in running] if code), 0)


if __name__ == "__main__":
    sys.exit(main())
