"""Traces and metrics for OpenTelemetry, if its standard environment variables ask for them.

    traces     a span `streamnb batch` for each commit, with the children `poll`, `process` and `commit`,
               and links to the spans of events that have a header `traceparent`; a span `recovery`
    metrics    the metrics of Prometheus, under the same names; of a histogram its `_sum` and `_count`

Without these variables nothing is imported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from streamnb.engine.sensor import Committed, Sensor
from streamnb.formats.terminal_text import emit
from streamnb.formats.trace_context import span_ids
from streamnb.values.messages import Message

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SIGNALS = ("traces", "metrics")
_MOST_LINKS = 128  # as OpenTelemetry keeps by default
_NANOSECONDS = 1e9


def open_telemetry(wanted: Sequence[str], stack: ExitStack, registry: Any) -> Sequence[Sensor]:
    """Return the sensor that traces, and export the metrics of a registry, as wanted.

    `stack` sends the rest at the end. Logs once if the packages are missing.
    """
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  an extra
    except ImportError as error:
        text = (
            f"the environment asks for OpenTelemetry, and its packages are missing ({error}): "
            "pip install 'streamnb[opentelemetry]', or set OTEL_SDK_DISABLED=true"
        )
        emit(Message("telemetry-not-exported", text, reason=str(error), signals=list(wanted)))
        return ()
    resource = Resource.create() if _has_name(os.environ) else Resource.create({"service.name": "streamnb"})
    if "metrics" in wanted:
        _export_metrics(stack, registry, resource)
    return [_trace_sensor(stack, resource)] if "traces" in wanted else []


def wanted_signals(environ: Mapping[str, str] = os.environ) -> Sequence[str]:
    """Return "traces" and "metrics" as far as the variables ask for them; log what cannot be exported."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ()
    found = []
    for signal in _SIGNALS:
        exporters = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "")
        own = f"OTEL_EXPORTER_OTLP_{signal.upper()}"
        if exporters not in {"", "otlp"}:
            if exporters != "none":
                _report_unsupported(f"OTEL_{signal.upper()}_EXPORTER", exporters, "otlp or none")
        elif exporters or environ.get(_ENDPOINT) or environ.get(f"{own}_ENDPOINT"):
            names = (f"{own}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
            name = next((name for name in names if environ.get(name)), "")
            if name and environ[name] != "http/protobuf":
                _report_unsupported(name, environ[name], "http/protobuf")
            else:
                found.append(signal)
    return found


def _report_unsupported(name: str, value: str, expected: str) -> None:
    text = f"{name} is {value!r}, which is not exported; expected {expected}"
    emit(Message("telemetry-not-exported", text, reason=f"{name}={value}", signals=[]))


def _has_name(environ: Mapping[str, str]) -> bool:
    named = "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return named or bool(environ.get("OTEL_SERVICE_NAME"))


def _trace_sensor(stack: ExitStack, resource: Any) -> Sensor:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    stack.callback(provider.shutdown)
    return TraceSensor(provider.get_tracer("streamnb"))


class TraceSensor(Sensor):
    """Spans of recovery and commits, made afterwards from their times.

    Args:
        tracer: of OpenTelemetry.
        clock: seconds since the epoch.
    """

    def __init__(self, tracer: Any, clock: Callable[[], float] = time.time) -> None:
        from opentelemetry import trace  # noqa: PLC0415  an extra

        self._tracer, self._clock, self._trace = tracer, clock, trace

    def recovered(self, seconds: float, events: int) -> None:
        """Record the span of a recovery."""
        now = self._clock()
        self._span("recovery", now - seconds, now, None, {"streamnb.events": events})

    def committed(self, commit: Committed) -> None:
        """Record the spans of a commit."""
        begin, end = commit.at - commit.seconds, commit.at
        attributes = {"streamnb.journal_record": commit.n, "messaging.batch.message_count": commit.consumed}
        polled = min(commit.polled_at, commit.processed_at)
        root = self._tracer.start_span(
            "streamnb batch",
            links=self._links(commit),
            attributes=attributes,
            start_time=_nanoseconds(polled),
        )
        context = self._trace.set_span_in_context(root)
        self._span("poll", polled, commit.processed_at, context)
        self._span("process", commit.processed_at, begin, context)
        self._span("commit", begin, end, context)
        root.end(_nanoseconds(end))

    def _span(
        self, name: str, begin: float, end: float, context: Any, attributes: Mapping[str, int] | None = None
    ) -> None:
        span = self._tracer.start_span(name, context, attributes=attributes, start_time=_nanoseconds(begin))
        span.end(_nanoseconds(end))

    def _links(self, commit: Committed) -> Sequence[Any]:
        """Return links to the spans of the first events that have one."""
        links = []
        for record in commit.records:
            if record.headers and (ids := span_ids(record.headers)) is not None:
                trace_id, span_id, flags = ids
                context = self._trace.SpanContext(trace_id, span_id, True, self._trace.TraceFlags(flags))
                links.append(self._trace.Link(context))
                if len(links) == _MOST_LINKS:
                    break
        return links


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)


def _export_metrics(stack: ExitStack, registry: Any, resource: Any) -> None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    provider = MeterProvider([reader], resource, shutdown_on_exit=False)
    bridge_metrics(provider.get_meter("streamnb"), registry)
    stack.callback(provider.shutdown)


def bridge_metrics(meter: Any, registry: Any) -> None:
    """Observe each metric of a Prometheus registry, under its name, whenever OpenTelemetry collects."""
    for family in registry.collect():
        for suffix, make in _INSTRUMENTS.get(family.type, lambda _: {})(meter).items():
            name = f"{family.name}{suffix}"
            make(name, [partial(_observations, registry, family.name, name)], "", family.documentation)


_INSTRUMENTS: Mapping[str, Callable[[Any], Mapping[str, Callable[..., Any]]]] = {
    "counter": lambda meter: {"_total": meter.create_observable_counter},
    "gauge": lambda meter: {"": meter.create_observable_gauge},
    "info": lambda meter: {"_info": meter.create_observable_gauge},
    "histogram": lambda meter: {
        "_sum": meter.create_observable_counter,
        "_count": meter.create_observable_counter,
    },
}


def _observations(registry: Any, family: str, name: str, _: object) -> Iterable[Any]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415  an extra

    for found in registry.restricted_registry([name]).collect():
        for sample in found.samples:
            if found.name == family and sample.name == name:
                yield Observation(sample.value, sample.labels)
