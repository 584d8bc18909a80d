"""What hangs on the order of events, so that nothing learned apart is added under it: flags, and the key that is named."""

IN_ORDER = [
    (["model.kind=mixture"], "model.kind"),
    (["model.kind=tenants"], "model.kind"),
    (["model.kind=semi_supervised"], "model.kind"),
    (["topics.labels=labels"], "topics.labels"),
    (["events.repeats=dead-letter"], "events.repeats"),
    (["model.prune.every=100"], "model.prune.every"),
    (["memory.budget=64MiB"], "memory.budget"),
]
