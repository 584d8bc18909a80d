"""The manifests agree with the program: every command, path, port, probe and user; and the pods' commands really run."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft7Validator

from streamnb import config
from streamnb.kernels import kernel_cache
from tests.house import rehearse_kubernetes as rehearsal
from tests.house.test_deploy import DASHBOARD, PATIENCE, ROOT, VARIABLES, VERSION, last, parses, until
from tests.support.service import raw_events

pytestmark = pytest.mark.early(48)

KUBERNETES = ROOT / "deploy/kubernetes"
FOLDERS = ("base", "monitored")
TOKEN = "a token of the tests alone"  # noqa: S105


def documents(folder):
    """Everything that a folder's kustomization names."""
    made = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
    files = [KUBERNETES / folder / name for name in made["resources"] if name.endswith(".yaml")]
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


BASE = documents("base")
VALUES = yaml.safe_load((rehearsal.CHART / "values.yaml").read_text())
VALUES_SCHEMA = json.loads((rehearsal.CHART / "values.schema.json").read_text())
WORKLOADS = {one["metadata"]["name"]: one for one in BASE if one["kind"] in {"Deployment", "StatefulSet"}}
PODS = {name: one["spec"]["template"]["spec"] for name, one in WORKLOADS.items()}
CONTAINERS = [
    pytest.param(pod, container, id=f"{name}-{container['name']}")
    for name, pod in PODS.items()
    for container in [*pod.get("initContainers", []), *pod["containers"]]
]


@pytest.mark.parametrize("one", BASE, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_kubernetes_accepts(one):
    kubernetes_validate.validate(one, "1.37", strict=True)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_is_part_of_a_kustomization(folder):
    made = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
    named = {*made["resources"], *(f for one in made.get("configMapGenerator", []) for f in one["files"])}
    assert named - {"../base", "../../grafana/dashboards"} == {
        path.name for path in (KUBERNETES / folder).iterdir()
    } - {"kustomization.yaml"}
    assert made["namespace"] == BASE[0]["metadata"]["name"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomize_makes_all_of_it(folder):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run(
        ["kubectl", "kustomize", KUBERNETES / folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    of_ours = [one for one in made if one["apiVersion"] != "monitoring.coreos.com/v1"]
    for one in of_ours:
        kubernetes_validate.validate(one, "1.37", strict=True)
    is_monitored = folder == "monitored"
    assert len(of_ours) == len(BASE) + 1 + is_monitored  # the ConfigMaps of the settings and the dashboard
    assert len(made) - len(of_ours) == (len(documents("monitored")) if is_monitored else 0)
    settings, *dashboard = [one for one in made if one["kind"] == "ConfigMap"]
    assert [json.loads(one["data"]["streamnb.json"]) for one in dashboard] == [DASHBOARD] * is_monitored
    mounted = [v["configMap"]["name"] for one in made if "template" in one.get("spec", {}) for v in one["spec"]["template"]["spec"]["volumes"] if "configMap" in v]  # fmt: skip
    assert set(mounted) == {settings["metadata"]["name"]}
    assert settings["data"] == {"streamnb.toml": (KUBERNETES / "base/streamnb.toml").read_text()}


@pytest.mark.parametrize(("pod", "container"), CONTAINERS)
def test_pods_are_shut_in(pod, container):
    user, group = map(int, last("USER").split(":"))
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": group,
        "fsGroup": group,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["resources"]["limits"].keys() == {"memory"}
    assert {one["name"] for one in container.get("env", [])} <= VARIABLES


@pytest.mark.parametrize(("pod", "container"), CONTAINERS)
def test_commands_read_and_write_what_is_mounted(pod, container):
    options = parses(container["args"])
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    claims = [one["metadata"]["name"] for one in WORKLOADS["learner"]["spec"]["volumeClaimTemplates"]]
    known = {one["name"] for one in pod["volumes"]} | (
        set(claims) if options.module in {"run", "topics"} else set()
    )
    assert {one["name"] for one in mounts.values()} <= known
    settings = config.load(KUBERNETES / "base/streamnb.toml", {}, [])
    assert options.config == f"{'/etc/streamnb'}/streamnb.toml"
    assert mounts["/etc/streamnb"]["readOnly"]
    assert not mounts["/tmp"].get("readOnly")  # noqa: S108  of the pod
    if options.module != "topics":
        volume = last("VOLUME")
        assert settings.snapshot_folder.is_relative_to(volume)
        assert bool(mounts[volume].get("readOnly")) == (options.module != "run")
    if "token_file" in options:
        assert str(Path(options.token_file).parent) in mounts


def test_replicas_mount_the_volume_of_the_learner():
    [claim] = WORKLOADS["learner"]["spec"]["volumeClaimTemplates"]
    expected = f"{claim['metadata']['name']}-learner-0"
    for name in ("serve", "score", "dashboard"):
        [volume] = [one for one in PODS[name]["volumes"] if "persistentVolumeClaim" in one]
        assert volume["persistentVolumeClaim"]["claimName"] == expected
        [near] = PODS[name]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert near["labelSelector"]["matchLabels"] == {"statefulset.kubernetes.io/pod-name": "learner-0"}


def test_the_standby_runs_on_another_node_if_it_can_with_a_volume_of_its_own():
    spec = WORKLOADS["learner"]["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"]) == (2, "Parallel")
    [apart] = PODS["learner"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]  # fmt: skip
    assert apart["podAffinityTerm"]["labelSelector"] == spec["selector"]
    assert "persistentVolumeClaim" not in str(PODS["learner"]["volumes"])


@pytest.mark.parametrize("name", PODS)
def test_ports_are_those_that_are_listened_on(name):
    [container] = PODS[name]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    settings = config.load(KUBERNETES / "base/streamnb.toml", {}, [])
    options = parses(container["args"])
    listened = (
        settings.http.address[1] if options.module in {"run", "score"} else int(options.listen.split(":")[1])
    )
    assert list(ports.values()) == [listened]
    assert ("readinessProbe" in container) == (name != "learner")  # a standby is never ready
    for kind in {"startupProbe", "livenessProbe", "readinessProbe"} & container.keys():
        assert container[kind]["httpGet"] == {"path": "/ready" if kind == "readinessProbe" else "/live", "port": next(iter(ports))}  # fmt: skip
    [service] = [one for one in BASE if (one["kind"], one["metadata"]["name"]) == ("Service", name)]
    assert [port["targetPort"] for port in service["spec"]["ports"]] == list(ports)
    assert service["spec"]["selector"] == WORKLOADS[name]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == WORKLOADS[name]["spec"]["selector"]["matchLabels"]


def test_policies_budgets_and_monitors_select_pods_that_there_are():
    all_labels = [one["spec"]["template"]["metadata"]["labels"] for one in WORKLOADS.values()]
    ports = {port["name"] for pod in PODS.values() for one in pod["containers"] for port in one["ports"]}
    policies = [one["spec"] for one in BASE if one["kind"] == "NetworkPolicy"]
    budgets = [one["spec"]["selector"] for one in BASE if one["kind"] == "PodDisruptionBudget"]
    assert {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "streamnb"}},
        "policyTypes": ["Ingress"],
    } in policies
    for selector in [*(one["podSelector"] for one in policies), *budgets]:
        wanted = selector["matchLabels"].items()
        assert any(wanted <= labels.items() for labels in all_labels), selector
        for asked in selector.get("matchExpressions", []):
            assert set(asked["values"]) == {labels[asked["key"]] for labels in all_labels} - {
                "learner",
                "score",
            }
    opened = {port["port"] for one in policies for rule in one.get("ingress", []) for port in rule["ports"]}
    assert opened == ports
    jobs = {}
    for monitor in [one for one in documents("monitored") if one["kind"] == "ServiceMonitor"]:
        name, spec = monitor["metadata"]["name"], monitor["spec"]
        [service] = [one for one in BASE if (one["kind"], one["metadata"]["name"]) == ("Service", name)]
        assert {end["port"] for end in spec["endpoints"]} == {one["name"] for one in service["spec"]["ports"]}
        assert spec["selector"]["matchLabels"] == service["spec"]["selector"]
        jobs[name] = service["metadata"]["labels"][spec["jobLabel"]]
    # Rules ask whether a learner of the job `streamnb` runs
    assert jobs == {"learner": "streamnb", "score": "streamnb-score", "serve": "streamnb-serve"}


def test_the_version_is_the_programs():
    made = yaml.safe_load((KUBERNETES / "base/kustomization.yaml").read_text())
    assert made["images"] == [{"name": "streamnb", "newTag": VERSION}]
    assert made["labels"][0]["pairs"]["app.kubernetes.io/version"] == VERSION
    assert {container.values[1]["image"] for container in CONTAINERS} == {"streamnb"}


# The Helm chart


def values_of(given):
    """The values of the chart, with others above them."""

    def merged(below, above):
        both = isinstance(below, dict) and isinstance(above, dict)
        return (
            {**below, **{name: merged(below.get(name), of) for name, of in above.items()}} if both else above
        )

    return merged(VALUES, given)


def test_the_operator_gets_the_rules_that_prometheus_reads():
    """`python -m tests.house.rehearse_kubernetes --write` writes them."""
    assert rehearsal.OPERATOR_RULES.read_text() == rehearsal.operator_rules()


def test_the_chart_has_no_copy_of_rules_dashboard_and_configuration():
    assert {one.name: one.resolve().relative_to(ROOT).as_posix() for one in (rehearsal.CHART / "files").iterdir()} == {
        "rules.yml": "deploy/prometheus/rules.yml",
        "dashboard.json": "deploy/grafana/dashboards/streamnb.json",
        "streamnb.toml": "deploy/kubernetes/base/streamnb.toml",
    }  # fmt: skip
    chart = yaml.safe_load((rehearsal.CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == VERSION


@pytest.mark.parametrize("name", rehearsal.CASES)
def test_the_schema_accepts(name):
    Draft7Validator(VALUES_SCHEMA).validate(values_of(rehearsal.CASES[name]))


@pytest.mark.parametrize("name", rehearsal.REFUSED)
def test_the_schema_refuses(name):
    assert not Draft7Validator(VALUES_SCHEMA).is_valid(values_of(rehearsal.REFUSED[name]))


def test_templates_read_every_value():
    text = "".join(path.read_text() for path in (rehearsal.CHART / "templates").iterdir())
    read = set(re.findall(r"\.Values\.(\w+(?:\.\w+)?)", text))
    own = {name if not isinstance(of, dict) or not of or name == "settings" else f"{name}.{key}" for name, of in VALUES.items() for key in (of if isinstance(of, dict) and of else [""])}  # fmt: skip
    handed_on = {f"{name}.resources" for name in ("serve", "dashboard")}
    assert own - {"storage.mirror"} - handed_on <= read


@pytest.mark.storm
def test_the_chart_renders_what_the_manifests_do():
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed: go install helm.sh/helm/v3/cmd/helm@latest")
    assert list(rehearsal.rehearse()) == []


# The commands of the pods, in a mount namespace whose root cannot be written, without a capability


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def can_shut_in():
    """Whether this user may make namespaces and mounts."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return False
    return not subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode


class Pod:
    """One container's command: its mounts are folders of the test, its port is a free one, and its log is SQLite."""

    def __init__(self, container, volumes):
        self.port, self._said = free_port(), volumes["tmp"] / f"{container['name']}.log"
        args = [
            re.sub(r"^(--listen=)?0\.0\.0\.0:\d+$", rf"\g<1>0.0.0.0:{self.port}", arg)
            for arg in container["args"]
        ]
        environ = os.environ | {
            "STREAMNB_LOG__URL": f"sqlite:///{volumes['log']}/log.db",
            "STREAMNB_SNAPSHOTS__FOLDER": f"{volumes['snapshots']}/snapshots",
            "STREAMNB_HTTP__LISTEN": f"0.0.0.0:{self.port}",
            "NUMBA_CACHE_DIR": str(volumes["kernels"].parent),  # the image brings its own
            "TMPDIR": str(volumes["tmp"]),
        }
        mounts = {one["mountPath"]: str(volumes[one["name"]]) for one in container["volumeMounts"]}
        inside = re.compile(rf"^(--[\w-]+=)?({'|'.join(mounts)})/")
        args = [inside.sub(lambda found: f"{found[1] or ''}{mounts[found[2]]}/", arg) for arg in args]
        read_only = [volumes[one["name"]] for one in container["volumeMounts"] if one.get("readOnly")]
        shut = "\n".join(
            [
                "set -e",
                "mount --make-rprivate /",
                *(f"mount --bind {path} {path}" for path in volumes.values()),
                *(f"mount -o remount,bind,ro {path}" for path in read_only),
                f"mount -o remount,bind,ro $(findmnt --noheadings --output TARGET --target {ROOT})",
                f"! touch {ROOT}/written 2>/dev/null",
                'exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"',
            ]
        )
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", shut, "sh", sys.executable, "-m", "streamnb", *args],
                env=environ,
                stdout=said,
                stderr=said,
            )

    def answer(self, path, **headers):
        try:
            return urlopen(Request(f"http://127.0.0.1:{self.port}{path}", headers=headers), timeout=10).status
        except HTTPError as error:
            return error.code
        except URLError:
            assert self._process.poll() is None, self._said.read_text()
            return None

    def ended(self):
        return self._process.wait(timeout=PATIENCE), self._said.read_text()

    def stop(self):
        self._process.terminate()
        return self.ended()


@pytest.mark.thorough
def test_pods_run_where_nothing_can_be_written_but_their_volumes(tmp_path):
    if not can_shut_in():
        pytest.skip("this user may not make namespaces")
    volumes = {name: tmp_path / name for name in ("settings", "tmp", "snapshots", "token", "log")}
    for folder in volumes.values():
        folder.mkdir()
    volumes["kernels"] = kernel_cache.own_folder()
    shutil.copy(KUBERNETES / "base/streamnb.toml", volumes["settings"])
    (volumes["token"] / "token").write_text(TOKEN)
    containers = {one.values[1]["name"]: one.values[1] for one in CONTAINERS}
    assert Pod(containers["topics"], volumes).ended()[0] == 0
    events = tmp_path / "events.jsonl"
    events.write_bytes(b"\n".join(raw_events(200)))
    url = f"sqlite:///{volumes['log']}/log.db"
    subprocess.run(
        [sys.executable, "-m", "streamnb", "replay", events, "--log", url], check=True, capture_output=True
    )
    learner = Pod(containers["learner"], volumes)
    until(lambda: learner.answer("/live") == 200 and learner.answer("/ready") == 200)
    for name in ("serve", "dashboard"):
        pod = Pod(containers[name], volumes)
        until(lambda pod=pod: pod.answer("/live") == 200 and pod.answer("/ready") == 200)
        assert pod.answer("/model") == 401
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        until(lambda pod=pod, allowed=allowed: pod.answer("/model", **allowed) == 200)  # loads
        assert pod.stop()[0] == 0
    code, said = learner.stop()
    assert code == 0, said
    assert any((volumes["snapshots"] / "snapshots").iterdir())
