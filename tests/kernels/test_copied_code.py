"""Machine code of a wheel is copied to the cache of a machine, under the names by which kernels find it."""

from __future__ import annotations

import zipfile

from streamnb.kernels import wheel

INSIDE = "streamnb/kernels/machine_code/kernels"


def test_the_code_of_each_wheel_is_copied_once_and_nothing_else(tmp_path, monkeypatch):
    cache, dist = tmp_path / "cache", tmp_path / "dist"
    for folder in (cache, dist):
        folder.mkdir()
    monkeypatch.setattr(wheel, "own_folder", lambda: cache)
    with zipfile.ZipFile(dist / "streamnb-0.2.0-cp311-cp311-linux_x86_64.whl", "w") as made:
        made.writestr(f"{INSIDE}/one-1-2", b"one")
        made.writestr(f"{INSIDE}/two-1-2", b"two")
        made.writestr("streamnb/kernels/jit.py", b"")
        made.writestr(f"{INSIDE}/deeper/three", b"")
    with zipfile.ZipFile(dist / "other-1.0-py3-none-any.whl", "w") as made:
        made.writestr(f"{INSIDE}/four", b"")
    (cache / "two-1-2").write_bytes(b"of this machine")
    assert wheel.copy_code(dist) == 1
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == {
        "one-1-2": b"one",
        "two-1-2": b"of this machine",
    }
    assert wheel.copy_code(dist) == 0


def test_without_a_wheel_or_a_cache_there_is_nothing_to_copy(tmp_path, monkeypatch, capsys):
    assert wheel.main(["--from", str(tmp_path / "nowhere")]) == 0
    monkeypatch.setattr(wheel, "own_folder", lambda: None)
    assert wheel.copy_code(tmp_path) == 0
    assert capsys.readouterr().err == ""


def test_the_code_is_where_a_wheel_has_it():
    assert wheel.SHIPPED.as_posix().endswith(INSIDE)
