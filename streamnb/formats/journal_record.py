"""The journal: one record a commit, chained by a running digest, from which everything can be rebuilt.

    digest_n  = SHA-256(digest_{n-1} || record n without its digest)
    outputs_n = SHA-256(outputs_{n-1} || topic, key, headers and bytes of every output of commit n)

The first chain says what was processed, in which order. The second says what was answered: it may differ on
a machine whose logarithms differ in the last bit, which the fingerprint in the genesis record tells.

Kinds of records:

    genesis     the first: configuration, topic ids, fingerprint, where reading starts
    commit      slices were processed, in this order; without any it is a report of those before
    config      from here on another configuration holds; with the ids of topics that are read from here on
    rollback    the state is again what it was after record `to`; positions stay
    loss        records that were not processed are gone: positions jump over them; topic ids as they are now
    program     from here on another version of this program goes on
    adopt       a model that was learned anew up to record `to`, and then followed the journal, is taken up;
                where it was learned under another configuration, that one holds from here on; or the sum of
                what others have learned up to these positions
    foreign     records of the journal's topic, at these offsets, are not the journal's: they are passed over
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import msgspec

from streamnb.errors import ForeignRecordError, JournalError

VERSION = 1
START = hashlib.sha256(b"streamnb journal").hexdigest()
"""Both digests before the first record."""


Kind = Literal["genesis", "commit", "config", "rollback", "loss", "program", "adopt", "foreign"]


class Slice(msgspec.Struct, frozen=True):
    """Adjoining records of one partition, processed one after the other.

    Attributes:
        topic: where they were read.
        partition: its number.
        first: offset of the first record.
        next: offset after the last record.
        count: how many records; fewer than next - first where the log has gaps.
        crc: CRC-32 of their values, one after the other.
    """

    topic: str
    partition: int
    first: int
    next: int
    count: int
    crc: int


class AppliedAction(msgspec.Struct, frozen=True, array_like=True):
    """What alarms did in a commit, see `engine.actions`.

    Attributes:
        action: "pause" or "renew".
        first, stop: the places among its records from and up to which learning was paused; the place of the
            record before which a model was renewed, twice.
    """

    action: str
    first: int
    stop: int


class JournalRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one commit did.

    Attributes:
        version: of this format.
        n: number of the record, from 0; record 0 is the genesis.
        previous: digest of the record before, in hex.
        kind: see above.
        now: the time of the commit, seconds since the epoch; whatever needs a time in it uses this one.
        slices: what was processed, in order.
        positions: topic -> partition (as text) -> offset of the next record to read, of every partition.
        outputs: running digest of the outputs, in hex.
        machine: which fingerprint computed the outputs.
        digest: running digest of the journal up to and with this record, in hex.
        config_hash: genesis, config and adopt, of the configuration that holds from here on.
        config: its keys and values, those apart that shape nothing.
        fingerprint: genesis and program, what derived floats depend on.
        topic_ids: genesis, loss and config, topic -> id, which changes when a topic is made anew.
        to: rollback, the record whose state is taken up again; adopt, see above.
        model: adopt only, the SHA-256 of the model, in hex.
        floor: adopt only, whether events were forgotten: no state before is to come back.
        merged: adopt only, of a sum: the digests of what is in it, as the journals of these others have them,
            or the SHA-256 of a model as text.
        strays: foreign only, the offsets that are passed over.
        work: commit only, steps of what takes longer than one commit, made after its slices.
        silence: commit only, monitors of silences of up to so many seconds were asked: it was looked whether
            anything waits to be read.
        acted: commit only, what alarms did in it.
    """

    version: int
    n: int
    previous: str
    kind: Kind
    now: float
    slices: tuple[Slice, ...]
    positions: Mapping[str, Mapping[str, int]]
    outputs: str
    machine: str
    digest: str = ""
    config_hash: str = ""
    fingerprint: Mapping[str, str] = {}
    topic_ids: Mapping[str, str] = {}
    config: Mapping[str, Any] = {}
    to: int = -1
    model: str = ""
    floor: bool = False
    merged: tuple[str, ...] = ()
    strays: tuple[int, ...] = ()
    work: int = 0
    silence: float = 0.0
    acted: tuple[AppliedAction, ...] = ()

    @property
    def events(self) -> int:
        """How many records were processed, of every sort."""
        return sum(part.count for part in self.slices)


class ConfigChange(NamedTuple):
    """A key of a configuration that has another value than a journal record has.

    Attributes:
        key: its dotted path.
        before: the value that the journal knows, as text.
        after: the value now.
        allowed: whether what was learned can be continued with it.
        anew: whether a model that is learned anew may have it.
    """

    key: str
    before: str
    after: str
    allowed: bool
    anew: bool


class _Likeness(msgspec.Struct):
    """What a journal record of any version has, and nothing that is written elsewhere."""

    n: int
    previous: str
    digest: str


_length = struct.Struct("<Q").pack
_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(JournalRecord)
_LIKENESS = msgspec.json.Decoder(_Likeness)
_NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_SHOWN = 40  # bytes of what is foreign


def crc(values: Iterable[bytes]) -> int:
    """CRC-32 of values one after the other."""
    return zlib.crc32(b"".join(values))


Output = tuple[str, bytes | None, bytes, Iterable[tuple[str, bytes]]]
"""Topic, key, value and headers."""


def chain_outputs(previous: str, outputs: Iterable[Output]) -> str:
    """The running digest of outputs after these. Lengths keep their parts apart."""
    digest = hashlib.sha256(bytes.fromhex(previous))
    heads: dict[str, bytes] = {}  # topic -> how an output without headers begins
    pieces: list[bytes] = []
    for topic, key, value, headers in outputs:
        if headers:
            more = [part for name, content in headers for part in (name.encode(), content)]
            parts = (b"%d" % (3 + len(more)), topic.encode(), _present(key), value, *more)
            pieces += [piece for part in parts for piece in (_length(len(part)), part)]
            continue
        head = heads.get(topic)
        if head is None:
            name = topic.encode()
            head = heads[topic] = b"".join((_length(1), b"3", _length(len(name)), name))
        present = _present(key)
        pieces += (head, _length(len(present)), present, _length(len(value)), value)
    digest.update(b"".join(pieces))
    return digest.hexdigest()


def _present(key: bytes | None) -> bytes:
    """A key so that none differs from an empty one."""
    return b"" if key is None else b"k" + key


def seal(record: JournalRecord) -> JournalRecord:
    """The record with its digest."""
    body = _ENCODER.encode(msgspec.structs.replace(record, digest=""))
    digest = hashlib.sha256(bytes.fromhex(record.previous) + body).hexdigest()
    return msgspec.structs.replace(record, digest=digest)


def encode_journal(record: JournalRecord) -> bytes:
    """The JSON of a sealed record."""
    return _ENCODER.encode(record)


def decode_journal(raw: bytes) -> JournalRecord:
    """A record, whose own digest has been verified.

    Raises JournalError for anything else; `ForeignRecord` for what looks like no journal record at all. One
    of a later version is not foreign: to pass over it would be to forget what it did.
    """
    try:
        record = _DECODER.decode(raw)
    except _NOT_JSON as error:
        _refuse_foreign(raw)
        raise JournalError(
            f"a journal record that this program cannot read; damaged, or of a later version: {error}"
        ) from error
    if record.version != VERSION:
        raise JournalError(f"journal version {record.version} is unknown; this program reads {VERSION}")
    try:
        is_whole = seal(record).digest == record.digest
    except ValueError:  # `previous` is no hex
        is_whole = False
    if not is_whole:
        why = "it was altered"
        with suppress(*_NOT_JSON):  # msgspec has not looked at what it skipped
            if added := sorted(msgspec.json.decode(raw).keys() - set(record.__struct_fields__)):
                why += f", or written by a later version, which knows its {', '.join(added)[:_SHOWN]}"
        raise JournalError(f"journal record {record.n} does not have the digest it claims: {why}")
    return record


def _refuse_foreign(raw: bytes) -> None:
    try:
        _LIKENESS.decode(raw)
    except _NOT_JSON as error:
        more = "" if len(raw) <= _SHOWN else "..."
        raise ForeignRecordError(
            f"{len(raw)} bytes that are not a journal record: {raw[:_SHOWN]!r}{more}"
        ) from error


def last_number(values: Iterable[bytes]) -> int | None:
    """The greatest number that adjoining records of the journal's topic bear, None where none bears any."""
    return max((n for n in map(_number, values) if n is not None), default=None)


def _number(raw: bytes) -> int | None:
    try:
        return _LIKENESS.decode(raw).n
    except _NOT_JSON:
        return None
