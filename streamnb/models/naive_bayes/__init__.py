"""Naive Bayes over text, nominal and continuous attributes, as counts and moments.

    v_NB = argmax_v P(v) prod_i P(a_i | v)        Mitchell, Machine Learning (1997), section 6.9

Events flow in as dictionaries, data frames or texts; `Posteriors` flow out. The state is sufficient
statistics only: smoothing and priors are applied when it is read, so both can change at any time.

    event -> EventReader -> EventWriter -> SufficientStatistics.encode -> arrays -> kernel `run`

    layer                 module                          holds
    counts, vocabulary    sufficient_statistics.py        all that is learned; grows, merges, forgets
    common classifier     counting_model.py               River's interface; batches, states, capacity
    one smoothing         naive_bayes_classifier.py       `SmoothedModel`, `NaiveBayes`
    one kind of events    naive_bayes_variants.py         `MultinomialNB`, `GaussianNB` and others
    hot path              naive_bayes_kernels.py          predict, then learn, event by event
    score                 joint_log_likelihood.py         log P(class, event), one factor an attribute
    numbers               gaussian_factors.py             mean and variance of a class
    one event             single_event.py                 the same kernel without a batch
    explanation           linear_form.py, linear_view.py  two classes as a linear function
    numbers to read       parameters.py, generation.py    P(v), P(a | v); events drawn from them
    parallel learning     partials.py                     what some events teach, added afterwards
    snapshots             state_copy.py                   a state copied in slices during learning

Invariants:

* A count is an integer in units of 1/1024 example. A weight above zero is at least one unit.
* `merge` is addition; `unlearn` is its inverse, exact on counts and to rounding on moments.
* `unlearn` refuses an event that the counts cannot contain, and changes nothing then.
* All prediction and learning goes through the kernel `run`, in order, one event or many. Batching
  cannot change results.
* A product of factors is kept as a mantissa and an exponent, so no text is too long for it.
* An event with no label, or with weight 0, is predicted and not learned.
* Under a memory budget, what is evicted depends on the events alone, never on the process.

Methods of `CountingModel` that every subclass shares: `learn_one`, `predict_proba_one`,
`predict_then_learn_many`, `unlearn_many`, `prune`, `evict`, `explain_one`, `state`, `load_state`.

Start reading at `naive_bayes_classifier.py`, then `naive_bayes_kernels.py` and
`sufficient_statistics.py`.
"""
