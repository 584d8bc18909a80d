#!/usr/bin/env bash
# pyarrow 26.0.1: what `to_pylist` (and `as_py`) returns for a nanosecond timestamp or duration depends on
# whether pandas is installed, and one value decides whether a column can be read at all.
#
# One would guess: one Python type for one Arrow type. Seen: with pandas beside it, timestamp[ns] gives
# pandas.Timestamp and duration[ns] gives pandas.Timedelta. Without pandas, the same file gives datetime and
# timedelta as long as every value is a whole number of microseconds, and the first value that is not raises
# ValueError for the whole call. So a service that was tested where pandas happens to be installed fails, or
# writes other text, in an image without it, on the first odd nanosecond. A reader that must not depend on this
# casts to microseconds, or to int64, before it asks for Python values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/read.py" <<'PYTHON'
import io
import sys

import pyarrow as pa
from pyarrow import parquet

whole, odd = 1_790_000_000_000_000_000, 1_790_000_000_000_000_001
expected = {"with": {"whole": "Timestamp Timedelta", "odd": "Timestamp Timedelta"},
            "without": {"whole": "datetime timedelta", "odd": "ValueError"}}[sys.argv[1]]
for name, value in {"whole": whole, "odd": odd}.items():
    kept = io.BytesIO()
    columns = {"at": pa.array([value], pa.timestamp("ns")), "took": pa.array([value], pa.duration("ns"))}
    parquet.write_table(pa.table(columns), kept)
    try:
        (row,) = parquet.read_table(kept).to_pylist()
        seen = " ".join(type(row[column]).__name__ for column in columns)
    except ValueError as error:
        seen = type(error).__name__
        print("  ", str(error)[:90])
    print(f"{sys.argv[1]} pandas, {name} microseconds: {seen}")
    assert seen == expected[name], (seen, expected[name])
PYTHON
for kind in without with; do
    python3 -m venv "$folder/$kind"
    "$folder/$kind/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 numpy==2.4.6
    [ "$kind" = without ] || "$folder/$kind/bin/pip" install --quiet --disable-pip-version-check pandas==3.1.1
    "$folder/$kind/bin/python" "$folder/read.py" "$kind"
done
