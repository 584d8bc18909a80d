"""Compile kernels, keep their machine code, and provide the memory that they work on.

    jit.py                decorators: `kernel`, `allocating`, `inlined`; no fastmath, without the GIL
    nested_kernels.py     a kernel within another, optimised once together with its caller
    kernel_cache.py       machine code from one start to the next, found by a digest of its sources
    structs.py            named tuples of arrays, passed to kernels by address
    pinned_structs.py     the same between two calls, and scratch memory
    growable_arrays.py    arrays that grow; large ones stay at their address
    intrinsics.py         four processor instructions that numpy does not have
    wheel.py              machine code for a wheel, for several processor levels

This room imports no other room, and numba is imported almost only here. Kernels check no bounds:
callers verify shapes and indices. Start reading at `jit.py`.
"""
