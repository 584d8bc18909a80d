"""Merge the models of learners that share the partitions of a stream.

`shard_states.py` reads what each learner has committed and adds it; the sum is the same, bit for bit,
in any order. `merged_model_publishing.py` installs sum after sum in a journal of its own, which
replicas and scorers follow. A configuration whose learning depends on the order of events is refused.
"""
