"""Short names of types in many signatures: arrays, states, and the weights and times of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]
State = tuple[dict[str, Any], dict[str, Array]]
"""A learned state: values that JSON can hold, and arrays."""
Aside = Callable[[Iterable[Array]], Any]
"""Makes one array of at least one block of rows, in memory or elsewhere; it can be sliced by rows."""
Weights = Iterable[float] | None
"""Weights of events, in examples; None is 1 each."""
Times = Iterable[float | None] | None
"""Times of events, in seconds; None is unknown."""


def concatenated(blocks: Iterable[Array]) -> Array:
    """Return the blocks as one array in memory, an `Aside`."""
    return np.concatenate([*blocks])
