"""Files of every format: `evaluate`, `replay`, `init` and `predict` read the same events."""

from __future__ import annotations

import io
import json
import mailbox
import zipfile
from email.message import EmailMessage

import pyarrow as pa
import pytest
from pyarrow import feather, ipc

from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

N = 30
WORDS = [("p", "free entry now"), ("q", "see you at seven")]


def numbers():
    return [{"x": n * n % 17, "label": "pq"[n % 2]} for n in range(N)]


def arff(_):
    rows = "".join(f"{row['x']},{row['label']}\n" for row in numbers())
    return f"@relation r\n@attribute x numeric\n@attribute play {{p,q}}\n@data\n{rows}".encode()


def arrow(path):
    feather.write_feather(pa.Table.from_pylist(numbers()), path, compression=None)
    return path.read_bytes()


def stream(_):
    out, table = io.BytesIO(), pa.Table.from_pylist(numbers())
    with ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def avro(_):
    fastavro = pytest.importorskip("fastavro")
    fields = [{"name": "x", "type": "long"}, {"name": "label", "type": "string"}]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, numbers())
    return out.getvalue()


def archive(_):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as files:
        files.writestr("e.arff", arff(None))
    return out.getvalue()


def mails(path):
    box = mailbox.mbox(path)
    for n in range(N):
        label, text = WORDS[n % 2]
        mail = EmailMessage()
        mail["Subject"], mail["X-Label"], mail["From"] = f"mail {n}", label, "ann@x.org"
        mail.set_content(text)
        box.add(mail)
    box.close()
    return path.read_bytes()


def lines(form):
    return lambda _: "".join(
        form.format(n=n, label=WORDS[n % 2][0], text=WORDS[n % 2][1]) for n in range(N)
    ).encode()


FILES = {
    "e.arff": (arff, []),
    "e.feather": (arrow, []),
    "e.arrows": (stream, []),
    "e.avro": (avro, []),
    "e.zip": (archive, []),
    "e.svm": (lines("{label} 1:{n} 7:0.5\n"), []),
    "e.vw": (lines("{label} 'tag{n}|text {text}\n"), []),
    "e.ft": (lines("__label__{label} {text}\n"), []),
    "e.mbox": (mails, ["--label-column", "X-Label"]),
}


@pytest.mark.parametrize("name", FILES)
def test_all_commands_read_the_same_events(told, tmp_path, name):
    make, flags = FILES[name]
    (tmp_path / name).write_bytes(make(tmp_path / f"made.{name}"))
    code, out, _ = told("evaluate", name, "--json", *flags)
    assert (code, json.loads(out)["learned"]) == (0, N)
    assert told("replay", name, *flags)[0] == 0
    with SqliteLog("e.db") as log:
        events = [json.loads(record.value) for record in log.read(log.partitions("events")[0], 0, 5000)]
    assert len({event["id"] for event in events}) == N
    assert [event["label"] for event in events] == ["pq"[n % 2] for n in range(N)]
    assert told("init", name, "--out", "made.toml", *flags)[0] == 0
    proposed = (tmp_path / "made.toml").read_text()
    assert f"by {N} events" in proposed
    assert told("run", "--until-end")[1].count(f"{N} events, {N} learned, 0 dead letters") == 1
    code, out, _ = told("predict", name, "--json", *flags)
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == N
    assert not any("refused" in answer for answer in answers)
