"""How `latency` measures: where, who plays which part, and the arithmetic."""
