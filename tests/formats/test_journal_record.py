"""Whatever lies in the journal's topic is a record whose digest holds, or a `JournalError`."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import JournalError
from streamnb.formats.journal_record import JournalRecord, decode_journal, encode_journal, seal

SEALED = seal(JournalRecord(1, 3, "ab" * 32, "commit", 1.5, (), {"events": {"0": 7}}, "cd" * 32, "here"))


def test_a_sealed_record_is_read_as_it_was_written():
    assert decode_journal(encode_journal(SEALED)) == SEALED


@given(st.sampled_from(JournalRecord.__struct_fields__), st.text() | st.integers() | st.none() | st.floats())
def test_a_record_with_another_value_is_refused(field, value):
    altered = msgspec.json.decode(encode_journal(SEALED)) | {field: value}
    raw = msgspec.json.encode(altered)
    if altered == msgspec.json.decode(encode_journal(SEALED)):
        return
    try:
        is_same = decode_journal(raw) == SEALED
    except JournalError:
        return
    assert is_same  # a default that was written out


@pytest.mark.parametrize("previous", ["", "x", "zz" * 32, "abc", "\u00e9" * 64])
def test_a_record_that_names_no_digest_before_it_is_refused(previous):
    raw = msgspec.json.encode(msgspec.json.decode(encode_journal(SEALED)) | {"previous": previous})
    with pytest.raises(JournalError, match="journal record 3 does not have the digest it claims"):
        decode_journal(raw)


def test_a_field_of_a_later_version_is_named():
    record = msgspec.json.decode(encode_journal(SEALED)) | {"zeal": 7, "digest": "ab" * 32}
    with pytest.raises(JournalError, match="altered, or written by a later version, which knows its zeal"):
        decode_journal(msgspec.json.encode(record))
