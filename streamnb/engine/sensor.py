"""Observer interface of the worker; a sensor does not change the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.counters import Counters
from streamnb.events import MetricsReport
from streamnb.statistics.memory_budget import MemoryUse

if TYPE_CHECKING:  # observers need no model, which is slow to import
    from streamnb.models.interface.tenant_usage import TenantsUse

MOST_TENANTS = 20
"""Maximum number of tenants reported in detail."""


class WorkerState(StrEnum):
    """State of a worker."""

    STARTING = "starting"
    """Connecting to the log."""
    STANDBY = "standby"
    """Another learner is alive."""
    RECOVERING = "recovering"
    """Elected; replaying the journal."""
    RUNNING = "running"
    """Learning."""
    WAITING = "waiting"
    """The log cannot be reached."""
    STOPPED = "stopped"
    """Finished or failed."""


@dataclass(frozen=True)
class Committed:
    """Effects of one commit, once it is visible to readers.

    Attributes:
        n: number of its journal record.
        consumed: records of every sort.
        tally: counts of learned, published and rejected records.
        seconds: duration of the commit.
        at: when it became visible, seconds since the epoch.
        latencies: of each record, seconds from its timestamp in the log to `at`.
        records: the consumed records.
    """

    n: int
    consumed: int
    tally: Counters
    seconds: float
    at: float
    latencies: Sequence[float]
    records: Sequence[Record] = ()


class Sensor:
    """Observer whose methods do nothing; subclasses override them.

    The worker's thread calls it between two steps of its loop; a sensor must return soon and not raise.
    """

    def entered(self, state: WorkerState) -> None:
        """The worker entered a state."""

    def heartbeat(self) -> None:
        """The loop is alive; called at least every few seconds in every state but STOPPED."""

    def recovered(self, seconds: float, events: int) -> None:
        """Recovery took `seconds`; the model has consumed `events` records."""

    def committed(self, commit: Committed) -> None:
        """A commit was made; its report, if any, came first with `reported`."""

    def reported(self, report: MetricsReport) -> None:
        """A report was published; `committed` of its commit follows."""

    def observed(self, lag: Mapping[Partition, int], model_bytes: int) -> None:
        """About once a second: lag of each partition in records, and memory of the model."""

    def remembered(self, memory: MemoryUse) -> None:
        """About once a second: use of a memory budget, and evictions."""

    def shared_out(self, use: TenantsUse) -> None:
        """About once a second, with a model for each tenant: their number, details of the largest."""

    def followed(self, behind: int) -> None:
        """About once a second: maximum lag of a replica in journal records."""

    def saved(self, seconds: float, size: int) -> None:
        """A snapshot of `size` bytes was saved in `seconds`."""

    def unsaved(self, reason: str) -> None:
        """A due snapshot could not be saved; the next is tried when due."""

    def noted(self, text: str) -> None:
        """A message for the operator, of no other kind."""


SILENT = Sensor()


class Sensors(Sensor):
    """Sensor that forwards each call to several sensors, in order."""

    def __init__(self, *sensors: Sensor) -> None:
        self._sensors = sensors


def _passed_on(name: str) -> Callable[..., None]:
    def tell(self: Sensors, *told: object) -> None:
        for sensor in self._sensors:
            getattr(sensor, name)(*told)

    return tell


for _name in [name for name in vars(Sensor) if not name.startswith("_")]:
    setattr(Sensors, _name, _passed_on(_name))
