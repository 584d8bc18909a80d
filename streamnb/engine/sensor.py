"""What the worker tells whoever watches it. A sensor observes: what it does changes nothing of the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.counters import Counters
from streamnb.events import MetricsReport
from streamnb.statistics.memory_use import MemoryUse

if TYPE_CHECKING:  # whoever watches needs no model, which takes longest to import
    from streamnb.models.tenants.tenant_models import TenantsUse

MOST_TENANTS = 20
"""Of so many at most more is told."""


class WorkerState(StrEnum):
    """What a worker is doing."""

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
    """Done, for whatever reason."""


@dataclass(frozen=True)
class Committed:
    """What one commit did, once it is visible to readers.

    Attributes:
        n: number of its journal record.
        consumed: records of every sort.
        tally: what was learned, published and refused.
        seconds: how long the log took to commit.
        at: when it was visible, seconds since the epoch.
        latencies: of each record, seconds from its timestamp in the log to `at`.
        records: what was consumed.
    """

    n: int
    consumed: int
    tally: Counters
    seconds: float
    at: float
    latencies: Sequence[float]
    records: Sequence[Record] = ()


class Sensor:
    """Hears everything and does nothing: sensors override what they want to hear.

    Called from the worker's thread, between two steps of its loop; a sensor returns soon and does not raise.
    """

    def entered(self, state: WorkerState) -> None:
        """The worker is in this state from now on."""

    def heartbeat(self) -> None:
        """The loop turns; said at least every few seconds in every state but STOPPED."""

    def recovered(self, seconds: float, events: int) -> None:
        """Recovery took `seconds`; the model then knew `events` consumed records."""

    def committed(self, commit: Committed) -> None:
        """A commit has been made; `reported` was told before, where it held a report."""

    def reported(self, report: MetricsReport) -> None:
        """A report was published, with the commit of which `committed` is told next."""

    def observed(self, lag: Mapping[Partition, int], model_bytes: int) -> None:
        """About once a second: records that wait in each partition, and the memory that the model holds."""

    def remembered(self, memory: MemoryUse) -> None:
        """About once a second: what is taken of a budget of memory, and what was forgotten for it."""

    def shared_out(self, use: TenantsUse) -> None:
        """About once a second, where tenants have models of their own: how many, and of the largest more."""

    def followed(self, behind: int) -> None:
        """About once a second: how many journal records a replica is behind its learner, at most."""

    def saved(self, seconds: float, size: int) -> None:
        """A snapshot of `size` bytes was kept, within `seconds`."""

    def unsaved(self, reason: str) -> None:
        """A snapshot that was due could not be kept; it will be tried again when the next is due."""

    def noted(self, text: str) -> None:
        """Something that people should know has happened, of no other kind."""


SILENT = Sensor()


class Sensors(Sensor):
    """Tells several sensors, in order, all that a sensor hears."""

    def __init__(self, *sensors: Sensor) -> None:
        self._sensors = sensors


def _passed_on(name: str) -> Callable[..., None]:
    def tell(self: Sensors, *told: object) -> None:
        for sensor in self._sensors:
            getattr(sensor, name)(*told)

    return tell


for _name in [name for name in vars(Sensor) if not name.startswith("_")]:
    setattr(Sensors, _name, _passed_on(_name))
