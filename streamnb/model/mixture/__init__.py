"""The Bayes-optimal mixture of hypotheses, its members, and these as classifiers of their own."""
