"""The compressed file of a snapshot: its content from any position on, and no other file."""

from __future__ import annotations

import io

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import SnapshotError
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, encode, encode_chunks
from streamnb.persistence.compressed_files import MAGIC, DecompressedContent, compressed
from streamnb.persistence.snapshot_folder import SnapshotFolder
from tests.support.service import snapshot_content

RNG = np.random.default_rng(3)
ARRAYS = {
    "counts": RNG.integers(0, 3, (40_000, 20)) * 1024,
    "weights": np.repeat(RNG.random((200, 20)).astype(np.float32), 100, 0),
}
SMALL = Snapshot(1, "00", {("events", 0): 3}, "c", {}, {"model": SnapshotPart({"a": 1}, {"x": np.arange(9)})})
LARGE = Snapshot(1, "00", {("events", 0): 3}, "c", {}, {"model": SnapshotPart({"a": 1}, ARRAYS)})
SIZE = len(encode(LARGE))
FILE = b"".join(compressed(encode_chunks(LARGE)))


def content(file):
    return DecompressedContent(io.BufferedReader(io.BytesIO(file)))


def test_a_state_that_repeats_itself_takes_a_fraction_of_its_bytes(tmp_path):
    path = SnapshotFolder(tmp_path).save(LARGE)
    assert path.read_bytes() == FILE
    assert FILE.startswith(MAGIC)
    assert zstandard.frame_content_size(FILE) == SIZE
    assert len(FILE) < SIZE / 5
    assert snapshot_content(path) == encode(LARGE)


@given(st.lists(st.tuples(st.integers(0, SIZE + 100), st.integers(0, 1 << 18)), max_size=5))
def test_it_is_read_from_any_position_on(places):
    """Forward or backward, as a file of the content itself."""
    found, expected = content(FILE), io.BytesIO(encode(LARGE))
    assert found.seek(0, io.SEEK_END) == SIZE
    for at, length in places:
        found.seek(at)
        expected.seek(at)
        assert found.read(length) == expected.read(length)
        assert found.tell() == expected.tell()


def outcome(folder):
    """The bytes of the snapshot, or None if it is refused."""
    try:
        return encode(folder.load(1))
    except SnapshotError:
        return None


def test_a_damaged_file_is_refused_or_has_the_same_content(tmp_path):
    """Whatever bit is flipped, and wherever it is cut off; anything but SnapshotError would stop a learner."""
    folder = SnapshotFolder(tmp_path)
    path = folder.save(SMALL)
    whole, value = path.read_bytes(), encode(SMALL)
    refused = 0
    for i in range(len(whole)):
        for bit in (1, 16, 128):
            path.write_bytes(whole[:i] + bytes([whole[i] ^ bit]) + whole[i + 1 :])
            found = outcome(folder)
            assert found in {None, value}
            refused += found is None
        path.write_bytes(whole[:i])
        assert outcome(folder) is None
    assert refused > 2.9 * len(whole)
    path.write_bytes(whole)
    assert outcome(folder) == value


@pytest.mark.parametrize("tail", [b"\0", b"trailing", FILE])
def test_bytes_behind_the_content_are_refused(tmp_path, tail):
    folder = SnapshotFolder(tmp_path)
    path = folder.save(LARGE)
    path.write_bytes(path.read_bytes() + tail)
    with pytest.raises(SnapshotError, match=r"trail behind|content is damaged"):
        folder.load(1)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (
            zstandard.ZstdCompressor(write_content_size=False).compress(encode(SMALL)),
            "does not state the size",
        ),
        (MAGIC, "beginning is damaged"),
        (zstandard.compress(bytes(10_000)), "not a snapshot"),
        (zstandard.compress(b""), "the file is empty"),
        (zstandard.compress(encode(SMALL)[:-1]), "it is cut off"),
    ],
)
def test_another_frame_is_refused(tmp_path, frame, reason):
    folder = SnapshotFolder(tmp_path)
    folder.save(SMALL).write_bytes(frame)
    with pytest.raises(SnapshotError, match=reason):
        folder.load(1)


def test_a_file_that_is_not_compressed_is_read_too(tmp_path):
    """As `save` of a classifier writes it, or another program."""
    folder = SnapshotFolder(tmp_path)
    folder.save(SMALL).write_bytes(encode(SMALL))
    assert outcome(folder) == encode(SMALL)
