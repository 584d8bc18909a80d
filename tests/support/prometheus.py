"""A real Prometheus on the files of this project."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
PATIENCE = 60.0


def tool(name):
    """The path of a program; where it is missing the test is skipped, and in CI it fails."""
    found = shutil.which(name)
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{name} is not installed")
    return found


class Prometheus:
    """A real server on deploy/prometheus: only the targets, the intervals and every `for` are the test's."""

    def __init__(self, folder, *targets):
        shutil.copytree(DEPLOY / "prometheus", folder / "etc")
        made = yaml.safe_load((folder / "etc/prometheus.yml").read_text())
        made["global"] = {"scrape_interval": "200ms", "evaluation_interval": "200ms"}
        made["scrape_configs"] = [job for job in made["scrape_configs"] if job["job_name"] == "streamnb"]
        del made["scrape_configs"][0]["dns_sd_configs"]
        made["scrape_configs"][0]["static_configs"] = [{"targets": [*targets]}]
        (folder / "etc/prometheus.yml").write_text(yaml.safe_dump(made))
        rules = folder / "etc/rules.yml"
        rules.write_text(re.sub(r"^( +for:) .*$", r"\1 1s", rules.read_text(), flags=re.MULTILINE))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = "{}:{}".format(*probe.getsockname())
        arguments = [f"--config.file={folder}/etc/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [tool("prometheus"), *arguments, f"--web.listen-address={self._address}"],
                stdout=log,
                stderr=log,
            )

    def ready(self):
        assert self._process.poll() is None, "Prometheus has ended"
        try:
            return urlopen(f"http://{self._address}/-/ready", timeout=5).status == 200
        except URLError:
            return False

    def ask(self, path, **parameters):
        with urlopen(f"http://{self._address}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def firing(self):
        return {
            alert["labels"]["alertname"]
            for alert in self.ask("alerts")["alerts"]
            if alert["state"] == "firing"
        }

    def close(self):
        self._process.terminate()
        self._process.wait(timeout=PATIENCE)
