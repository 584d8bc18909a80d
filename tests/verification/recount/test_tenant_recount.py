"""The recount of a model for each tenant sees every number of any tenant that is another, and says whose it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Settings
from streamnb.formats.event_schema import EventSchema
from streamnb.models.tenants.eviction_kernels import WORDS
from streamnb.models.tenants.serialized_tenants import run_of
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.verification.recount.event_recount import TenantRecount
from tests.support.service import records
from tests.verification.recount.test_event_recount import differing, recounted

pytestmark = pytest.mark.slow


def raw(i, tenant, features, label="a"):
    own = {} if tenant is None else {"tenant": tenant}
    return json.dumps({"id": f"e{i}", "features": own | features, "label": label}).encode()


RAWS = [
    raw(i, ["one", "two", 3, True, None][i % 5], {"text": f"w{i % 4} all", "x": i / 8}, "ab"[i % 3 == 0])
    for i in range(60)
]


def learned(raws, **given):
    models = TenantModels({"text": "text"}, "tenant", **given)
    learner = EventProcessor(Settings(schema=EventSchema()), models)
    learner.process(records(raws), 1.0)
    return learner


def told(learner, raws):
    findings, equal = differing(recounted(learner, raws, TenantRecount()), learner)
    return [one.text for one in findings], equal


@pytest.mark.parametrize("tenants", [2, 3, 4, 9])
@pytest.mark.parametrize("shared", [False, True])
def test_every_number_of_every_tenant_is_compared(shared, tenants):
    learner = learned(RAWS, tenants=tenants, shared=shared)
    findings, equal = told(learner, RAWS)
    assert findings == []
    models = [learner.model.tenant(name) for name in learner.model.store.names]
    models += [learner.model.shared] if shared else []
    tables = [(one.statistics.counts.table, one.statistics.counts.totals) for one in models]
    weights = sum(np.count_nonzero(one.statistics.class_weights) for one in models)
    assert equal.counts == weights + sum(np.count_nonzero(part) for pair in tables for part in pair)
    assert equal.moments == sum(np.count_nonzero(one.statistics.moments.n) for one in models)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda x: x | {"text": f"{x['text']} more"}, "tenant 'two', attribute 'text', value 'more'"),
        (lambda x: x | {"x": x["x"] + 1}, "tenant 'two', attribute 'x', class 'a': mean"),
        (lambda x: x | {"tenant": "one"}, "tenant 'one': events learned 13 learned, 12 counted"),
        (lambda x: x | {"tenant": "new"}, "tenant 'two': events learned 11 learned, 12 counted"),
        (
            lambda x: {key: value for key, value in x.items() if key != "tenant"},
            "tenant 'two': events learned 11 learned, 12 counted",
        ),
    ],
    ids=["word", "value", "tenant", "new tenant", "no tenant"],
)
def test_one_event_that_was_learned_otherwise_is_told_with_its_tenant(other, says):
    event = json.loads(RAWS[1])
    altered = [RAWS[0], json.dumps(event | {"features": other(event["features"])}).encode(), *RAWS[2:]]
    findings, _ = told(learned(altered), RAWS)
    assert any(says in text for text in findings), findings


def test_an_event_that_was_learned_twice_and_one_that_was_not_are_told():
    for altered in ([RAWS[1], *RAWS], RAWS[:-1]):
        findings, _ = told(learned(altered), RAWS)
        assert any("events learned" in text and "tenant" in text for text in findings)
        assert any("events learned by all" in text for text in findings)


def test_a_model_whose_counts_do_not_hold_together_is_told_with_its_tenant_and_the_others_are_compared():
    learner = learned(RAWS)
    models, shelf = learner.model, learner.model.store.cold
    models.copying()
    at = shelf.at[models.store.names.index("two")]
    run = shelf.words.whole[at : at + shelf.words.whole[at + WORDS]]
    meta, arrays = models.tenant("two").state()
    arrays["totals"][0, 0] -= 1
    altered = run_of(meta, arrays, models._classes, *map(list, (models._attributes.groups, models._attributes.fields)), (0, 0))  # fmt: skip
    run[:] = altered
    findings, equal = told(learner, RAWS)
    assert [text.partition(": ")[0] for text in findings] == ["at journal record 7, tenant 'two'"]
    assert "totals" in findings[0]
    assert equal.counts > 50


def test_attributes_beyond_the_first_of_all_tenants_are_counted_for_none():
    raws = [
        raw(i, f"t{i % 3}", {f"v{i}": "v", **{f"n{i}x{j}": j for j in range(1500)}, f"w{i}": i % 2 == 0})
        for i in range(4)
    ]
    learner = learned(raws)
    assert told(learner, raws)[0] == []
    known = set().union(
        *(learner.model.tenant(name).statistics.layout.fields for name in learner.model.store.names)
    )
    assert len(known) == 4096
