"""Files that are compressed as a whole, by Zstandard: most of a learner's state repeats itself.

A file is one frame that states the size of its content. Python's lock is released while a block is compressed
or decompressed, and memory holds a block at a time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain
from typing import IO, Any

import zstandard

from streamnb.errors import SnapshotError
from streamnb.formats.snapshot_container import encoded_length

MAGIC: bytes = zstandard.FRAME_HEADER
_LEVEL = 1  # on 170 MB of state a sixth of the bytes, at 130 MB a second; level 3 saves another hundredth
_HEADER_BYTES = 18  # at most
_BUFFER_BYTES, _MAX_WINDOW = 1 << 17, 1 << 23


def compressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the frame of a snapshot, given the chunks of `encode_chunks`."""
    first = next(chunks)
    frame = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=encoded_length(first))
    for chunk in chain([first], chunks):
        yield frame.compress(chunk)
    yield frame.flush()


class _Frame(io.RawIOBase):
    """The content of a compressed file, which is read forward; a seek backward begins again.

    Raises SnapshotError if the file is not such a frame, here or while it is read.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        try:
            self._size = zstandard.frame_content_size(file.read(_HEADER_BYTES))
        except zstandard.ZstdError as error:
            raise SnapshotError(f"it is compressed, and its beginning is damaged: {error}") from error
        if self._size < 0:
            raise SnapshotError("it is compressed, and does not state the size of its content")
        self._wanted = 0  # the position of the next read
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._at = 0
        self._frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(
            self._file, read_across_frames=True, closefd=False
        )

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move the position; nothing is read before `readinto`."""
        self._wanted = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._wanted, io.SEEK_END: self._size}[whence]
        return self._wanted

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer, as far as the content goes."""
        if self._wanted < self._at:
            self._begin()
        while self._at < self._wanted:
            skipped = min(self._wanted - self._at, 1 << 20)
            if not self._decompress(memoryview(bytearray(skipped))):
                return 0
        n = self._decompress(buffer)
        self._wanted = self._at
        return n

    def check_end(self) -> None:
        """Raise SnapshotError if bytes follow the content."""
        self._wanted = self._size
        if self.readinto(bytearray(1)):
            raise SnapshotError("bytes trail behind its compressed content")

    def _decompress(self, buffer: Any) -> int:
        try:
            n: int = self._frame.readinto(buffer)
        except zstandard.ZstdError as error:
            raise SnapshotError(f"its compressed content is damaged: {error}") from error
        self._at += n
        return n


class DecompressedContent(io.BufferedReader):
    """The content of a compressed file; reads raise SnapshotError if the file is damaged."""

    def __init__(self, file: IO[bytes]) -> None:
        self._frame = _Frame(file)
        super().__init__(self._frame, _BUFFER_BYTES)

    def check_end(self) -> None:
        """Raise SnapshotError if bytes follow the content."""
        self._frame.check_end()
