"""Apache Kafka behind the port `Log`, through kafka-python or librdkafka.

Calls of `engine.ports.Log` flow in; requests to a cluster flow out. Records are read with
read_committed. One learner holds several clients, each with one duty:

    client       duty                                                  module
    member       elect the learner: it holds the journal's partition   leader_election.py
    producer     one transactional id a model fences a predecessor     kafka_commits.py, kafka_transactions.py
    reader       poll events, in no group                              kafka_records.py
    seeker       read single records                                   kafka_records.py
    admin        describe topics, groups and transactions              kafka_cluster.py, kafka_admin.py

The election decides which process may try. Safety comes from the transactional id alone: two processes
that both believe to be elected cannot both commit.

A commit in Kafka, and what each outcome means (`error_actions.Action`):

    RETRY       wait, and call again
    RESEND      the outcome is unknown: settle it, then send the same bytes if they are not there
    DEPOSED     another learner has taken over: exit
    CORRUPTED   log, journal or snapshot differ from what was learned: refuse
    FATAL       permissions, configuration, sizes: exit

An unknown outcome is settled by a new producer of the same id: after `init_transactions` nothing of the
old one is in flight, and the last number in the journal shows whether the commit is there.

Invariants:

* The client libraries hold no position of ours: positions come from the journal.
* Every call ends or raises in bounded time. Calls that may block run in a thread of their own
  (`event_logs/blocking_call.py`), and the heartbeat continues meanwhile.
* Errors of both libraries become kafka-python's first, then one line of `error_messages.translate`.
* Only this room imports `kafka` and `confluent_kafka`.

`partition_sharing.py` lets several scorers share partitions: their offsets move in the transaction that
publishes the predictions (KIP-447). `open_transactions.py` and `lost_transaction_markers.py` explain
and repair a partition whose readers are held up by a transaction.

Start reading at `kafka_log.py`, then `kafka_commits.py`, `kafka_transactions.py` and `error_actions.py`.
"""
