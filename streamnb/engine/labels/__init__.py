"""Labels that come apart from their events: what waits for one, which one holds, and what it changes."""
