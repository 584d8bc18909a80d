"""Logs behind the port `engine.ports.Log`: Kafka, and one SQLite file.

Both keep the same contract: partitions of records at rising offsets, one learner at a time, and a
commit that is visible as a whole or not at all. `tests` runs one contract over both. `blocking_call.py`
runs a call that may block in a thread, while its caller shows that it is alive.
"""
