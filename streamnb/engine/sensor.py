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
from streamnb.values.messages import Message

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
        polled_at, processed_at: when reading and processing of the records began, seconds since the epoch.
    """

    n: int
    consumed: int
    tally: Counters
    seconds: float
    at: float
    latencies: Sequence[float]
    records: Sequence[Record] = ()
    polled_at: float = 0.0
    processed_at: float = 0.0


class Sensor:
    """Observer whose methods do nothing; subclasses override them.

    The worker's thread calls it between two steps of its loop; a sensor must return soon and not raise.
    """

    def entered(self, state: WorkerState) -> None:
        """Observe that the worker entered a state."""

    def heartbeat(self) -> None:
        """Observe that the loop is alive: at least every few seconds in every state but STOPPED."""

    def recovered(self, seconds: float, events: int) -> None:
        """Observe that recovery took `seconds`; the model has consumed `events` records."""

    def committed(self, commit: Committed) -> None:
        """Observe a commit; its report, if any, came first with `reported`."""

    def reported(self, report: MetricsReport) -> None:
        """Observe a published report; `committed` of its commit follows."""

    def observed(self, lag: Mapping[Partition, int], model_bytes: int) -> None:
        """Observe, about once a second, the lag of each partition in records, and the memory of the model."""

    def remembered(self, memory: MemoryUse) -> None:
        """Observe, about once a second, the use of a memory budget, and evictions."""

    def shared_out(self, use: TenantsUse) -> None:
        """Observe, about once a second, the number of tenant models, and details of the largest."""

    def recoverable(self, seconds: float, retention: float) -> None:
        """Observe, about twice a minute, how long the log keeps what a recovery needs, and its retention.

        `seconds` is 0 if a record is lost already; both are infinite if nothing is deleted by time.
        """

    def missed(self, n: int) -> None:
        """Observe that `n` passed offsets had no record, and that no transaction explains it."""

    def followed(self, behind: int) -> None:
        """Observe, about once a second, the maximum lag of a replica in journal records."""

    def stood_by(self, behind: int | None, record: int) -> None:
        """Observe, about once a second, a standby's lag in journal records, and the last one that it learned.

        The lag is None if the standby cannot take over.
        """

    def configured(self, config_hash: str) -> None:
        """Observe the hash of the semantic configuration under which this process learns or would learn."""

    def saved(self, seconds: float, size: int) -> None:
        """Observe that a snapshot of `size` bytes was saved in `seconds`."""

    def unsaved(self, reason: str) -> None:
        """Observe that a due snapshot could not be saved; the next is tried when due."""

    def noted(self, message: Message) -> None:
        """Observe a message for the operator that no other method reports."""


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
