"""Checks that read the log again: the chain, the slices, what was published, and what a replay gives.

`journal_chain.scan_log` reads the journal once and returns a `LogScan`, which the other checks consult.
`ProcessedReader` reads the processed events once, in order. Replays use
`engine.journal.recovery.recover` without snapshots, or from a snapshot up to the next one.
`published_outputs.Balance` compares two multisets in constant memory: the chance that a difference stays
unseen is about 2^-116.

A fault is reported with the journal record or the offset at which it stands. An accepted loss and a
foreign record are not faults.
"""
