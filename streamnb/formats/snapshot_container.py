"""Snapshots as bytes: versioned, checksummed, canonical, and never a pickle.

The layout is specified in docs/snapshot-format.md: a prelude, a JSON header that describes every array, the
arrays' own bytes, and a SHA-256 over all of it. It is canonical: two snapshots of equal values are equal
bytes (floats are equal if their bits are), and whatever decodes encodes to the same bytes again.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from streamnb.errors import SnapshotError, told_as
from streamnb.formats.canonical_json import canonical, refuse_unportable
from streamnb.formats.portable_arrays import (
    BLOCK,
    Dtype,
    array_blocks,
    array_dtype,
    is_ascending,
    may_ascend,
    read_array,
    stored_blocks,
)
from streamnb.values.type_aliases import Array

VERSION = 1

_MAGIC = b"STREAMNB"
_PRELUDE = struct.Struct("<8sIQQ32s")  # magic, version, header length, file length, SHA-256 of the header
_CHECKSUM = 32
_ALIGNMENT = 64
_SEGMENTS = "segments"
_OUT_OF_PLACE = "numbers in ascending order are stored as differences, and only these"
FLOOR = "floor"
"""Key of a part's values: the journal record before which no state may be restored."""
DIGEST = re.compile("[0-9a-f]{64}")
"""The name of a segment."""

_Size = Annotated[int, msgspec.Meta(ge=0)]


class SnapshotPart(NamedTuple):
    """The state of one component.

    Attributes:
        meta: str keys to None, bool, int of 64 bits, finite float, str, and lists and dicts of these, of
            limited depth. The order of keys is not kept.
        arrays: name -> array of bool, int8 ... int64, uint8 ... uint64, float32 or float64, of any shape,
            memory order and byte order.
    """

    meta: Mapping[str, Any]
    arrays: Mapping[str, Array]


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """Everything order-dependent at one position of the journal.

    Attributes:
        journal_n: number of the last journal record applied; -1 before the first.
        digest: the journal's running digest after that record, in hex.
        positions: (topic, partition) -> offset of the next record to read.
        config_hash: hash of the configuration that the state was learned under.
        fingerprint: what the bits of derived floats depend on, such as versions and the CPU.
        parts: the components' states by name.
        segments: SHA-256 in hex -> bytes that belong to the parts and are stored in separate files, which
            snapshots share: `encode` omits them, and `decode` returns none.
    """

    journal_n: int
    digest: str
    positions: Mapping[tuple[str, int], int]
    config_hash: str
    fingerprint: Mapping[str, str]
    parts: Mapping[str, SnapshotPart]
    segments: Mapping[str, bytes] = msgspec.field(default_factory=dict)


class _ArrayEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One array in the header's directory; `offset` counts from the start of the data section."""

    part: str
    name: str
    differences: bool
    dtype: Dtype
    shape: Annotated[list[_Size], msgspec.Meta(max_length=32)]  # the limit of many tools around numpy
    offset: _Size
    length: _Size
    crc32: _Size

    def __str__(self) -> str:
        return f"array {self.name!r} of part {self.part!r}"


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    journal_n: Annotated[int, msgspec.Meta(ge=-1)]
    digest: str
    positions: list[tuple[str, _Size, _Size]]
    config_hash: str
    fingerprint: dict[str, str]
    parts: dict[str, dict[str, Any]]
    arrays: list[_ArrayEntry]


def encode(snapshot: Snapshot) -> bytes:
    """Return the snapshot's canonical bytes.

    Raises:
        SnapshotError: a value that the format cannot represent, with its path.
    """
    return b"".join(encode_chunks(snapshot))


def encode_chunks(snapshot: Snapshot) -> Iterator[bytes]:
    """Return the snapshot's canonical bytes in pieces of about a mebibyte, without a copy of any array.

    Values are checked before this returns. The arrays must not change until the last piece is consumed.

    Raises:
        SnapshotError: a value that the format cannot represent, with its path; during iteration: an array has
            changed since the call.
    """
    arrays: list[tuple[_ArrayEntry, Array]] = []
    offset = 0
    for part in sorted(snapshot.parts):
        for name, array in sorted(snapshot.parts[part].arrays.items()):
            arrays.append((_describe(part, name, array, offset), array))
            offset += _aligned(array.nbytes)
    header = {
        "journal_n": snapshot.journal_n,
        "digest": snapshot.digest,
        "positions": [[*partition, position] for partition, position in sorted(snapshot.positions.items())],
        "config_hash": snapshot.config_hash,
        "fingerprint": dict(snapshot.fingerprint),
        "parts": {name: dict(part.meta) for name, part in snapshot.parts.items()},
        "arrays": [msgspec.structs.asdict(entry) for entry, _ in arrays],
    }
    _validated(header)
    text = canonical(header)
    length = _aligned(_PRELUDE.size + len(text)) + offset + _CHECKSUM
    prelude = _PRELUDE.pack(_MAGIC, VERSION, len(text), length, hashlib.sha256(text).digest())
    return _with_checksum(_pieces(prelude + text, arrays))


def encoded_length(first: bytes) -> int:
    """Return the length of the snapshot whose first piece this is."""
    length: int = _PRELUDE.unpack_from(first)[3]
    return length


def decode(encoded: bytes | bytearray | memoryview) -> Snapshot:
    """Return the snapshot of these bytes; its arrays are copies, writable and in native byte order.

    Raises:
        SnapshotError: the bytes are not a whole snapshot of this version; no input raises anything else.
    """
    return load(io.BytesIO(bytes(encoded)))


def load(file: io.BufferedIOBase) -> Snapshot:
    """Return the snapshot in a seekable file, read straight into its arrays, without a second copy.

    Raises:
        SnapshotError: as `decode`.
        OSError: the file cannot be read.
    """
    size = file.seek(0, io.SEEK_END)
    text = _read_header(file, size)
    _verify_checksum(file, size)
    header = _parse(text)
    _verify_directory(header, size - _CHECKSUM - _aligned(_PRELUDE.size + len(text)))
    file.seek(_PRELUDE.size + len(text))
    _skip_padding(file)
    filled: dict[str, dict[str, Array]] = {name: {} for name in header.parts}
    for entry in header.arrays:
        filled[entry.part][entry.name] = _read(file, entry)
        _skip_padding(file)
    parts = {name: SnapshotPart(meta, filled[name]) for name, meta in header.parts.items()}
    positions = {(topic, number): position for topic, number, position in header.positions}
    return Snapshot(header.journal_n, header.digest, positions, header.config_hash, header.fingerprint, parts)


def segment_names(parts: Mapping[str, SnapshotPart]) -> list[str]:
    """Return the segments that belong to parts, listed in `meta` as ``segments``. Raises SnapshotError."""
    names: list[Any] = []
    for part in parts.values():
        found = part.meta.get(_SEGMENTS, [])
        names += found if isinstance(found, list) else [found]
    for name in names:
        if not isinstance(name, str) or not DIGEST.fullmatch(name):
            raise SnapshotError(f"{name!r} is not the name of a segment")
    return list(dict.fromkeys(names))


def floor_of(parts: Mapping[str, SnapshotPart]) -> int:
    """Return the journal record before which no other snapshot may be kept; -1 if none is named."""
    return max((int(part.meta.get(FLOOR, -1)) for part in parts.values()), default=-1)


def load_parts(file: io.BufferedIOBase) -> dict[str, SnapshotPart]:
    """Return the parts of the snapshot in a seekable file, without their arrays. Raises as `load`."""
    header = _parse(_read_header(file, file.seek(0, io.SEEK_END)))
    return {name: SnapshotPart(meta, {}) for name, meta in header.parts.items()}


def part_digest(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Return the SHA-256, in hex, of one part's values: equal if and only if its canonical bytes are.

    It covers the canonical JSON of the meta and of every array's name, dtype and shape, then the arrays'
    bytes in the order of their names.

    Raises:
        SnapshotError: a value that the format cannot represent, with its path.
    """
    pairs = sorted(arrays.items())
    shapes = [
        {"dtype": array_dtype(array), "name": name, "shape": list(array.shape)} for name, array in pairs
    ]
    described = {"arrays": shapes, "meta": dict(meta)}
    refuse_unportable(described, depth=1)  # as deep as in a header
    digest = hashlib.sha256(canonical(described))
    for _, array in pairs:
        for block in array_blocks(array):
            digest.update(block)
    return digest.hexdigest()


def _aligned(length: int) -> int:
    return length + -length % _ALIGNMENT


def _describe(part: str, name: str, array: Array, offset: int) -> _ArrayEntry:
    with told_as(SnapshotError, f"array {name!r} of part {part!r}", SnapshotError):
        dtype = array_dtype(array)
    crc = 0
    for block in array_blocks(array):
        crc = zlib.crc32(block, crc)
    differences = is_ascending(array)
    return _ArrayEntry(part, name, differences, dtype, list(array.shape), offset, array.nbytes, crc)


def _pieces(head: bytes, arrays: list[tuple[_ArrayEntry, Array]]) -> Iterator[bytes]:
    yield head + bytes(-len(head) % _ALIGNMENT)
    for entry, array in arrays:
        crc = 0
        for block, stored in stored_blocks(array, differences=entry.differences):
            crc = zlib.crc32(block, crc)
            yield stored
        if crc != entry.crc32:
            raise SnapshotError(f"{entry} has changed while it was being written")
        yield bytes(-entry.length % _ALIGNMENT)


def _with_checksum(pieces: Iterator[bytes]) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    yield digest.digest()


def _validated(header: Any) -> _Header:
    refuse_unportable(header)
    with told_as(SnapshotError, "header", msgspec.ValidationError):
        return msgspec.convert(header, _Header)


def _read_header(file: io.BufferedIOBase, size: int) -> bytes:
    # The prelude must agree with the header and with the file's size.
    if size == 0:
        raise SnapshotError("the file is empty: it is damaged, not a snapshot of nothing")
    if size < _PRELUDE.size + _CHECKSUM:
        raise SnapshotError(f"{size} bytes are too short for a snapshot")
    file.seek(0)
    magic, version, length, total, checksum = _PRELUDE.unpack(_take(file, _PRELUDE.size))
    if magic != _MAGIC:
        raise SnapshotError(f"not a snapshot: it starts with {magic!r}, not with {_MAGIC!r}")
    if version != VERSION:
        raise SnapshotError(
            f"its format is version {version}, this program reads version {VERSION}: "
            "pip install --upgrade streamnb"
        )
    if length > size - _PRELUDE.size - _CHECKSUM:
        raise SnapshotError(f"a header of {length} bytes does not fit into {size} bytes")
    if total != size:
        fault = "it is cut off" if total > size else "bytes trail behind it"
        raise SnapshotError(f"{fault}: its prelude states {total} bytes, there are {size}")
    text = _take(file, length)
    if hashlib.sha256(text).digest() != checksum:
        raise SnapshotError("the header does not match its checksum")
    return text


def _verify_checksum(file: io.BufferedIOBase, size: int) -> None:
    digest = hashlib.sha256()
    file.seek(0)
    for start in range(0, size - _CHECKSUM, BLOCK):
        digest.update(_take(file, min(BLOCK, size - _CHECKSUM - start)))
    if _take(file, _CHECKSUM) != digest.digest():
        raise SnapshotError("the contents do not match their checksum")


def _parse(text: bytes) -> _Header:
    with told_as(SnapshotError, "the header is not JSON", ValueError, RecursionError):
        plain = json.loads(text.decode())
    header = _validated(plain)
    if canonical(plain) != text:  # a duplicate key, a number in another form, whitespace
        raise SnapshotError("the header is not in canonical form")
    return header


def _verify_directory(header: _Header, n_bytes: int) -> None:
    """Check that arrays have the sizes of their shapes, adjoin, and fill the data section."""
    _refuse_disorder("positions", [(topic, number) for topic, number, _ in header.positions])
    _refuse_disorder("arrays", [(entry.part, entry.name) for entry in header.arrays])
    end = 0
    for entry in header.arrays:
        if entry.part not in header.parts:
            raise SnapshotError(f"{entry} belongs to no part")
        itemsize = np.dtype(entry.dtype).itemsize
        # numpy rejects a shape whose other dimensions overflow, even if one of them is 0.
        if itemsize * math.prod(filter(None, entry.shape)) >= 2**63:
            raise SnapshotError(f"{entry}: no array has the shape {entry.shape}")
        if entry.length != itemsize * math.prod(entry.shape):
            raise SnapshotError(f"{entry}: {entry.length} bytes are not {entry.dtype} of shape {entry.shape}")
        if entry.offset != end:
            fault = "overlaps what comes before it" if entry.offset < end else "leaves a gap before it"
            raise SnapshotError(f"{entry} {fault}: it starts at {entry.offset}, not at {end}")
        end += _aligned(entry.length)
        if end > n_bytes:
            raise SnapshotError(f"{entry} reaches beyond the data: to {end} of {n_bytes}")
    if end != n_bytes:
        raise SnapshotError(f"{n_bytes - end} bytes trail behind the last array")


def _refuse_disorder(title: str, keys: list[Any]) -> None:
    for before, after in pairwise(keys):
        if before == after:
            raise SnapshotError(f"{title}: {after} is named twice")
        if before > after:
            raise SnapshotError(f"{title}: {after} comes after {before}")


def _read(file: io.BufferedIOBase, entry: _ArrayEntry) -> Array:
    with told_as(SnapshotError, entry, SnapshotError):
        if entry.differences and not may_ascend(entry.dtype, len(entry.shape)):
            raise SnapshotError(_OUT_OF_PLACE)
        array, crc = read_array(file, entry.dtype, entry.shape, differences=entry.differences)
    if crc != entry.crc32:
        raise SnapshotError(f"{entry} does not match its checksum")
    if is_ascending(array) != entry.differences:
        raise SnapshotError(f"{entry}: {_OUT_OF_PLACE}")
    return array


def _skip_padding(file: io.BufferedIOBase) -> None:
    if any(_take(file, -file.tell() % _ALIGNMENT)):
        raise SnapshotError("the padding is not zero")


def _take(file: io.BufferedIOBase, length: int) -> bytes:
    taken = file.read(length)
    if len(taken) != length:
        raise SnapshotError("it is cut off: it ends before its contents do")
    return taken
