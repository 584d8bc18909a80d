"""Learning from files: reading events, progressive validation, a held-out part, the history of a log."""
