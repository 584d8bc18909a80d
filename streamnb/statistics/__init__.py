"""Sufficient statistics and exact arithmetic: small objects and kernels that models are made of.

    counts.py               discrete counts: rows by class, in units of 1/1024 example
    moments.py              Welford's (n, mean, M2) for each attribute and class
    histograms.py           how many words have which count, for Bernoulli texts
    document_frequency.py   texts of each class that hold a word
    decayed_counts.py       counts and moments with a half-life, by forward decay
    sequential_posterior.py, hypothesis_weights.py   P(h | D), one observation after another
    logspace.py, compensated.py, double_double.py, rising_factorial.py   arithmetic with small error
    counter_rng.py          random numbers as a function of seed and number
    credible_intervals.py   equal-tailed intervals of a Beta distribution
    memory_budget.py        how bytes are divided, as a function of the stream
    lightest_rows.py        rows that are evicted first

Laws: integer sums are exact in any order; `merge` is addition; unlearning takes back exactly on counts.
Decayed counts and posteriors depend on the order of events.
"""
