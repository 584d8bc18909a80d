"""A model for each tenant of a stream: those at work in one set of tables, the others put away."""
