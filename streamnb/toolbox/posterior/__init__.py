"""Conjugate posteriors: Beta-Bernoulli and Dirichlet-categorical.

Observations are kept as exact counts, and the prior is applied on read. So order does not matter, two
posteriors of one prior merge by addition, and an observation can be unlearned. `conjugate.py` has what
both share, and `multinomial.py` the binomial and multinomial distributions with known chances.
"""
