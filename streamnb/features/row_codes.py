"""What a batch has in place of a row."""

from __future__ import annotations

UNKNOWN, STOPPED = -1, -2
"""Of what is not known, and of a word that was dropped for good or that its text has twice."""
