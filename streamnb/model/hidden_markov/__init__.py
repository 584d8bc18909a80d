"""Hidden Markov models: filter, smoother, Viterbi, Baum-Welch, online EM, and a chain for each entity."""
