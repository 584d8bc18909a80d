"""Statistics of tenants, and the interface of a model that has one model for each tenant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from streamnb.kernels.array_types import Ints
from streamnb.values.type_aliases import Flags


class Tenant(NamedTuple):
    """One tenant: events learned, predictions of these tested, and predictions that were right."""

    name: str
    events: int
    tested: int
    right: int


class TenantLabels(NamedTuple):
    """One tenant, the weights of its heaviest classes in falling order, and the weight of the rest."""

    tenant: Tenant
    labels: dict[Any, float]
    rest: float


class TenantsUse(NamedTuple):
    """Number of tenants with a model, number of active models, and the tenants with the most events."""

    tenants: int
    at_work: int
    top: list[Tenant]


class TenantTable(ABC):
    """Tenants by number, in order of first appearance.

    Attributes:
        changed: by tenant number, if its statistics changed since they were published; bool[n].
    """

    changed: Flags

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of tenants by number."""

    @abstractmethod
    def counted(self) -> Ints:
        """Return int64[n, 3]: events learned, tested, and predicted right by tenant."""

    @abstractmethod
    def tenant_stats(self, numbers: Sequence[int], most: int) -> Iterator[TenantLabels]:
        """Yield statistics of tenants, with at most `most` classes."""


class TenantedModel:
    """A model with a model for each tenant.

    Attributes:
        n_events: number of events learned.
        store: the tenants.
    """

    n_events: int
    store: TenantTable
