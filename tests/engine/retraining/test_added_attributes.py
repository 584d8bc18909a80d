"""An attribute is added to a running stream with late labels: the refusal names the way, and the way works."""

from __future__ import annotations

import json
import random
from contextlib import closing

import pytest

from streamnb import config as configuration
from streamnb.cli import main
from streamnb.config import changes, semantic_config_of
from streamnb.engine.journal.recovery import recover
from streamnb.engine.ports import NewRecord
from streamnb.runtime import context, factories

OLD = '[[attributes]]\nname = "text"\nkind = "text"\npath = "$.text"\n'
NEW = OLD + '[[attributes]]\nname = "amount"\nkind = "continuous"\npath = "$.amount"\n'
RENAMED = OLD.replace('name = "text"', 'name = "words"')
BEFORE = '[[attributes]]\nname = "amount"\nkind = "continuous"\npath = "$.amount"\n' + OLD


class Stream:
    def __init__(self, folder, kind):
        self.folder, self.rng, self.n = folder, random.Random(5), 0
        self.file, self._kind = folder / "streamnb.toml", kind
        self.configure(OLD)

    def configure(self, attributes):
        self.file.write_text(
            f'[log]\nurl = "sqlite:///{self.folder}/log.db"\n[http]\nlisten = ""\n[topics]\nlabels = "labels"\n'
            f'[model]\nkind = "{self._kind}"\n{attributes}'
        )

    @property
    def config(self):
        return configuration.load(self.file, {}, [])

    def send(self, n, *, labelled):
        with closing(context.open_log(self.config)) as log:
            for _ in range(n):
                event = {
                    "id": f"e{self.n}",
                    "text": " ".join(self.rng.choices("abcdef", k=4)),
                    "amount": self.rng.random(),
                }
                given = {"label": "xy"[self.n % 2]} if labelled else {}
                log.append([NewRecord("events", None, json.dumps(event | given).encode())])
                self.n += 1

    def label(self, *numbers):
        with closing(context.open_log(self.config)) as log:
            for i in numbers:
                log.append(
                    [NewRecord("labels", None, json.dumps({"id": f"e{i}", "label": "xy"[i % 2]}).encode())]
                )

    def command(self, *words):
        return main([*words, "--config", str(self.file)])

    def model(self):
        config = self.config
        with closing(context.existing_log(config)) as log:
            config = factories.begun_configuration(config, log)
            learner = factories.learner(config)
            recover(log, factories.snapshots(config), learner, factories.identity(config))
        return learner.model


@pytest.mark.parametrize("kind", ["naive_bayes", "mixture"])
def test_a_new_attribute_counts_for_labelled_and_later_events(tmp_path, kind, capsys):
    stream = Stream(tmp_path, kind)
    stream.send(20, labelled=True)
    stream.send(10, labelled=False)
    assert stream.command("run", "--until-end") == 0
    stream.configure(NEW)
    capsys.readouterr()
    assert stream.command("run", "--until-end") == 2
    refused = capsys.readouterr().err
    assert "`streamnb rebuild --config" in refused
    assert stream.command("rebuild") == 0
    assert (
        "10 events had no label yet: if a label comes, it is learned without amount"
        in capsys.readouterr().err
    )
    stream.label(20, 21, 22)
    stream.send(4, labelled=False)
    stream.label(30, 31)
    assert stream.command("run", "--until-end") == 0
    assert stream.model().n_events == 25
    assert stream.command("verify") == 0
    assert stream.command("verify", "--rebuilt") == 0
    if kind == "naive_bayes":
        capsys.readouterr()
        assert stream.command("inspect", "--json") == 0
        moments = json.loads(capsys.readouterr().out)["moments"]["amount"]
        assert (
            sum(of["n"] for of in moments.values()) == 22
        )  # 20 labelled before, 2 later; not the 3 that waited


@pytest.mark.parametrize(
    ("attributes", "is_possible"), [(NEW, True), (RENAMED, False), (BEFORE, False), ("", False)]
)
def test_only_what_is_added_at_the_end_is_possible_while_events_may_wait(tmp_path, attributes, is_possible):
    stream = Stream(tmp_path, "naive_bayes")
    before = semantic_config_of(stream.config)
    stream.configure(attributes)
    found = changes(before, semantic_config_of(stream.config))
    assert found
    assert all(change.anew for change in found) == is_possible
