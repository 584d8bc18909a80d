"""Learning from files: reading events, progressive validation, hidden labels, a held-out part."""
