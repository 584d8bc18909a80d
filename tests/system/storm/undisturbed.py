"""What nobody disturbed would have made of the same records: the model, and what it said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from streamnb.config import Config
from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.formats.snapshot_container import part_digest
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.runtime import factories
from tests.system.storm.reading import Found
from tests.system.storm.recount import counted, differences


def disturbances(
    config: Config, went_in: list[Found], learned: EventProcessor, said: list[bytes]
) -> Iterator[str]:
    """How a model of entities, and what it said, differ from one that learned all in one go.

    Of one partition nothing differs, bit for bit. Of several, the order between them is anybody's; but each
    entity lies in one, so that what was counted of chains is the same, as long as all entities are kept.
    """
    topic = config.topics.events[0]
    records = [
        Record(Partition(topic, one.partition), one.offset, one.key.encode(), one.value, one.at)
        for one in sorted(went_in)
    ]
    alone = factories.learner(config)
    outputs = alone.process(records, 1.0)
    if len({one.partition for one in went_in}) > 1:
        different = differences(_counted(learned.model), _counted(alone.model))
        if different:
            yield f"{len(different)} counts are not those of an undisturbed run: {'; '.join(different[:5])}"
        return
    if part_digest(*learned.parts()["model"]) != part_digest(*alone.parts()["model"]):
        yield "the model is not that of an undisturbed run"
    expected = [output.value for output in outputs if output.topic == config.topics.predictions]
    if list(map(_timeless, said)) != list(map(_timeless, expected)):
        yield "predictions are not those of an undisturbed run"


def _counted(model: Any) -> dict[tuple, Any]:
    """All counts, and those of chains."""
    if isinstance(model, TenantModels):
        return counted(model)
    labels = model.classes
    first, table = model.transitions.first.tolist(), model.transitions.table.tolist()
    return {
        **counted(model),
        **{("began", label): n for label, n in zip(labels, first, strict=True)},
        **{
            ("followed", label, after): n
            for label, row in zip(labels, table, strict=True)
            for after, n in zip(labels, row, strict=True)
        },
        ("entities",): model.n_entities,
    }


def _timeless(raw: bytes) -> dict[str, Any]:
    return {name: value for name, value in json.loads(raw).items() if name != "ts"}
