"""Whether what was learned is what the log says, found out by counting the log again."""
