"""Calibrate probabilities, and fit logistic units: the parts that learn from predictions.

    temperature_scaling.py   a power for all classes, learned by Newton steps on the log loss
    histogram_binning.py     the confidence of the most probable class, corrected by bins
    platt_scaling.py         `PlattScaling`: a probability from any score
    newton.py                Newton's method on the regularised cross entropy, in passes
    sequential_laplace.py    sigmoid units with a Gaussian over weights, one event at a time
    row_reservoir.py         a uniform sample of all rows so far, drawn by row number
    reservoir_refit.py       refit a Gaussian on the sampled rows

A calibrator learns from a prediction and its label, before the event is counted. What it has learned
depends on the order of events, and cannot be unlearned.
"""
