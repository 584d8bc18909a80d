"""The commands, as a user runs them: in processes of their own, see `commands`."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from streamnb import cli
from streamnb.cli import main
from streamnb.engine.ports import NewRecord, Partition
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.events import ReliabilityBin
from streamnb.reports.class_table import print_improbable
from streamnb.scoring.ranking import by_chance
from tests.support import commands
from tests.support.service import predictions, raw_events, read_topic

pytestmark = pytest.mark.early(41)


def streamnb(*arguments, cwd=None, check=True, **environment):
    done = commands.run(arguments, cwd=cwd, environment=environment)
    assert not check or done.returncode == 0, done.stderr
    return done


def answer(*arguments, **options):
    return json.loads(streamnb(*arguments, "--json", **options).stdout)


@pytest.fixture
def file(tmp_path):
    return file_of(2500, tmp_path)


def file_of(n, folder):
    path = folder / "events.jsonl.gz"
    with gzip.open(path, "wb") as lines:
        lines.writelines(raw + b"\n" for raw in raw_events(n, seed=11))
    return path


def test_help_is_light():
    """What makes a start slow is what it imports; --help needs none of it."""
    code = (
        "import sys, streamnb.cli as cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('numpy', 'numba', 'river', 'msgspec', 'sqlite3', 'tqdm', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for command in ("demo", "run", "replay", "evaluate", "inspect", "read", "config"):
        assert re.search(rf"^  {command} ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "create"],
        ["read", "events"],
        ["label", "1", "spam"],
        ["labels", "withdraw", "--source", "me"],
        ["dlq", "list"],
        ["init", "events.jsonl"],
    ],
    ids=" ".join,
)
def test_who_needs_no_model_imports_none(tmp_path, command):
    """That is most of the time of a start, and scripts run these again and again."""
    log = ["--log", f"sqlite:///{tmp_path}/log.db", "--set", "topics.labels=labels"]
    main(["topics", "create", *log])
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(raw_events(20, seed=1)))
    code = (
        "import sys, streamnb.cli as cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "finally: print([name for name in ('numpy', 'numba', 'river', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command, *log], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["serve", "dashboard"])
def test_who_answers_over_http_says_what_that_needs(command, tmp_path, monkeypatch, capsys):
    """By the name of the command that was given."""
    monkeypatch.setattr("os.nice", int)
    monkeypatch.delattr("streamnb.serving.http_server", raising=False)
    monkeypatch.setitem(sys.modules, "streamnb.serving.http_server", None)
    assert main([command, "--log", f"sqlite:///{tmp_path}/log.db"]) == 2
    assert re.match(
        rf"\S+ error command-failed {command} needs FastAPI and uvicorn .*streamnb\[web\]",
        capsys.readouterr().err,
    )


@pytest.mark.thorough_for("evidence")
@pytest.mark.parametrize(
    ("model", "events"),
    [(["model.kind=naive_bayes", "model.alpha=0.5"], 2500), (["predictions.evidence=2"], 300)],
    ids=["naive bayes", "evidence"],
)
def test_evaluate_and_run_give_the_same(tmp_path, model, events):
    """The same stream: the same predictions, the same bytes of the model, at any size of commit."""
    file = file_of(events, tmp_path)
    model = [option for key in (*model, "http.listen=") for option in ("--set", key)]
    alone = answer("evaluate", file, "--predictions", tmp_path / "predictions.jsonl", *model)
    expected = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert alone["events"] == len(expected) == events
    for size in (events * 2 // 5, 37):
        flags = [*model, "--set", f"log.url=sqlite:///log-{size}.db", "--set", f"commit.events={size}"]
        answer("replay", file, *flags, cwd=tmp_path)
        ran = answer("run", "--until-end", *flags, cwd=tmp_path)
        assert {k: ran[k] for k in ("events", "learned", "cumulative", "window", "confusion")} == {
            k: alone[k] for k in ("events", "learned", "cumulative", "window", "confusion")
        }
        with SqliteLog(tmp_path / f"log-{size}.db") as log:
            got = [json.loads(record.value) for record in read_topic(log, "predictions")]
        for have, want in zip(got, expected, strict=True):
            assert have | {"ts": 0} == want | {"ts": 0}
        inspected = answer("inspect", *flags, cwd=tmp_path)
        assert inspected["digest"] == alone["model_digest"]


def test_run_survives_kill_9_and_stops_on_sigterm(file, tmp_path):
    """Killed at random moments while events arrive; every event is learned once, and visible once."""
    flags = ["--set", "log.url=sqlite:///log.db", "--set", "commit.events=10", "--set", "log.session_timeout=500ms",
             "--set", "snapshots.every_events=300", "--set", "http.listen="]  # fmt: skip
    answer("replay", file, *flags, cwd=tmp_path)
    rng = random.Random(1)
    killed = 0
    journal = Partition("journal", 0)
    told, said = tmp_path / "told", tmp_path / "said"

    def start():
        return commands.begin(["run", *flags], cwd=tmp_path, out=told, err=said)

    with SqliteLog(tmp_path / "log.db") as log:
        for _ in range(6):
            before = log.offsets(journal)[1]
            worker = start()
            while log.offsets(journal)[1] <= before + rng.randrange(3, 20) and worker.poll() is None:
                time.sleep(0.002)
            worker.kill()
            assert worker.wait() == -signal.SIGKILL, said.read_text()
            killed += 1
            time.sleep(0.6)  # the log waits for the dead one's session
        assert log.offsets(Partition("predictions", 0))[1] < 2500, "the kills came too late to test anything"
        worker = start()
        while log.offsets(Partition("predictions", 0))[1] < 2500:
            time.sleep(0.01)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0, said.read_text()
        assert re.search(r" info learner-stopped stopped: 2,500 events, \d", said.read_text())
        got = predictions(log)
    alone = answer("evaluate", file, "--predictions", tmp_path / "predictions.jsonl")
    assert [p["id"] for p in got] == [f"e{i}" for i in range(2500)]
    expected = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [p["probabilities"] for p in got] == [p["probabilities"] for p in expected]
    assert answer("inspect", *flags, cwd=tmp_path)["digest"] == alone["model_digest"]
    assert killed == 6


def test_demo_shows_that_it_learns(tmp_path):
    shown = streamnb("demo", "--events", 4000, "--folder", tmp_path).stdout
    assert shown.count("gives the same bytes") == 2
    assert "OTHER BYTES" not in shown
    told = answer("demo", "--events", 4000)
    assert told["tickets"]["cumulative"]["accuracy"] > 0.9
    assert told["image_segments"]["cumulative"]["accuracy"] > 0.75


def test_replay_keeps_to_its_rate_and_takes_what_is_malformed(tmp_path):
    lines = [*raw_events(30), b"{", b'{"id": [5]}']
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(lines))
    told = answer(
        "replay", tmp_path / "events.jsonl", "--log", "sqlite:///log.db", "--rate", 100, cwd=tmp_path
    )
    assert told["events"] == 32
    assert told["seconds"] >= 0.29  # 32 events at 100 a second; a lower bound cannot be a matter of noise
    with SqliteLog(tmp_path / "log.db") as log:
        found = read_topic(log, "events")
    assert [record.value for record in found] == lines
    assert [record.key for record in found] == [*(b"e%d" % i for i in range(30)), None, None]


def test_inspect_shows_classes_priors_and_strongest_attributes(tmp_path):
    rows = [("free cash win", "spam"), ("win win now", "spam"), ("lunch now", "ham")]
    lines = [
        json.dumps({"id": str(i), "text": t, "features": {"size": i}, "label": y})
        for i, (t, y) in enumerate(rows)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    flags = ["--set", "log.url=sqlite:///log.db", "--set", "http.listen="]
    streamnb("replay", "events.jsonl", *flags, cwd=tmp_path)
    nothing = streamnb("inspect", *flags, cwd=tmp_path, check=False)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "nothing has been learned yet" in nothing.stderr
    ran = streamnb("run", "--until-end", *flags, cwd=tmp_path)
    assert (
        "sqlite:///log.db: reads events, writes predictions, metrics, dead-letters, journal\n" in ran.stderr
    )
    assert ran.stdout.splitlines()[2].startswith("accuracy ")
    assert "spam: win" not in ran.stdout
    assert "\nspam: win" in streamnb("run", "--until-end", "--details", *flags, cwd=tmp_path).stdout
    assert "regret" not in ran.stdout
    told = answer("inspect", *flags, cwd=tmp_path)
    spam, ham = told["classes"]
    assert (spam["label"], spam["events"], spam["prior"]) == ("spam", 2, 2 / 3)
    assert spam["strongest"][0]["value"] == "win"
    assert ham["strongest"][0]["value"] == "lunch"
    assert told["moments"]["size"]["spam"] == {"n": 2, "mean": 0.5, "variance": 0.25}
    shown = streamnb("inspect", *flags, cwd=tmp_path).stdout
    assert "spam: 2 events, prior 0.6667" in shown


def test_inspect_prints_the_parameters_of_naive_bayes(tmp_path):
    rows = [("sunny", 3.0, "no"), ("sunny", 5.0, "no"), ("rain", 9.0, "yes")]
    lines = [
        json.dumps({"id": str(i), "features": {"outlook": outlook, "size": size}, "label": label})
        for i, (outlook, size, label) in enumerate(rows)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    flags = ["--set", "log.url=sqlite:///log.db", "--set", "http.listen=", "--set", "model.kind=naive_bayes"]
    streamnb("replay", "events.jsonl", *flags, cwd=tmp_path)
    streamnb("run", "--until-end", *flags, cwd=tmp_path)
    found = answer("inspect", "--details", *flags, cwd=tmp_path)["parameters"]
    assert (found["n_parameters"], found["n_free"]) == (7, {"class": 1, "outlook": 2, "size": 4})
    assert found["discrete"][0]["table"]["sunny"] == {"no": 0.75, "yes": pytest.approx(1 / 3)}
    assert found["continuous"]["size"]["yes"]["mean"] == 9.0
    shown = streamnb("inspect", "--details", "--top", 1, *flags, cwd=tmp_path).stdout
    assert "7 free parameters: class 1, outlook 2, size 4" in shown
    assert "P(outlook | class), nominal, (n_c + 1) / (n + 2), 1 of 2 values" in shown
    assert "parameters" not in streamnb("inspect", *flags, cwd=tmp_path).stdout


def with_config(folder, kind, rows, declared=""):
    """Learn (features, label) by a model of this kind, and return the flags of its configuration."""
    lines = [json.dumps({"id": str(i), "features": x, "label": label}) for i, (x, label) in enumerate(rows)]
    (folder / "events.jsonl").write_text("\n".join(lines))
    log = '[log]\nurl = "sqlite:///log.db"\n[http]\nlisten = ""\n'
    (folder / "own.toml").write_text(f'{log}[model]\nkind = "{kind}"\n{declared}')
    flags = ["--config", "own.toml"]
    streamnb("replay", "events.jsonl", *flags, cwd=folder)
    streamnb("run", "--until-end", *flags, cwd=folder)
    return flags


@pytest.mark.parametrize(
    ("kind", "told", "declared"),
    [
        ("mixture", "presence alpha=1", ""),
        ("semi_supervised", "labelled and unlabelled", ""),
        ("hidden_markov", "P(next state | state)", '[events]\nentity = "$.features.machine"\n'),
        ("bayesian_network", "P(outlook | label)", '[[attributes]]\nname = "outlook"\nkind = "nominal"\n'),
    ],
)
def test_inspect_prints_the_parameters_of_other_kinds(tmp_path, kind, told, declared):
    labelled = [("sunny", "no"), ("sunny", "no"), ("rain", "yes"), ("rain", "no")]
    entity = {"machine": "m"} if kind == "hidden_markov" else {}
    flags = with_config(
        tmp_path, kind, [({"outlook": outlook, **entity}, y) for outlook, y in labelled], declared
    )
    found = answer("inspect", "--details", *flags, cwd=tmp_path)["parameters"]
    own = next(iter(found["hypotheses"].values())) if "hypotheses" in found else found
    if "tables" in own:
        p = {"sunny": pytest.approx(0.6), "rain": pytest.approx(0.4)}
        assert own["tables"][1]["table"][0] == {"given": ["no"], "p": p}
    else:
        assert own["discrete"][0]["table"]["sunny"] == pytest.approx({"no": 0.6, "yes": 1 / 3})
    assert own["n_parameters"] == sum(own["n_free"].values()) >= 3
    shown = streamnb("inspect", "--details", *flags, cwd=tmp_path).stdout
    assert told in shown
    assert f"{own['n_parameters']} free parameters: " in shown


def test_inspect_says_that_a_model_has_no_tables(tmp_path):
    declared = '[[attributes]]\nname = "size"\nkind = "continuous"\n'
    rows = [({"size": float(i)}, "ab"[i % 2]) for i in range(4)]
    flags = with_config(tmp_path, "logistic_regression", rows, declared)
    assert answer("inspect", "--details", *flags, cwd=tmp_path)["parameters"] is None
    assert "no class-conditional tables" in streamnb("inspect", "--details", *flags, cwd=tmp_path).stdout


def test_a_holdout_learns_one_part_and_scores_the_other(tmp_path):
    lines = [
        json.dumps({"id": str(i), "text": "a" if i % 2 else "b", "label": "xy"[i % 2]}) for i in range(9)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    told = answer("evaluate", tmp_path / "events.jsonl", "--holdout", "2/3")
    assert (told["learned"], told["cumulative"]["events"], told["cumulative"]["accuracy"]) == (6, 3, 1.0)
    (tmp_path / "order.txt").write_text("8\n7\n")
    told = answer("evaluate", tmp_path / "events.jsonl", "--order", tmp_path / "order.txt")
    assert (told["events"], told["labels"]) == (2, ["x", "y"])


def write_lines(path, rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def rows_of(*labels):
    return [{"id": str(i), "text": f"w{y}", "label": y} for i, y in enumerate(labels)]


def test_a_holdout_scores_labels_that_were_never_learned(tmp_path):
    rows = rows_of("a", "b", "a", "b", "a", "c", "b", "d")
    file = write_lines(tmp_path / "e.jsonl", rows)
    told = answer("evaluate", file, "--holdout", "1/2")
    assert (told["labels"], told["cumulative"]["events"], told["cumulative"]["accuracy"]) == (
        ["a", "b"],
        4,
        0.5,
    )
    assert [len(row) for row in told["confusion"]] == [3, 3]
    shown = streamnb("evaluate", file, "--holdout", "1/2").stdout
    assert re.search(r"^b +0 +1 +0$", shown, re.MULTILINE)


@pytest.mark.parametrize("key", ["max_attributes", "min_count", "drop_most_frequent"])
def test_pruning_that_never_comes_is_refused_and_the_missing_key_is_named(key, tmp_path):
    file = write_lines(tmp_path / "e.jsonl", rows_of("a", "b", "a", "b"))
    alone = ("--set", f"model.prune.{key}=2", "--set", "model.kind=naive_bayes")
    for command in (("evaluate", file), ("run", "--until-end"), ("config", "check")):
        done = streamnb(*command, *alone, "--set", f"log.url=sqlite:///{tmp_path}/e.db", check=False)
        assert done.returncode == 2
        assert f"model.prune.{key}" in done.stderr
        assert "model.prune.every" in done.stderr
    assert not (tmp_path / "e.db").exists()
    often = answer("evaluate", file, *alone, "--set", "model.prune.every=1")
    assert often["attributes"] <= 2
    assert answer("evaluate", file, *alone, "--holdout", "3/4")["attributes"] <= 2  # once, after the training


def test_a_holdout_counts_rows_that_are_no_objects_as_dead_letters(tmp_path):
    rows = [*rows_of("a", "b"), "{", "[1]", '"train"', "[" * 5000, *rows_of("a")]
    told = answer("evaluate", write_lines(tmp_path / "e.jsonl", rows), "--holdout", "2/7")
    assert (told["learned"], told["dead_letters"], told["cumulative"]["events"]) == (2, 4, 1)
    assert told["dead_letter_reasons"] == [
        {
            "reason": "invalid-json",
            "path": "$",
            "count": 2,
            "first_row": 2,
            "detail": told["dead_letter_reasons"][0]["detail"],
        },
        {
            "reason": "wrong-type",
            "path": "$",
            "count": 2,
            "first_row": 3,
            "detail": "expected an object, found an array",
        },
    ]


def test_dead_letters_are_tallied_by_reason_and_path(tmp_path):
    rows = [
        {"id": "0", "text": "a", "label": "x"},
        *({"id": [i], "text": "a", "label": "x"} for i in range(1, 4)),
        "{",
        {"id": "5", "ts": []},
    ]
    file = write_lines(tmp_path / "e.jsonl", rows)
    number = "expected a string, a boolean or a number, found an array"
    expected = [
        ("wrong-type", "$.id", 3, 1, number),
        ("invalid-json", "$", 1, 4, "Expecting property name enclosed in double quotes at character 1"),
        ("wrong-type", "$.ts", 1, 5, "expected a number, found an array"),
    ]
    found = answer("evaluate", file)["dead_letter_reasons"]
    assert [tuple(row.values()) for row in found] == expected
    assert re.search(
        rf"^wrong-type +\$\.id +3 +1 +{number}$", streamnb("evaluate", file).stdout, re.MULTILINE
    )
    (tmp_path / "order.txt").write_text("5\n3\n2\n0\n")
    found = answer("evaluate", file, "--order", tmp_path / "order.txt")["dead_letter_reasons"]
    assert [tuple(row.values()) for row in found] == [("wrong-type", "$.id", 2, 2, number), expected[2]]
    wrong = [{"id": "0", "features": {f"f{i}": []}} for i in range(12)]
    many = write_lines(tmp_path / "many.jsonl", [rows[0], *wrong])
    assert len(answer("evaluate", many)["dead_letter_reasons"]) == 10
    assert "and 2 more combinations" in streamnb("evaluate", many).stdout


CSV = "key;body;class;when\nk1;free cash;1;5\nk2;lunch now;0;6\n"
CSV_FLAGS = "--id-column key --text-column body --label-column class --ts-column when --delimiter ;".split()


def test_columns_of_csv_are_named_by_flags(tmp_path):
    (tmp_path / "e.csv").write_text(CSV)
    told = answer("evaluate", tmp_path / "e.csv", *CSV_FLAGS, "--predictions", tmp_path / "p.jsonl")
    assert (told["labels"], told["learned"], told["attributes"]) == (["1", "0"], 2, 4)
    assert [json.loads(line)["id"] for line in (tmp_path / "p.jsonl").read_text().splitlines()] == [
        "k1",
        "k2",
    ]
    streamnb("replay", "e.csv", *CSV_FLAGS, cwd=tmp_path)
    with SqliteLog(tmp_path / "streamnb.db") as log:
        found = [json.loads(record.value) for record in read_topic(log, "events")]
    assert found[1] == {"id": "k2", "ts": 6, "text": "lunch now", "label": "0"}
    refused = streamnb("evaluate", tmp_path / "e.csv", "--label-column", "x", "--delimiter", ";", check=False)
    assert refused.returncode == 2
    assert "there are key, body, class, when" in refused.stderr


def test_evaluate_tells_the_calibration_curve_once(file):
    told = answer("evaluate", file)
    assert "reliability" not in told
    for scope in ("cumulative", "window"):
        scores = told[scope]
        bins = scores["reliability"]
        # The first event met an empty model: it is scored, and in no bin.
        assert sum(b["events"] for b in bins) == scores["events"] - (scope == "cumulative")
        gaps = sum(b["events"] * abs(b["confidence"] - b["accuracy"]) for b in bins)
        assert scores["calibration_error"] == pytest.approx(gaps / sum(b["events"] for b in bins))
    shown = streamnb("evaluate", file, "--details").stdout
    *rows, chance = re.search(r"^confidence +accuracy +events\n((?:.+\n)+)", shown, re.MULTILINE)[
        1
    ].splitlines()
    by_chance = told["calibration_error_by_chance"]
    assert chance == (
        f"calibration error {told['cumulative']['calibration_error']:.4f}; of probabilities that are right it is "
        f"{by_chance['mean']:.4f} on average, and above {by_chance['upper']:.4f} in one stream of twenty"
    )
    assert [row.split() for row in rows] == [
        [f"{b['confidence']:.4f}", f"{b['accuracy']:.4f}", f"{b['events']:,}"]
        for b in told["cumulative"]["reliability"]
    ]


def test_evaluate_tells_precision_recall_lift_and_the_ranking_of_two_classes(tmp_path):
    rows = (json.loads(raw) for raw in raw_events(900, seed=11))
    file = write_lines(tmp_path / "two.jsonl", [row for row in rows if row.get("label") in {None, "a", "b"}])
    told = answer("evaluate", file, "--predictions", tmp_path / "p.jsonl")
    said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    scored = [one for one in said if one.get("truth")]
    for row in told["by_class"]:
        of, taken = ([one for one in scored if one[key] == row["label"]] for key in ("truth", "label"))
        right = sum(one["truth"] == one["label"] for one in of)
        expected = [
            len(of),
            right / len(taken),
            right / len(of),
            right / len(taken) / (len(of) / len(scored)),
        ]
        assert [row[key] for key in ("events", "precision", "recall", "lift")] == pytest.approx(expected)
    first, second = told["labels"]
    met = next(i for i, one in enumerate(scored) if one["truth"] == second)
    both = [one["probabilities"] if i > met else {first: 1, second: 1} for i, one in enumerate(scored)]
    odds = [math.log(p[second]) - math.log(p[first]) for p in both]
    ones, zeros = (
        [o for o, one in zip(odds, scored, strict=True) if one["truth"] == name] for name in (second, first)
    )
    wrong = sum((one < zero) + (one <= zero) for one in ones for zero in zeros) / 2
    assert told["one_less_auc"] == pytest.approx(wrong / len(ones) / len(zeros), abs=1e-9)
    assert 0.0 < told["open_log_loss"] < told["cumulative"]["log_loss"]  # two labels were new
    assert answer("evaluate", file, "--holdout", "1/2")["open_log_loss"] is None
    shown = streamnb("evaluate", file, "--details").stdout
    rare = [p for one in scored for p in one["probabilities"].values() if 0.0 < p <= 0.01]
    assert sum(one["times"] for one in told["improbable"]) == len(rare)
    assert ("called improbable" in shown) == bool(rare)
    assert f"1-AUC {100 * told['one_less_auc']:.4f} %" in shown
    for name, score in (("log loss", told["open_log_loss"]), ("auc", 1 - told["one_less_auc"])):
        assert re.search(rf"^{name} +{score:.4f}$", shown, re.MULTILINE)
    loss = told["cumulative"]["log_loss"]
    assert re.search(rf"^log loss, a new label costs 34.5 +{loss:.4f}", shown, re.MULTILINE)
    chance = by_chance([ReliabilityBin(**one) for one in told["cumulative"]["reliability"]])
    assert told["calibration_error_by_chance"] == chance._asdict()
    assert f"of probabilities that are right it is {chance.mean:.4f} on average, and above " in shown
    assert re.search(rf"^{first} +{told['by_class'][0]['events']:,} +0\.\d", shown, re.MULTILINE)


def test_evaluate_shows_first_what_a_newcomer_asks_for(file):
    shown, detailed = (streamnb("evaluate", file, *more).stdout for more in ((), ("--details",)))
    told = answer("evaluate", file)
    interval = told["cumulative"]["accuracy_interval"]
    assert re.search(rf"^accuracy +{told['cumulative']['accuracy']:.4f}", shown, re.MULTILINE)
    assert re.search(rf"^95% interval +{interval['lower']:.4f}-{interval['upper']:.4f}", shown, re.MULTILINE)
    guesses = told["baselines"]
    for name, score in (
        ("most frequent class so far", guesses["most_frequent"]),
        ("same label as before", guesses["same_as_before"]),
        ("kappa-temporal", guesses["kappa_temporal"]),
    ):
        assert re.search(rf"^{name} +{score:.4f}$", shown, re.MULTILINE)
    assert "\nmodel: mixture, default settings\n" in shown
    for label in told["labels"]:
        assert re.search(rf"^{label} +\d", shown, re.MULTILINE)  # the confusion
        for text in (shown, detailed):  # which adds, and drops nothing
            assert re.search(rf"^{label}: \w+", text, re.MULTILINE)
    assert "more with --details" in shown
    for word in ("posterior", "regret", "brier", "confidence"):
        assert word not in shown
        assert word in detailed


def test_csv_without_labels_is_refused(tmp_path):
    (tmp_path / "e.csv").write_text("id,text,class\n1,a,x\n")
    for more in ([], ["--holdout", "1/2"]):
        done = streamnb("evaluate", "e.csv", *more, cwd=tmp_path, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert "the columns are id, text, class; --label-column NAME" in done.stderr
    for right in (["--label-column", "class"], ["--set", "events.label=$.features.class"]):
        assert answer("evaluate", "e.csv", *right, cwd=tmp_path)["learned"] == 1


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "it holds no event"),
        (["{no json", "[]"], "each of its records is a dead letter, for the reasons below"),
        (['{"id": "1", "text": "a", "class": "x"}', "{"], "no event to learn has a label at $.label; --set events.label=PATH"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [(), ("--json",), ("--model", "mine:MultinomialNB")])
def test_to_learn_nothing_is_a_failure_whose_reason_comes_first(tmp_path, lines, reason, more):
    (tmp_path / "mine.py").write_text("from streamnb import MultinomialNB")
    write_lines(tmp_path / "e.jsonl", lines)
    done = streamnb("evaluate", "e.jsonl", *more, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"streamnb: nothing was learned of e.jsonl: {reason}")
    assert done.stdout or not lines  # the dead letters


def test_a_holdout_whose_first_part_has_no_labels_learns_nothing(tmp_path):
    rows = [{"id": "1", "text": "a"}, {"id": "2", "text": "a", "label": "x"}]
    done = streamnb("evaluate", write_lines(tmp_path / "e.jsonl", rows), "--holdout", "1/2", check=False)
    assert done.returncode == 1
    assert "no event to learn has a label at $.label" in done.stderr


def test_replay_tells_of_a_file_without_events_or_labels(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    done = streamnb("replay", "empty.jsonl", cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "streamnb: empty.jsonl holds no event: nothing was written to events\n"
    (tmp_path / "e.tsv").write_text("id\ttext\tclass\n1\ta\tx\n")
    done = streamnb("replay", "e.tsv", cwd=tmp_path)
    assert "none of 1 event has a label at $.label, to be learned by: --label-column NAME" in done.stderr
    assert streamnb("replay", "e.tsv", "--label-column", "class", cwd=tmp_path).stderr == ""


def test_replay_makes_no_log_for_a_file_that_is_missing(tmp_path):
    done = streamnb("replay", "missing.jsonl", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["streamnb.cli.build_parser", "streamnb.cli.commands.sample.run"])
def test_ctrl_c_ends_a_command_with_one_line(monkeypatch, capsys, step):
    """While it loads as well as while it works."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(step, interrupted)
    assert cli.main(["sample", "-"]) == 130
    assert capsys.readouterr() == ("", "streamnb: interrupted\n")


def test_replay_delivers_what_waits(tmp_path):
    """A pipe that stays open: its events are written all the same, and a signal ends it with a count."""
    command = [sys.executable, "-m", "streamnb", "replay", "-"]
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        with subprocess.Popen(
            command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as replay:
            replay.stdin.write(b"\n".join(raw_events(7)) + b"\n")
            replay.stdin.flush()
            deadline = time.monotonic() + 20
            written = 0
            while written < 7 and time.monotonic() < deadline:
                time.sleep(0.05)
                if (tmp_path / "streamnb.db").exists() and replay.poll() is None:
                    written = len(streamnb("read", "events", cwd=tmp_path, check=False).stdout.splitlines())
            replay.send_signal(number)
            assert replay.wait(10) == code
            assert written == 7
            assert replay.stderr.read().decode() == "streamnb: stopped after 7 events written to events\n"
        (tmp_path / "streamnb.db").unlink()


def test_read_prints_records_as_they_are(tmp_path):
    lines = [*raw_events(5), b'{"id": [5]}', b'{"id": "\xff"}']
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(lines))
    streamnb("replay", "events.jsonl", "--log", "sqlite:///log.db", cwd=tmp_path)
    streamnb("run", "--until-end", "--log", "sqlite:///log.db", "--set", "http.listen=", cwd=tmp_path)

    def read(*arguments):
        return streamnb("read", *arguments, "--log", "sqlite:///log.db", cwd=tmp_path).stdout.splitlines()

    with SqliteLog(tmp_path / "log.db") as log:
        for topic in ("predictions", "metrics", "journal"):
            assert read(topic) == [record.value.decode() for record in read_topic(log, topic)] != []
    letters = [json.loads(line) for line in read("dead-letters")]
    assert [letter["value"] for letter in letters] == ['{"id": [5]}', '{"id": "\ufffd"}']
    assert (letters[0]["partition"], letters[0]["offset"], letters[0]["key"]) == (0, 0, None)
    assert letters[0]["headers"] == {
        "reason": "wrong-type", "path": "$.id", "topic": "events", "partition": "0", "offset": "5"
    }  # fmt: skip
    assert [json.loads(line)["id"] for line in read("predictions", "--from", 2, "--limit", 2)] == ["e2", "e3"]
    assert json.loads(read("events", "--from", 6)[0])["offset"] == 6
    assert read("events", "--from", 99) == []
    assert answer("inspect", "--log", "sqlite:///log.db", cwd=tmp_path)["learned"] > 0


def test_read_prints_the_last_record_of_each_key(tmp_path):
    """Without those that a tombstone took back; records without a key are all told."""
    with SqliteLog(tmp_path / "log.db") as log:
        log.create_topic("tenants", 2)
        said = [
            (b"a", b"1"),
            (b"b", b"2"),
            (None, b"3"),
            (b"a", b"4"),
            (b"b", b""),
            (b"", b"5"),
            (None, b"6"),
        ]
        log.append([NewRecord("tenants", key, value) for key, value in said])
    read = ("read", "tenants", "--latest", "--log", "sqlite:///log.db")
    assert sorted(streamnb(*read, cwd=tmp_path).stdout.split()) == ["3", "4", "5", "6"]
    assert len(streamnb(*read, "--limit", "2", cwd=tmp_path).stdout.split()) == 2


def test_read_creates_nothing(tmp_path):
    missing = streamnb("read", "events", "--log", "sqlite:///missing.db", cwd=tmp_path, check=False)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "no log at missing.db" in missing.stderr
    assert list(tmp_path.iterdir()) == []
    SqliteLog(tmp_path / "log.db").close()
    unknown = streamnb("read", "nowhere", "--log", "sqlite:///log.db", cwd=tmp_path, check=False)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "nowhere" in unknown.stderr
    with SqliteLog(tmp_path / "log.db") as log:
        assert dict(log.topics()) == {}


def test_the_demo_keeps_its_logs_and_says_how_to_look_at_them(tmp_path):
    folder = tmp_path / "two words"
    shown = streamnb("demo", "--events", 500, "--folder", folder).stdout
    printed = shlex.split(shown.splitlines()[-1].partition(":  ")[2])
    assert printed[:2] == ["streamnb", "inspect"]
    assert answer(*printed[1:])["learned"] == 500
    again = streamnb("demo", "--folder", folder, check=False)
    assert (again.returncode, again.stdout) == (2, "")
    assert "is a log already" in again.stderr


def test_a_byte_order_mark_is_no_part_of_the_first_event(tmp_path):
    (tmp_path / "e.jsonl").write_bytes(b'\xef\xbb\xbf{"id":"1","text":"a","label":"x"}\n')
    assert answer("evaluate", tmp_path / "e.jsonl")["learned"] == 1


def test_the_version_is_told():
    assert re.fullmatch(r"streamnb \d+\.\d+\.\d+\S*\n", streamnb("--version").stdout)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["config", "show"], 0, ""),
        (["evaluate", "none.jsonl"], 1, "streamnb: none.jsonl: No such file or directory\n"),
        (["run", "--set", "log.url=redis://x"], 2, "log.url"),
    ],
)
def test_a_program_that_imports_for_itself_does_the_same(tmp_path, arguments, code, says):
    """The other tests fork one that has imported everything."""
    done = subprocess.run(
        [sys.executable, "-m", "streamnb", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    forked = streamnb(*arguments, cwd=tmp_path, check=False)
    assert done.returncode == forked.returncode == code
    assert done.stdout == forked.stdout
    # On a slow machine it says before how long the kernels took.
    last = [one.stderr.splitlines()[-1:] for one in (done, forked)]
    timeless = [[re.sub(r"^\d{4}-\S+ ", "", line) for line in lines] for lines in last]
    assert timeless[0] == timeless[1]
    assert says in done.stderr


def test_config_is_checked_and_shown(tmp_path):
    (tmp_path / "c.toml").write_text('[model]\nkind = "naive_bayes"\nalpha = 0.25\n')
    assert answer("config", "check", "--config", tmp_path / "c.toml")["valid"] is True
    shown = answer("config", "show", "--config", tmp_path / "c.toml", STREAMNB_MODEL__NAME="other")
    assert (shown["config"]["model"]["alpha"], shown["config"]["model"]["name"]) == (0.25, "other")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "Exit codes: 0 done"),
        (
            ["evaluate"],
            1,
            "there is no log at streamnb.db: `streamnb topics create` makes one; give a FILE of events",
        ),
        (["evaluate", "missing.jsonl"], 1, "missing.jsonl"),
        (["evaluate", "empty.jsonl", "--holdout", "5"], 2, "--holdout"),
        (["evaluate", "empty.jsonl", "--order", "order.txt"], 2, "beyond the 0"),
        (["evaluate", "empty.jsonl", "--holdout", "1/2", "--predictions", "p"], 2, "not with --holdout"),
        (["evaluate", "empty.jsonl", "--predictions", "none/x"], 1, "streamnb: none/x: No such file"),
        (["evaluate", "empty.jsonl", "--delimiter", "ab"], 2, "--delimiter: expected one character"),
        (["demo", "--folder", "empty.jsonl/x"], 1, "streamnb: empty.jsonl/x: Not a directory"),
        (["demo", "--events", "0"], 2, "--events: expected a whole number of at least 1, got '0'"),
        *(
            ([*command, str(2**63)], 2, "expected a whole number below 2^63, got '9223372036854775808'")
            for command in (
                ["demo", "--events"],
                ["read", "events", "--limit"],
                ["dlq", "list", "--limit"],
                ["init", "--events"],
                ["journal", "skip"],
            )
        ),
        (["journal", "skip", f"0-{10**29}"], 2, "expected a whole number below 2^63"),
        (["journal", "skip", f"0-{2**63 - 1}", "--log", "sqlite:///log.db"], 1, "there is no record"),
        (["config", "check", "--set", f"metrics.window={2**63 - 1}"], 2, "from 1 to 10000000"),
        (["inspect", "--top", "-1"], 2, "--top: expected a whole number"),
        (["replay", "empty.jsonl", "--rate", "nan"], 2, "--rate: expected a finite number above 0"),
        (["replay", "empty.jsonl", "--rate", "inf"], 2, "--rate: expected a finite number above 0"),
        (["replay", "empty.jsonl", "--rate", "0"], 2, "--rate: expected a finite number above 0"),
        (["replay", "empty.jsonl", "--topic", "a b"], 2, "topics.events"),
        (["replay", "empty.jsonl", "--topic", "journal"], 2, "topics.journal"),
        (["read", "events", "--from", "-1"], 2, "--from: expected a whole number of at least 0"),
        (["evaluate", "empty.jsonl", "--config", "missing.toml"], 2, "missing.toml"),
        (["evaluate", "empty.jsonl", "--set", "model.alhpa=1"], 2, "did you mean model.alpha?"),
        (["run", "--set", "log.url=redis://x"], 2, "log.url"),
        (["inspect", "--set", "log.url=sqlite:///missing.db"], 1, "no log at missing.db"),
        (["config", "check", "--set", "model.m=1", "--set", "model.alpha=1"], 2, "model.m"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(tmp_path, arguments, code, says):
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "order.txt").write_text("0\n")
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        log.create_topic("journal", 1)
    done = streamnb(*arguments, cwd=tmp_path, check=False)
    assert done.returncode == code
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_shows_every_command_once():
    told = streamnb("--help").stdout
    shown = re.findall(r"^  ([a-z]\w*)  +[A-Z]", told, re.MULTILINE)
    files = (Path(cli.__file__).parent / "commands").glob("[a-z]*.py")
    assert sorted(shown) == sorted(path.stem for path in files)
    assert "usage: streamnb predict [OPTIONS]" in streamnb("predict", "--help").stdout


def test_an_empty_file_is_reported_as_such(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    assert (
        json.loads(streamnb("evaluate", tmp_path / "empty.jsonl", "--json", check=False).stdout)["events"]
        == 0
    )
    told = streamnb("evaluate", tmp_path / "empty.jsonl", check=False)
    assert told.stderr == f"streamnb: nothing was learned of {tmp_path / 'empty.jsonl'}: it holds no event\n"
    assert told.stdout == ""


# How the command line helps


def test_help_fits_the_terminal_and_names_every_option(monkeypatch, capsys):
    """At most as wide as it is, and as can be read; the usage of a command is one line or two."""

    def pages(parser, path=()):
        yield path, parser
        for action in parser._actions:
            for name, made in (action.choices or {}).items() if action.nargs == "A..." else ():
                yield from pages(made, (*path, name))

    for columns, most in ((60, 58), (80, 78), (300, 100)):
        monkeypatch.setenv("COLUMNS", str(columns))
        found = dict(pages(cli.build_parser()))
        assert {("run",), ("snapshot", "diff"), ("labels", "withdraw")} <= found.keys()
        for path, parser in found.items():
            told = parser.format_help()
            assert [line for line in told.splitlines() if len(line) > most] == [], path
            assert all(name in told for action in parser._actions for name in action.option_strings)
            usage = told.split("\n\n")[0]
            assert usage.startswith(" ".join(["usage: streamnb", *path]))
            assert usage.count("\n") < 2
    with pytest.raises(SystemExit):
        cli.main(["run", "--until-end", "--dry-run", "3"])
    assert "--dry-run: not allowed with argument --until-end" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--config=x.toml", "--config x.toml", "--set a=b", "--details"])
def test_an_option_before_the_command_is_told_where_it_belongs(option, capsys):
    with pytest.raises(SystemExit):
        cli.main([*option.split(), "run"])
    name = option.replace("=", " ").split()[0]
    assert f"{name} stands after the command: streamnb COMMAND {name} ..." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("streamnb ev", {"evaluate "}),
        ("streamnb snapshot ", {"list", "diff", "rollback", "-h", "--help"}),
        ("streamnb run --dr", {"--dry-run "}),
        ("streamnb evaluate th", {"this.csv "}),
    ],
)
def test_the_shell_is_told_what_may_follow(tmp_path, typed, offered):
    """As argcomplete's function of the shell asks: by its environment, answered on a descriptor of its own."""
    (tmp_path / "this.csv").touch()
    answer = tmp_path / "answer"
    environ = {
        "_ARGCOMPLETE": "1", "COMP_LINE": typed, "COMP_POINT": str(len(typed)), "COMP_TYPE": "9", "_ARGCOMPLETE_IFS": "\v",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
    }  # fmt: skip
    assert streamnb("x", cwd=tmp_path, check=False, **environ).returncode == 0
    assert set(answer.read_text().split("\v")) == offered


def test_what_was_called_improbable_is_printed_by_decade(capsys):
    print_improbable([{"upper": 0.001, "times": 1200, "told": 0.00042, "came": 0.0025}])
    row = capsys.readouterr().out.splitlines()[2]
    assert row.split() == ["up", "to", "0.001", "0.00042", "0.0025", "1,200"]
    print_improbable([])
    assert capsys.readouterr().out == ""
