"""A key that comes twice in one object of a JSON text is found, whatever else the text holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.formats.json_parsing import repeated_key

_TEXTS = st.text(st.sampled_from('ab:"\\ {}[],'), max_size=6)
_VALUES = st.recursive(
    st.none() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(_VALUES, st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]))
def test_no_key_comes_twice_in_what_an_encoder_writes(value, separators):
    assert repeated_key(json.dumps(value, separators=separators).encode()) is None


@given(_TEXTS, _VALUES, _VALUES, st.sampled_from([":", " : ", "\n:"]))
def test_a_key_that_comes_twice_is_found_at_any_depth(key, first, second, colon):
    name = json.dumps(key)
    body = f"[0, {{{name}{colon}{json.dumps(first)}, {name}:{json.dumps(second)}}}]"
    assert repeated_key(body.encode()) == key


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"a":1,"\\u0061":2}', "a"),
        (b'{"t":"\\"a\\":1,\\"a\\":2"}', None),
        (b'{"a" :1,"a"\n:2}', "a"),
        (b'{"x":[{"a":1},{"a":2}]}', None),
        (b'{"":1,"":2}', ""),
        (b'{"a":1,"a":2,"t":"\\u003a"}', "a"),  # the escape adds the colon that the dropped key took
        (b'{"a":1,"a":2,"t":"\\u003A"}', "a"),
        (b'{"t":"a:b"}', None),
        (b'{"a":', None),
        (b"\xff", None),
        (b"[" * 5000, None),
    ],
)
def test_odd_texts(raw, key):
    assert repeated_key(raw) == key
