"""The journal: one record a commit, chained by a running digest, from which everything can be rebuilt.

    digest_n  = SHA-256(digest_{n-1} || record n without its digest)
    outputs_n = SHA-256(outputs_{n-1} || topic, key, headers and bytes of every output of commit n)

The first chain identifies what was processed, in which order. The second identifies the outputs. They may
differ on a machine whose logarithms differ in the last bit; the fingerprint in the genesis record shows it.

Kinds of records:

    genesis     the first: configuration, topic ids, fingerprint, start positions
    commit      slices that were processed, in this order; without slices it reports on earlier ones
    config      a new configuration applies after it; with the ids of topics that are read from then on
    rollback    the state returns to its value after record `to`; positions stay
    loss        unprocessed records were deleted: positions skip them; with the current topic ids
    program     another version of this program continues
    adopt       a model that was retrained up to record `to`, and then followed the journal, is installed;
                if it has another configuration, that applies from here on; or the sum of what several
                learners have learned up to these positions
    foreign     records of the journal's topic at these offsets, which no learner wrote, are skipped
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
    """Adjoining records of one partition, processed in order.

    Attributes:
        topic: the topic.
        partition: its number.
        first: offset of the first record.
        next: offset after the last record.
        count: how many records; fewer than next - first if the log has gaps.
        crc: CRC-32 of their concatenated values.
    """

    topic: str
    partition: int
    first: int
    next: int
    count: int
    crc: int


class AppliedAction(msgspec.Struct, frozen=True, array_like=True):
    """The action of an alarm in a commit, see `engine.actions`.

    Attributes:
        action: "pause" or "renew".
        first, stop: indices among its records between which learning was paused; for "renew" both are the
            index of the record before which the model was reset.
    """

    action: str
    first: int
    stop: int


class JournalRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The effects of one commit.

    Attributes:
        version: of this format.
        n: number of the record, from 0; record 0 is the genesis.
        previous: digest of the record before, in hex.
        kind: see above.
        now: the time of the commit, seconds since the epoch, used wherever it needs a time.
        slices: what was processed, in order.
        positions: topic -> partition (as text) -> offset of the next record to read, of every partition.
        outputs: running digest of the outputs, in hex.
        machine: fingerprint of the machine that computed the outputs.
        digest: running digest of the journal up to and with this record, in hex.
        config_hash: genesis, config and adopt, of the configuration that applies from here on.
        config: its keys and values, except those without effect on what is learned.
        fingerprint: genesis and program, what derived floats depend on.
        topic_ids: genesis, loss and config, topic -> id, which changes if a topic is recreated.
        to: rollback, the record whose state is restored; adopt, see above.
        model: adopt only, the SHA-256 of the model, in hex.
        floor: adopt only, whether events were erased, so that no earlier state may be restored.
        merged: adopt only, of a sum: the digests of its terms in their learners' journals, or the SHA-256 of
            a model as text.
        strays: foreign only, the offsets that are skipped.
        work: commit only, steps of work that takes longer than one commit, made after its slices.
        silence: commit only, monitors of silences of up to this many seconds were updated, after a check that
            no record was waiting to be read.
        acted: commit only, the actions of alarms in it.
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
        """The number of processed records, of every sort."""
        return sum(part.count for part in self.slices)


class ConfigChange(NamedTuple):
    """A configuration key whose value differs from a journal record's.

    Attributes:
        key: its dotted path.
        before: the value in the journal, as text.
        after: the value now.
        allowed: whether the learned model can be continued with it.
        anew: whether a retrained model may have it.
    """

    key: str
    before: str
    after: str
    allowed: bool
    anew: bool


class _Likeness(msgspec.Struct):
    n: int
    previous: str
    digest: str


_length = struct.Struct("<Q").pack
_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(JournalRecord)
_LIKENESS = msgspec.json.Decoder(_Likeness)
_NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_SHOWN = 40  # bytes of what is foreign
_MOST_PIECES = 1000  # of outputs that are hashed together


def crc(values: Iterable[bytes]) -> int:
    """Return the CRC-32 of the concatenated values."""
    return zlib.crc32(b"".join(values))


Output = tuple[str, bytes | None, bytes, Iterable[tuple[str, bytes]]]
"""Topic, key, value and headers."""


def chain_outputs(previous: str, outputs: Iterable[Output]) -> str:
    """Return the running digest after these outputs. Lengths separate their parts."""
    digest = hashlib.sha256(bytes.fromhex(previous))
    heads: dict[str, dict[int, bytes]] = {}  # topic -> length of the key -> beginning of an output
    lengths: dict[int, bytes] = {}
    pieces: list[bytes] = []
    for topic, key, value, headers in outputs:
        if headers or key is None:
            more = [part for name, content in headers for part in (name.encode(), content)]
            present = b"" if key is None else b"k" + key  # a missing key differs from an empty one
            parts = (b"%d" % (3 + len(more)), topic.encode(), present, value, *more)
            pieces += [piece for part in parts for piece in (_length(len(part)), part)]
            continue
        try:
            pieces += heads[topic][len(key)], key, lengths[len(value)], value
        except KeyError:
            name, length = topic.encode(), _length(len(value))
            head = b"".join((_length(1), b"3", _length(len(name)), name, _length(1 + len(key)), b"k"))
            heads.setdefault(topic, {})[len(key)], lengths[len(value)] = head, length
            pieces += head, key, length, value
        if len(pieces) > _MOST_PIECES:  # a short copy stays in the cache
            digest.update(b"".join(pieces))
            pieces.clear()
    digest.update(b"".join(pieces))
    return digest.hexdigest()


def seal(record: JournalRecord) -> JournalRecord:
    """Return the record with its digest."""
    body = _ENCODER.encode(msgspec.structs.replace(record, digest=""))
    digest = hashlib.sha256(bytes.fromhex(record.previous) + body).hexdigest()
    return msgspec.structs.replace(record, digest=digest)


def encode_journal(record: JournalRecord) -> bytes:
    """Return the JSON of a sealed record."""
    return _ENCODER.encode(record)


def decode_journal(raw: bytes) -> JournalRecord:
    """Return the record of these bytes, after verification of its own digest.

    Raises JournalError for anything else; its subclass `ForeignRecordError` for bytes unlike any journal
    record. A record of a later version is not foreign: to skip it would lose its effects.
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
    except ValueError:  # `previous` is not hex
        is_whole = False
    if not is_whole:
        why = "it was altered"
        with suppress(*_NOT_JSON):  # msgspec does not check what it skips
            if added := sorted(msgspec.json.decode(raw).keys() - set(record.__struct_fields__)):
                why += f", or written by a later version, which knows its {', '.join(added)[:_SHOWN]}"
        raise JournalError(f"journal record {record.n} does not have the digest it claims: {why}")
    return record


def _refuse_foreign(raw: bytes) -> None:
    try:
        _LIKENESS.decode(raw)
    except _NOT_JSON as error:
        raise ForeignRecordError(f"{len(raw)} bytes that are not a journal record") from error


def last_number(values: Iterable[bytes]) -> int | None:
    """Return the greatest record number among adjoining records of the journal's topic, None without any."""
    return max((n for n in map(_number, values) if n is not None), default=None)


def _number(raw: bytes) -> int | None:
    try:
        return _LIKENESS.decode(raw).n
    except _NOT_JSON:
        return None
