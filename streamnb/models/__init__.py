"""Models that the service weighs and runs: interface, naive Bayes, mixture, and their parts.

    interface/        protocol `StreamModel`, `Posteriors`, attribution, River classifiers as models
    calibration/      temperature scaling, histogram binning, Platt scaling, Newton's method
    softmax/          softmax regression over features, and over byte n-grams
    naive_bayes/      the classifier that counts
    one_dependence/   counts of pairs of values
    forest/           Mondrian trees, aggregated over their prunings
    tenants/          a naive Bayes model for each tenant
    mixture/          hypotheses under one posterior

River's vocabulary: x is a dictionary of attributes, y a label, `learn_one` and `predict_proba_one` the
methods. Models do no I/O, read no clock and import nothing of `toolbox`.
"""
