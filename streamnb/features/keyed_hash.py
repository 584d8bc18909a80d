"""A keyed hash for positions in hash tables, which a sender cannot predict without this process's secret.

It is SipHash-1-3, as in Python's own dictionaries, a pseudorandom function of its 128-bit key (Aumasson and
Bernstein, 2012). A sender of events cannot choose words that all share one chain, which would make every
search as long as the table. The hash decides only positions: no learned, published or stored value depends on
it. So each process has its own secret, which is never written. See docs/adr/0009.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Hashes
from streamnb.kernels.intrinsics import load8
from streamnb.kernels.jit import inlined

Secret = Hashes
_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_LAST = np.uint64(0xFF)
_LENGTH = np.uint64(56)
_WORD = np.uint64(8)  # bytes
_ONE, _HALF = np.uint64(1), np.uint64(32)


@functools.cache
def process_secret() -> Secret:
    """Return the key, uint64[2]: Python's own hashes of two constants.

    Their secret is drawn when the interpreter starts, or derived from PYTHONHASHSEED.
    """
    return np.array([hash(b"streamnb, first half"), hash(b"streamnb, second half")]).view(np.uint64)


@inlined
def _turned(word: Any, bits: int) -> Any:
    return word << np.uint64(bits) | word >> np.uint64(64 - bits)


@inlined
def _round(a: Any, b: Any, c: Any, d: Any) -> Any:
    a, c = a + b, c + d
    b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
    a, c = _turned(a, 32) + d, c + b
    b, d = _turned(b, 17) ^ c, _turned(d, 21) ^ a
    return a, b, _turned(c, 32), d


@inlined
def _taken(state: Any, word: Any) -> Any:
    a, b, c, d = state
    a, b, c, d = _round(a, b, c, d ^ word)
    return a ^ word, b, c, d


@inlined
def _finished(state: Any) -> Any:
    a, b, c, d = state
    a, b, c, d = _round(a, b, c ^ _LAST, d)
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


@inlined
def begun(secret: Any, word: Any) -> Any:
    """Return the state after the key and a first word, for `hash_after`."""
    return _taken((_V0 ^ secret[0], _V1 ^ secret[1], _V2 ^ secret[0], _V3 ^ secret[1]), np.uint64(word))


@inlined
def hash_after(state: Any, buffer: Any, start: int, stop: int) -> Any:
    """Return the hash of the first word and ``buffer[start:stop]``; the buffer has eight spare bytes."""
    i = start
    while i + 8 <= stop:
        state = _taken(state, load8(buffer, i))
        i += 8
    length = np.uint64(stop - start)
    rest = load8(buffer, i) & ((_ONE << np.uint64(8 * (stop - i))) - _ONE)
    return _finished(_taken(state, rest | (length + _WORD) << _LENGTH))


@inlined
def hash_word(secret: Any, word: Any) -> Any:
    """Return the hash of one word."""
    return _finished(_taken(begun(secret, word), _WORD << _LENGTH))


@inlined
def hash_number(secret: Any, number: Any) -> Any:
    """Return 32 bits for a number below 2^32, for a table filled once, such as the rows of one event.

    (a x + b) mod 2^64 div 2^32: the hashes of any two numbers are independent if a and b are random
    (Dietzfelbinger, 1996), so that n of them take O(n log n) probes to enter, whatever they are (Pagh, Pagh
    and Ruzic, 2009). That is weaker than SipHash, and takes a tenth of its time.
    """
    return (secret[0] * np.uint64(number) + secret[1]) >> _HALF
