"""Evaluate a learner on files: read, predict, learn and score, as the service would.

    event_input.py               files as events, in an order, with progress
    prequential_evaluation.py    each event is predicted before it is learned
    simulated_label_delay.py     labels that come later, never, or wrong at first
    holdout.py                   learn one part, score the rest
    log_history.py               live through the history of a log again
    row_shuffle.py               the rows of a file in random order
    data_quality.py, number_notation.py, label_quality.py   warnings about fields and labels
    column_checks.py, evaluation_words.py   warnings about columns and the order of rows
    schema_inference.py, proposal_trial.py   infer attributes, and try a proposed configuration
    evaluation_page.py           the page of `--report`
    rejections.py                dead letters by reason and path
    candidates.py, leader_board.py, comparison_tables.py   several models on the same events, and their ranks
    decision_trace.py            the best decision on each event, for costs by threshold
    prediction_files.py          predictions as JSON lines, CSV, TSV or Parquet
    interruption.py              a signal ends the rows, and the scores stay

Events pass through `EventProcessor`, as in the service, so the scores are those that the service
reports.
"""
