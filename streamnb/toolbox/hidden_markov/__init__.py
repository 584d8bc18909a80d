"""Hidden Markov models: filter, smoother, Viterbi, online EM, and a chain for each entity.

    hidden_markov_model.py      `HiddenMarkovModel`: learning by counting, and all questions
    forward_backward.py         filter and smoother, as kernels without underflow
    viterbi.py                  the most likely sequence of states
    structured_perceptron.py    `StructuredPerceptron`: tags by weights that mistakes correct
    hidden_markov_filter.py     a running sequence, in constant time and memory an event
    online_baum_welch.py        `OnlineBaumWelch`: hidden states from one pass, by online EM
    hidden_markov_nb.py         `HiddenMarkovNB`: naive Bayes events in a chain for each entity
    entities.py                 which entities are kept; the least recently seen makes room
    transitions.py, emissions.py   the counts, smoothed on read

Counts of transitions and emissions unlearn exactly; beliefs and online EM depend on the order.
"""
