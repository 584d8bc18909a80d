"""``streamnb compare``: several configurations and classifiers scored on one history, in one pass."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

import msgspec

from streamnb.evaluation.candidates import Candidate, Passes, candidates_of
from streamnb.evaluation.comparison_tables import print_board, verdict
from streamnb.evaluation.evaluation_words import grouping_warning
from streamnb.evaluation.event_input import files_named, refuse_options_of_files
from streamnb.evaluation.input_files import begun
from streamnb.evaluation.interruption import Interruption
from streamnb.evaluation.leader_board import CONFIDENCE, LeaderBoard, leader_board
from streamnb.evaluation.log_history import log_of
from streamnb.evaluation.prequential_evaluation import report_why_nothing_was_learned
from streamnb.formats.terminal_text import counted, left_out, note
from streamnb.runtime import context
from streamnb.values.messages import Message


def run(options: argparse.Namespace) -> int:
    """Rank the configurations and classifiers that the options name; return 1 if nothing is scored."""
    interruption = Interruption()
    with ExitStack() as stack:
        log = None
        if options.file is None:
            refuse_options_of_files(options)
            log = stack.enter_context(closing(log_of(context.load_config(options))))
        candidates = candidates_of(options, log)
        # Errors of the input show before kernels are compiled.
        past = begun(Passes(options, candidates, interruption, log))
        for one in candidates:
            one.begin()
        with interruption:
            for part in past:
                for one, history in part:
                    one.live(history)
    for one in candidates:
        one.finish()
    learners = [one.learner for one in candidates]
    report = learners[0].report(time.time())
    interruption.report(counted(report, report.events), report.events)
    costs = [learner.costs for learner in learners]
    board = leader_board([one.name for one in candidates], costs)
    if board is None:
        _report_nothing(options, candidates, [one.place.size for one in costs])
        return interruption.code(1)
    answer = _answer(options, board, candidates) | {"interrupted": interruption.came}
    if options.json:
        _note_grouping(board, options)
        print(json.dumps(answer))
    else:
        _show(options, board, answer)
    return interruption.code(0)


def _report_nothing(
    options: argparse.Namespace, candidates: Sequence[Candidate], scored: Sequence[int]
) -> None:
    one = next((one for one, n in zip(candidates, scored, strict=True) if not n), candidates[0])
    what = files_named(options) if options.file else one.config.log.url
    if one is not candidates[0]:
        what = f"{what} {one.name}" if one.sets else f"{what} with {one.name}"
    learner = one.learner
    reasons = f": {', '.join(learner.tally.dead_letters)}"
    report_why_nothing_was_learned(what, one.config, learner.consumed, learner.dead_letters, reasons)


def _answer(
    options: argparse.Namespace, board: LeaderBoard, candidates: Sequence[Candidate]
) -> dict[str, Any]:
    first, by_name = candidates[0], {one.name: one for one in candidates}
    best, told = by_name[board.leader.name], msgspec.to_builtins(board)
    for row in told["standings"]:
        one = by_name[row["name"]]
        row |= {"model": one.described, "seconds": one.seconds}
        row["by_class"] = [{"label": k, "events": n, **each} for k, n, each in row["by_class"]]
        row["over_time"] = [{"events": n, **each} for n, each in row["over_time"].items()]
    is_better = best is not first and first.name not in board.tied and options.file is None
    return {
        "verdict": verdict(board),
        "leader": board.leader.name,
        "tied": board.tied,
        "equal": board.equal,
        "confidence": CONFIDENCE,
        **told,
        "left_out": first.learner.left_out,
        "rebuild": (best.rebuild(options) or None) if is_better else None,
    }


def _note_grouping(board: LeaderBoard, options: argparse.Namespace) -> None:
    if text := grouping_warning(board.baselines, options):
        note(Message("rows-grouped-by-label", text))


def _show(options: argparse.Namespace, board: LeaderBoard, answer: dict[str, Any]) -> None:
    print_board(board, {row["name"]: row["seconds"] for row in answer["standings"]})
    if text := grouping_warning(board.baselines, options):
        print(f"\nwarning: {text}")
    alone = {"not scored by all": answer["by_some_only"]}
    print("\n" + left_out(answer["left_out"] | alone), end="")
    print(answer["verdict"])
    if answer["rebuild"]:
        print(f"to install it, stop the learner, then: {answer['rebuild']}")
