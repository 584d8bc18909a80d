"""A naive Bayes model for each tenant of a stream: active ones in tables, idle ones serialized.

The attribute `entity` names the tenant of an event. `TenantModels` predicts and learns the event by the
model of this tenant alone, and its predictions equal, bit for bit, the predictions of a separate
`NaiveBayes`.

States of one tenant's model:

    state     kept in        leaves it when
    unknown   nowhere        the first event of the tenant arrives
    active    ActiveModels   the tables are full, or a snapshot begins: all are evicted together
    cold      ColdStore      the tenant has an event in the next batch: `ActiveModels.load`

    module                   content
    tenant_models.py         the classifier: which tenant has which number, states, corrections
    active_models.py         many models in one set of tables; a slot is the place of one model
    cold_store.py            one long array, in memory or in a mapped file, with one block a model
    eviction_kernels.py      table <-> block of words, with a checksum
    serialized_tenants.py    block of words <-> state of a `NaiveBayes`
    tenant_kernels.py        predict, then learn, each event by its own tenant's tables
    shared_prior.py          a model of all tenants as the prior of each
    tenant_view.py           one tenant with the shared prior, as one model for queries

With `shared`, the prior of each tenant is what all tenants taught: (n_v + m P(v)) / (n + m). A tenant's
own counts take over as they grow. What its own model learns does not depend on other tenants.

Invariants:

* How many models are active is a question of memory, and changes no result.
* Events without a tenant share one model, and so do events of tenants beyond the maximum.
* Every stored block has a checksum, and blocks of a snapshot are checked before a kernel reads them.
* Corrections are exact: an event can be unlearned from its tenant's model and from the shared one.

Start reading at `tenant_models.py`, then `active_models.py`.
"""
