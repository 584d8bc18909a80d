"""What tests of formats share."""

from __future__ import annotations

import json

from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_files import open_counted


def read(path, notes=None, **columns):
    """The events of a file as JSON values; `notes` collects the messages."""
    note = (lambda _: None) if notes is None else notes.append
    with open_counted(path, CsvColumns(**columns), note) as events:
        return [json.loads(raw) for raw in events]
