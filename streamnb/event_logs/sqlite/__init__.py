"""The embedded log: topics, partitions and records in one SQLite file.

A commit is one SQLite transaction, durable on return. Any number of processes may read and append; one
learner commits, fenced by an epoch in the file. `sqlite_store.py` has the schema and every statement,
`sqlite_log.py` the port, and the description of topics. The file must be on a local disk.
"""
