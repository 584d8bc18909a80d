#!/usr/bin/env bash
# pyarrow 26.0.1: a pandas category of durations that is written to Parquet comes back as plain integers.
#
# One would guess: the type survives, as it does for a column of durations that is not a category, and for
# categories of strings or times. Seen: `to_parquet` and `read_parquet` give int64 nanoseconds without a
# warning, both for the pandas frame and for the Arrow table. The category is a saving of memory that people
# add late, so a pipeline that read seconds before reads billions after it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W error - "$folder/kept.parquet" <<'PYTHON'
import sys

import pandas as pd
from pyarrow import parquet

path = sys.argv[1]
waits = pd.Series(pd.to_timedelta([1, 2, 1], unit="s"))
times = pd.Series(pd.to_datetime(["2026-01-02", "2026-01-03", "2026-01-02"]))
frame = pd.DataFrame({"plain": waits, "category": waits.astype("category"), "times": times.astype("category")})
frame.to_parquet(path)
seen = {field.name: str(field.type) for field in parquet.read_table(path).schema}
again = pd.read_parquet(path)
print("Arrow:", seen)
print("pandas:", {name: str(kind) for name, kind in again.dtypes.items()}, again["category"].tolist())
assert seen["plain"].startswith("duration"), seen
assert seen["category"] == "int64", seen
assert "timestamp" in seen["times"], seen
PYTHON
