"""What is deployed agrees with the program: every command, setting, path and metric; and alerts really fire.

The engine of Docker and Grafana itself are not started here; their files are read as they would read them.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from streamnb import config
from streamnb.cli import build_parser
from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.counters import Counters
from streamnb.engine.sensor import Committed, WorkerState
from streamnb.engine.settings import LabelSettings, MonitorSettings
from streamnb.models.interface.tenant_usage import Tenant, TenantsUse
from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.scoring.decision_rule import DecisionRule
from streamnb.statistics.memory_budget import MemoryComponent, MemoryUse
from streamnb.telemetry.http_endpoints import Endpoints, Health
from streamnb.telemetry.prometheus_sensor import PrometheusSensor
from tests.support.every_case import failures
from tests.support.program import until
from tests.support.prometheus import Prometheus, tool
from tests.support.service import new_learner, raw_events, records

pytestmark = pytest.mark.early(66)

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())["groups"][0]["rules"]
RULE_TESTS = yaml.safe_load((DEPLOY / "prometheus/rules_test.yml").read_text())["tests"]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/streamnb.json").read_text())
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
VARIABLES = {config.variable(key) for key in config.KEYS}
OURS = {name: made for name, made in COMPOSE["services"].items() if made["image"].startswith("streamnb:")}
PATIENCE = 60.0


def parses(arguments):
    """Whether the command line takes them; returns what it made of them."""
    return build_parser().parse_args(list(arguments))


# Rules and configuration of Prometheus


@pytest.mark.parametrize(
    "arguments", ["check config prometheus.yml", "check rules rules.yml", "test rules rules_test.yml"]
)
def test_promtool_accepts(arguments):
    done = subprocess.run(
        [tool("promtool"), *arguments.split()],
        cwd=DEPLOY / "prometheus",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_is_tested_and_explained(name):
    tested = [
        case for test in RULE_TESTS for case in test.get("alert_rule_test", []) if case["alertname"] == name
    ]
    assert any(case.get("exp_alerts") for case in tested), "no test of it firing"
    assert any(not case.get("exp_alerts") for case in tested), "no test of it not firing"
    annotations = ALERTS[name]["annotations"]
    assert annotations["summary"]
    assert annotations["description"]
    page, anchor = annotations["runbook"].split("#")
    assert anchor == name.lower()
    assert f"\n### {name}\n" in (ROOT / page).read_text()


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("StreamnbCommitsSlow", "streamnb_commit_duration_seconds"),
        ("StreamnbLatencyHigh", "streamnb_event_latency_seconds"),
    ],
)
def test_limits_of_quantiles_are_bounds_of_buckets(name, metric):
    """Then no interpolation decides, and a value beyond the last bucket cannot hide below the limit."""
    limit = float(ALERTS[name]["expr"].split(">")[1])
    family = next(family for family in PrometheusSensor().registry.collect() if family.name == metric)
    bounds = [float(sample.labels["le"]) for sample in family.samples if sample.name.endswith("_bucket")]
    assert limit in bounds[:-2]


# A real Prometheus that watches a learner, which the test plays


class Source:
    """A learner as Prometheus sees it."""

    def __init__(self):
        self.sensor, health = PrometheusSensor(), Health()
        self._endpoints = Endpoints(("127.0.0.1", 0), health, self.sensor.web_app())
        self.address = "{}:{}".format(*self._endpoints.address)
        model = BayesOptimalNB({"text": "text"}, switching_rate=0.01)
        monitor = MonitorSettings("mine", "error-rate", (0.98,), (0.99,))
        self.learner = new_learner(
            model=model,
            labels=LabelSettings("labels"),
            monitors=(monitor,),
            decision=DecisionRule(reject=1.0),
        )
        self._n = 0
        self.sensor.entered(WorkerState.RUNNING)
        self.sensor.recovered(0.5, 0)
        self.sensor.configured("c0ffee")
        self.consume()
        self.sensor.saved(0.1, 1000)
        self.sensor.recoverable(3600.0, 3600.0)
        self._endpoints.start()

    def consume(self):
        self._n += 1
        events = raw_events(50)
        said = json.dumps({"id": json.loads(events[0])["id"], "label": "a"}).encode()
        verdict = Record(Partition("labels", 0), self._n, None, said, time.time())
        self.learner.process([*records(events), verdict], time.time())
        self.sensor.committed(
            Committed(
                self._n,
                50,
                Counters(
                    learned={"a": 30, "b": 10},
                    predicted={"a": 40, None: 9},
                    dead_letters={"not JSON": 1},
                    drifts={"ddm": 1},
                    alerts={("mine", "error-rate", "raised"): 1},
                ),
                0.01,
                time.time(),
                [0.1] * 50,
            )
        )
        self.sensor.reported(self.learner.report(time.time()))

    def leave(self, waiting):
        self.sensor.observed({Partition("events", 0): waiting, Partition("events", 1): 0}, 4096)
        self.sensor.remembered(MemoryUse({"words": MemoryComponent(700, 800)}, 5, 2.5))
        self.sensor.shared_out(TenantsUse(3, 2, [Tenant("t", 9, 8, 7)]))

    def close(self):
        self._endpoints.close()


@contextmanager
def watching(folder):
    """A learner that consumed something, and the Prometheus that scrapes it."""
    source = Source()
    source.leave(0)
    prometheus = Prometheus(folder, source.address)
    seen = "count_over_time(streamnb_journal_record[1m]) > 5"
    try:
        until(prometheus.ready)
        until(lambda: prometheus.ask("query", query=seen)["result"])
        yield source, prometheus
    finally:
        prometheus.close()
        source.close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    with watching(tmp_path_factory.mktemp("prometheus")) as both:
        yield both


def test_an_alert_fires_for_a_stopped_stream_and_ends_with_it(tmp_path):
    over = {"StreamnbShortAlarm"}  # of the alarm that the source tells of, and that none of its reports shows
    with watching(tmp_path) as (source, prometheus):
        until(lambda: prometheus.firing() == {"StreamnbNoInput"} | over)
        source.leave(7)
        until(lambda: prometheus.firing() == {"StreamnbStalled"} | over)
        source.consume()
        until(lambda: prometheus.firing() == over)


def test_an_alert_fires_where_none_learns(watched):
    source, prometheus = watched
    source.sensor.entered(WorkerState.STANDBY)
    until(lambda: "StreamnbNotLearning" in prometheus.firing())
    source.sensor.entered(WorkerState.RUNNING)
    until(lambda: "StreamnbNotLearning" not in prometheus.firing())


def expressions():
    """(title, PromQL) of all that the dashboard asks."""
    return [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", [])
    ]


def test_every_panel_shows_something(watched):
    source, prometheus = watched

    def shows_something(panel):
        _, expression = panel
        for written, meant in (
            ("$job", "streamnb"),
            ("$instance", ".+"),
            ("$__rate_interval", "1m"),
            ("$__range", "1h"),
        ):
            expression = expression.replace(written, meant)
        source.consume()
        assert until(lambda: prometheus.ask("query", query=expression)["result"])

    assert failures(shows_something, expressions()) == {}


# The dashboard of Grafana


def metrics_in(text):
    return set(re.findall(r"\b(?:streamnb|process)_\w+", text))


def exposed():
    """family -> names of its series."""
    source = Source()
    source.leave(1)
    try:
        return {family.name: {s.name for s in family.samples} for family in source.sensor.registry.collect()}
    finally:
        source.close()


def test_the_dashboard_shows_every_metric_and_no_other():
    shown = metrics_in(" ".join(expression for _, expression in expressions()))
    families = exposed()
    assert [name for name, series in families.items() if not series & shown] == []
    assert metrics_in(json.dumps(DASHBOARD)) - set().union(*families.values()) == set()


def test_rules_name_metrics_that_there_are():
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    for rule in RULES:
        plain = re.sub(r"\bjob:[\w:]+", "", rule["expr"])
        assert metrics_in(plain) <= set().union(*exposed().values())
        assert set(re.findall(r"\bjob:[\w:]+", rule["expr"])) <= recorded


def test_the_dashboard_is_nobodys_own():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert "id" not in DASHBOARD
    assert DASHBOARD["uid"] == "streamnb"
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    sources = re.findall(r'"uid": "([^"]*)"', json.dumps(DASHBOARD["panels"]))
    assert set(sources) == {"${datasource}"}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD["panels"])))
    assert used <= variables


def test_panels_have_a_unit_and_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or panel["fieldConfig"]["defaults"]["unit"]


def test_addresses_have_a_scale_of_their_own():
    """Large tables reserve so many that the resident memory beside them would be a line at zero."""
    (panel,) = (panel for panel in DASHBOARD["panels"] if panel["title"] == "Memory")
    (virtual,) = (t["refId"] for t in panel["targets"] if "process_virtual" in t["expr"])
    (override,) = panel["fieldConfig"]["overrides"]
    assert override["matcher"] == {"id": "byFrameRefID", "options": virtual}
    # Of one unit there is one scale, wherever the axis stands, unless the axes have different labels.
    assert {p["id"] for p in override["properties"]} == {"custom.axisPlacement", "custom.axisLabel"}


def test_grafana_is_provisioned_with_what_is_mounted():
    grafana = COMPOSE["services"]["grafana"]
    mounts = dict(mount.split(":")[:2] for mount in grafana["volumes"])
    provider = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/streamnb.yaml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    assert mounts["./grafana/dashboards"] == folder
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DEPLOY / "grafana/dashboards" / Path(home).relative_to(folder)).is_file()
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    interval = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["datasources"][0]["jsonData"]["timeInterval"] == interval


# Services of Docker Compose


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_service_is_pinned_kept_up_and_published_to_this_machine_alone(name):
    service = COMPOSE["services"][name]
    assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
    assert service["restart"] == ("on-failure" if name == "topics" else "unless-stopped")
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    for mount in service.get("volumes", []):
        source = mount.split(":")[0]
        assert (DEPLOY / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]
    for variable, value in service.get("environment", {}).items():
        assert "PASSWORD" not in variable or str(value).startswith("${")


def test_compose_accepts_its_file():
    check = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        DEPLOY / "compose.yaml",
    ]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_every_service_has_a_health_check(name):
    """One of its own, or the image's; what ends has none."""
    made = COMPOSE["services"][name]
    told = made.get("healthcheck", {})
    assert bool(told.get("disable")) == (made["restart"] == "on-failure")
    assert told or made["image"] == f"streamnb:{VERSION}"


def test_services_wait_for_what_they_need():
    services = COMPOSE["services"]
    for service in services.values():
        for needed, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "test" in services[needed]["healthcheck"]
            if how["condition"] == "service_completed_successfully":
                assert services[needed]["restart"] == "on-failure"
    assert services["streamnb"]["depends_on"]["topics"]["condition"] == "service_completed_successfully"
    assert services["topics"]["depends_on"]["kafka"]["condition"] == "service_healthy"


@pytest.mark.parametrize("name", OURS)
def test_our_services_are_commands_with_settings_that_there_are(name):
    service = OURS[name]
    assert service["image"] == f"streamnb:{VERSION}"
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert parses(service["command"]).config == "/etc/streamnb/streamnb.toml"
    assert set(service["environment"]) <= VARIABLES


def test_the_image_with_the_variables_of_compose_is_a_whole_configuration():
    loaded = config.load(DEPLOY / "streamnb.toml", OURS["streamnb"]["environment"], [])
    kafka = COMPOSE["services"]["kafka"]["environment"]
    [server] = loaded.log.bootstrap
    assert f"INSIDE://{server}" in kafka["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert server.split(":")[0] in COMPOSE["services"]
    assert f"INSIDE://:{server.split(':')[1]}" in kafka["KAFKA_LISTENERS"].split(",")
    assert loaded.http.address == ("0.0.0.0", 9464)  # noqa: S104  of the container
    jobs = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    [found] = next(job for job in jobs if job["job_name"] == "streamnb")["dns_sd_configs"]
    assert found["names"] == ["streamnb"]
    assert found["port"] == loaded.http.address[1]
    volume = dict(mount.split(":") for mount in OURS["streamnb"]["volumes"])["snapshots"]
    assert loaded.snapshot_folder.is_relative_to(volume)
    assert len(base64.urlsafe_b64decode(kafka["CLUSTER_ID"] + "==")) == 16


# The image


def instructions():
    """(stage, instruction, arguments), continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    found, stage = [], -1
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, arguments = line.split(None, 1)
            stage += word == "FROM"
            found.append((stage, word, arguments))
    return found


def last(wanted):
    return next(arguments for _, word, arguments in reversed(instructions()) if word == wanted)


def test_the_image_is_slim_and_built_in_two_stages():
    words = [word for _, word, _ in instructions()]
    assert words.count("FROM") == 2
    assert "ADD" not in words
    assert re.fullmatch(r"PYTHON=python:3\.\d+-slim-\w+", instructions()[0][2])
    assert last("ARG") == f"VERSION={VERSION}"


def test_the_image_is_made_of_files_that_the_build_is_sent():
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for stage, word, arguments in instructions():
        if word == "COPY" and "--from" not in arguments:
            *sources, _ = [part for part in arguments.split() if not part.startswith("--")]
            assert sources
            for source in sources:
                assert (ROOT / source).exists(), (stage, source)
                assert source in sent


def test_the_image_brings_machine_code():
    made = [args for stage, word, args in instructions() if (stage, word) == (0, "RUN")]
    assert "/opt/streamnb/bin/python -m streamnb.kernels.wheel" in made
    assert "--from=build /opt/streamnb /opt/streamnb" in [args for _, _, args in instructions()]


def test_the_image_runs_as_nobody_in_particular():
    user = last("USER")
    uid = user.split(":")[0]
    assert int(uid) > 0
    assert f"--uid {uid}" in last("RUN")
    after = [word for stage, word, _ in instructions() if stage == 1]
    assert "RUN" not in after[after.index("USER") :]


def test_the_image_starts_the_learner_and_asks_it_whether_it_lives():
    loaded = config.load(DEPLOY / "streamnb.toml", {}, [])
    started = parses(json.loads(last("CMD")))
    assert started.module == "run"
    assert f"deploy/streamnb.toml {started.config}" in " ".join(
        args for _, word, args in instructions() if word == "COPY"
    )
    assert json.loads(last("ENTRYPOINT")) == ["streamnb"]
    assert loaded.snapshot_folder.is_relative_to(last("VOLUME"))
    assert int(last("EXPOSE")) == loaded.http.address[1]
    assert last("STOPSIGNAL") == "SIGTERM"
    assert f"http://127.0.0.1:{loaded.http.address[1]}/live" in last("HEALTHCHECK")


def test_the_health_check_tells_a_living_learner_from_a_dead_one():
    arguments = json.loads(last("HEALTHCHECK").split("CMD", 1)[1])
    health = Health()
    endpoints = Endpoints(("127.0.0.1", 0), health, PrometheusSensor().web_app())
    endpoints.start()
    address = "{}:{}".format(*endpoints.address)
    check = [sys.executable, *(part.replace("127.0.0.1:9464", address) for part in arguments[1:])]
    try:
        assert subprocess.run(check, check=False, capture_output=True).returncode == 0
        health.entered(WorkerState.STOPPED)
        assert subprocess.run(check, check=False, capture_output=True).returncode == 1
    finally:
        endpoints.close()
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1


# The unit of systemd


def unit(name="streamnb.service"):
    """Section -> key -> all its values."""
    sections, section = {}, {}
    for line in (DEPLOY / "systemd" / name).read_text().splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, value = line.split("=", 1)
            section.setdefault(key, []).append(value)
    return sections


def test_systemd_accepts_the_unit(tmp_path):
    program = tool("systemd-analyze")
    shutil.copytree(DEPLOY / "systemd", tmp_path / "units")
    file = tmp_path / "units/streamnb.service"
    file.write_text(file.read_text().replace("/opt/streamnb/bin", str(Path(sys.executable).parent)))
    done = subprocess.run([program, "verify", "--man=no", file], capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "streamnb" in line]
    assert (done.returncode, said) == (0, [])


def test_the_unit_starts_commands_with_settings_that_there_are():
    service = unit()["Service"]
    (before,) = service["ExecStartPre"]
    assert before.startswith("-")  # or it would be tried for ever, whatever RestartPreventExitStatus says
    for line in (before[1:], *service["ExecStart"]):
        program, *arguments = shlex.split(line)
        assert program == "/opt/streamnb/bin/streamnb"
        assert parses(arguments)
    drop_in = unit("streamnb.service.d/password.conf")["Service"]
    for given in (*service["Environment"], *drop_in["Environment"]):
        name = given.split("=")[0]
        assert name in VARIABLES or name == "NUMBA_CACHE_DIR"
    credential = drop_in["LoadCredential"][0].split(":")[0]
    assert drop_in["Environment"] == [f"STREAMNB_KAFKA__PASSWORD_FILE=%d/{credential}"]


def test_the_unit_keeps_the_learner_up_and_shut_in():
    service = unit()["Service"]
    for key, value in {
        "Restart": "always",
        "KillSignal": "SIGTERM",
        "ExecReload": "/bin/kill -HUP $MAINPID",
        "RestartPreventExitStatus": "2",
        "DynamicUser": "yes",
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "StateDirectory": "streamnb",
        "CacheDirectory": "streamnb",
    }.items():
        assert service[key] == [value]
    assert "NUMBA_CACHE_DIR=%C/streamnb" in service["Environment"]
    assert "RestartSec" in service
    assert "MemoryDenyWriteExecute" not in service  # numba compiles in memory
    assert "ProcSubset" not in service  # the fingerprint reads /proc/cpuinfo
