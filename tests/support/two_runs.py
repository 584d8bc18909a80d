"""A stream that is learned in two runs, verified, and laid beside a learner that nobody stopped."""

from __future__ import annotations

import json
from contextlib import closing

from streamnb.cli import main
from streamnb.engine.ports import NewRecord
from streamnb.runtime import context, factories
from tests.support.service import predictions, records


def run_stopped_run_again_and_verified(config, given, raws, capsys):
    """(A learner that nobody stopped, the predictions that are visible); flags `given` are of `config`."""
    for part in (raws[:90], raws[90:]):
        with closing(context.open_log(config)) as log:
            log.append([NewRecord("events", None, raw) for raw in part])
        assert main(["run", "--until-end", *given]) == 0
    capsys.readouterr()
    assert main(["verify", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["verified"]
    alone = factories.learner(config)
    outputs = alone.process(records(raws), 1.0)
    with closing(context.existing_log(config)) as log:
        found = predictions(log)
    assert found == predictions(outputs)
    return alone, found
