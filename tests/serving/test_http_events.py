"""Keys of the records of events over HTTP."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest
from fastapi import HTTPException

from streamnb import config as configuration
from streamnb.serving.http_events import EventSending

EVENTS = [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]


def request(config, body):
    sending = EventSending(configuration.load(None, {}, config), Mock(), Mock(), Mock())
    return sending.request(json.dumps(body).encode(), is_lines=False, topic="events", key="")


def test_an_event_is_keyed_by_its_id_or_entity_or_as_told():
    made = request(["model.kind=naive_bayes"], {"events": EVENTS})
    assert [record.key for record in made.records] == [b"a", b"b"]
    made = request(["model.kind=tenants", "events.entity=$.text"], {"events": EVENTS})
    assert [record.key for record in made.records] == [b"x", b"y"]
    made = request(["model.kind=tenants"], {"events": EVENTS, "keys": ["t1", "t2"]})
    assert [record.key for record in made.records] == [b"t1", b"t2"]


@pytest.mark.parametrize("more", [{}, {"keys": ["t1", ""]}, {"keys": ["t1"]}])
def test_where_keys_name_entities_each_event_needs_one(more):
    with pytest.raises(HTTPException) as refused:
        request(["model.kind=tenants"], {"events": EVENTS, **more})
    assert refused.value.status_code == 422
    assert "key" in refused.value.detail
