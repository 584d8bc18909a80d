"""Render and validate the manifests and the Helm chart: `python -m tests.house.rehearse_kubernetes`.

It needs `kubectl`, `helm` and `promtool`, and neither a cluster nor the network. `--write` writes the rules for the
Prometheus operator from deploy/prometheus/rules.yml.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml
from jsonschema import Draft7Validator

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
CHART = ROOT / "deploy/helm/streamnb"
RULES = ROOT / "deploy/prometheus/rules.yml"
OPERATOR_RULES = KUBERNETES / "monitored/rules.yaml"
VERSION = "1.37"  # of Kubernetes
MONITORED = {"monitoring": {"enabled": True}}
CASES = {
    "defaults": {},
    "monitored": MONITORED,
    "mirror": {
        "storage": {"kind": "mirror", "mirror": {"url": "s3://bucket/prefix", "secretName": "object-storage"}}
    },
    "shared": {"storage": {"kind": "shared", "className": "shared"}},
    "no standby": {"learner": {"standby": False}, "dashboard": {"enabled": False}},
    "everything": {
        **MONITORED,
        "config": '[log]\nurl = "kafka://broker:9092"\n',
        "settings": {"log.url": "kafka://other:9092", "memory.budget": "512MiB"},
        "learner": {"antiAffinity": "required", "createTopics": False},
        "score": {"replicas": 4},
        "image": {
            "repository": "registry.example/streamnb",
            "tag": "test",
            "pullSecrets": [{"name": "pull"}],
        },
        "networkPolicy": {"enabled": False},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    },
}
REFUSED = {
    "another affinity": {"learner": {"antiAffinity": "never"}},
    "misspelt": {"learner": {"standbye": True}},
    "another kind of storage": {"storage": {"kind": "disk"}},
    "a mirror without its address": {"storage": {"kind": "mirror"}},
    "a number as a setting": {"settings": {"commit.events": 1000000}},
    "one replica too few": {"serve": {"replicas": -1}},
}

_NAME = {"type": "string", "minLength": 1}
_LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
OPERATOR_SCHEMAS = {
    "ServiceMonitor": {
        "type": "object",
        "additionalProperties": False,
        "required": ["selector", "endpoints"],
        "properties": {
            "jobLabel": _NAME,
            "selector": {"additionalProperties": False, "properties": {"matchLabels": _LABELS}},
            "endpoints": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "additionalProperties": False,
                    "required": ["port"],
                    "properties": {"port": _NAME, "interval": {"pattern": "^[0-9]+s$"}},
                },
            },
        },
    },
    "PrometheusRule": {
        "type": "object",
        "additionalProperties": False,
        "required": ["groups"],
        "properties": {"groups": {"type": "array", "minItems": 1}},
    },
}
"""The parts of the operator's definitions that the manifests use. promtool checks the rules themselves."""


def run(*command, text=None):
    """Return the output of a program; raise RuntimeError with its errors if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, input=text)
    if done.returncode:
        raise RuntimeError(f"{command[0]} {command[1]}: {done.stderr}{done.stdout}")
    return done.stdout


def operator_rules():
    """Return the rules of Prometheus as an object of its operator, in YAML."""
    made = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "streamnb"},
        "spec": yaml.safe_load(RULES.read_text()),
    }
    head = (
        "# Written from deploy/prometheus/rules.yml by `python -m tests.house.rehearse_kubernetes --write`.\n"
    )
    return head + yaml.safe_dump(made, sort_keys=False, width=120)


def kustomized(folder):
    """Return the objects of a folder of manifests, as kustomize renders them."""
    return list(yaml.safe_load_all(run("kubectl", "kustomize", KUBERNETES / folder)))


def templated(values, release="streamnb", chart=CHART, helm="helm"):
    """Return the objects of the chart with these values, as Helm renders them."""
    more = "--namespace", "streamnb", "--kube-version", VERSION, "--values", "-"
    text = run(helm, "template", release, chart, *more, text=json.dumps(values))
    return [one for one in yaml.safe_load_all(text) if one]


_NAMES = "learner|serve|score|dashboard|nothing-but|metrics|questions|snapshots"


def comparable(objects):
    """Return the objects by kind and name, without what names a release, a digest or the tool that renders them."""
    text = json.dumps([one for one in objects if one["kind"] != "Namespace"])
    text = re.sub(rf"\bstreamnb-({_NAMES})\b", r"\1", text)
    text = re.sub(r'"streamnb(-grafana)?-[a-z0-9]{10}"', r'"streamnb\1"', text)
    found = {}
    for one in json.loads(text, object_hook=_without_release):
        one["metadata"].pop("labels", None) if one["kind"] not in {"Service", "ConfigMap"} else None
        found[one["kind"], one["metadata"]["name"]] = one
    return found


_RELEASE = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"}  # fmt: skip


def _without_release(fields):
    left = {
        key: value for key, value in fields.items() if key not in {*_RELEASE, "checksum/config", "namespace"}
    }
    if left.get("imagePullPolicy") == "IfNotPresent":  # the default of an image with a tag
        del left["imagePullPolicy"]
    return {key: value for key, value in left.items() if value != {} or key in {"emptyDir", "podSelector"}}


def differences(left, right):
    """Yield the paths at which two values of JSON differ, with both values."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}, key=str):
            for path, *values in differences(left.get(key), right.get(key)):
                yield [f"{key}{path}", *values]
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for i, (one, other) in enumerate(zip(left, right, strict=True)):
            for path, *values in differences(one, other):
                yield [f"[{i}]{path}", *values]
    elif left != right:
        yield ["", left, right]


def drift(manifests, chart):
    """Return the differences between what kustomize and Helm render, as lines."""
    return [f"{path}: {one!r} by kustomize, {other!r} by Helm" for path, one, other in differences(comparable(manifests), comparable(chart))]  # fmt: skip


def validate(objects):
    """Raise an error if an object is not what Kubernetes, the operator or Prometheus accepts, or if two have one name."""
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    if len(names) != len(set(names)):
        raise ValueError(f"two objects have one name: {sorted(names)}")
    for one in objects:
        if one["kind"] not in OPERATOR_SCHEMAS:
            kubernetes_validate.validate(one, VERSION, strict=True)
            continue
        Draft7Validator(OPERATOR_SCHEMAS[one["kind"]]).validate(one["spec"])
        if one["kind"] == "PrometheusRule":
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                yaml.safe_dump(one["spec"], file)
                file.flush()
                run("promtool", "check", "rules", file.name)


def rehearse(helm="helm"):
    """Yield each fault that is found, after printing each step."""
    for folder in ("base", "monitored"):
        objects = kustomized(folder)
        validate(objects)
        print(f"kustomize {folder}: {len(objects)} objects are valid")
    run(helm, "lint", "--strict", "--kube-version", VERSION, CHART)
    print("helm lint: no fault")
    for name, values in CASES.items():
        for release in ("streamnb", "another"):
            validate(templated(values, release, helm=helm))
        print(f"helm template, {name}: valid")
    for name, values in REFUSED.items():
        try:
            templated(values, helm=helm)
        except RuntimeError as error:
            if "don't meet the specifications of the schema" not in str(error):
                raise
            print(f"helm template, {name}: refused")
        else:
            yield f"the chart accepts {name}: {values}"
    for folder, values in (("base", {}), ("monitored", MONITORED)):
        yield from drift(kustomized(folder), templated(values, helm=helm))


def main():
    """Write the rules, or rehearse and return 1 if a fault is found."""
    parser = argparse.ArgumentParser("python -m tests.house.rehearse_kubernetes", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the rules for the Prometheus operator")
    parser.add_argument("--helm", default="helm", help="the program of Helm")
    options = parser.parse_args()
    if options.write:
        OPERATOR_RULES.write_text(operator_rules())
        return 0
    faults = list(rehearse(options.helm))
    for fault in faults:
        print(f"fault: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
