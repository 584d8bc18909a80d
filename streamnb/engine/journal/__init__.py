"""The journal: one record a commit, from which a learner recovers its exact state.

A journal record names the records that were processed, in order, and the positions after them. Its
digest covers the record before it, so the journal is a chain. A commit is one transaction of outputs,
one journal record and positions. Positions come from the journal alone. If journal, snapshot and log do
not fit together, the answer is `JournalError`, never a guess.

    recovery = newest readable snapshot + silent replay of the journalled slices after it

Kinds of records, and the function that writes each:

    kind        written by                                 effect
    genesis     journal_entries.begin                      learning starts with the earliest records
    commit      Checkpoint.commit                          slices were processed; positions move
    config      accept_configuration, restate              another configuration holds from here on
    program     accept_program                             another version of the program continues
    loss        accept_loss                                positions jump over records that are gone
    adopt       install_retrained_model                    a retrained or merged model is installed
    rollback    roll_back                                  the state of an earlier record holds again
    foreign     skip_foreign_records                       offsets that readers of the journal pass over

Readers:

    recover        a learner that starts: reads to the end, replays, then continues
    JournalTail    a replica: follows a running learner, and writes nothing
    Retraining     `engine.retraining`: replays from record 0 with the current labels
    EventLocator   finds an event, its commit and its published prediction
    scan_log       `verification`: checks the chain itself

Invariants:

* `Checkpoint` is a value: number, digests and positions after a record. `Checkpoint.after` refuses a
  record that does not follow.
* A rollback does not delete anything. `journal_history.path_to` returns the records that made the
  state.
* Replay publishes nothing. On the kind of machine that wrote the outputs it compares their digest.
* A configuration under which the state cannot continue is refused before anything is replayed.
* Other programs may write to the journal topic. Such a `ForeignRecord` is skipped if the next record of
  the chain follows its predecessor, and reported once.

Start reading at `checkpoint.py`, then `recovery.py`; `journal_history.py` reads the chain and
`slice_replay.py` reads the events again. `formats/journal_record.py` has the bytes.
"""
