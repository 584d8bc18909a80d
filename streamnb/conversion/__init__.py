"""Conversion: records of other topics become events and labels, exactly once (`streamnb convert`).

    source topic --> decode --> unwrap --> give roles --> topics of events and labels
       bytes          frame      envelope    columns       one transaction with the position
                        |
                  schema registry

A learner must be able to read its log again after years: for a recovery, a recount or a new model. By that
time a registry may be gone, or have given a schema's id to another schema. So a schema is used once, here,
and the log has the decoded values as JSON. Learners, scorers, pages and `verify` need no registry.

Start with `source_converter.RecordConverter`, a function of records; `source_follower` runs it on a log:

    state       meaning                                            next
    waiting     another process has the lease of this source       converting, when the lease is free
    converting  decodes records, and writes outputs and position   waiting, if it lost the lease
    held up     the registry does not answer; the lease is kept    converting, when it answers

Invariants:

* Outputs and position are one transaction, which only the holder of the lease can write. A crash at any point
  neither loses a record nor converts one twice.
* A record is passed only if it was written as an event, a label or a dead letter, or has a meaning that needs
  none (a tombstone). An outage of the registry is not the fault of a record, so the converter waits.
* A schema's id means one schema for good. If the registry answers with another, the converter stops.
"""
