"""Concept learning: the posterior by brute force, the version space, and FIND-S.

A `HypothesisSpace` (`Conjunctions`, `Predicates`) answers which hypotheses cover an instance. A learner
counts how often each hypothesis disagreed with a label (`Disagreements`), and reads everything from
these integers: posterior, version space, prediction. So order does not matter, and examples can be
unlearned. `find_s.py` keeps one conjunction only, and looks at positive examples only. Start at
`concept_learner.py`.
"""
