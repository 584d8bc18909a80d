"""Check that the log, the journal, the outputs and the learned state agree.

A log, the kept snapshots and a configuration flow in; `CheckResults` flow out. Verification only reads,
and stops at the end that the journal has when it begins, so a learner may run meanwhile.

    check                         module                          compared with
    1. chain of the journal       log/journal_chain.py            digests, numbers and positions
    2. slices                     log/processed_slices.py         the records that the log still holds
    3. recount of events          recount/event_recount.py        the counts of snapshots and of the end
    4. recount of labels          recount/label_recount.py        the same, after corrections
    5. posterior                  recount/posterior_audit.py      its own losses, and the bound on them
    6. replayed state             log/replayed_states.py          the recovered state, bit for bit
    7. published outputs          log/published_outputs.py        one prediction an event, as multisets
    8. replayed outputs           log/replayed_outputs.py         the published bytes, in order
    9. retrained model            log/retrained_model_check.py    the model that the journal installed

Outcome of a check (`check_results.Outcome`):

    OK          it is as it should be
    UNCHECKED   it could not be found out, with the reason
    DIFFERS     it is not as it should be, with the place; only the first few are listed, all are counted

The recount shares with the learner how bytes become events, the parameters of the model, and the
formula of a memory budget. It counts with dictionaries, integers and fractions, and calls no kernel.
Counts must be equal. Moments may differ from the exact ones by the rounding of Welford's recurrence
(`exact/`).

State that depends on the order of events (gradients, decayed counts, pools) cannot be counted again. It
is replayed without snapshots and compared bit for bit, on the kind of machine that wrote it.

Invariants:

* A check that cannot be made is reported as unchecked, never left out.
* Memory is bounded for outputs: two multisets are compared by sums of hashes, and listed on a mismatch.
* Nothing in this room is imported by `engine`.

Start reading at `log_verification.verify`, which lists the steps. `recount/recount_comparison.compare`
compares a recount with a state.
"""
