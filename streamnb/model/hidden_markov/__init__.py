"""Hidden Markov models: filter, smoother, Viterbi, online EM, and a chain for each entity."""
