"""The semantics of the stream: what one batch of records does, without I/O and without a clock.

    records -> processing/ (with labels/) -> outputs, and a journal record by journal/

    ports.py        `Log`, `Record`, `Transaction`: what the engine asks of the outside
    settings.py     what a learner does apart from its model: outputs, pruning, reports
    sensor.py       what observers of a worker hear; a sensor changes nothing
    topic_plan.py   topics, settings and permissions that a model needs on a broker
    labels/         labels that arrive separately
    processing/     predict, learn and score one batch
    journal/        one record a commit, recovery, replay
    retraining/     a model retrained from the log with the current labels

The caller reads the clock and passes `now`. Logs, snapshot stores and configurations are protocols
here, implemented in `event_logs`, `persistence` and `runtime`.
"""
