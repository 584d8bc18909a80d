"""Serve a model that follows a running learner: HTTP answers, the live page, and scorers.

Nothing in this room learns. A `Replica` reads the journal and applies each commit to its own copy of
the model. Requests and views are answered from that copy, under a lock that waiting threads take in
turn.

    journal -> JournalTail -> Replica -> QueryModel -> answers, predictions, pages

    module                content
    replica.py            the model, followed through the journal; it writes nothing
    recent_records.py     ring buffers of the newest records of each topic
    latency_samples.py    seconds from events to predictions, sampled from the newest commits
    report_history.py     reports of any range of time, thinned and bounded
    time_ranges.py        the range that a view draws, with marks of what happened in it
    drift_windows.py      drift of attributes over windows of the log
    review_queue.py       the predictions to review next
    label_search.py       all labels of one event, searched in the log
    health_strip.py       one line on the learner's health, on every view
    http_api.py           the paths, with FastAPI; http_schemas.py has their bodies
    fast_path.py          one short text, answered without FastAPI
    limits.py             token, size, rate and host of a request, before anything reads it
    problem_details.py    every error as RFC 9457
    http_server.py        uvicorn with bounded connections and times
    class_scores.py       scores of each class over the newest labelled predictions
    live_page.py          the live page: frame and forms
    live_views.py, class_views.py, learned_views.py   its views, of the classes, of the model
    alert_view.py, tenant_pages.py, prediction_table.py, dead_letter_view.py   views for work
    dead_letter_desk.py   reads and settles single dead letters; dead_letter_forms.py has the forms
    label_undo.py         the undo of a label, over HTTP and on the page
    leased_follower.py    a thread that works while it has a lease; leased_position.py has lease and position
    webhooks.py           senders of webhooks; webhook_message.py has content and signature, webhook_client.py
                          one attempt, erased_events.py erased ids
    scorer.py             predicts a share of the events, exactly once (Kafka only)

States of a replica:

    resting     started with `rests`: no request for a while, no model in memory
    loading     recovering; a request gets an error that suggests to ask again
    ready       following; it looks at the journal at least every 0.2 s
    failing     `problem` has the reason; it keeps answering if it has a model, and starts again

Invariants:

* A replica answers by the configuration in the journal, not by its own; a difference is reported once.
* After a rollback it starts again from the newest snapshot, and answers as before until that is done.
* A webhook's position passes a message only after it was accepted, or reported as skipped.
* A label that arrives over HTTP is appended to the topic of labels. The learner reads it from there.
* A scorer predicts only by a model at most `scorers.behind` journal records old, and waits otherwise.
* Memory is bounded: ring buffers, body sizes, values in a body, connections.

Start reading at `replica.py`, then `http_api.py`; `scorer.py` stands alone.
"""
