"""What is learned in a form that can be compared, and as it comes back from a snapshot."""

from __future__ import annotations

from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, decode, encode, part_digest


def bytes_of(model):
    """Every bit of a state."""
    meta, arrays = model.state()
    return meta, {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def digest(model):
    return part_digest(*model.state())


def through_a_snapshot(model):
    """Return the state after it was written and read."""
    whole = Snapshot(
        3, "0" * 64, {("events", 0): 7}, "c", {"numpy": "2"}, {"model": SnapshotPart(*model.state())}
    )
    return decode(encode(whole)).parts["model"]
