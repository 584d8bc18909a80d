"""The Bayes-optimal mixture: many hypotheses over one stream, weighed by what each predicted.

    P(v | x, D) = sum_h P_h(v | x, D) P(h | D)        P(h | D) ~ P(h) prod_t P_h(v_t | x_t, D_<t)

Events flow in as in `models.naive_bayes`. `Posteriors` and the weight of each hypothesis flow out. The
counts are shared: a naive Bayes hypothesis is a way to read them, not a table of its own.

    kind of hypothesis       reads                               learned by
    naive Bayes              shared counts                       counting
    naive Bayes, calibrated  the same, raised to a power         Newton's method (`models.calibration`)
    decayed naive Bayes      counts with a half-life             counting with forward decay
    binned density           bins of continuous values           counting (`binned_density`)
    Softmax                  feature table                       gradient (`models.softmax`)
    ByteSoftmax              byte n-grams in a fixed table       gradient (`models.softmax`)
    OneDependence            counts of pairs, its own            counting (`models.one_dependence`)
    MondrianForest           trees over tables, its own          splits and counts (`models.forest`)
    RecentGaussian           moments of recent events, its own   forward decay (`recent_gaussians`)
    Pool                     log opinions of other members       a Bayesian linear model (`opinion_pool`)

For each event the kernel `run_hypotheses` does, in this order:

    1. check capacity: histograms, features, bins        5. update the posterior by each P_h(label)
    2. score all naive Bayes hypotheses at once          6. learn adaptive members from their prediction
    3. predict by the adaptive members                   7. count the event in the shared counts
    4. mix by the posterior, and answer

If capacity is missing it returns the index of the event, the tables grow, and it is called again.

Invariants:

* The log loss of the mixture is at most the loss of any hypothesis plus ln(1 / P(h)), without switching
  and without a floor.
* Counts can be unlearned and retrained in any order; adaptive members and the posterior cannot. They
  are exact under replay, on one kind of machine.
* A hypothesis of weight 0 has no part in predictions, but a pool may read it. A class never met has the
  same probability under all hypotheses.
* Random draws (mode "gibbs") depend on the seed and on the number of the event alone.

    module                         content
    bayes_optimal_nb.py            the classifier: predict, learn, explain
    learned_mixture.py             its state: parts, copies, memory budget
    bayes_optimal_classifier.py    the same posterior over any River classifiers
    hypotheses.py                  how a naive Bayes hypothesis reads counts
    hypothesis_kinds.py            the other kinds, and checks of a list of hypotheses
    hypothesis_log_likelihood.py   scores of one event by all naive Bayes hypotheses
    mixture_kernels.py             the hot path
    mixture_single_event.py        one event by one call of a kernel
    one_dependence_hypotheses.py, forest_hypotheses.py   members that predict a batch beforehand
    adaptive_state.py, adaptive_kernels.py   members that learn from predictions
    mixture_attribution.py         what each value adds to the log odds, by hypothesis

Start reading at `bayes_optimal_nb.py`, then `mixture_kernels.py`.
"""
