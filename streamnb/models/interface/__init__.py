"""The interface between engine and model: protocol, answers, attribution, River classifiers.

`StreamModel` is what the engine asks of a model. The engine calls `predict_then_learn_many` with
events, labels, weights and times; `Posteriors` comes back, with one column a class and one row an
event.

    stream_model.py         the protocol, and `Unbounded` for models without a memory budget
    predictions.py          `Posteriors`: probabilities, quarantine, labels
    feature_importances.py  how much each attribute decides
    attribution.py          log odds that each attribute value adds to a prediction
    river_stream_model.py   a River classifier with `state` and `load_state` as a `StreamModel`
    river_classifier.py     how the answers of any River classifier are read

Laws of a model: deterministic; a state that is saved and loaded continues bit for bit; batches do not
matter; `unlearn_many` takes back as far as `corrections` states.
"""
