"""Checks of `doctor`: functions from values to a `Diagnosis`, and functions that gather such values.

`cluster_checks.py` looks at brokers, topics, permissions and the group; `log_checks.py` at journal,
snapshots and what a recovery needs; `machine_checks.py` at disk and SQLite. A check never repairs: it
names the next command.
"""
