"""Compilation with numba: done once and cached."""
