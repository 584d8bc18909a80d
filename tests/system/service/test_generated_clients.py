"""Clients that public generators make from /openapi.json compile, and can ask a running `streamnb serve`."""

from __future__ import annotations

import compileall
import importlib
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord
from streamnb.runtime import context
from tests.brokers.jars import ToolMissingError, libraries
from tests.support.program import Program
from tests.system.service.test_serve import events, serving

POM = Path(__file__).parent / "openapi_generator.xml"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The port of a `serve` whose learner knows 60 events and reads labels; and its OpenAPI as a file."""
    folder = tmp_path_factory.mktemp("service")
    program = Program(
        folder,
        f"sqlite:///{folder / 'log.db'}",
        model_keys={"kind": "naive_bayes"},
        topics={"labels": "labels"},
    )
    program.run("topics", "create")
    with closing(context.open_log(configuration.load(program.file, {}, []))) as log:
        log.append([NewRecord(program.topics["events"], None, raw) for raw in events(60)])
    program.run("run", "--until-end")
    command, port, ask = serving(program)
    described = folder / "openapi.json"
    described.write_text(json.dumps(ask("/openapi.json")[1]))
    yield port, described
    command.kill()


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Compile the client in a folder, then import it."""

    def imported(name):
        assert compileall.compile_dir(tmp_path, quiet=1)
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(name)

    return imported


def test_openapi_python_client(service, tmp_path, imported):
    port, described = service
    command = [
        "generate",
        "--path",
        described,
        "--output-path",
        tmp_path / "made",
        "--meta",
        "none",
        "--fail-on-warning",
    ]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *command], check=True, env=os.environ | {"PATH": path}
    )
    made = imported("made")
    models = importlib.import_module("made.models")
    predict = importlib.import_module("made.api.default.predict")
    write = importlib.import_module("made.api.default.write_labels")
    explain = importlib.import_module("made.api.default.explain")
    get_model = importlib.import_module("made.api.default.get_model")
    with made.Client(base_url=f"http://127.0.0.1:{port}") as client:
        answer = predict.sync(client=client, body=models.Question(events=["free cash"]))
        assert answer.predictions[0].label == "spam"
        written = write.sync(
            client=client, body=models.LabelInputs(labels=[models.LabelInput(id="m1", label="new")])
        )
        assert (written.labels[0].event_known, written.labels[0].class_known) == (True, False)
        assert explain.sync(client=client, body=models.Why(event="free cash")).evidence[0].counts
        assert set(get_model.sync(client=client).classes.to_dict()) >= {"spam", "ham"}
        send = importlib.import_module("made.api.default.send_events")
        event = models.SendEventsEventInputsEventsItem.from_dict({"id": "sent", "text": "free cash"})
        sent = send.sync(client=client, body=models.SendEventsEventInputs(events=[event]))
        assert (sent.written, sent.events[0].id) == (1, "sent")
        page = importlib.import_module("made.api.default.list_predictions").sync(client=client)
        assert (len(page.predictions), page.gaps) == (60, [])
        assert page.predictions[-1].probabilities.to_dict().keys() == {"spam", "ham"}
        why = importlib.import_module("made.api.default.explain_prediction").sync("m1", client=client)
        assert (why.prediction.id, why.decided.outcome) == ("m1", why.prediction.label)
        refused = write.sync_detailed(client=client, body=models.LabelInputs(labels=[]))
        assert (refused.status_code, json.loads(refused.content)["code"]) == (422, "invalid-request")


def test_openapi_generator(service, tmp_path, imported):
    port, described = service
    try:
        jars = libraries(pom=POM)
    except ToolMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    command = [
        "generate",
        "-g",
        "python",
        "-i",
        described,
        "-o",
        tmp_path,
        "--additional-properties=packageName=made_by_java",
    ]
    subprocess.run(
        ["java", "-cp", jars, "org.openapitools.codegen.OpenAPIGenerator", *command],
        check=True,
        capture_output=True,
    )
    made = imported("made_by_java")
    with made.ApiClient(made.Configuration(host=f"http://127.0.0.1:{port}")) as client:
        api = made.DefaultApi(client)
        question = made.Question(events=[made.QuestionEventsInner("free cash")])
        assert api.predict(question).predictions[0].label == "spam"
        written = api.write_labels(made.LabelInputs(labels=[made.LabelInput(id="m1", label="ham")]))
        assert (written.written, written.labels[0].class_known) == (1, True)
        sent = api.send_events(made.EventInputs(events=[{"id": "sent-too", "text": "free"}]))
        assert (sent.written, sent.events[0].id) == (1, "sent-too")
        assert api.list_predictions().predictions[-1].actual_instance.probabilities.keys() == {"spam", "ham"}
        assert api.explain_prediction("m1").decided.rule == "probability"
        assert api.get_token("free").found[0].counts["spam"] > 1
        with pytest.raises(made.exceptions.NotFoundException, match="unknown-event"):
            api.get_label("nobody")
