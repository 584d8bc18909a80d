"""Traces and metrics reach a collector if the standard variables ask for them; otherwise nothing is imported."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.engine.processing.counters import Counters
from streamnb.engine.sensor import Committed
from streamnb.formats.trace_context import TRACEPARENT, span_ids, trace_headers
from streamnb.runtime import context
from streamnb.telemetry.open_telemetry import TraceSensor, bridge_metrics, open_telemetry, wanted_signals
from streamnb.telemetry.prometheus_sensor import PrometheusSensor
from tests.support.program import Program
from tests.support.service import raw_events, read_topic

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()


def record(n, *headers):
    return Record(Partition("events", 0), n, None, b"{}", 100.0, headers)


def commit(*records, polled=100.0):
    return Committed(7, len(records), Counters(), 0.25, 101.0, [], records, polled, 100.5)


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    sensor = TraceSensor(provider.get_tracer("tests"), lambda: 100.0)

    def found():
        return {span.name: span for span in exporter.get_finished_spans()}

    return sensor, found


def seconds(span):
    return span.start_time / 1e9, span.end_time / 1e9


def test_a_commit_is_a_span_whose_steps_follow_each_other(spans):
    sensor, found = spans
    sensor.committed(commit(record(1), record(2)))
    made = found()
    assert {name: seconds(span) for name, span in made.items()} == {
        "streamnb batch": (100.0, 101.0),
        "poll": (100.0, 100.5),
        "process": (100.5, 100.75),
        "commit": (100.75, 101.0),
    }
    root = made["streamnb batch"]
    assert {made[name].parent.span_id for name in ("poll", "process", "commit")} == {root.context.span_id}
    assert dict(root.attributes) == {"streamnb.journal_record": 7, "messaging.batch.message_count": 2}


def test_a_recovery_is_a_span(spans):
    sensor, found = spans
    sensor.recovered(30.0, 500)
    [span] = found().values()
    assert (span.name, seconds(span), dict(span.attributes)) == (
        "recovery",
        (70.0, 100.0),
        {"streamnb.events": 500},
    )


def test_a_commit_links_to_the_spans_of_its_events(spans):
    sensor, found = spans
    with_link = record(1, ("other", b"x"), (TRACEPARENT, PARENT))
    sensor.committed(commit(with_link, record(2), record(3, (TRACEPARENT, b"00-nonsense"))))
    [link] = found()["streamnb batch"].links
    assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == (TRACE, SPAN)
    assert link.context.is_remote
    assert link.context.trace_flags.sampled


def test_a_commit_has_as_many_links_as_opentelemetry_keeps(spans):
    sensor, found = spans
    sensor.committed(commit(*[record(n, (TRACEPARENT, PARENT)) for n in range(300)]))
    span = found()["streamnb batch"]
    assert (len(span.links), span.dropped_links) == (128, 0)


@given(content=st.binary(max_size=60) | st.just(PARENT))
def test_a_header_is_copied_as_it_is_or_not_at_all(content):
    headers = ((TRACEPARENT, content),)
    copied = trace_headers(headers)
    assert copied in {(), headers}
    assert (span_ids(headers) is None) == (copied == ())


@pytest.mark.parametrize(
    "content",
    [
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_an_invalid_header_links_nothing(content):
    assert span_ids(((TRACEPARENT, content.encode()),)) is None
    assert span_ids(((TRACEPARENT, PARENT),)) == (int(TRACE, 16), int(SPAN, 16), 1)


def test_metrics_are_those_of_prometheus():
    reader, sensor = InMemoryMetricReader(), PrometheusSensor()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    bridge_metrics(meters.get_meter("tests"), sensor.registry)
    for _ in range(2):
        sensor.committed(commit(record(1), record(2)))
        [resource] = reader.get_metrics_data().resource_metrics
        found = {
            (metric.name, tuple(sorted(point.attributes.items()))): point.value
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }
        expected = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in sensor.registry.collect()
            for sample in family.samples
            if sample.name.startswith("streamnb_") and not sample.name.endswith(("_bucket", "_created"))
        }
        assert {key: found.get(key) for key in expected} == expected
    assert found["streamnb_events_consumed_total", ()] == 4
    assert found["streamnb_commit_duration_seconds_count", ()] == 2


@pytest.mark.parametrize(
    ("environ", "wanted", "told"),
    [
        ({}, [], 0),
        ({ENDPOINT: "http://collector:4318"}, ["traces", "metrics"], 0),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, ["traces"], 0),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, ["metrics"], 0),
        ({ENDPOINT: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, ["metrics"], 0),
        ({ENDPOINT: "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, [], 0),
        ({ENDPOINT: "http://collector:4318", "OTEL_TRACES_EXPORTER": "zipkin"}, ["metrics"], 1),
        ({ENDPOINT: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, [], 2),
    ],
)
def test_variables_decide_what_is_exported_and_a_warning_names_what_is_not(environ, wanted, told, caplog):
    with caplog.at_level(logging.WARNING, "streamnb"):
        assert list(wanted_signals(environ)) == wanted
    assert [one.event for one in caplog.records] == ["telemetry-not-exported"] * told


def test_missing_packages_are_named_with_the_extra(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with caplog.at_level(logging.WARNING, "streamnb"), ExitStack() as stack:
        assert open_telemetry(["traces"], stack, None) == ()
    assert "pip install 'streamnb[opentelemetry]'" in caplog.records[0].getMessage()


def test_nothing_is_imported_without_the_variables():
    program = (
        "import sys; from contextlib import ExitStack; from streamnb import config; "
        "from streamnb.telemetry.worker_observers import watched\n"
        "with watched(config.load(None, {}, ['http.listen='])): pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stdout == "[]\n"


class Collector(HTTPServer):
    """Receives OTLP over HTTP, and keeps what it was sent."""

    def __init__(self):
        self.spans, self.metrics, self.services = [], set(), set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take(self.path, body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def take(self, path, body):
        kinds = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
        message = kinds[path].FromString(body)
        for resource in (*getattr(message, "resource_spans", ()), *getattr(message, "resource_metrics", ())):
            self.services |= {
                one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
            }
            for scope in getattr(resource, "scope_spans", ()):
                self.spans += scope.spans
            for scope in getattr(resource, "scope_metrics", ()):
                self.metrics |= {metric.name for metric in scope.metrics}


@pytest.mark.thorough
def test_a_learner_exports_its_traces_and_copies_the_header_of_an_event_to_its_prediction(tmp_path):
    with Collector() as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        program = Program(
            tmp_path,
            f"sqlite:///{tmp_path / 'log.db'}",
            environment={ENDPOINT: f"http://127.0.0.1:{collector.server_port}"},
            model_keys={"kind": "naive_bayes"},
            predictions={"traceparent": True},
        )
        config = configuration.load(program.file, {}, [])
        headers = [((TRACEPARENT, PARENT), ("other", b"x")), ((TRACEPARENT, b"nonsense"),), ()]
        with closing(context.open_log(config)) as log:
            raws = raw_events(3)
            log.append(
                [
                    NewRecord(program.topics["events"], None, raw, of)
                    for raw, of in zip(raws, headers, strict=True)
                ]
            )
        program.run("run", "--until-end")
        with closing(context.open_log(config)) as log:
            published = [one.headers for one in read_topic(log, program.topics["predictions"])]
        program.run("verify")  # the replay publishes the same bytes
        collector.shutdown()
    assert published == [((TRACEPARENT, PARENT),), (), ()]
    names = {span.name for span in collector.spans}
    assert names == {"recovery", "streamnb batch", "poll", "process", "commit"}
    assert {link.trace_id.hex() for span in collector.spans for link in span.links} == {TRACE}
    assert "streamnb_events_consumed_total" in collector.metrics
    assert collector.services == {"streamnb"}
    assert json.loads(raws[0])
