"""Count again, by plain addition, everything that a model of counts has learned.

    Recount          counts of events: rows, totals, classes, moments, prunings, evictions
    LabelRecount     the same for labels that arrive separately, record by record
    TenantRecount    one recount a tenant, and one of all
    PosteriorAudit   whether a posterior agrees with its own losses
    compare          every number of a state, and the recount

A recount begins at the genesis, or at the oldest snapshot from which the log is complete. Weights are
integers in units of 1/1024 example. It takes decoded events and the parameters of a model, and calls no
kernel. Start reading at `event_recount.py`.
"""
