"""Copies of snapshots in object storage: whole or not there, kept and removed, and never another learner's."""

from __future__ import annotations

import builtins
import hashlib
import os
import re
import shutil
import subprocess
import time
import urllib.request
from datetime import timedelta

import numpy as np
import pytest

from streamnb.errors import ConfigError, SnapshotError
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart
from streamnb.persistence import snapshot_mirror
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.persistence.snapshot_mirror import MirroredSnapshot, SnapshotMirror

SHARED = b"rows that every snapshot needs" * 100


def digest_of(n, writer=""):
    return hashlib.sha256(f"{n}{writer}".encode()).hexdigest()


def snapshot(n, writer=""):
    segments = {hashlib.sha256(content).hexdigest(): content for content in (SHARED, b"of %d" % n)}
    parts = {"model": SnapshotPart({"n": n, "segments": list(segments)}, {"table": np.full(50, n)})}
    return Snapshot(n, digest_of(n, writer), {("events", 0): n}, "c0ffee", {"python": "x"}, parts, segments)


class Pair:
    """A folder of a learner, and its mirror."""

    def __init__(self, path, url, keep=3):
        self.mirror = SnapshotMirror(url, keep)
        self.folder = SnapshotFolder(path / "own", keep, copy=self.mirror.upload)

    def save(self, *ns, writer=""):
        for n in ns:
            self.folder.save(snapshot(n, writer))

    def numbers(self):
        return [one.n for one in self.mirror.list()]


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/store/deep"


@pytest.fixture
def s3(tmp_path):
    """A bucket of a server of its own; `make storm` installs it."""
    server = shutil.which("moto_server")
    assert server, "pip install 'moto[server]'"
    with pytest.MonkeyPatch.context() as patch, (tmp_path / "moto.log").open("wb") as log:
        port = 20_000 + os.getpid() % 20_000
        running = subprocess.Popen([server, "-p", str(port)], stdout=log, stderr=log)
        for name, value in {
            "ACCESS_KEY_ID": "key",
            "SECRET_ACCESS_KEY": "secret",
            "REGION": "us-east-1",
            "ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "ALLOW_HTTP": "true",
        }.items():
            patch.setenv(f"AWS_{name}", value)
        make = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(make).close()  # noqa: S310
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield "s3://bucket/some/prefix"
        running.kill()
        running.wait()


@pytest.fixture(params=["url", pytest.param("s3", marks=pytest.mark.storm)])
def pair(request, tmp_path):
    return Pair(tmp_path, request.getfixturevalue(request.param))


def test_what_is_downloaded_is_what_was_saved(pair, tmp_path):
    pair.save(5, 12)
    assert pair.mirror.list() == [MirroredSnapshot(n, digest_of(n)) for n in (5, 12)]
    for found in pair.mirror.list():
        pair.mirror.download(found, tmp_path / "other")
    for n in (5, 12):
        copied, own = SnapshotFolder(tmp_path / "other").load(n), pair.folder.load(n)
        assert copied.segments == own.segments == snapshot(n).segments
        assert (copied.parts["model"].arrays["table"] == n).all()
        assert copied.digest == own.digest


def test_the_newest_are_kept_with_what_they_need_alone(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_mirror, "_YOUNG", timedelta(seconds=-5))
    pair.save(*range(1, 7))
    assert pair.numbers() == [4, 5, 6]
    for found in pair.mirror.list():
        pair.mirror.download(found, tmp_path / "other")
    stored = {path for start in ("snapshot-", "segments") for path, _ in pair.mirror._objects(start)}
    assert len(stored) == 2 * 3 + 4  # files and manifests; one segment of each, and the shared one


def test_what_an_upload_in_progress_may_need_is_kept(pair):
    pair.save(*range(1, 7))
    assert len(list(pair.mirror._objects("segments"))) == 7


class CutOffError(Exception):
    """The end of a process, so to speak."""


def test_an_upload_that_is_cut_off_at_any_step_does_not_count_and_harms_nothing(tmp_path, url):
    """A process dies before each of the requests of an upload in turn; the next upload is whole."""
    n, is_over = 10, False
    made = Pair(tmp_path, url, keep=2)
    made.save(1, 2)
    steps = 0
    while not is_over:
        with pytest.MonkeyPatch.context() as patch:
            left = iter(range(steps))
            call = SnapshotMirror._call

            def cut_off(self, act, name, *more, left=left, call=call):
                if next(left, None) is None:
                    raise CutOffError
                return call(self, act, name, *more)

            patch.setattr(SnapshotMirror, "_call", cut_off)
            try:
                made.save(n)
                is_over = True
            except CutOffError:
                pass
        for found in made.mirror.list():
            made.mirror.download(found, tmp_path / f"cut{steps}")
            assert SnapshotFolder(tmp_path / f"cut{steps}").load(found.n).segments
        n, steps = n + 1, steps + 1
    assert steps > 8
    assert made.numbers() == [n - 2, n - 1]


def test_two_writers_of_one_record_do_not_replace_each_other(tmp_path, url):
    first, second = Pair(tmp_path / "1", url), Pair(tmp_path / "2", url)
    first.save(7, writer="the learner")
    second.save(7, writer="fenced meanwhile")
    assert {one.digest for one in first.mirror.list()} == {
        digest_of(7, "the learner"),
        digest_of(7, "fenced meanwhile"),
    }


def test_a_damaged_manifest_is_named(tmp_path, url):
    made = Pair(tmp_path, url)
    made.save(3)
    [found] = made.mirror.list()
    (tmp_path / "store/deep" / f"{found.name}.json").write_text("{")
    with pytest.raises(SnapshotError, match=re.escape(found.name)):
        made.mirror.download(found, tmp_path / "other")


def test_storage_that_does_not_answer_is_one_line(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setitem(snapshot_mirror._RETRIES, "max_retries", 0)
    with pytest.raises(SnapshotError) as caught:
        SnapshotMirror("s3://bucket/prefix").list()
    assert str(caught.value).startswith("s3://bucket/prefix: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["nonsense", "s4://bucket", "s3://"])
def test_a_url_that_cannot_be_used_is_refused(url):
    with pytest.raises(ConfigError, match=r"snapshots\.mirror is"):
        SnapshotMirror(url)


def test_a_missing_library_is_named_with_the_way_to_install_it(monkeypatch):
    load = builtins.__import__

    def without(name, *of, **more):
        if name == "obstore":
            raise ModuleNotFoundError("No module named 'obstore'")
        return load(name, *of, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r'pip install "streamnb\[object-storage\]"'):
        SnapshotMirror("s3://bucket")
