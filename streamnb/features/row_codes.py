"""Codes that a batch has in place of a row."""

from __future__ import annotations

UNKNOWN, STOPPED = -1, -2
"""Codes of an unknown word or value, and of a word that was dropped for good or repeats in its text."""
