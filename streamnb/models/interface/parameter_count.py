"""The number of free parameters of models whose parameters can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class ReadableParameters(Protocol):
    """Parameters of a model, at one moment."""

    @property
    def n_free(self) -> Mapping[Any, int]:
        """Number of free parameters of each distribution."""


class ParameterCount:
    """The count of what `parameters` of a class has."""

    def parameters(self) -> ReadableParameters:
        """Return all parameters."""
        raise NotImplementedError

    @property
    def n_parameters(self) -> int:
        """Number of free parameters; `parameters().n_free` has the number of each distribution."""
        return sum(self.parameters().n_free.values())
