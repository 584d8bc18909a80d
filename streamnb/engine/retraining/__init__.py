"""Retrain a model from the log with the current labels, while the learner keeps serving.

A journal, its log and a configuration flow in; a `RetrainedModel` flows out, and the running learner
installs it. The result is the model that would exist if each event had carried, from the beginning, the
label in force at journal record m.

    pass                         class                  result
    1. resolve labels up to m    LabelResolution        for each predicted event, the label in force
    2. learn events up to m      RetrainingProcessor    a model, with each event learned once
    3. follow from m + 1         JournalTail            the same model, up to the journal's end

Both processors have the learner's state, and other stages on the path of events: pass 1 joins and records
labels, pass 2 decodes events with the recorded labels. Both replay the journal without any snapshot
(`NoSnapshots`). Pass 3 works like a replica, so a retraining may take hours without holding the learner
up. At the end the learner pauses: it commits nothing until the file of the model stands at its own journal
record (`SnapshotFolder.offer`). Then it writes one `adopt` record.

The same two passes erase events on demand: `chosen` selects events that pass 2 leaves out, and their
offsets are kept, so that a later retraining leaves them out again.

Invariants:

* The journal and all learned topics must reach back to their beginning; else `JournalError`.
* A topic that was deleted and created again is refused: its offsets mean other records.
* Labels that were refused for lack of room in the first run are refused in pass 1 as well.
* Retraining changes only the model: scores and served predictions of the first run stay.
* Nothing is written to the log by this room.

Start reading at `log_retraining.py` (`Retraining`), then `label_resolution.py`.
"""
