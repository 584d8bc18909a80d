"""Bytes to values and back: the public formats, without a log.

Every format that leaves the process is defined here, and docs/formats.md, docs/snapshot-format.md show
them. Functions are pure, except in the modules that read files of events.

    format                      module                              direction
    event, label record         codec.py, json_parsing.py           both
    prediction, metrics, alert  codec.py                            both
    many predictions            prediction_columns.py, joined_columns.py    columns -> bytes
    dead letter                 dead_letter_record.py               value -> bytes
    journal record              journal_record.py                   both, chained by SHA-256
    snapshot                    snapshot_container.py               both, checksummed, never a pickle
    arrays                      portable_arrays.py                  both, little endian
    model as text               model_text.py                       both, sorted lines
    files of events             event_files.py, event_formats.py, event_source.py   file -> raw events
    tables of text              event_csv.py, table_dialect.py, cell_notation.py    lines -> raw events
    JSON of any shape           json_line_events.py, json_shapes.py                 bytes -> raw events
    encodings of text           encoding_sniffing.py                                first bytes -> codec
    names read as numbers       lost_digits.py                      cells -> warnings
    text for terminals          terminal_text.py                    value -> text

How a record becomes an event, in `codec.decode_event`, or `decode_events` for a batch:

    1. records under the default schema take a fast path, all together; it may give up on any of them
    2. else `json_parsing.parse` reads it, with limits of size and depth
    3. `event_schema.EventSchema` finds id, label, time, declared attributes and open attributes
    4. `event_validity` refuses label records and impossible times
    5. anything wrong raises `MalformedEvent` with a reason and a path such as `$.user.age`

Invariants:

* What the fast path accepts is exactly what the slow path reads.
* Bad input raises the error that the decoder documents: `MalformedEvent`, `ConfigError`, `LogError`,
  `JournalError` or `SnapshotError`.
* Canonical forms: equal snapshots, journal records and model texts are equal bytes.
* A dead letter can be written whatever arrived: value, key and headers have limits, and headers state
  what was cut.
* Journal records, snapshots and model texts hold a digest, and their decoders verify it.

Start reading at `codec.py` and `event_schema.py`; `snapshot_container.py` and `journal_record.py` stand
alone.
"""
