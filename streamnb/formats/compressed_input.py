"""Compressed content as a stream: gzip, zstandard, bzip2 and xz, recognised by the first bytes.

Every reader here yields all readable bytes before it raises an error, and expands a bounded number of bytes
at a time, however well they were compressed.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any

import zstandard

from streamnb.errors import LogError

BUFFER = 1 << 16
"""Bytes that a stream of content buffers."""

DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
"""Errors of damaged compressed content."""

_CHUNK = 1 << 12  # compressed bytes read at a time
_SMALL_CHUNK = 1 << 10  # a hostile zstandard block grows more than ten thousandfold
_MOST = 1 << 20  # bytes that a chunk of bzip2 or xz expands to at a time
_MEMORY = 192 << 20  # bytes of an xz dictionary; `xz -9` needs 65 MiB
_GZIP = re.compile(rb"\x1f\x8b")
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # or a skippable frame
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
_XZ = re.compile(rb"\xfd7zXZ\x00")
_MAGIC = {".gz": _GZIP, ".zst": _ZSTD, ".bz2": _BZIP2, ".xz": _XZ}
_DECOMPRESSORS: dict[re.Pattern[bytes], Callable[[], Any]] = {
    _GZIP: lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16),  # with gzip's header and checksum
    _ZSTD: lambda: zstandard.ZstdDecompressor().decompressobj(),
    _BZIP2: bz2.BZ2Decompressor,
    _XZ: lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY),
}
_PROGRAMS = {_GZIP: "gunzip", _ZSTD: "unzstd", _BZIP2: "bunzip2", _XZ: "unxz"}
_PADDED = {_GZIP, _XZ}  # NUL bytes may follow a member

COMPRESSED_TWICE = {
    magic: f"compressed twice: decompress it once, as `{program}` does"
    for magic, program in _PROGRAMS.items()
}
"""Description of compressed content inside compressed content, by its first bytes."""


def compression_suffix(name: str) -> str:
    """Return the part of a lower-case file name that names a compression, such as ``.gz``, or ""."""
    return next((suffix for suffix in _MAGIC if name.endswith(suffix)), "")


def content_of(file: Any, suffix: str = "") -> io.BufferedReader[Any]:
    """Return the decompressed content of a raw stream, or the stream itself if it is not compressed.

    Args:
        file: a raw stream of bytes.
        suffix: the compression that the file's name promises, or "".

    Raises:
        LogError: the content is not compressed as `suffix` promises.
    """
    compressed = io.BufferedReader(file, BUFFER)
    start = compressed.peek(10)[:10]
    expected = _MAGIC.get(suffix)
    if expected and not expected.match(start):
        raise LogError(f"the name ends in {suffix}, but the content is not of that format: rename it")
    magic = next((magic for magic in _DECOMPRESSORS if magic.match(start)), None)
    return compressed if magic is None else io.BufferedReader(_Decompressed(compressed, magic), BUFFER)


class _Decompressed(io.RawIOBase):
    """The content of compressed members or frames, one after another.

    Python's gzip module loses bytes already read before a truncated end, and zstandard's reader does not
    detect one. This reader returns all readable bytes, then raises EOFError.
    """

    def __init__(self, compressed: io.BufferedReader[Any], magic: re.Pattern[bytes]) -> None:
        super().__init__()
        self._compressed, self._magic = compressed, magic
        self._is_limited = magic in {_BZIP2, _XZ}  # takes a limit of what it returns
        self._size = _SMALL_CHUNK if magic is _ZSTD else _CHUNK
        self._member: Any = None  # the decompressor of the member being read, None between two
        self._chunk = b""
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            if not self._chunk and (self._member is None or getattr(self._member, "needs_input", True)):
                self._chunk = self._compressed.read1(self._size)
                if not self._chunk:
                    if self._member is not None:
                        raise EOFError("the compressed content ends too early")
                    return 0
            self._decompress()
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count

    def _decompress(self) -> None:
        if self._member is None:
            if self._magic in _PADDED:
                self._chunk = self._chunk.lstrip(b"\0")  # padding after the last member
            if not self._chunk:
                return
            self._member = _DECOMPRESSORS[self._magic]()
        limit = (_MOST,) if self._is_limited else ()
        self._content = memoryview(self._member.decompress(self._chunk, *limit))
        self._chunk = b""
        if self._member.eof:
            self._chunk = self._member.unused_data
            self._member = None
