"""Predict, learn and score one batch of records: the stateful operator of the stream.

Records and the time of the commit flow in; outputs (`NewRecord`) flow out. `EventProcessor.process`
does no I/O and reads no clock, so a replay of the same records with the same `now` gives the same
bytes. How a stream is cut into batches changes neither the model nor, except for `now`, the
predictions.

`EventProcessor` is a `ProcessorState`, which all stages share, and two paths over it. Decoding makes
columns, an `EventBatch` or a `LabelBatch`; each stage is an object made once, and adds columns.

    stage of events         done by                              result
    1. apply an alarm       AlarmResponse.look                   `StreamModel.reset_adaptive`, or a pause
    2. decode               EventDecoding                        a batch, `MalformedEvent`
    3. admit                Admission                            a prefix of the batch, or evictions
    4. find repeats         DelayedLabels.first_repeat           repeat: label or dead letter
    5. join labels          JoinLabels                           labels and weights in force
    6. predict, then learn  PredictAndLearn                      ages
    7. quarantine, decide   PredictionPipeline.predict           published probabilities, decisions
    8. score                ScorePredictions                     exact counts of right and wrong
    9. prune, evict         PruneModel                           a smaller model
    10. monitor             DriftMonitoring.observe_events       alerts
    11. publish             PublishPredictions                   predictions, dead letters in their place
    12. detect drift        DriftMonitoring.add_findings         drift records and alerts among them

    stage of label records  done by
    1. decode, admit        LabelProcessing, Admission
    2. apply                engine.labels.label_application.LabelApplication
    3. prune                PruneModel
    4. observe              DriftMonitoring

A report follows if one is due (`metrics_report`).

What is state, and therefore in a snapshot (`ProcessorState.parts`), and what is not:

    state       model, scores or waiting labels, detectors, monitors, alarm responses, decisions,
                offsets of erased events, tenants with a pending record, number of records consumed
    not state   `Counters` since the last commit, `KnownClasses`, settings

Invariants:

* Event i is predicted by a model that has learned all events before it, and none after it.
* Every record of an input topic is counted in `consumed` exactly once.
* A report, a pruning, an eviction or an alarm response falls between two records.
* Outputs of one call exceed the limit in bytes by at most 4 MiB, or by the outputs of one record.
* Detectors and monitors never change a prediction. An alarm acts only through `AlarmResponse`.

A dead letter is decided in five stages: decoding, `Admission` (a class for which there is no room), a
repeated event (step 4), `LabelApplication` (a label without an event, a source too many;
`LabelProcessing` for a retraction), and `PredictionPipeline.encode` (a prediction that its topic cannot
hold). `ProcessorState.reject` and `dead_letters.py` make the record.

Other paths through the same room: `EventScoring` predicts without learning (scorers), or learns into a
`Partial` (Spark). `reconfigure` continues under other settings, `install_model` continues with a
`RetrainedModel`. Other processors have other stages in `EventProcessor.event_path`.

Start reading at `event_stages.py`, then `event_processing.py`, `prediction_pipeline.py` and `admission.py`.
"""
