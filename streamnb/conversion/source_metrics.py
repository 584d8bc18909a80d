"""Prometheus metrics of all sources."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class SourceMetrics:
    """Metrics with the label `source`, the name of each.

    Args:
        registry: to which the metrics belong.

    Attributes:
        records: counter by result: "events", "labels", "dead-letters", "tombstones" or "others";
            "predictions" of the source of this name.
        converting: 1 in the process that converts.
        behind: records that are not converted yet.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "Outputs of converted records, and records that have none."
        self.records = Counter("streamnb_source_records", text, ("source", "result"), registry=registry)
        text = "1 if this process converts the source; 0 if a different process does."
        self.converting = Gauge("streamnb_source_converting", text, ("source",), registry=registry)
        text = "Records that are not converted yet."
        self.behind = Gauge("streamnb_source_behind_records", text, ("source",), registry=registry)
