"""Numbers for the names of what tests make on a broker: workers of one run share it, and no two have the same number."""

from __future__ import annotations

import os
from itertools import count

NUMBERS = count(1_000_000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")))
