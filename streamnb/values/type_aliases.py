"""Short names of what stands in many signatures: arrays, states, and the weights and times of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
State = tuple[dict[str, Any], dict[str, Array]]
"""All that was learned: JSON-able values, and arrays."""
Aside = Callable[[Iterable[Array]], Any]
"""Makes an array of blocks of rows, of one at least: in memory, or elsewhere, to give slices of rows."""
Weights = Iterable[float] | None
"""Of events, in examples; None: 1 of each."""
Times = Iterable[float | None] | None
"""Of events, in seconds; None: not known."""


def concatenated(blocks: Iterable[Array]) -> Array:
    """An `Aside` for whoever has memory for it."""
    return np.concatenate([*blocks])
