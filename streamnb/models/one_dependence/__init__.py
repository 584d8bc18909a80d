"""Averaged one-dependence estimators: counts of values and of pairs of values within each class.

    P(v, x) = P(v) / |S| sum_{b in S} P(b | v) prod_{a != b} P(a | b, v)

Nominal and continuous values flow in as codes (`value_codes.py`, `batch_value_codes.py`); texts are
left out. `pair_counts.py` holds the counts, `pair_model.py` joins codes and counts, and
`averaged_one_dependence.py` reads them. Counts are exact in any order, and can be unlearned. Attributes
beyond the memory are counted alone, without pairs. Learning an event of d attributes costs d^2 / 2
steps.
"""
