"""Where a learner stands, and how it comes back: identity, checkpoint, history, recovery, replay."""
