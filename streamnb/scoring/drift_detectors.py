"""Drift detection with River's detectors on whether predictions are right, with replayable state.

After each labelled event that was predicted, every detector receives one bit: 1 if the prediction was wrong,
0 if it was right. A detector reports a drift if the recent bits do not look like the earlier ones.

Detectors of River cannot be written into a snapshot: ADWIN's windows live in Rust, out of reach. So the state
of a detector is the bits it has received since it began, one per observation, and a restored detector replays
them.

* A detector restarts at the drift that it reports. River's own detectors do so, too, at the next observation:
  the reports are those of a River detector left to itself.
* After `HORIZON` observations without a drift it restarts and receives the newer half again. Drifts found
  during this replay are not reported. From there on it may differ from River's, which forgets differently or
  never: DDM's lowest error rate, for example, then belongs to the newer half.

FHDDM alone receives the opposite bit. It reports that the mean of its bits has fallen below the highest mean
so far, and its authors feed it 1 for a right prediction; with errors, as on River's page, it would report
nothing but improvements. ADWIN and Page-Hinkley look both ways: they report a rate of errors that falls, too.

KSWIN is left out: it compares distributions of real numbers (Kolmogorov-Smirnov), and zeros and ones differ
only in their mean; also, it draws random samples.

References: Bifet and Gavalda (2007), SDM (ADWIN); Page (1954), Biometrika 41; Gama et al. (2004), SBIA (DDM);
Baena-Garcia et al. (2006), StreamKDD (EDDM); Frias-Blanco et al. (2015), TKDE 27(3) (HDDM); Pesaranghader and
Viktor (2016), ECML PKDD (FHDDM).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.events import DETECTORS
from streamnb.values.type_aliases import Array

HORIZON = 65_536
"""Maximum number of observations: at that number a detector forgets the older half."""

RECENT = 100
"""Maximum number of observations in the recent error rate."""

_TOLD_WHAT_IS_RIGHT = frozenset({"fhddm"})


class Detection(NamedTuple):
    """A drift found by one detector.

    Attributes:
        detector: its name.
        observations: predictions since it last began, including the current one.
        error_rate: share of the wrong ones.
        recent_error_rate: the same over the last `RECENT` of these, or over all if there are fewer.
    """

    detector: str
    observations: int
    error_rate: float
    recent_error_rate: float


class _Detector:
    """A detector of River's with the default parameters, and the bits it received since it began."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._flip = int(name in _TOLD_WHAT_IS_RIGHT)
        self._begin()

    def _begin(self) -> None:
        self._river = _new(self._name)
        self.told = bytearray()

    def observe(self, wrong: int) -> Detection | None:
        """Add one observation; return a drift if found."""
        self.told.append(wrong)
        self._river.update(wrong ^ self._flip)
        if self._river.drift_detected:
            found = self._describe()
            self._begin()
            return found
        if len(self.told) == HORIZON:
            newer = self.told[HORIZON // 2 :]
            self._begin()
            self.describe(newer)
        return None

    def describe(self, observations: bytes | bytearray) -> None:
        """Replay observations without reports."""
        for wrong in observations:
            self.observe(wrong)

    def _describe(self) -> Detection:
        told, recent = self.told, self.told[-RECENT:]
        return Detection(self._name, len(told), told.count(1) / len(told), recent.count(1) / len(recent))


class DriftDetectors:
    """Detectors (of `DETECTORS`) that all receive the same bits. Raises ValueError for an unknown name."""

    def __init__(self, names: Collection[str] = ()) -> None:
        unknown = [name for name in names if name not in DETECTORS]
        if unknown:
            raise ValueError(f"unknown detector {unknown[0]!r}; expected some of {', '.join(DETECTORS)}")
        self._detectors = {name: _Detector(name) for name in DETECTORS if name in names}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the detectors, in the order of `DETECTORS`."""
        return tuple(self._detectors)

    def observe(self, wrong: int) -> Iterator[Detection]:
        """Add 1 for a wrong prediction or 0 to all detectors; yield their drifts, in the order of `names`."""
        found = [detector.observe(wrong) for detector in self._detectors.values()]
        return (detection for detection in found if detection is not None)

    def choose(self, names: Collection[str]) -> None:
        """Select the detectors: current ones continue, new ones start, all others are dropped."""
        chosen = DriftDetectors(names)
        self._detectors = {name: self._detectors.get(name, new) for name, new in chosen._detectors.items()}

    def state(self) -> tuple[dict[str, object], dict[str, Array]]:
        """Return everything as JSON-able values and copied arrays; equal streams give equal bytes.

        The bits of each detector are packed eight to a byte, the oldest in the highest bit of the first byte.
        """
        told: dict[str, bytearray] = {name: found.told for name, found in self._detectors.items()}
        observations = {name: len(bits) for name, bits in told.items()}
        arrays = {name: np.packbits(np.frombuffer(bits, np.uint8)) for name, bits in told.items()}
        return {"observations": observations}, arrays

    @classmethod
    def from_state(cls, meta: Mapping[str, object], arrays: Mapping[str, Array]) -> DriftDetectors:
        """Return the object of a `state`, which continues identically. Raises SnapshotError."""
        observations = meta.get("observations")
        if not isinstance(observations, Mapping) or observations.keys() != arrays.keys():
            raise SnapshotError(f"detectors and their observations do not fit: {[*arrays]}")
        try:
            detectors = cls(observations.keys())
        except ValueError as error:
            raise SnapshotError(str(error)) from error
        for name, detector in detectors._detectors.items():
            detector.describe(_unpacked(name, observations[name], arrays[name]))
        return detectors


def _unpacked(name: str, count: object, packed: Array) -> bytes:
    """Unpack exactly `count` zeros and ones."""
    if type(count) is not int or not 0 <= count < HORIZON:
        raise SnapshotError(f"{name} cannot have {count!r} observations")
    if packed.dtype != np.uint8 or packed.shape != ((count + 7) // 8,):
        raise SnapshotError(f"{name} has {count} observations, but found {packed.dtype}{packed.shape}")
    bits = np.unpackbits(packed)
    if bits[count:].any():
        raise SnapshotError(f"{name} has {count} observations, and there is something behind them")
    return bits[:count].tobytes()


def _new(name: str) -> Any:
    from river import drift  # noqa: PLC0415  takes a second, and only drift detection needs it

    classes = {
        "adwin": drift.ADWIN,
        "page_hinkley": drift.PageHinkley,
        "ddm": drift.binary.DDM,
        "eddm": drift.binary.EDDM,
        "hddm_a": drift.binary.HDDMA,
        "hddm_w": drift.binary.HDDMW,
        "fhddm": drift.binary.FHDDM,
    }
    return classes[name]()
