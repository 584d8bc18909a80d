"""The stable names by which programs recognise what streamnb reports, each with its level.

Three lists: messages of the service, the commands and the library; reasons of dead letters; codes of problems
over HTTP. A name is in kebab-case and never changes its meaning. `docs/messages.md`, `docs/formats.md` and
`docs/ask.md` describe each name.

A handler that prints messages in another form needs nothing else: `Message` has the event name, the text and
the fields, and `level_of` returns the level.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Level(StrEnum):
    """Severity of a message."""

    INFO = "info"
    """Progress, or a decision as configured."""
    WARNING = "warning"
    """The operator, or the author of the input, may want to act."""
    ERROR = "error"
    """Something failed or ended."""


_INFO, _WARNING, _ERROR = Level

MESSAGES: Mapping[str, Level] = {
    # Processes
    "topics-used": _INFO,
    "next-commands": _INFO,
    "kernels-compile": _INFO,
    "metrics-served": _INFO,
    "metrics-not-served": _WARNING,
    "telemetry-not-exported": _WARNING,
    "http-served": _INFO,
    "configuration-not-read": _WARNING,
    "configuration-differs": _WARNING,
    "attributes-not-kept": _WARNING,
    "configuration-would-change": _INFO,
    "configuration-reloaded": _INFO,
    "reload-refused": _WARNING,
    "standing-by": _INFO,
    "snapshot-fetched": _INFO,
    "snapshot-mirror-fails": _WARNING,
    "standby-follows": _INFO,
    "standby-not-ready": _WARNING,
    "learner-recovered": _INFO,
    "learner-progress": _INFO,
    "scorer-progress": _INFO,
    "scorer-assigned": _INFO,
    "scorer-waits": _WARNING,
    "scorer-commit-lost": _WARNING,
    "following-restarts": _WARNING,
    "events-not-written": _WARNING,
    "webhook-begins": _INFO,
    "webhook-fails": _WARNING,
    "webhook-recovers": _INFO,
    "webhook-skipped": _WARNING,
    "webhook-gone": _WARNING,
    "webhook-gap": _WARNING,
    "source-begins": _INFO,
    "source-stopped": _INFO,
    "source-gap": _WARNING,
    "source-notice": _WARNING,
    "registry-unreachable": _WARNING,
    "registry-reachable": _INFO,
    "log-unreachable": _WARNING,
    "log-reachable": _INFO,
    "monitor-alert": _WARNING,
    "record-limit-low": _WARNING,
    "snapshot-answers": _INFO,
    "snapshot-damaged": _WARNING,
    "snapshot-folder-read-only": _WARNING,
    "snapshot-not-kept": _WARNING,
    "journal-not-read": _WARNING,
    "stopped-early": _INFO,
    "call-hangs": _ERROR,
    "thread-failed": _ERROR,
    "learner-stopped": _INFO,
    "library-message": _WARNING,
    "python-warning": _WARNING,
    "command-failed": _ERROR,
    "command-interrupted": _INFO,
    "records-held-up": _WARNING,
    "commits-paused": _INFO,
    "model-kept": _WARNING,
    "model-installed": _INFO,
    "journal-trimmed": _WARNING,
    "topic-loses-records": _WARNING,
    "records-missing": _WARNING,
    "nothing-evicted": _WARNING,
    "memory-nearly-full": _WARNING,
    "loss-accepted": _WARNING,
    "program-changed": _INFO,
    "configuration-changed": _INFO,
    "foreign-record": _WARNING,
    "more-foreign-records": _WARNING,
    # Commands
    "dry-run-dead-letter": _WARNING,
    "dry-run-ended": _INFO,
    "dead-letter-replay": _INFO,
    "replay-stopped": _INFO,
    "topic-empty": _INFO,
    "id-as-text": _INFO,
    "prediction-derived": _INFO,
    "more-warnings": _INFO,
    "ids-not-found": _WARNING,
    "nothing-forgotten": _WARNING,
    "records-gone": _WARNING,
    "merge-fails": _WARNING,
    "merge-restarts": _WARNING,
    "merge-shrank": _WARNING,
    "merge-waits": _WARNING,
    "partitions-not-learned": _WARNING,
    "spark-batch": _INFO,
    "file-without-events": _WARNING,
    "file-without-keys": _WARNING,
    "labels-topic-not-read": _WARNING,
    "label-source-refused": _WARNING,
    "label-event-not-found": _WARNING,
    # Quality of data
    "nothing-learned": _WARNING,
    "dead-letters-found": _WARNING,
    "columns-differ": _WARNING,
    "fields-not-read": _WARNING,
    "attributes-declared": _INFO,
    "label-chosen": _INFO,
    "files-left-out": _WARNING,
    "label-zero": _WARNING,
    "labels-partial": _WARNING,
    "weights-not-read": _WARNING,
    "field-absent": _WARNING,
    "text-as-value": _WARNING,
    "numbers-as-values": _WARNING,
    "numbers-converted": _INFO,
    "reading-sniffed": _INFO,
    "decimal-point-ambiguous": _WARNING,
    "digits-lost": _WARNING,
    "times-odd": _WARNING,
    "totals-row": _WARNING,
    "ids-repeated": _WARNING,
    "labels-alike": _WARNING,
    "labels-like-missing": _WARNING,
    "labels-are-numbers": _WARNING,
    "label-has-blanks": _WARNING,
    "one-class-only": _WARNING,
    "rows-grouped-by-label": _WARNING,
    "held-out-classes-unknown": _WARNING,
    "evaluation-interrupted": _WARNING,
    "probabilities-left-out": _WARNING,
    "label-leak": _WARNING,
    "row-numbers": _WARNING,
    "constant-column": _WARNING,
    "duplicate-columns": _WARNING,
    "dropped-nothing": _WARNING,
    "weight-below-unit": _WARNING,
    "type-changed": _WARNING,
    "type-changes": _WARNING,
    "event-unknown-to-model": _WARNING,
    "values-not-used": _WARNING,
    "encoding-wrong": _WARNING,
    "row-quoting-odd": _WARNING,
    "header-odd": _WARNING,
    "header-repeated": _WARNING,
    "bytes-as-hexadecimal": _WARNING,
    "no-attribute-declared": _INFO,
    "proposal-mended": _INFO,
}
"""Event name of a message -> its level."""

WITHOUT_CONTENT: Mapping[str, str] = {
    "dead-letters-found": "{count} of {events} events looked at are dead letters: see `streamnb dlq list`",
    "text-as-value": "an undeclared attribute looks like a text, and each is taken for one value",
    "numbers-as-values": "values of an undeclared attribute look unintended, such as numbers in strings",
    "times-odd": "times at {path} have another unit, are in 1970, or are in the future",
    "fields-not-read": 'fields outside "features" are not read',
    "field-absent": "none of {events} events has a value at {path}",
    "ids-repeated": "{count} of {events} events have the id of an earlier event, and each is learned",
    "labels-like-missing": "labels look like missing values",
    "labels-alike": "labels differ only in case, blanks, leading zeros or Unicode form",
    "one-class-only": "all labels are equal: with one class there is nothing to distinguish",
    "type-changed": "{place}: a value has another type than was learned, and is another attribute",
    "type-changes": "{attributes} attributes had another type than was learned in some of {events} events",
    "python-warning": "{category} at {place}",
}
"""Event name of a message that quotes events -> a sentence without content. It names the fields that stay."""

DEAD_LETTER_LEVEL = _WARNING
"""Level of each reason in `streamnb.events.REASONS`."""

PROBLEMS: Mapping[str, Level] = {
    "invalid-json": _WARNING,
    "cut-short": _WARNING,
    "not-utf-8": _WARNING,
    "invalid-http": _WARNING,
    "unauthorized": _WARNING,
    "forbidden": _WARNING,
    "missing-role": _WARNING,
    "not-found": _WARNING,
    "unknown-event": _WARNING,
    "method-not-allowed": _WARNING,
    "timeout": _WARNING,
    "too-large": _WARNING,
    "labels-not-read": _WARNING,
    "key-reused": _WARNING,
    "label-changed": _WARNING,
    "label-not-allowed": _WARNING,
    "key-repeated": _WARNING,
    "keys-not-kept": _WARNING,
    "restart-required": _WARNING,
    "configuration-invalid": _WARNING,
    "events-refused": _WARNING,
    "unsupported-media-type": _WARNING,
    "unsupported-encoding": _WARNING,
    "invalid-request": _WARNING,
    "too-many-requests": _WARNING,
    "unavailable": _ERROR,
    "internal-error": _ERROR,
}
"""Code of a problem over HTTP -> its level."""


def level_of(event: str) -> Level:
    """Return the level of a message. Raises KeyError for a name that is not in `MESSAGES`."""
    return MESSAGES[event]
