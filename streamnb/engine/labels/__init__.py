"""Labels that arrive separately from their events: match, resolve, learn and score them.

Label records and predicted events flow in as batches (`batches.py`). Calls of `learn_late_many` and
`unlearn_many` flow out to the model, and revisable scores to the reports. An event is predicted when it
arrives. Its attributes and the served prediction are kept until its label comes, or until it expires.

States of an event:

    state        kept in                 leaves it when
    waiting      LabelBuffer             a label arrives, or the watermark passes it
    labelled     LabelBuffer             the watermark passes it; until then a label may change
    expired      nowhere                 never; a label for it is unmatched, then `unknown-event`

States of a label record:

    state        kept in                 leaves it when
    unmatched    UnmatchedLabels         its event arrives, or it must make room, or it is too old
    in force     the event's block       another label wins, or its source is retracted
    outranked    SourceLabelStore        the label in force is retracted by its source
    revoked      RevokedIntervals        never: labels of a revoked interval do not count

`source_labels.py` decides which of several labels is in force. Of each source the last label counts, in
the total order (time, partition, offset). Of these the source with the highest rank wins, then the
latest label, then the name of the source. So the result follows from the records, not from the order of
reading.

A correction is applied in one place, `LabelApplication`: the new set of source labels is stored, and if
the label in force differs, `ModelUpdater.correct` unlearns the old one and learns the new one. The
score of the event is replaced, not added.

Invariants:

* A waiting event is learned with the attributes that it had when it was predicted.
* Whether an event still waits depends on `Watermark` alone: a time and a number of bytes, no clock.
* Blocks of the buffer begin and end at the same events in every run, so equal streams have equal bytes.
* At most four sources may label one event besides the label inside it. A label of another is refused.
* A retraction of a source unlearns nothing at once. `DelayedLabels.work` visits the waiting events in
  steps of some hundreds, and each commit journals how many steps it made.
* Scores of served predictions are sums of integers, so a replaced score leaves no trace.

Start reading at `label_application.py`, then `delayed_labels.py`, `source_labels.py`, `watermark.py`
and `label_buffer.py`.
`batches.py` and `label_block.py` have the columns, and `label_buffer.py` the copy for a snapshot.
"""
