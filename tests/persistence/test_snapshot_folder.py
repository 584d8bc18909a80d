"""A folder of snapshots: whole after a crash anywhere, honest about damage, and never too full."""

import errno
import fcntl
import mmap
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import tomllib
import tracemalloc
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest

from streamnb.errors import SnapshotError
from streamnb.formats.portable_arrays import array_blocks
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, encode
from streamnb.persistence import snapshot_folder
from streamnb.persistence.platform_fingerprint import cpu_level, cpu_model, fingerprint
from streamnb.persistence.snapshot_folder import FoundSnapshotFile, SnapshotFolder
from tests import ROOT
from tests.support.program import until
from tests.support.service import snapshot_content

NOISE = np.random.default_rng(0).integers(
    0, 256, 300_000, dtype=np.uint8
)  # several writes, as nothing compresses it


def snapshot(n, size=10):
    part = SnapshotPart({"n": n}, {"noise": NOISE, "table": np.full(size, n)})
    return Snapshot(n, f"{n:04x}", {("events", 0): n}, "c0ffee", {"python": "x"}, {"model": part})


def name(n):
    return f"snapshot-{n:020d}.snb"


def numbers(folder):
    return [entry.n for entry in folder.list()]


def temporaries(path):
    return [file for file in path.iterdir() if file.name.endswith(".tmp")]


def assert_holds(found, n):
    assert isinstance(found, FoundSnapshotFile)
    assert found.snapshot.journal_n == n
    assert (found.snapshot.parts["model"].arrays["table"] == n).all()


def filled(path, *ns, keep=3):
    folder = SnapshotFolder(path, keep)
    for n in ns:
        folder.save(snapshot(n))
    return folder


# --- Saving, listing, reading


def test_what_was_saved_last_is_newest(tmp_path):
    folder = filled(tmp_path, 9, 10)
    path = folder.save(snapshot(100))
    assert path == tmp_path / name(100)
    assert snapshot_content(path) == encode(snapshot(100))
    assert numbers(folder) == [9, 10, 100]
    assert folder.newest().path == path
    assert folder.newest().damaged == ()
    assert_holds(folder.newest(), 100)
    assert folder.load(10).journal_n == 10


def test_listing_tells_path_and_size(tmp_path):
    folder = filled(tmp_path, 5)
    assert list(folder.list()) == [(5, tmp_path / name(5), (tmp_path / name(5)).stat().st_size)]


def test_no_snapshot_is_none_even_where_the_folder_is_missing(tmp_path):
    assert SnapshotFolder(tmp_path).newest() is None
    missing = SnapshotFolder(tmp_path / "a" / "b")
    assert missing.newest() is None
    assert missing.list() == ()
    assert not (tmp_path / "a").exists()
    missing.save(snapshot(1))
    assert_holds(missing.newest(), 1)


def test_only_the_newest_are_kept(tmp_path):
    folder = filled(tmp_path, 1, 2, 3, 4, 5, keep=2)
    assert numbers(folder) == [4, 5]


def test_the_same_record_again_replaces_its_snapshot(tmp_path):
    folder = filled(tmp_path, 1, 2, 2, 2)
    assert numbers(folder) == [1, 2]


def test_after_a_rollback_the_newly_saved_is_not_the_oldest_to_go(tmp_path):
    folder = filled(tmp_path, 70, 80, 90, keep=2)
    folder.save(snapshot(10))
    folder.save(snapshot(20))
    folder.save(snapshot(30))
    assert numbers(folder) == [20, 30, 80, 90]


def test_other_files_are_left_alone(tmp_path):
    strangers = [
        "notes.txt",
        "snapshot-1.snb",
        f"snapshot-{'٣' * 20}.snb",
        f"{name(1)}.bak",
        f"{name(1)}.xyz.tmp",
        ".hidden.tmp",
    ]
    for stranger in strangers:
        (tmp_path / stranger).write_bytes(b"?")
    folder = filled(tmp_path, 1, 2, 3, keep=1)
    assert numbers(folder) == [3]
    assert {file.name for file in tmp_path.iterdir()} == {*strangers, name(3)}


def test_keep_is_at_least_one(tmp_path):
    with pytest.raises(ValueError, match="keep must be at least 1, got 0"):
        SnapshotFolder(tmp_path, keep=0)


def test_a_snapshot_before_the_first_record_is_not_kept(tmp_path):
    with pytest.raises(SnapshotError, match="this one before the first"):
        SnapshotFolder(tmp_path / "new").save(snapshot(-1))
    assert not (tmp_path / "new").exists()


def test_a_value_without_a_form_does_not_touch_the_disk(tmp_path):
    odd = Snapshot(1, "", {}, "", {}, {"model": SnapshotPart({"rate": float("nan")}, {})})
    with pytest.raises(SnapshotError, match=r"\$\.parts\.model\.rate"):
        SnapshotFolder(tmp_path / "new").save(odd)
    assert not (tmp_path / "new").exists()


def test_loading_a_record_without_a_snapshot_is_an_error(tmp_path):
    with pytest.raises(SnapshotError, match="no snapshot at journal record 7"):
        filled(tmp_path, 6).load(7)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_large_state_is_never_held_twice(tmp_path, order):
    size = 16_000_000
    large = np.zeros((size // 16, 2), order=order)
    value = Snapshot(1, "", {}, "", {}, {"model": SnapshotPart({}, {"table": large})})
    folder = SnapshotFolder(tmp_path)
    tracemalloc.start()
    try:
        folder.save(value)
        assert tracemalloc.get_traced_memory()[1] < 0.4 * size
        tracemalloc.reset_peak()
        found = folder.newest()
        assert tracemalloc.get_traced_memory()[1] < 1.4 * size
    finally:
        tracemalloc.stop()
    assert found.snapshot.parts["model"].arrays["table"].nbytes == size


# --- Damage


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "it is cut off"),
        (lambda path: path.write_bytes(bytes(500)), "not a snapshot"),
        (lambda path: path.write_bytes(encode(snapshot(2))), "journal record 2, its name has 3"),
        (lambda path: (path.unlink(), path.mkdir()), "directory"),
        (lambda path: (path.unlink(), path.symlink_to("itself-gone")), "No such file"),
    ],
    ids=["empty", "cut", "zeros", "renamed", "folder", "dangling"],
)
def test_damage_is_passed_over_and_told(tmp_path, damage, reason):
    folder = filled(tmp_path, 1, 2, 3)
    damage(tmp_path / name(3))
    found = folder.newest()
    assert_holds(found, 2)
    assert [path for path, _ in found.damaged] == [tmp_path / name(3)]
    assert reason in found.damaged[0].reason
    with pytest.raises(SnapshotError, match=reason):
        folder.load(3)


def test_damage_to_all_is_an_error_that_names_each(tmp_path):
    folder = filled(tmp_path, 1, 2)
    (tmp_path / name(1)).write_bytes(b"")
    (tmp_path / name(2)).write_bytes(encode(snapshot(2))[:-5])
    with pytest.raises(SnapshotError) as caught:
        folder.newest()
    assert f"{name(2)}: it is cut off" in str(caught.value)
    assert f"{name(1)}: the file is empty" in str(caught.value)


def test_an_empty_file_alone_is_damage_not_absence(tmp_path):
    (tmp_path / name(0)).touch()
    with pytest.raises(SnapshotError, match="the file is empty"):
        SnapshotFolder(tmp_path).newest()


def test_a_folder_that_is_a_file_is_an_error_not_absence(tmp_path):
    (tmp_path / "file").touch()
    folder = SnapshotFolder(tmp_path / "file")
    with pytest.raises(SnapshotError, match="cannot list"):
        folder.newest()
    with pytest.raises(SnapshotError, match="cannot save"):
        folder.save(snapshot(1))


def test_a_disk_that_fails_to_read_is_damage(tmp_path, monkeypatch):
    folder = filled(tmp_path, 1, 2)
    content_of = snapshot_folder._content_of

    def failing(file):
        if Path(file.name).name == name(2):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return content_of(file)

    monkeypatch.setattr(snapshot_folder, "_content_of", failing)
    found = folder.newest()
    assert_holds(found, 1)
    assert found.damaged == ((tmp_path / name(2), "Input/output error"),)


def test_snapshots_dropped_while_looking_are_looked_for_again(tmp_path, monkeypatch):
    folder, writer = filled(tmp_path, 1, keep=1), SnapshotFolder(tmp_path, keep=1)
    read, calls = SnapshotFolder._read, count(2)

    def overtaken(self, path, n, alive):
        if (newer := next(calls)) <= 4:
            writer.save(snapshot(newer))
        return read(self, path, n, alive)

    monkeypatch.setattr(SnapshotFolder, "_read", overtaken)
    assert_holds(folder.newest(), 4)


def test_a_reader_beside_a_busy_writer_always_finds_a_whole_snapshot(tmp_path):
    folder, done = filled(tmp_path, 0, keep=1), threading.Event()

    def write():
        for n in range(1, 150):
            folder.save(snapshot(n, size=2000))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        found = SnapshotFolder(tmp_path).newest()
        assert_holds(found, found.snapshot.journal_n)
        assert found.damaged == ()
        seen.append(found.snapshot.journal_n)
    writer.join()
    assert all(a <= b for a, b in pairwise(seen))
    assert len(set(seen)) > 1


# --- What is put aside


@pytest.mark.parametrize("shape", [(0,), (0, 3), (7,), (5, 2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint64", "bool"])
def test_what_is_put_aside_is_the_blocks_one_below_the_other(tmp_path, shape, dtype):
    rng, folder = np.random.default_rng(1), SnapshotFolder(tmp_path / "new")
    blocks = [rng.integers(0, 2, shape).astype(dtype) for _ in range(3)]
    blocks.append(np.asfortranarray(blocks[0])[::2])
    found, expected = folder.aside(iter(blocks)), np.concatenate(blocks)
    assert (found.dtype, found.shape, found.nbytes) == (expected.dtype, expected.shape, expected.nbytes)
    for rows in (slice(None), slice(2, 5), slice(4, 2), slice(3, 99)):
        assert (found[rows] == expected[rows]).all()
        assert found[rows].shape == expected[rows].shape
    assert found.reshape(1, -1).shape == expected.reshape(1, -1).shape
    parts = ({"model": SnapshotPart({}, {"table": array})} for array in (found, expected))
    encoded = [encode(Snapshot(1, "0", {}, "c", {}, part)) for part in parts]
    assert encoded[0] == encoded[1]
    folder.save(Snapshot(1, "0", {}, "c", {}, {"model": SnapshotPart({}, {"table": found})}))
    assert [path.name for path in folder.path.iterdir()] == [name(1)], "it has no name"


def test_what_is_put_aside_takes_no_memory_and_no_disk_afterwards(tmp_path):
    folder, block = SnapshotFolder(tmp_path), np.arange(1 << 17)
    before, most = resident(), 0
    found = folder.aside(block + n for n in range(64))
    assert found.nbytes == 64 << 20
    for _ in array_blocks(found.reshape(1, -1)):
        most = max(most, resident() - before)
    assert most < 16 << 20
    assert [int(found[n << 17 : (n << 17) + 1][0]) for n in range(64)] == [*range(64)]
    assert files_in(tmp_path)
    del found, _
    until(lambda: not files_in(tmp_path))


def files_in(folder):
    """What this process has open there."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if f"{folder}/" in str(link.readlink())]


def resident():
    """Bytes, those of files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_where_nothing_can_be_put_aside_it_says_where_and_why(tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(SnapshotError, match=r"cannot write to .*folder: "):
        SnapshotFolder(tmp_path / "folder").aside([np.zeros(3)])


def test_a_disk_that_does_not_answer_holds_nobody_up_for_long(tmp_path, monkeypatch):
    """Nor does it a second time; and who writes in the background waits for it."""
    monkeypatch.setattr(snapshot_folder, "_PATIENCE", 0.2)
    folder, answers = SnapshotFolder(tmp_path), threading.Event()
    write = snapshot_folder._write
    monkeypatch.setattr(snapshot_folder, "_write", lambda *given: answers.wait(60) and write(*given))
    for _ in range(3):
        with pytest.raises(SnapshotError, match=r"takes nothing within 0.2 s: does the disk answer\?"):
            folder.aside([np.zeros(3)])
    assert len([thread for thread in threading.enumerate() if thread.name == "snapshot"]) == 1
    outcome = snapshot_folder._in_background(lambda: folder.aside([np.ones(3)]))
    time.sleep(0.5)
    assert not outcome.done()
    answers.set()
    assert (outcome.result(60)[:] == 1.0).all()
    until(folder._asked.done)
    assert (folder.aside([np.ones(3)])[:] == 1.0).all()


@pytest.mark.parametrize("fault", [OSError(errno.EIO, "Input/output error"), 0])
def test_a_copy_that_cannot_be_read_back_is_a_snapshot_error(tmp_path, monkeypatch, fault):
    folder = SnapshotFolder(tmp_path)
    found = folder.aside([np.zeros(3)])

    def preadv(*_):
        if fault:
            raise fault
        return 0

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(SnapshotError, match=r"cannot be read back|ended"):
        folder.save(Snapshot(1, "0", {}, "c", {}, {"model": SnapshotPart({}, {"table": found})}))


# --- A disk that refuses

CALLS = ("open", "write", "fsync", "rename")


class Interception:
    """Counts the calls of os functions, and lets `strike` act at the chosen one."""

    def __init__(self, monkeypatch, strike, at=None, *, after=False):
        self.calls = []
        for function in (*CALLS, "unlink"):
            original = getattr(os, function)
            monkeypatch.setattr(os, function, self.wrap(function, original, strike, at, after))

    def wrap(self, function, original, strike, at, after):
        def call(*args, **kwargs):
            self.calls.append(function)
            if len(self.calls) - 1 == at and not after:
                strike()
            result = original(*args, **kwargs)
            if len(self.calls) - 1 == at and after:
                if function == "open":
                    os.close(result)
                strike()
            return result

        return call


def calls_of_save(path):
    """Every call of the disk that a save makes which also drops an old snapshot and sweeps a stale file."""
    folder = filled(path, 1, 2, 3)
    with pytest.MonkeyPatch.context() as patch:
        seen = Interception(patch, lambda: None)
        folder.save(snapshot(4))
    return seen.calls


@pytest.fixture(scope="module")
def save_calls(tmp_path_factory):
    return calls_of_save(tmp_path_factory.mktemp("calls"))


def test_a_save_syncs_the_file_before_the_name_and_the_folder_before_dropping(save_calls):
    writes = save_calls.count("write")
    assert writes >= 2
    assert save_calls == ["open", "open", *["write"] * writes, "fsync", "rename", "open", "fsync", "unlink"]


def test_a_folder_made_for_the_first_save_is_durable_too(tmp_path, monkeypatch):
    seen = Interception(monkeypatch, lambda: None)
    SnapshotFolder(tmp_path / "a" / "b").save(snapshot(1))
    assert seen.calls[:4] == ["open", "fsync"] * 2  # the folders that hold a and b
    assert seen.calls.count("fsync") == 4


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_refusal_at_any_call_is_told_and_harms_nothing(tmp_path, monkeypatch, save_calls, code):
    def refuse():
        raise OSError(code, os.strerror(code))

    for at, function in enumerate(save_calls):
        path = tmp_path / str(at)
        folder = filled(path, 1, 2, 3)
        with monkeypatch.context() as patch:
            Interception(patch, refuse, at)
            with pytest.raises(SnapshotError, match=os.strerror(code)):
                folder.save(snapshot(4))
        renamed = "rename" in save_calls[:at]
        assert numbers(folder) == [1, 2, 3] + [4] * renamed, function
        assert temporaries(path) == []
        assert_holds(folder.newest(), 4 if renamed else 3)
        folder.save(snapshot(5))
        assert_holds(folder.newest(), 5)
        assert len(numbers(folder)) == 3


def test_short_writes_are_continued(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, chunk: write(descriptor, chunk[:7]))
    path = SnapshotFolder(tmp_path).save(snapshot(1))
    assert snapshot_content(path) == encode(snapshot(1))


def test_an_interrupted_save_removes_its_temporary_file(tmp_path, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        Interception(patch, interrupt, at=2)
        with pytest.raises(KeyboardInterrupt):
            SnapshotFolder(tmp_path).save(snapshot(1))
    assert list(tmp_path.iterdir()) == []


# --- Death


class Death(BaseException):
    """The process ends: nothing runs any more, no clean-up either."""


def die_at(folder, value, at, after):
    """Save, and die before or after the call number `at`; what the dead would do is undone by the dead disk."""

    def strike():
        for function in (*CALLS, "unlink"):
            patch.setattr(os, function, refuse)
        raise Death

    def refuse(*_args, **_kwargs):
        raise OSError(errno.EIO, "dead")

    with pytest.MonkeyPatch.context() as patch:
        Interception(patch, strike, at, after=after)
        with pytest.raises(Death):
            folder.save(value)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_death_between_any_two_steps_leaves_a_whole_newest_snapshot(tmp_path, save_calls, after):
    left = 0
    for at in range(len(save_calls)):
        path = tmp_path / str(at)
        folder = filled(path, 1, 2, 3)
        die_at(folder, snapshot(4), at, after)
        left += len(temporaries(path))
        renamed = "rename" in save_calls[: at + after]
        assert_holds(folder.newest(), 4 if renamed else 3)
        assert folder.newest().damaged == ()
        folder.save(snapshot(5))
        assert temporaries(path) == []
        assert len(numbers(folder)) == 3
        assert_holds(folder.newest(), 5)
    assert left >= 3  # the dead did leave temporary files, and the next save removed them


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_death_in_the_first_save_leaves_nothing_or_the_snapshot(tmp_path, save_calls, after):
    for at in range(len(save_calls) - 1):  # there is nothing to drop
        folder = SnapshotFolder(tmp_path / str(at))
        folder.path.mkdir()
        die_at(folder, snapshot(4), at, after)
        found = folder.newest()
        assert (found is not None) == ("rename" in save_calls[: at + after])


def test_a_living_writers_temporary_file_is_not_swept(tmp_path):
    mine, dead = tmp_path / f"{name(8)}.{'a' * 16}.tmp", tmp_path / f"{name(9)}.{'b' * 16}.tmp"
    dead.write_bytes(b"half")
    with mine.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        filled(tmp_path, 1)
        assert temporaries(tmp_path) == [mine]
    filled(tmp_path, 2)
    assert temporaries(tmp_path) == []


def test_a_save_beside_another_save_does_not_sweep_it(tmp_path, monkeypatch):
    rename = os.rename

    def rename_after_a_rival(source, target):
        monkeypatch.setattr(os, "rename", rename)
        filled(tmp_path, 2)
        rename(source, target)

    monkeypatch.setattr(snapshot_folder, "_SAVE_PATIENCE", 0.1)  # as on a file system without locks
    monkeypatch.setattr(os, "rename", rename_after_a_rival)
    folder = filled(tmp_path, 1)
    assert numbers(folder) == [1, 2]


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.persistence.test_snapshot_folder import SnapshotFolder, snapshot
folder = SnapshotFolder(sys.argv[1], keep=2)
n = folder.newest().snapshot.journal_n if folder.newest() else -1
print("ready", flush=True)
while True:
    n += 1
    folder.save(snapshot(n, size=30_000))
"""


def test_a_killed_process_leaves_a_whole_newest_snapshot(tmp_path):
    folder, last = SnapshotFolder(tmp_path, keep=2), -1
    for delay in (0.02, 0.033, 0.047, 0.061, 0.08):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(ROOT)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(delay)
            writer.send_signal(signal.SIGKILL)
        assert writer.returncode == -signal.SIGKILL
        found = folder.newest()
        if found is None:
            assert last == -1
            continue
        assert found.damaged == ()
        assert_holds(found, found.snapshot.journal_n)
        assert found.snapshot.journal_n >= last
        assert len(numbers(folder)) <= 3  # died between the rename and the drop at worst
        last = found.snapshot.journal_n
    assert last > 0
    folder.save(snapshot(last + 1))
    assert temporaries(tmp_path) == []
    assert len(numbers(folder)) == 2


# --- What is no file, and who may read what is one


def pipe(path):
    os.mkfifo(path)


def listening(path):
    with socket.socket(socket.AF_UNIX) as bound:
        folder = os.open(path.parent, os.O_RDONLY)
        try:  # a path of a socket is short
            bound.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


@pytest.mark.parametrize(
    "make",
    [
        pipe,
        listening,
        pathlib.Path.mkdir,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path.name),
    ],
    ids=["pipe", "socket", "folder", "device", "loop"],
)
def test_what_is_no_file_is_damage_and_holds_nobody_up(tmp_path, make):
    told = []
    folder = SnapshotFolder(tmp_path, report=told.append)
    folder.save(snapshot(1))
    odd = tmp_path / f"snapshot-{2:020d}.snb"
    make(odd)
    assert folder.newest().snapshot.journal_n == 1
    assert [damaged.path for damaged in told] == [odd]
    with pytest.raises(SnapshotError, match=odd.name):
        folder.load(2)
    assert [entry.n for entry in folder.list()] == [1, 2]
    pipe(tmp_path / f"snapshot-{3:020d}.snb.{'0' * 16}.tmp")
    folder.save(snapshot(3))
    assert folder.newest().snapshot.journal_n == 3


@pytest.mark.parametrize(
    ("mask", "made", "expected"),
    [(0, None, 0o600), (0o022, None, 0o600), (0, 0o750, 0o640), (0o077, 0o750, 0o600), (0, 0o777, 0o640)],
)
def test_snapshots_are_their_users_unless_the_folder_is_open_to_the_group(tmp_path, mask, made, expected):
    path = tmp_path / "made" / "snapshots"
    before = os.umask(mask)
    try:
        if made is not None:
            path.mkdir(parents=True)
            path.chmod(made)
        saved = SnapshotFolder(path).save(snapshot(1))
    finally:
        os.umask(before)
    assert stat.S_IMODE(saved.stat().st_mode) == expected
    assert stat.S_IMODE(path.stat().st_mode) == (0o700 if made is None else made)


# --- The fingerprint


def test_the_fingerprint_is_text_and_stable():
    first = fingerprint()
    assert first == fingerprint()
    assert set(first) == {
        *("streamnb", "python", "unicode", "numpy", "msgspec", "river", "scipy", "numba", "llvmlite"),
        *("libc", "system", "cpu", "cpu_model", "cpu_level", "blas"),
    }
    assert all(isinstance(value, str) and value for value in first.values())
    assert first["numpy"] == np.__version__


def test_the_fingerprint_names_every_library_that_outputs_are_computed_with():
    """Recovery compares what it replays with what was published, bit for bit, under one fingerprint alone."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    libraries = {re.match(r"[a-z-]+", line)[0] for line in project["dependencies"]}
    carry_bytes = {"kafka-python", "prometheus-client", "tqdm", "zstandard"}
    assert libraries - carry_bytes <= set(fingerprint())


def test_the_fingerprint_fits_into_a_snapshot():
    assert encode(Snapshot(0, "", {}, "", fingerprint(), {}))


def test_the_fingerprint_does_not_import_what_it_names():
    code = (
        "import sys; from streamnb.persistence.platform_fingerprint import fingerprint; fingerprint();"
        "sys.exit(bool({'numba', 'numpy', 'scipy', 'llvmlite'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


V2 = "fpu sse2 cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
V3 = f"{V2} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("cpuinfo", "model", "level"),
    [
        (
            "processor : 0\nmodel name\t: Some CPU @ 2GHz\nflags\t\t: fpu sse2\n",
            "Some CPU @ 2GHz",
            "x86-64-v1",
        ),
        (f"model name: A\nflags: {V2}\n\nmodel name: B\nflags: {V4}\n", "A", "x86-64-v2"),
        (f"model name: A\nflags: {V3}", "A", "x86-64-v3"),
        (f"model name: A\nflags: {V4}", "A", "x86-64-v4"),
        (f"model name: A\nflags: {V4.replace('fma', '')}", "A", "x86-64-v2"),
        ("CPU implementer : 0x41\nCPU part : 0xd0c\nFeatures : fp asimd\n", "0x41 0xd0c", "fp asimd"),
        ("", "", ""),
    ],
    ids=["v1", "first-cpu", "v3", "v4", "v4-without-fma", "arm", "nothing"],
)
def test_the_cpu_is_read_from_cpuinfo(cpuinfo, model, level):
    assert cpu_model(cpuinfo) == model
    assert cpu_level(cpuinfo) == level
