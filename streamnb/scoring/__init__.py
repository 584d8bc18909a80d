"""Score predictions and decisions, and detect drift.

    prequential_scores.py    each labelled event is scored by the prediction made before it was learned
    revisable_scores.py      the same if labels come later, change, or are retracted
    ranking.py               AUC of two classes, and the chance part of a calibration error
    threshold_counts.py      points of ROC, precision-recall and cost curves
    decision_rule.py         the decision with the least expected cost
    decision_scores.py       what decisions turned out to cost
    drift_detectors.py       River's detectors, fed with right and wrong, saved as bits
    attribute_drift.py       attributes whose values differ from earlier ones, with their chance level
    change_test.py           sequential tests of a rate, valid whenever they are stopped
    new_class_probability.py the probability of a label never seen (Hoppe's urn)
    typicality.py            how usual the log likelihood of an event is within its class
    paired_comparison.py     two forecasters on the same events, at any time

Predictions and labels flow in; counts and reports flow out. Counts are integers. A score never changes
a model or a prediction. Start reading at `prequential_scores.py`.
"""
