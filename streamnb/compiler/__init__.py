"""Functions to machine code: what numba does, done once and kept."""
