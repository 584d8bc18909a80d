#!/usr/bin/env bash
# python-zstandard 0.25.0: `open`, `stream_reader`, `read_to_iter` and `copy_stream` end a truncated file
# as if it were whole.
#
# One would guess: reading half of a .zst file raises an error, as gzip (EOFError), bz2, lzma and the `zstd`
# program do. Seen: the readers return what could be decompressed, then the end of the file. Nothing is raised
# and no attribute says that the frame is unfinished. Only `decompress` of the whole bytes raises ZstdError.
# A log or data set whose copy broke off is therefore read as a shorter one, and a trained model or a count is
# silently that of the first part. A reader that must notice it has to drive `decompressobj` by itself and ask
# for `eof` at the end of the input.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check zstandard==0.25.0
"$folder/venv/bin/python" - <<'PYTHON'
import gzip
import io

import zstandard

lines = b"".join(b"event %d of a stream\n" % number for number in range(100_000))
whole = zstandard.ZstdCompressor().compress(lines)
half = whole[: len(whole) // 2]
decompressor = zstandard.ZstdDecompressor

with zstandard.open(io.BytesIO(half), "rb") as file:
    opened = file.read()
streamed = decompressor().stream_reader(io.BytesIO(half)).read()
iterated = b"".join(decompressor().read_to_iter(io.BytesIO(half)))
copied = io.BytesIO()
decompressor().copy_stream(io.BytesIO(half), copied)
for name, got in [("open", opened), ("stream_reader", streamed), ("read_to_iter", iterated),
                  ("copy_stream", copied.getvalue())]:
    print(f"{name}: {len(got):,} of {len(lines):,} bytes, no error")
    assert 0 < len(got) < len(lines) and lines.startswith(got), name

try:
    decompressor().decompress(half)
except zstandard.ZstdError as error:
    print("decompress:", error)
else:
    raise SystemExit("decompress raised nothing")

packed = gzip.compress(lines)
try:
    gzip.open(io.BytesIO(packed[: len(packed) // 2])).read()
except EOFError as error:
    print("gzip, for comparison:", error)
else:
    raise SystemExit("gzip raised nothing")
PYTHON
