"""A random order of the rows of a file that need not fit into memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile

import numpy as np

from streamnb.evaluation.holdout import Row
from streamnb.statistics.counter_rng import uniforms


def shuffled(events: Iterable[bytes], seed: int) -> Iterator[Row]:
    """Yield all rows in a random order that depends on their number and on the seed alone.

    The rows pass through a temporary file, in the folder that `TMPDIR` names. Memory holds 16 bytes for each
    row, its position in that file and its place in the order, and 8 more while the order is drawn.
    """
    ends = array("q", [0])
    with TemporaryFile() as file:
        for raw in events:
            ends.append(ends[-1] + file.write(raw))
        file.flush()
        for number in map(int, np.argsort(uniforms(seed, 0, len(ends) - 1), kind="stable")):
            file.seek(ends[number])
            yield number, file.read(ends[number + 1] - ends[number])
