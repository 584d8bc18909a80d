"""Bytes to values and back: pure functions of the public formats."""
