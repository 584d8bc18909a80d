"""Bayesian networks: counting, questions by variable elimination, EM with gaps, and structure.

    network.py                        `BayesianNetwork`: tables by counting, questions
    bayesian_network_classifier.py    the posterior of one variable, given all other values
    family_counts.py                  values of parents by value, as exact counts
    variable_elimination.py, factors.py   sums and maxima over products, as logarithms
    incremental_em.py, completions.py     learning from events with gaps, by EM
    gibbs_sampling.py, variational_bayes.py   the same by MCMC, and by a mean field
    structural_em.py                  the structure from events with gaps
    structure_posterior.py, structure_sums.py      P(G | D) over all structures, by marginal likelihood
    markov_equivalence.py, constraint_search.py    classes of equivalent structures, search by tests
    joint_table.py, joint_query.py, probability_csv.py   joint tables, questions as text, CSV
    dag.py, independence.py           what arrows and numbers show about independence

A fixed structure and a posterior over structures unlearn exactly. EM depends on the order.
"""
