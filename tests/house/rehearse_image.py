"""Do what deploy/Dockerfile says without Docker: `unshare --mount python -m tests.house.rehearse_image` (as root).

Each stage is a chroot on an overlay of this machine's own root, which stands in for the image of Python; so Python has
to be of the version that the Dockerfile names, and lie in /usr. What was made is then run as the image would be: by its
user, without a capability, on a root that cannot be written, until its health check says that it lives; then it is told
to stop. `--quick` compiles the kernels of the default model alone. Nothing outside the namespace changes.
"""

# ruff: noqa: T201, S108 - printing is what this program does, and its /tmp is its own

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = Path("/mnt")


def steps():
    """(instruction, the rest of its line), continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "deploy/Dockerfile").read_text())
    return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]


class Stage:
    """One stage: a root, and what its instructions have set."""

    def __init__(self, name):
        self.root = PLACE / name / "root"
        passed = {k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.lower().endswith("_proxy")}
        self.env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"} | passed
        self.folder, self.user, self.said = "/", None, {}
        for part in ("up", "work", "root"):
            (PLACE / name / part).mkdir(parents=True)
        layers = f"lowerdir=/,upperdir={PLACE / name / 'up'},workdir={PLACE / name / 'work'}"
        mount("-t", "overlay", "overlay", "-o", layers, self.root)
        for own in ("proc", "dev"):
            mount("--rbind", f"/{own}", self.root / own)
        for empty in ("/tmp", "/work", "/var/lib/streamnb", "/etc/streamnb", "/opt/streamnb"):
            shutil.rmtree(self.root / empty[1:], ignore_errors=True)
        (self.root / "tmp").mkdir(exist_ok=True)
        (self.root / "tmp").chmod(0o1777)
        if not (self.root / "usr/bin/python").exists():
            (self.root / "usr/bin/python").symlink_to("python3")

    def command(self, words):
        user = (
            ["--reuid", self.user[0], "--regid", self.user[1], "--clear-groups", "--bounding-set=-all"]
            if self.user
            else []
        )
        inner = shlex.join(["env", "-i", *(f"{k}={v}" for k, v in self.env.items()), *words])
        return ["chroot", str(self.root), "setpriv", *user, "sh", "-c", f"cd {self.folder} && exec {inner}"]

    def run(self, line):
        subprocess.run(self.command(["sh", "-ec", line]), check=True)

    def copy(self, words, stages):
        flags = dict(word[2:].split("=") for word in words if word.startswith("--"))
        *sources, target = [word for word in words if not word.startswith("--")]
        base = stages[flags["from"]].root if "from" in flags else ROOT
        to = self.root / str(Path(self.folder) / target)[1:]
        for source in sources:
            found = base / source.lstrip("/")
            end = to / found.name if target.endswith("/") or (len(sources) > 1) else to
            end.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "machine_code") if base is ROOT else None
                shutil.copytree(found, end, symlinks=True, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy(found, end)
                end.chmod(int(flags.get("chmod", "0644"), 8))


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def build(quick):
    """The last stage, made step by step."""
    stages, stage = {}, None
    for word, rest in steps():
        if word == "ARG":
            continue
        print(f"{word} {rest[:100]}", flush=True)
        if word == "FROM":
            name = rest.split(" AS ")[1] if " AS " in rest else "last"
            stages[name] = stage = Stage(name)
        elif word == "RUN":
            stage.run(rest + (" --default" if quick and rest.endswith("kernels.wheel") else ""))
        elif word == "COPY":
            stage.copy(rest.split(), stages)
        elif word == "WORKDIR":
            stage.folder = rest
            (stage.root / rest[1:]).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            stage.env |= dict(
                pair.split("=", 1) for pair in shlex.split(rest.replace("$PATH", stage.env["PATH"]))
            )
        elif word == "USER":
            stage.user = rest.split(":")
        else:
            stage.said[word] = rest
    return stage


def live(stage):
    """Start what the image starts, on an embedded log; until it is healthy; stop it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])  # another learner of this machine may have the image's
    listen = {"STREAMNB_HTTP__LISTEN": f"127.0.0.1:{port}"}
    stage.env |= {"STREAMNB_LOG__URL": "sqlite:////var/lib/streamnb/log.db"} | listen
    volume = stage.root / stage.said["VOLUME"][1:]
    mount("-t", "tmpfs", "-o", f"uid={stage.user[0]},gid={stage.user[1]},mode=0750", "tmpfs", volume)
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", stage.root / "tmp")
    mount("-o", "remount,ro", stage.root)
    words = [*json.loads(stage.said["ENTRYPOINT"]), *json.loads(stage.said["CMD"])]
    began = time.monotonic()
    process = subprocess.Popen(stage.command(words), start_new_session=True)
    check = stage.command(
        json.loads(stage.said["HEALTHCHECK"].split("CMD")[1].replace(stage.said["EXPOSE"], port))
    )
    while subprocess.run(check, stderr=subprocess.DEVNULL, check=False).returncode:
        if process.poll() is not None or time.monotonic() - began > 120:
            process.kill()
            return f"it was not healthy within 120 s (exit code {process.poll()})"
        time.sleep(0.2)
    print(f"healthy after {time.monotonic() - began:.1f} s", flush=True)
    process.send_signal(signal.Signals[stage.said["STOPSIGNAL"]])
    code = process.wait(60)
    kept = sorted(path.name for path in volume.rglob("*"))
    return "" if code == 0 and "log.db" in kept else f"exit code {code}; it left {kept}"


def main():
    wanted = re.search(r"python:(\d\.\d+)", (ROOT / "deploy/Dockerfile").read_text())[1]
    found = subprocess.run(
        ["/usr/bin/python3", "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    if not found.startswith(f"{wanted}."):
        return f"the image has Python {wanted}, and /usr/bin/python3 is {found}"
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "tmpfs", PLACE)
    wrong = live(build("--quick" in sys.argv))
    print(wrong or "the image's steps work, and what they make runs and stops as it should")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
