"""Build a learner process from the configuration, and run its loop.

A `Config` flows in; a running `Worker` comes out. Only `factories.py` turns the configuration into
objects: model, `EventProcessor`, settings, job identity, snapshot folder, worker. `context.py` opens
configuration and log for commands that need no model, and therefore start sooner.

The loop of `Worker.run` is: poll, process, begin a commit, look around, save if due. One process, one
thread, one log. A commit in flight overlaps with the processing of the next batch.

States of a process (`engine.sensor.WorkerState`):

    state        entered by                    left when
    STARTING     Worker.await_leadership       the log answers the election
    STANDBY      await_leadership              no other learner is alive
    RECOVERING   Worker.start, once elected    the journal is replayed
    RUNNING      Worker.start                  `stop`, the end of the input, or an error
    WAITING      OutageReporter (telemetry)    the log answers again; then the state before
    STOPPED      Worker.close                  never

The steps of one commit are numbered in `Worker._step`:

    1. read the clock      2. predict and learn      3. make the journal record
    4. await the commit before this one              5. begin the transaction

Invariants:

* The clock is read once a commit, and journalled. Nothing learned depends on another clock.
* If a commit fails, the model is ahead of the journal: the process ends, and recovery repeats the work.
* At most one commit and one snapshot are in flight.
* A snapshot is cut at an acknowledged commit, copied in slices of 4 MiB between commits, and written in
  a background thread of the store (`snapshot_writer.Saving`).
* A topic that was deleted or created again while the learner runs stops it, before its records are
  learned.
* Labels are not read while too many of them wait for events that have not been read yet.

Start reading at `worker.py`, then `factories.py`. `kernel_warmup.py` and `warmup.py` compile kernels
before the election; `shutdown.py` turns a signal into `Worker.stop`; `resent_dead_letters.py` tracks
which dead letters were sent again; `next_commands.py` completes the commands that error messages
suggest.
"""
