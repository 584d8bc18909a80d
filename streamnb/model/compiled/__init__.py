"""How kernels are compiled, and the memory that they stand on.

Imports no other room; numba stands here alone.
"""
