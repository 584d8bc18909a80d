"""Rows that were deleted are forgotten by choice: the model is that of a table that never had them."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from streamnb.cli import main
from streamnb.config import load
from streamnb.engine.ports import NewRecord
from streamnb.runtime import context
from tests.support.service import read_topic

pytestmark = pytest.mark.slow
N = 60
GONE = range(0, N, 4)


def stream(folder, deletes, numbers, gone):
    """The configuration of a stream whose rows `gone` were deleted after all rows had their labels."""
    folder.mkdir()
    path = folder / "streamnb.toml"
    path.write_text(
        f'[log]\nurl = "sqlite:///{folder}/log.db"\n[http]\nlisten = ""\n[events]\nrepeats = "skip"\n[model]\nkind = "naive_bayes"\n'
        f'[topics]\nlabels = "labels"\n[snapshots]\nfolder = "{folder}/snapshots"\n[[sources]]\nname = "crm"\n'
        f'topic = "tickets"\nenvelope = "debezium"\nlabel = "state"\ntext = "subject"\ndeletes = "{deletes}"\n'
    )
    command(path, "topics", "create")
    changes = [("c", n, "ab"[n % 2]) for n in numbers] + [("d", n, None) for n in gone]
    with closing(context.open_log(load(path, {}, []))) as log:
        log.create_topic("tickets", 1)
        log.append(
            [NewRecord("tickets", b'{"id":%d}' % n, change(*row)) for row in changes for n in [row[1]]]
        )
    command(path, "convert", "--until-end")
    command(path, "run", "--until-end")
    return path


def change(op, n, label):
    row = {"id": n, "subject": f"word{n} word{n % 7}", "n": n % 3, "state": label}
    moved = {"before": {"id": n}, "after": None} if op == "d" else {"before": None, "after": row}
    return json.dumps({"op": op, "source": {"ts_ms": 1_790_000_000_000 + (op == "d")}, **moved}).encode()


def command(path, *arguments):
    assert main([*arguments, "--config", str(path)]) == 0


def learned(path, capsys):
    """The content of the model, without the journal record that it is of."""
    capsys.readouterr()
    command(path, "inspect", "--json")
    return {name: value for name, value in json.loads(capsys.readouterr().out).items() if name != "journal"}


def test_a_deleted_row_is_forgotten_as_if_it_had_never_been(tmp_path, capsys):
    path = stream(tmp_path / "forget", "forget", range(N), GONE)
    kept = stream(tmp_path / "kept", "forget", [n for n in range(N) if n not in GONE], [])
    withdrawn = stream(tmp_path / "withdraw", "withdraw", range(N), GONE)
    with closing(context.open_log(load(path, {}, []))) as log:
        notes = [record for record in read_topic(log, "labels") if dict(record.headers)]
        assert {record.key for record in notes} == {b"%d" % n for n in GONE}
        assert read_topic(log, "dead-letters") == []
    assert learned(path, capsys) == learned(withdrawn, capsys)
    assert learned(path, capsys) != learned(kept, capsys)  # the order of its classes still shows the rows
    command(path, "forget", "--deleted")
    assert f"{len(GONE)} events forgotten" in capsys.readouterr().out
    assert learned(path, capsys) == learned(kept, capsys)
    assert main(["forget", "--deleted", "--config", str(path)]) == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert main(["forget", "--deleted", "--config", str(withdrawn)]) == 2
    assert 'deletes = "forget"' in capsys.readouterr().err
