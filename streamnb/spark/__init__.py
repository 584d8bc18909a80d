"""Learn on Apache Spark: workers predict by the model after the last batch, and learn into partials.

`job.py` is the driver: Spark plans a batch, workers process its partitions, and the merged partial
becomes a delta file before the batch counts as done. `partition_worker.py` is a worker; each process
keeps a replica that follows the deltas. `deltas.py` is the folder: state after batch n = state after n
- 1 + delta n.
"""
