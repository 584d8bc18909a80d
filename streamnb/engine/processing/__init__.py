"""Predict, learn and score one batch of records: the stateful operator of the stream.

Records and the time of the commit flow in; outputs (`NewRecord`) flow out. `EventProcessor.process`
does no I/O and reads no clock, so a replay of the same records with the same `now` gives the same
bytes. How a stream is cut into batches changes neither the model nor, except for `now`, the
predictions.

Within one call of `EventProcessor.process`, each run of records of one sort passes these steps:

    step                    done by                              result
    1. apply an alarm       AlarmResponse.look                   `StreamModel.reset_adaptive`, or a pause
    2. decode               formats.codec                        events, label records, `MalformedEvent`
    3. admit                Admission                            a prefix of the batch, or evictions
    4. find repeats         DelayedLabels.first_repeat           repeat: label or dead letter
    5. predict, then learn  StreamModel.predict_then_learn_many  `Posteriors`
    6. quarantine, decide   without_quarantined, decided         published probabilities, decisions
    7. score                ProgressiveValidation, or labels/    exact counts of right and wrong
    8. prune, evict         StreamModel.prune, evict             a smaller model
    9. monitor              Monitors, DriftDetectors             alerts and drift records
    10. publish             PredictionPublishing                 predictions, dead letters in their place
    11. report              EventProcessor.report                a metrics report, if one is due

Label records take another path after step 2: `engine.labels.delayed_labels.DelayedLabels` learns them.

What is state, and therefore in a snapshot (`EventProcessor.parts`), and what is not:

    state       model, scores or waiting labels, detectors, monitors, alarm responses, decisions,
                evicted offsets, tenants with a pending record, number of records consumed
    not state   `Counters` since the last report, `KnownClasses`, settings

Invariants:

* Event i is predicted by a model that has learned all events before it, and none after it.
* Every record of an input topic is counted in `consumed` exactly once.
* A report, a pruning, an eviction or an alarm response falls between two records.
* Outputs of one call exceed the limit in bytes by at most 4 MiB, or by the outputs of one record.
* Detectors and monitors never change a prediction. An alarm acts only through `AlarmResponse`.

A dead letter is decided in five places: decoding (step 2), `Admission` (a class for which there is no
room), a repeated event (step 4), `DelayedLabels` (a label without an event, a source too many), and
`PredictionPublishing.published` (a prediction that its topic cannot hold). `dead_letters.py` makes the
record in each case.

Other ways through the same room: `score` predicts without learning (scorers), `learn_partial` learns
into a `Partial` (Spark), `reconfigure` continues under other settings, `install_model` continues with a
`RetrainedModel`.

Start reading at `event_processor.py`, then `prediction_publishing.py`, `admission.py` and
`monitors.py`.
"""
