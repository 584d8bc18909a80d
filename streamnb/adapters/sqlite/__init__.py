"""The embedded log: a SQLite file."""
