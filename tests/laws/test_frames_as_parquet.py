"""A data frame has the attributes that a Parquet file of it has, whatever the types of its columns."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamnb import BayesOptimalNB, NaiveBayes
from streamnb.features.data_frames import rows_of
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.parquet_events import parquet_events

MOMENTS = ["2026-01-02", "2026-01-03 04:05:06.5", None]
COLUMNS = {
    "datetime": pd.to_datetime(MOMENTS, format="ISO8601"),
    "nanoseconds": pd.Series([1_767_323_045_678_901_234, None, -1]).astype("datetime64[ns]"),
    "far": pd.Series(np.array(["9999-12-31", "0001-01-01", "NaT"], dtype="datetime64[s]")),
    "zone": pd.to_datetime(MOMENTS, format="ISO8601").tz_localize("Europe/Berlin"),
    "objects": pd.Series(
        [datetime(2026, 1, 2, tzinfo=UTC), None, datetime(2026, 1, 2, 3, tzinfo=UTC)], dtype=object
    ),
    "date": pd.Series([date(2026, 1, 2), None, date(1, 1, 1)], dtype=object),
    "time": pd.Series([time(1, 2, 3, 4), None, time(23)], dtype=object),
    "timedelta": pd.to_timedelta([1, 2.5, None], unit="s"),
    "timedeltas": pd.Series([timedelta(1), None, timedelta(microseconds=-1)], dtype=object),
    "decimal": pd.Series([Decimal("1.50"), Decimal(3), None], dtype=object),
    "bytes": pd.Series([b"a", b"\xff", None], dtype=object),
    "Int64": pd.array([1, 2, None], dtype="Int64"),
    "boolean": pd.array([True, False, None], dtype="boolean"),
    "bool": [True, False, True],
    "string": pd.array(["a", "b", None], dtype="string"),
    "float": [1.0, np.nan, np.inf],
    "category": pd.Categorical(["a", "b", None]),
    "category of numbers": pd.Categorical([1, 2, None]),
    "category of times": pd.Categorical(pd.to_datetime(["2026-01-02", None, "2026-01-03"])),
    "arrow timestamp": pd.Series([1, 2, None], dtype=pd.ArrowDtype(pa.timestamp("ns", "UTC"))),
    "arrow duration": pd.Series([1, 2, None], dtype=pd.ArrowDtype(pa.duration("ns"))),
    "arrow date": pd.Series([1, 2, None], dtype=pd.ArrowDtype(pa.date32())),
    "arrow decimal": pd.Series([Decimal(1), Decimal(2), None], dtype=pd.ArrowDtype(pa.decimal128(3, 1))),
    "all missing": [None] * 3,
}


def features(frame):
    file = io.BytesIO()
    frame.to_parquet(file, index=False)
    file.seek(0)
    return [json.loads(raw).get("features", {}) for raw, _ in parquet_events(file, CsvColumns())]


@pytest.mark.filterwarnings("ignore:Discarding nonzero nanoseconds")
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_has_the_values_that_parquet_makes_of_it(name):
    frame = pd.DataFrame({name: COLUMNS[name]})
    rows = [{key: v for key, v in row.items() if v is not None and v != np.inf} for row in rows_of(frame)]
    found = features(frame)
    assert rows == found
    assert [list(map(type, row.values())) for row in rows] == [list(map(type, row.values())) for row in found]


@pytest.mark.parametrize("model", [NaiveBayes(), BayesOptimalNB()])
def test_frames_teach_what_their_events_teach(model):
    names = [name for name in COLUMNS if name != "float"]
    frame = pd.DataFrame({name: COLUMNS[name] for name in names})
    by_rows, by_frame = model.clone(), model.clone()
    by_rows.learn_many(features(frame), ["a", "b", "a"])
    by_frame.learn_many(frame, ["a", "b", "a"])
    assert by_frame.digest() == by_rows.digest()
    expected = by_rows.predict_posteriors(features(frame)).probabilities
    assert np.array_equal(by_frame.predict_posteriors(frame).probabilities, expected)


def test_a_category_of_durations_is_its_seconds():
    """Not by a file: pyarrow 26 forgets that the values of such a dictionary are durations."""
    frame = pd.DataFrame({"x": pd.Categorical(pd.to_timedelta([1, None, 2], unit="s"))})
    assert rows_of(frame) == [{"x": 1.0}, {"x": None}, {"x": 2.0}]


def test_what_no_event_can_hold_is_named():
    frames = {
        "list": [[1], None],
        "Period": pd.period_range("2026", periods=2, freq="D"),
        "complex": [1j, 2j],
    }
    for name, column in frames.items():
        with pytest.raises(TypeError, match=f"attribute 'x': expected a number, got {name}"):
            NaiveBayes().learn_many(pd.DataFrame({"x": column}), ["a", "b"])
