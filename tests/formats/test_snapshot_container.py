"""The snapshot format: canonical, exact, and refused as a whole when one bit of it is wrong."""

import contextlib
import hashlib
import io
import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamnb.errors import SnapshotError
from streamnb.formats.snapshot_container import (
    Snapshot,
    SnapshotPart,
    decode,
    encode,
    encode_chunks,
    load,
    part_digest,
)

GOLDEN = Path(__file__).parents[1] / "golden"
SPECIFICATION = Path(__file__).parents[2] / "docs" / "snapshot-format.md"
DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
)


# --- Values


def snapshot(meta=None, arrays=None, **fields):
    parts = {"model": SnapshotPart(meta or {}, arrays or {})}
    return Snapshot(
        **{
            "journal_n": 41,
            "digest": "00ff",
            "positions": {("events", 1): 1187, ("labels", 0): 17, ("events", 0): 1200},
            "config_hash": "c0ffee",
            "fingerprint": {"python": "CPython 3.11.7", "numpy": "2.4.6"},
            "parts": parts,
            **fields,
        }
    )


def extremes(dtype):
    if dtype == "bool":
        return np.array([True, False, True])
    if dtype.startswith("float"):
        limits = np.finfo(dtype)
        values = [0.0, -0.0, 1 / 3, limits.max, limits.smallest_subnormal, np.inf, -np.inf, np.nan]
        return np.array(values, dtype=dtype)
    return np.array([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max], dtype=dtype)


def golden_snapshots():
    every = {dtype: extremes(dtype) for dtype in DTYPES}
    shapes = {
        "cube": np.arange(24, dtype=np.int64).reshape(2, 3, 4),
        "nothing": np.zeros((0, 5), dtype=np.float32),
        "number": np.array(-7, dtype=np.int16),
    }
    unicode_meta = {
        "classes": ["spam", "häm", "垃圾", "😀", "", 'quote " back\\slash', "\x00\t\n\x1f\x7f\u2028"],
        "Ω": {"nested": [[], {}, [None, True, False]]},
        "floats": [0.1, -0.0, 1e16, 5e-324, 1.7976931348623157e308, 1.0],
        "integers": [-(2**63), 2**63 - 1, 0],
    }
    return {
        "empty": Snapshot(-1, "", {}, "", {}, {}),
        "dtypes": snapshot(
            parts={"model": SnapshotPart({}, every), "progressive": SnapshotPart({"window": 3}, shapes)}
        ),
        "unicode": snapshot(
            unicode_meta, {"tâble": np.arange(3, dtype=np.uint8)}, positions={("événements", 0): 5}
        ),
    }


def rewrite_golden_files():
    """Write tests/golden anew; only ever for a new format version, beside the old files:

    python -c "from tests.formats.test_snapshot_container import rewrite_golden_files; rewrite_golden_files()"
    """
    GOLDEN.mkdir(exist_ok=True)
    for name, value in golden_snapshots().items():
        golden_path(name).write_bytes(encode(value))


def golden_path(name):
    return GOLDEN / f"snapshot-v1-{name}.snb"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
names = st.text(max_size=4)
orders = st.sampled_from(["<", ">"])
some_arrays = st.builds(
    lambda dtype, order: np.dtype(dtype).newbyteorder(order), st.sampled_from(DTYPES), orders
).flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
parts = st.builds(
    SnapshotPart,
    st.dictionaries(names, json_values, max_size=3),
    st.dictionaries(names, some_arrays, max_size=3),
)
snapshots = st.builds(
    Snapshot,
    st.integers(-1, 2**63 - 1),
    names,
    st.dictionaries(st.tuples(names, st.integers(0, 9)), st.integers(0, 2**63 - 1), max_size=3),
    names,
    st.dictionaries(names, names, max_size=3),
    st.dictionaries(names, parts, max_size=3),
)


def assert_same(left, right):
    """Equal values; arrays equal in dtype, shape and bits."""
    for field in ("journal_n", "digest", "config_hash"):
        assert getattr(left, field) == getattr(right, field)
    assert dict(left.positions) == dict(right.positions)
    assert dict(left.fingerprint) == dict(right.fingerprint)
    assert left.parts.keys() == right.parts.keys()
    for name, part in left.parts.items():
        # JSON text tells 1 from 1.0 from true, and 0.0 from -0.0.
        assert dumps(part.meta) == dumps(right.parts[name].meta)
        assert part.arrays.keys() == right.parts[name].arrays.keys()
        for array_name, array in part.arrays.items():
            other = right.parts[name].arrays[array_name]
            native = array.dtype.newbyteorder("=")
            assert other.dtype.newbyteorder("=") == native
            assert other.shape == array.shape
            assert other.astype(native).tobytes() == array.astype(native).tobytes()


# --- An independent writer, after docs/snapshot-format.md, that writes nonsense too


def padded(section):
    return section + bytes(-len(section) % 64)


def seal(header, payload=b"", *, version=1, magic=b"STREAMNB"):
    text = header if isinstance(header, bytes) else dumps(header)
    start = len(padded(bytes(60) + text))
    length = start + len(payload) + 32
    prelude = struct.pack("<8sIQQ32s", magic, version, len(text), length, hashlib.sha256(text).digest())
    content = padded(prelude + text) + payload
    return content + hashlib.sha256(content).digest()


def dumps(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def header(**fields):
    return {
        "journal_n": 0,
        "digest": "",
        "positions": [],
        "config_hash": "",
        "fingerprint": {},
        "parts": {"p": {}},
        "arrays": [],
        **fields,
    }


def entry(content=bytes(8), **fields):
    return {
        "part": "p",
        "name": "a",
        "differences": False,
        "dtype": "uint8",
        "shape": [len(content)],
        "offset": 0,
        "length": len(content),
        "crc32": zlib.crc32(content),
        **fields,
    }


# --- Laws


@settings(max_examples=150, deadline=None)
@given(snapshots)
def test_decode_gives_back_what_was_encoded(value):
    content = encode(value)
    assert_same(value, decode(content))
    assert encode(decode(content)) == content
    assert len(content) % 64 == 32


def test_chunks_are_the_bytes_in_bounded_pieces():
    big = snapshot(arrays={"a": np.arange(700_000), "t": np.ones((1000, 999)).T})
    chunks = list(encode_chunks(big))
    assert b"".join(chunks) == encode(big)
    assert max(map(len, chunks)) <= 1 << 20
    assert_same(big, decode(b"".join(chunks)))


@pytest.mark.parametrize(
    "disguise",
    [
        np.asfortranarray,
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
        lambda a: np.asfortranarray(a.astype(">i8"))[:],
    ],
    ids=["fortran", "big-endian", "strided", "reversed", "fortran-big-endian"],
)
def test_equal_arrays_of_any_memory_order_are_equal_bytes(disguise):
    array = np.arange(3 * 70_001, dtype=np.int64).reshape(3, 70_001) - 5
    assert encode(snapshot(arrays={"a": disguise(array)})) == encode(snapshot(arrays={"a": array}))
    assert part_digest({}, {"a": disguise(array)}) == part_digest({}, {"a": array})


def test_any_true_byte_is_the_same_truth():
    odd = np.array([2, 0, 255], dtype=np.uint8).view(np.bool_)
    assert encode(snapshot(arrays={"a": odd})) == encode(
        snapshot(arrays={"a": np.array([True, False, True])})
    )


def test_order_of_filling_is_unobservable():
    a, b = np.zeros(2), np.ones(3)
    forward = snapshot(
        {"x": 1, "y": {"c": 2, "d": 3}}, {"a": a, "b": b}, positions={("t", 2): 0, ("t", 10): 1, ("s", 3): 2}
    )
    backward = snapshot(
        {"y": {"d": 3, "c": 2}, "x": 1}, {"b": b, "a": a}, positions={("s", 3): 2, ("t", 10): 1, ("t", 2): 0}
    )
    assert encode(forward) == encode(backward)


def test_decoded_arrays_are_writable_and_own_their_memory():
    content = bytearray(encode(snapshot(arrays={"a": np.arange(4), "b": np.arange(4).astype(">i4")})))
    arrays = decode(content).parts["model"].arrays
    content[-100:] = bytes(100)
    for array in arrays.values():
        assert array.flags.writeable
        assert array.flags.owndata
        assert array.dtype.isnative
        array[0] = 9
        assert array.tolist() == [9, 1, 2, 3]


def test_every_kind_of_bytes_decodes():
    content = encode(snapshot(arrays={"a": np.arange(4)}))
    for form in (content, bytearray(content), memoryview(content), memoryview(content * 2)[: len(content)]):
        assert_same(snapshot(arrays={"a": np.arange(4)}), decode(form))


def test_part_digest_tells_every_difference():
    base = ({"m": 1}, {"a": np.arange(6), "b": np.zeros(2)})
    others = [
        ({"m": 2}, base[1]),
        ({"m": 1.0}, base[1]),
        ({"n": 1}, base[1]),
        ({"m": 1}, {"a": np.arange(6).reshape(2, 3), "b": np.zeros(2)}),
        ({"m": 1}, {"a": np.arange(6).astype(np.uint64), "b": np.zeros(2)}),
        ({"m": 1}, {"a": np.arange(6), "c": np.zeros(2)}),
        ({"m": 1}, {"a": np.arange(6), "b": -np.zeros(2)}),
        ({"m": 1}, {"a": np.arange(6)}),
        ({"m": 1}, {"b": np.arange(6), "a": np.zeros(2)}),
    ]
    digests = {part_digest(*part) for part in [base, *others]}
    assert len(digests) == 1 + len(others)


def test_part_digest_is_the_specified_hash():
    described = b'{"arrays":[{"dtype":"int16","name":"a","shape":[2]}],"meta":{"m":1}}'
    expected = hashlib.sha256(described + b"\x01\x00\x02\x00").hexdigest()
    assert part_digest({"m": 1}, {"a": np.array([1, 2], dtype=">i2")}) == expected


# --- Golden files and the specification


@pytest.mark.parametrize("name", golden_snapshots())
def test_golden_bytes_are_written_and_read(name):
    value, content = golden_snapshots()[name], golden_path(name).read_bytes()
    assert encode(value) == content
    assert_same(value, decode(content))


def test_an_independent_writer_writes_the_same_bytes():
    table, flags = np.arange(6, dtype="<i8").tobytes(), b"\x01\x00"
    directory = [
        entry(table, part="model", name="table", dtype="int64", shape=[3, 2]),
        entry(flags, part="window", name="flags", dtype="bool", offset=64),
    ]
    fields = header(journal_n=7, digest="ab", parts={"model": {"alpha": 1.0}, "window": {}}, arrays=directory)
    ours = Snapshot(
        7,
        "ab",
        {},
        "",
        {},
        {
            "window": SnapshotPart({}, {"flags": np.array([True, False])}),
            "model": SnapshotPart({"alpha": 1.0}, {"table": np.arange(6).reshape(3, 2)}),
        },
    )
    by_place = bytes(octet for place in range(8) for octet in table[place::8])
    assert encode(ours) == seal(fields, padded(by_place) + padded(flags))


def test_numbers_in_ascending_order_are_stored_as_differences_beyond_a_block():
    numbers = np.cumsum(np.arange(300_000) % 7) - 40
    arrays = {"up": numbers, "down": numbers[::-1], "flat": np.full(9, 2**63 + 3, dtype=np.uint64)}
    arrays["widest"] = np.array([-(2**63), 2**63 - 1])
    content = encode(snapshot(arrays=arrays))
    assert_same(decode(content), snapshot(arrays=arrays))
    found = json.loads(content[60 : 60 + struct.unpack_from("<Q", content, 12)[0]])["arrays"]
    assert {each["name"]: each["differences"] for each in found} == {
        "down": False, "flat": True, "up": True, "widest": True
    }  # fmt: skip


@pytest.mark.parametrize("name", golden_snapshots())
def test_the_reader_in_the_specification_reads_golden_files(name):
    scope = {}
    exec(re.search(r"```python\n(.*?)```", SPECIFICATION.read_text("utf-8"), re.DOTALL)[1], scope)  # noqa: S102
    fields, arrays = scope["read_snapshot"](golden_path(name).read_bytes())
    value = golden_snapshots()[name]
    assert fields["parts"] == {part: dict(state.meta) for part, state in value.parts.items()}
    assert fields["positions"] == [[*key, offset] for key, offset in sorted(value.positions.items())]
    expected = {
        (part, name): array for part, state in value.parts.items() for name, array in state.arrays.items()
    }
    assert arrays.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(arrays[key], array, strict=True)


def test_the_header_in_the_specification_is_what_is_written():
    example = json.loads(re.search(r"```json\n(.*?)```", SPECIFICATION.read_text("utf-8"), re.DOTALL)[1])
    ours = snapshot({"alpha": 1.0, "classes": ["ham", "spam"]}, {"table": np.arange(6).reshape(3, 2)})
    assert dumps(example) in encode(ours)


# --- What encode refuses


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"a": [1, float("nan")]}, "nan, which is not a finite number - at $.parts.model.a[1]"),
        ({"a": {"b": float("-inf")}}, "-inf, which is not a finite number - at $.parts.model.a.b"),
        ({"a": 2**63}, "an integer that 64 bits with a sign cannot hold - at $.parts.model.a"),
        ({"a": -(2**63) - 1}, "an integer that 64 bits with a sign cannot hold - at $.parts.model.a"),
        ({"a": 10**5000}, "an integer that 64 bits with a sign cannot hold - at $.parts.model.a"),
        ({"a": "\ud800"}, "a lone surrogate, which UTF-8 cannot hold - at $.parts.model.a"),
        ({"\udfff": 1}, "the key '\\udfff': a lone surrogate, which UTF-8 cannot hold - at $.parts.model"),
        ({1: 1}, "a key that is a int, not a string - at $.parts.model"),
        ({"a": (1, 2)}, "a tuple, for which JSON has no form - at $.parts.model.a"),
        ({"a": b"x"}, "a bytes, for which JSON has no form - at $.parts.model.a"),
        ({"a": np.int64(1)}, "a int64, for which JSON has no form - at $.parts.model.a"),
        ({"a": nested(62)}, "a value in more than 64 lists and objects"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_meta_without_a_form_is_refused_with_its_path(meta, message):
    with pytest.raises(SnapshotError, match=re.escape(message)):
        encode_chunks(snapshot(meta))  # before the first chunk is taken
    with pytest.raises(SnapshotError):
        part_digest(meta, {})


def test_the_deepest_meta_that_is_encoded_is_decoded():
    deep = snapshot({"a": nested(61)})
    assert_same(deep, decode(encode(deep)))


def test_a_meta_that_holds_itself_is_refused():
    ring = []
    ring.append(ring)
    with pytest.raises(SnapshotError, match="64 lists"):
        encode(snapshot({"ring": ring}))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([None]), "dtype object is not one of bool, int8"),
        (np.array(["a"]), "dtype str"),
        (np.zeros(2, dtype=complex), "dtype complex128"),
        (np.zeros(2, dtype=np.float16), "dtype float16"),
        (np.zeros(2, dtype=np.longdouble), "dtype float128"),
        (np.zeros(2, dtype="M8[s]"), "dtype datetime64"),
        (np.zeros(2, dtype=[("a", "i4")]), "dtype void"),
        (np.ma.masked_array([1, 2], mask=[0, 1]), "expected numpy.ndarray, got MaskedArray"),
        ([1, 2], "expected numpy.ndarray, got list"),
        (np.zeros((1,) * 33), "length <= 32"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_without_a_form_are_refused(array, message):
    with pytest.raises(SnapshotError, match=message):
        encode_chunks(snapshot(arrays={"odd": array}))


@pytest.mark.parametrize(
    "fields",
    [
        {"journal_n": -2},
        {"journal_n": 2**63},
        {"journal_n": True},
        {"digest": None},
        {"digest": "\ud800"},
        {"positions": {("t", -1): 0}},
        {"positions": {("t", 0): -1}},
        {"positions": {("t", 0): 2**63}},
        {"positions": {("\ud800", 0): 1}},
        {"fingerprint": {"cpus": 2}},
        {"parts": {"\ud800": SnapshotPart({}, {})}},
    ],
    ids=str,
)
def test_fields_out_of_range_are_refused(fields):
    with pytest.raises(SnapshotError):
        encode(snapshot(**fields))


def test_an_array_that_changes_while_it_is_written_is_refused():
    array = np.zeros(400_000)
    chunks = encode_chunks(snapshot(arrays={"a": array}))
    next(chunks)
    array[-1] = 1.0
    with pytest.raises(SnapshotError, match="array 'a' of part 'model' has changed"):
        list(chunks)


# --- What decode refuses

SMALL = encode(snapshot({"alpha": 0.5}, {"a": np.arange(5, dtype=np.int16), "b": np.array([True])}))


def test_every_single_bit_flip_is_refused():
    for i in range(len(SMALL)):
        for bit in range(8):
            damaged = bytearray(SMALL)
            damaged[i] ^= 1 << bit
            with pytest.raises(SnapshotError):
                decode(damaged)


def test_every_truncation_and_extension_is_refused():
    for length in range(len(SMALL)):
        with pytest.raises(SnapshotError):
            decode(SMALL[:length])
    for tail in (b"\0", bytes(64), SMALL):
        with pytest.raises(SnapshotError, match="bytes trail behind it"):
            decode(SMALL + tail)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_are_refused(content, with_magic):
    with pytest.raises(SnapshotError):
        decode(SMALL[: 60 * with_magic] + content)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_a_sealed_header_of_random_bytes_is_refused(text):
    with pytest.raises(SnapshotError):
        decode(seal(text))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["part", "name", "differences", "dtype", "shape", "offset", "length", "crc32"]),
    json_values | st.lists(st.integers(-3, 2**63 - 1), max_size=4) | st.integers(-(2**70), 2**70),
)
def test_a_sealed_directory_with_any_one_value_is_refused_or_the_same(field, value):
    content = seal(header(arrays=[entry(**{field: value})]), padded(bytes(8)))
    with contextlib.suppress(SnapshotError):
        assert encode(decode(content)) == content


NAN_HEADER = dumps(header()).replace(b'"journal_n":0', b'"journal_n":NaN')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"STREAMNB", "8 bytes are too short"),
        (SMALL[:91], "91 bytes are too short"),
        (seal(header(), magic=b"PK\x03\x04abcd"), r"not a snapshot: it starts with b'PK"),
        (seal(header(), version=2), "its format is version 2, this program reads version 1"),
        (
            SMALL[:12] + struct.pack("<Q", 2**63) + SMALL[20:],
            "a header of 9223372036854775808 bytes does not fit",
        ),
        (SMALL[:12] + struct.pack("<Q", 9) + SMALL[20:], "the header does not match its checksum"),
        (SMALL[:-64], "it is cut off"),
        (SMALL[:20] + struct.pack("<Q", 2**64 - 1) + SMALL[28:], "it is cut off"),
        (SMALL + b"x", "bytes trail behind it"),
        (SMALL[:61] + b"!" + SMALL[62:], "the header does not match its checksum"),
        (SMALL[:-33] + b"\1" + SMALL[-32:], "the contents do not match their checksum"),
        (SMALL[:-1] + bytes([SMALL[-1] ^ 1]), "the contents do not match their checksum"),
        (seal(b"{"), "the header is not JSON"),
        (seal(b"\xff\xfe{}"), "the header is not JSON"),
        (seal(b"[" * 200_000), "the header is not JSON"),
        (seal(b"[" * 80 + b"]" * 80), "more than 64 lists"),
        (seal(b"1" * 5000), "the header is not JSON"),
        (seal(b"[]"), "Expected `object`, got `array`"),
        (seal(NAN_HEADER), "nan, which is not a finite number - at \\$.journal_n"),
        (seal(dumps(header()) + b" "), "not in canonical form"),
        (
            seal(dumps(header()).replace(b'"journal_n":0', b'"journal_n":0,"journal_n":0')),
            "not in canonical form",
        ),
        (seal(dumps(header(parts={"p": {"f": 0.5}})).replace(b"0.5", b"5e-1")), "not in canonical form"),
        (seal(dumps(header(digest="é")).replace("é".encode(), b"\\u00e9")), "not in canonical form"),
        (seal(dumps(header(digest="é")).replace("é".encode(), b"\\ud800")), "a lone surrogate"),
        (seal(header(extra=1)), "unknown field `extra`"),
        (seal({k: v for k, v in header().items() if k != "digest"}), "missing required field `digest`"),
        (seal(header(positions=[["t", 1, 0], ["t", 0, 0]])), "positions: .* comes after"),
        (seal(header(positions=[["t", 1, 0], ["t", 1, 5]])), "positions: .* is named twice"),
        (seal(header(arrays=[entry(part="q")]), bytes(64)), "array 'a' of part 'q' belongs to no part"),
        (seal(header(arrays=[entry(dtype="object")]), bytes(64)), "Invalid enum value 'object'"),
        (seal(header(arrays=[entry(dtype=">i8")]), bytes(64)), "Invalid enum value '>i8'"),
        (seal(header(arrays=[entry(dtype="int16")]), bytes(64)), r"8 bytes are not int16 of shape \[8\]"),
        (seal(header(arrays=[entry(shape=[7])]), bytes(64)), r"8 bytes are not uint8 of shape \[7\]"),
        (seal(header(arrays=[entry(differences=True)]), bytes(64)), "numbers in ascending order are stored"),
        (
            seal(header(arrays=[entry(bytes(5), dtype="uint8", differences=True)]), padded(bytes(5))),
            "only these",
        ),
        (
            seal(header(arrays=[entry(dtype="int64", shape=[1])]), bytes(64)),
            "numbers in ascending order are stored as differences, and only these",
        ),
        (seal(header(arrays=[entry(shape=[-1])]), bytes(64)), "Expected `int` >= 0"),
        (seal(header(arrays=[entry(shape=[-2, -4])]), bytes(64)), "Expected `int` >= 0"),
        (seal(header(arrays=[entry(shape=[2**32, 2**32])]), bytes(64)), "no array has the shape"),
        (seal(header(arrays=[entry(shape=[0, 2**62, 2], length=0)])), "no array has the shape"),
        (seal(header(arrays=[entry(shape=[8] + [1] * 32)]), bytes(64)), "length <= 32"),
        (seal(header(arrays=[entry(shape=[8.0])]), bytes(64)), "Expected `int`, got `float`"),
        (seal(header(arrays=[entry(length=-8)]), bytes(64)), "Expected `int` >= 0"),
        (seal(header(arrays=[entry(offset=64)]), bytes(128)), "leaves a gap before it"),
        (seal(header(arrays=[entry(), entry(name="b")]), bytes(128)), "array 'b' .* overlaps"),
        (seal(header(arrays=[entry(), entry(name="b", offset=8)]), bytes(128)), "array 'b' .* overlaps"),
        (seal(header(arrays=[entry(), entry(offset=64)]), bytes(128)), "arrays: .* is named twice"),
        (seal(header(arrays=[entry(name="b"), entry(offset=64)]), bytes(128)), "arrays: .* comes after"),
        (seal(header(arrays=[entry()])), "reaches beyond the data"),
        (seal(header(arrays=[entry(shape=[2**50], length=2**50)]), bytes(64)), "reaches beyond the data"),
        (seal(header(), bytes(64)), "64 bytes trail behind the last array"),
        (seal(header(arrays=[entry()]), bytes(65)), "1 bytes trail behind the last array"),
        (seal(header(arrays=[entry()]), bytes(63) + b"\1"), "the padding is not zero"),
        (
            seal(header(arrays=[entry()]), b"\1" + bytes(63)),
            "array 'a' of part 'p' does not match its checksum",
        ),
        (seal(header(arrays=[entry(b"\2", dtype="bool")]), padded(b"\2")), "a bool is neither 0 nor 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_fault_has_its_own_message(content, message):
    with pytest.raises(SnapshotError, match=message):
        decode(content)


def test_what_the_forger_seals_without_a_fault_is_read():
    read = decode(seal(header(arrays=[entry(b"\0\1\2")]), padded(b"\0\1\2")))
    assert read.parts["p"].arrays["a"].tolist() == [0, 1, 2]


def test_sizes_are_not_believed_before_they_are_checked():
    import tracemalloc

    vast = entry(shape=[2**40], length=2**40)
    forged = [
        seal(header(arrays=[vast]), bytes(64)),
        SMALL[:12] + struct.pack("<QQ", 2**40, 2**41) + SMALL[28:],
        SMALL[:20] + struct.pack("<Q", 2**40) + SMALL[28:],
    ]
    tracemalloc.start()
    try:
        for content in forged:
            with pytest.raises(SnapshotError):
                decode(content)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_shrinks_while_it_is_read_is_refused():
    class Shrinking(io.BytesIO):
        def readinto(self, buffer):
            return super().readinto(buffer[:-1])

    with pytest.raises(
        SnapshotError, match="array 'a' of part 'model': the file ended while it was being read"
    ):
        load(Shrinking(SMALL))


def test_faults_are_told_in_the_documented_order():
    """Of several faults the one checked first is told."""
    wrong = bytearray(seal(header(arrays=[entry(part="q")]), bytes(64), version=9, magic=b"NOTMAGIC"))
    wrong[-1] ^= 1
    for repair, message in [
        (lambda: None, "not a snapshot"),
        (lambda: wrong.__setitem__(slice(0, 8), b"STREAMNB"), "version 9"),
        (lambda: wrong.__setitem__(slice(8, 12), b"\1\0\0\0"), "contents do not match"),
        (
            lambda: wrong.__setitem__(slice(-32, None), hashlib.sha256(wrong[:-32]).digest()),
            "belongs to no part",
        ),
    ]:
        repair()
        with pytest.raises(SnapshotError, match=message):
            decode(wrong)
