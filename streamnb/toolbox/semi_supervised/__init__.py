"""Naive Bayes that learns from events without a label, or without any label, by incremental EM.

An unlabelled event counts as every class, by its responsibility. Events of the window are revisited in
turn; an event that leaves the window is unlearned. Expected counts are whole units of 1/1024, so what
was added can be taken out exactly; moments to rounding.

    semi_supervised_nb.py   labelled and unlabelled events; weighs the labelled model against both
    mixture_model.py        components that no label names
    responsibilities.py     the steps of EM
    em_window.py            the events that EM revisits
"""
