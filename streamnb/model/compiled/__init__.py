"""Compilation of kernels, and their memory.

Imports no other room; only this room uses numba.
"""
