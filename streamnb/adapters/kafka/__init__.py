"""Kafka by either client: the log, its transactions, the election, errors in words."""
