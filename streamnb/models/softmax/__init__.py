"""Softmax regression that starts from naive Bayes and learns corrections by gradient.

    P(v | x) ~ exp(b_v + sum_i x_i (l_iv / 2 + w_iv))        l_iv = ln (n_iv + 1/2) / (n_v + 1)

The room holds functions and tables, not a classifier: `models.mixture` calls them, with one row of
weights for each gradient learner. An event flows in as arrays; features, scores and updates flow out.

    event -> extract -> ExtractedFeatures -> score_softmax -> learn_softmax -> count_features

    module                    content
    feature_extraction.py     words, values, bins, the last label, and pairs, as 48-bit keys
    feature_table.py          key -> row: counts by class, corrections, sums of squared gradients
    quantile_bins.py          continuous values as bins of equal mass, finer as more values are known
    softmax_regression.py     scores, the gradient (`fill_gradient`), and one AdaGrad step
    byte_ngram_table.py       the same regression on byte n-grams, in a table of fixed size
    rare_class_shrinkage.py   shrinkage for a class with few examples in a long stream

One step, for weight c and squared gradients s_i of feature i:

    g_v = P(v | x) - [v = label]    s_i += |g|^2 x_i^2 / 2    w_iv -= rate g_v x_i / sqrt(s_i + 1/1000)

Invariants:

* x has length one, so the number of features of an event does not change the size of a step.
* The logarithms l come from counts and can be unlearned. The corrections w and biases b cannot.
* A feature that was met once, with weight 1, has no row, only a slot that names its class. It gets a
  row at its next event.
* The table stays within its budget. If that is spent, new features are not added.
* A layout of bins never changes once it is laid; a finer layout is added next to it.
* Keys are the same in every process, so they may stand in a snapshot. Places in the hash table are not.

Start reading at `softmax_regression.py`, then `feature_extraction.py`.
"""
