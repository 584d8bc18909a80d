"""Hooks of schemathesis, so that a part of its bodies is written: its own ids and undo tokens are never valid."""

from __future__ import annotations

import itertools
from collections import deque

import schemathesis

SOURCE = "fuzz"
_NUMBERS = itertools.count()
_UNDO = deque(maxlen=50)


@schemathesis.hook("before_call")
def with_ids(_, case, __):
    """Two of three valid bodies name valid events, labels of events that came, or labels that can be undone."""
    is_invalid = case.meta is not None and not case.meta.generation.mode.is_positive
    if case.method != "POST" or is_invalid or (n := next(_NUMBERS)) % 3 == 0:
        return
    label = ("spam", "ham", "other", None)[n % 4]
    if case.path == "/events":
        events = [{"id": f"z{n}", "text": "free lunch", "label": label}, *case.body["events"]]
        case.body = {"events": events[:1000]}
    elif case.path == "/labels":
        case.body = {"labels": [{"id": f"m{n % 200}", "label": label, "source": SOURCE}]}
    elif case.path == "/labels/undo" and _UNDO:
        case.body = {"undo": _UNDO.pop()}
    elif case.path == "/labels/withdraw":
        case.body = {"source": f"{SOURCE}-{n % 5}"}


@schemathesis.hook("after_call")
def remember_undo(_, case, response):
    if (case.method, case.path, response.status_code) == ("POST", "/labels", 200):
        _UNDO.extend(one["undo"] for one in response.json()["labels"] if one["undo"])
