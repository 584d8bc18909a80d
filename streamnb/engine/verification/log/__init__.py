"""What looks at the log: the chain of the journal, what was published, the replay, kept snapshots."""
