"""Other methods of machine learning on streams, outside the default model of the service.

    concepts/           brute-force concept learning, version spaces, FIND-S
    linear/             least squares, gradient units, logistic regression
    posterior/          conjugate posteriors of a coin and a die
    semi_supervised/    naive Bayes that learns from events without a label, by EM
    hidden_markov/      filter, smoother, Viterbi, online EM, a chain for each entity
    bayesian_network/   counting, elimination, EM with gaps, structure

Learners have River's interface, and save with `state`. `models` imports nothing of this room.
`config/model_kinds.py` lists the kinds that run as a service.
"""
