"""Build a learner process from the configuration, and run its loop.

A `Config` flows in; a running `Worker` comes out. Only `factories.py` turns the configuration into
objects: model, `EventProcessor`, settings, job identity, snapshot folder, worker. `context.py` opens
configuration and log for commands that need no model, and therefore start sooner.

The loop of `Worker.run` is: poll, process, begin a commit, look around, save if due. One process, one
thread, one log. A commit in flight overlaps with the processing of the next batch.

`worker.py` composes the parts, of which each has one idea:

    part                          idea
    leadership.py                 at most one learner writes to a journal
    worker_recovery.py            replay, then journal what has changed since the last record
    record_reader.py              records of one commit, each once and in order
    committer.py                  the numbered steps of a commit; one is in flight
    snapshot_writer.py            snapshots while the stream flows, one at a time
    label_back_pressure.py        labels wait for their events
    model_handover.py             a retrained model is installed at the end of the journal
    surveillance.py, topic_guard.py   topics that change, memory that runs out

The parts share a `WorkerContext`: ports, policy, identity, and the end of the journal. States and allowed
transitions of a worker are the table in `engine/worker_states.py`: `Leadership` enters STANDBY and
RECOVERING, `Worker` RUNNING and STOPPED, and `OutageReporter` (telemetry) WAITING.

Invariants:

* The clock is read once a commit, and journalled. Nothing learned depends on another clock.
* If a commit fails, the model is ahead of the journal: the process ends, and recovery repeats the work.
* At most one commit and one snapshot are in flight.
* A snapshot is cut at an acknowledged commit.
* A topic that was deleted or created again while the learner runs stops it, before its records are
  learned.

Start reading at `worker.py`, then `factories.py`. `kernel_warmup.py` and `warmup.py` compile kernels
before the election; `shutdown.py` turns a signal into `Worker.stop`; `resent_dead_letters.py` tracks
which dead letters were sent again; `next_commands.py` completes the commands that error messages
suggest.
"""
