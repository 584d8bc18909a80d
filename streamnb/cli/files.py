"""Files of events with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tqdm import tqdm

from streamnb.adapters.files import open_counted

__all__ = ["events_of"]


def events_of(path: str) -> Iterator[bytes]:
    """The raw events of a file; a bar on standard error says how much of it has been read."""
    hidden = not sys.stderr.isatty()
    with (
        open_counted(path) as source,
        tqdm(total=source.total, unit="B", unit_scale=True, disable=hidden, leave=False) as bar,
    ):
        for raw in source:
            yield raw
            bar.update(source.position - bar.n)
