"""The Bayes-optimal mixture of hypotheses, and its members."""
