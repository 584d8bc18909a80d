"""Content of no format that is read, named by its first bytes, with the command that converts it."""

from __future__ import annotations

import re

from streamnb.formats.compressed_input import COMPRESSED_TWICE

EXCEL = "a workbook of Excel: `libreoffice --headless --convert-to csv FILE` writes its first sheet as CSV"
_SIGNATURES = (
    (rb"PK(?:\x03\x04|\x05\x06)", "a ZIP archive: give it a name that ends in .zip, or unpack it"),
    (rb"PAR1", "Parquet: --format parquet reads it, from an uncompressed file"),
    (rb"\xd0\xcf\x11\xe0", f"an old document of Microsoft Office; if it is {EXCEL}"),
    (rb"%PDF-", "a PDF document: `pdftotext FILE` extracts its text"),
    (
        rb"SQLite format 3\0",
        "SQLite: `sqlite3 -header -csv FILE 'select * from TABLE'` converts it",
    ),
    (
        rb"\x80[\x02-\x05]|\([ld]p0\n|c(?:copy_reg|__builtin__|(?:numpy|pandas|sklearn)[\w.]*)\n",
        "a pickle of Python, which may run code: write Parquet or CSV in its program",
    ),
    (rb"\x93NUMPY", "an array of NumPy: `numpy.savetxt` writes it as text"),
    (rb"\x89HDF\r\n", "HDF5: `pandas.read_hdf(FILE).to_parquet(NAME)` converts a table of pandas"),
    (rb"ORC", "ORC: `pyarrow.orc.read_table` and `pyarrow.parquet.write_table` convert it"),
    (rb"RD[AX][23]\n", "a workspace of R: `write.csv` writes its tables"),
    (rb"MATLAB [57]", "a file of MATLAB: `writetable` writes its tables as CSV"),
    (rb"\$FL[23]|<stata_dta>", "a file of SPSS or Stata: write it as CSV"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: `7z x FILE` unpacks it"),
    (rb"Rar!\x1a\x07", "a RAR archive: `unrar x FILE` unpacks it"),
    (rb"\x04\x22\x4d\x18", "compressed by lz4: `unlz4` decompresses it"),
    (rb"\x1f\x9d", "compressed by compress: `uncompress` decompresses it"),
    (rb".{257}ustar", "a tar archive: `tar -xf FILE` unpacks it"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|RIFF.{4}WEBP", "a picture, and events are data"),
    (rb"\x7fELF|\xcf\xfa\xed\xfe|MZ\x90\0", "a program, and events are data"),
    (rb"\s*<(?i:!doctype\s+html|html)\b", "a page of HTML, such as an error of a download"),
    (rb"\s*\{[ ]*'", "dicts as Python prints them: `json.dumps` writes JSON lines"),
    (
        rb"\s*\{[^\n]*\},[ \t]*\r?\n\s*\{",
        "objects of JSON with commas between them, but no array: `sed 's/,$//'` makes lines of them",
    ),
    (rb"\s*<\?xml\b", "XML: convert it to JSON lines or CSV"),
    (rb"version https://git-lfs\.", "a pointer of Git LFS: `git lfs pull` fetches the file"),
)
_KNOWN = [
    *COMPRESSED_TWICE.items(),
    *((re.compile(signature, re.DOTALL), what) for signature, what in _SIGNATURES),
]
"""Signature -> what the content is, and what to do."""

_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r\f\x1a\x1b"})
_LOOKED_AT = 1024
_NOISE = 0.05  # share of control characters


def refused_as(start: bytes) -> str:
    """Return what content that is not read is, by its first bytes; "" if they have no known signature."""
    return next((what for signature, what in _KNOWN if signature.match(start)), "")


def is_binary(start: bytes) -> bool:
    """Return whether the first bytes have too many control characters for a text of 8 bits a character."""
    start = start[:_LOOKED_AT]
    is_wide = start.count(0) > len(start) / 4  # as text of 16 bits a character has
    return not is_wide and len(start) - len(start.translate(None, _CONTROLS)) > _NOISE * len(start)
