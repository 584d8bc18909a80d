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
from pyarrow.parquet import write_table

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


def parquet(path):
    write_table(pa.Table.from_pylist(numbers()), path)
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


def table(delimiter):
    rows = [["x", "label"], *([f"{row['x']}.5", row["label"]] for row in numbers())]
    return "".join(delimiter.join(row) + "\n" for row in rows)


TABLES = {
    "e.csv": (lambda _: table(",").encode(), []),
    "decimal.csv": (lambda _: table(";").replace(".", ",").encode(), []),
    "utf16.tsv": (lambda _: table("\t").encode("utf-16"), []),
    "array.json": (lambda _: json.dumps(numbers()).encode(), []),
    "flat.jsonl": (lambda _: "".join(json.dumps(row) + "\n" for row in numbers()).encode(), []),
}
SEEKING = {"e.feather", "e.zip", "e.parquet"}


@pytest.fixture
def read(told, tmp_path):
    """Run each command on a source; return what came of it, without ids and names."""

    def run(source, folder, flags, given):
        place = [f"--set=snapshots.folder={folder}", f"--log=sqlite:///{folder}.db"]
        code, scores, err = told("evaluate", source, "--json", *flags, given=given)
        assert code == 0, err
        assert told("replay", source, *flags, *place, given=given)[0] == 0
        with SqliteLog(f"{folder}.db") as log:
            events = [json.loads(record.value) for record in log.read(log.partitions("events")[0], 0, 5000)]
        assert len(events) == N
        assert told("run", "--until-end", *place)[0] == 0
        code, proposed, err = told("init", source, f"--out={folder}.toml", *flags, given=given)
        assert f"by {N} events; 0 dead letters" in proposed, err
        answers = told("predict", source, "--json", *flags, *place, given=given)[1].splitlines()
        assert len(answers) == N
        made = (tmp_path / f"{folder}.toml").read_text().partition("[[attributes]]")[2]
        labels = [json.loads(line)["probabilities"] for line in answers]
        return (
            json.loads(scores)["cumulative"]["accuracy"],
            [event | {"id": ""} for event in events],
            made,
            labels,
        )

    return run


@pytest.mark.parametrize("name", [name for name in FILES | TABLES if name not in SEEKING])
def test_standard_input_is_read_as_the_file_is(read, tmp_path, name):
    make, flags = (FILES | TABLES)[name]
    content = make(tmp_path / f"made.{name}")
    (tmp_path / name).write_bytes(content)
    assert read("-", "input", flags, content) == read(name, "file", flags, None)


@pytest.mark.parametrize("command", ["evaluate", "replay", "init", "predict"])
@pytest.mark.parametrize("name", sorted(SEEKING))
def test_standard_input_that_must_seek_is_refused(told, tmp_path, name, command):
    made = tmp_path / "made"
    make = FILES[name][0] if name in FILES else parquet
    content = make(made)
    if command == "predict":
        assert told("replay", "-", given=b'{"id": "1", "text": "a", "label": "b"}\n')[0] == 0
        assert told("run", "--until-end")[0] == 0
    code, _, err = told(command, "-", given=content)
    assert code == 1
    assert err.endswith(", whose reader must seek: write standard input to a file, and name that\n")
