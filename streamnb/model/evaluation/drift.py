"""Drift: River's detectors watch whether predictions are right, and what they know is kept as plain bits.

After each labelled event that was predicted, every detector is told one bit: 1 where the prediction was
wrong, 0 where it was right. A detector reports a drift when the recent bits do not look like those before.

Detectors of River cannot be written into a snapshot: ADWIN's windows live in Rust, out of reach. So the state
of a detector is what it has been told since it began, one bit an observation, and to restore it is to tell a
new one the same. Two rules keep that exact and bounded:

* A detector begins anew at the drift that it reports. River's own does so too, at the observation after it,
  so that nothing from before counts any more: the reports are those of a River detector left to itself.
* After `HORIZON` observations without a drift it begins anew and is told the newer half again. What it finds
  meanwhile is no news, and is not reported. From there on it may differ from River's, which forgets in
  other ways or never: DDM's lowest error rate, for one, is then that of the newer half.

FHDDM alone is told the opposite bit. It reports that the mean of its bits has fallen below the highest mean
so far, and its authors feed it 1 where the prediction was right; told errors, as River's page has it, it
would report nothing but improvements. ADWIN and Page-Hinkley look both ways: they report a rate of errors
that falls, too.

KSWIN is left out: it compares distributions of real numbers (Kolmogorov-Smirnov), and zeros and ones have
none beyond their mean; it draws random samples besides.

References: Bifet and Gavalda (2007), SDM (ADWIN); Page (1954), Biometrika 41; Gama et al. (2004), SBIA (DDM);
Baena-Garcia et al. (2006), StreamKDD (EDDM); Frias-Blanco et al. (2015), TKDE 27(3) (HDDM);
Pesaranghader and Viktor (2016), ECML PKDD (FHDDM).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.events import DETECTORS
from streamnb.model.attributes.signatures import Array

HORIZON = 65_536
"""A detector never rests on this many observations: at that number it forgets the older half."""

RECENT = 100
"""The most observations that the recent rate of errors is taken over."""

_TOLD_WHAT_IS_RIGHT = frozenset({"fhddm"})


class Detection(NamedTuple):
    """What one detector has found.

    Attributes:
        detector: its name.
        observations: predictions that it rests on, from where it last began; the one just told included.
        error_rate: share of those that were wrong.
        recent_error_rate: share of the last `RECENT` of those, or of all where there are fewer.
    """

    detector: str
    observations: int
    error_rate: float
    recent_error_rate: float


class _Detector:
    """One of River's detectors with the default parameters, and what it was told since it began (0 and 1)."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._flip = int(name in _TOLD_WHAT_IS_RIGHT)
        self._begin()

    def _begin(self) -> None:
        self._river = _new(self._name)
        self.told = bytearray()

    def observe(self, wrong: int) -> Detection | None:
        """Tell it one observation; what it finds."""
        self.told.append(wrong)
        self._river.update(wrong ^ self._flip)
        if self._river.drift_detected:
            found = self._describe()
            self._begin()
            return found
        if len(self.told) == HORIZON:
            newer = self.told[HORIZON // 2 :]
            self._begin()
            self.tell(newer)
        return None

    def tell(self, observations: bytes | bytearray) -> None:
        """Tell it what it need not report."""
        for wrong in observations:
            self.observe(wrong)

    def _describe(self) -> Detection:
        told, recent = self.told, self.told[-RECENT:]
        return Detection(self._name, len(told), told.count(1) / len(told), recent.count(1) / len(recent))


class DriftDetectors:
    """Detectors that are all told the same.

    Args:
        names: some of `DETECTORS`.

    Raises:
        ValueError: another name.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        unknown = [name for name in names if name not in DETECTORS]
        if unknown:
            raise ValueError(f"there is no detector {unknown[0]!r}; there are {', '.join(DETECTORS)}")
        self._detectors = {name: _Detector(name) for name in DETECTORS if name in names}

    @property
    def names(self) -> tuple[str, ...]:
        """Who watches, in the order of `DETECTORS`."""
        return tuple(self._detectors)

    def observe(self, wrong: int) -> Iterator[Detection]:
        """Tell all of them 1 for a wrong prediction or 0; what they find, in the order of `names`."""
        found = [detector.observe(wrong) for detector in self._detectors.values()]
        return (detection for detection in found if detection is not None)

    def choose(self, names: Collection[str]) -> None:
        """Let these watch from now on: who watched goes on, the others begin, all else is forgotten."""
        chosen = DriftDetectors(names)
        self._detectors = {name: self._detectors.get(name, new) for name, new in chosen._detectors.items()}

    def state(self) -> tuple[dict[str, object], dict[str, Array]]:
        """Everything, as JSON-able values and copied arrays; equal streams give equal bytes.

        What each was told is packed, eight bits a byte, the oldest in the highest bit of the first byte.
        """
        told: dict[str, bytearray] = {name: found.told for name, found in self._detectors.items()}
        observations = {name: len(bits) for name, bits in told.items()}
        arrays = {name: np.packbits(np.frombuffer(bits, np.uint8)) for name, bits in told.items()}
        return {"observations": observations}, arrays

    @classmethod
    def from_state(cls, meta: Mapping[str, object], arrays: Mapping[str, Array]) -> DriftDetectors:
        """The object that `state` described; it goes on as if it had never stopped.

        Raises:
            SnapshotError: if the parts are missing or do not fit together.
        """
        observations = meta.get("observations")
        if not isinstance(observations, Mapping) or observations.keys() != arrays.keys():
            raise SnapshotError(f"detectors and what they were told do not fit: {[*arrays]}")
        try:
            detectors = cls(observations.keys())
        except ValueError as error:
            raise SnapshotError(str(error)) from error
        for name, detector in detectors._detectors.items():
            detector.tell(_unpacked(name, observations[name], arrays[name]))
        return detectors


def _unpacked(name: str, count: object, packed: Array) -> bytes:
    """`count` zeros and ones out of bytes that hold just these."""
    if type(count) is not int or not 0 <= count < HORIZON:
        raise SnapshotError(f"{name} cannot have been told {count!r} observations")
    if packed.dtype != np.uint8 or packed.shape != ((count + 7) // 8,):
        raise SnapshotError(f"{name} was told {count} observations, found {packed.dtype}{packed.shape}")
    bits = np.unpackbits(packed)
    if bits[count:].any():
        raise SnapshotError(f"{name} was told {count} observations, and there is something behind them")
    return bits[:count].tobytes()


def _new(name: str) -> Any:
    """A detector of River's that has been told nothing yet."""
    from river import drift  # noqa: PLC0415  takes a second, and only who watches for drift needs it

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
