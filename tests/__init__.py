"""The tests, a package that mirrors the rooms of `streamnb`; programs among them run as `python -m tests.benchmarks.measure`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""On the path of a child process it makes `tests` importable there, whatever folder the child runs in."""
