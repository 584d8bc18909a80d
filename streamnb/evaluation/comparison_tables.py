"""The screen of `compare`: the board, differences over time and by class, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamnb.evaluation.leader_board import CONFIDENCE, LeaderBoard, ScoreDifference, Standing
from streamnb.formats.terminal_text import printable
from streamnb.reports.text_columns import table
from streamnb.reports.text_tables import MOST_CLASSES
from streamnb.values.parameter_checks import cut, pluralize

_NAME = 60  # characters
_SCORES = {"log_loss": "log loss", "accuracy": "accuracy"}


def print_board(board: LeaderBoard, seconds: Mapping[str, float]) -> None:
    """Print scores and differences to the leader, then differences over time and by class.

    Args:
        board: what is printed.
        seconds: name -> processor time.
    """
    rows: list[Sequence[object]] = []
    for one in board.standings:
        to = one.to_leader
        told = ("", "") if to is None else (_cell(to.log_loss), _cell(to.accuracy))
        rows.append((_name(one.name), one.accuracy, one.log_loss, f"{seconds[one.name]:.1f}", *told))
    if (guesses := board.baselines) is not None:
        rows.append(("most frequent class so far", guesses.most_frequent, *[""] * 4))
        rows.append(("same label as before", guesses.same_as_before, *[""] * 4))
    columns = "accuracy", "log loss", "seconds", "log loss to the leader", "accuracy to the leader"
    print(table(rows, (pluralize(board.events, "event"), *columns)))
    others = board.standings[1:]
    header = [_name(one.name) for one in others]
    over_time = zip(*([*one.over_time.items()] for one in others), strict=True)
    rows = [(pluralize(row[0][0], "event"), *(_cell(each.log_loss) for _, each in row)) for row in over_time]
    print("\n" + table(rows, ("log loss to the leader, over time", *header)))
    by_class = zip(*(one.by_class[:MOST_CLASSES] for one in others), strict=True)
    rows = [
        (f"{_name(row[0][0])} ({row[0][1]:,})", *(_cell(each.log_loss) for *_, each in row))
        for row in by_class
    ]
    print("\n" + table(rows, ("log loss to the leader, by class", *header)))


def verdict(board: LeaderBoard) -> str:
    """Return in plain words which models are better, tied and equal."""
    lines = [f"{_listed(names)} predict every event equally" for names in board.equal]
    accurate = max(board.standings, key=lambda one: one.accuracy)
    for score, best in (("log_loss", board.leader), ("accuracy", accurate)):
        worse, tied = board.around(best, score)
        lines.append(f"by {_SCORES[score]}: {_sentence(best, worse, tied)}")
    return "\n".join([*lines, f"with {CONFIDENCE:.0%} confidence for all of this, at any time"])


def _sentence(best: Standing, worse: Sequence[str], tied: Sequence[str]) -> str:
    name = _name(best.name)
    if not worse:
        return f"tied so far are {_listed([best.name, *tied])}"
    text = f"{name} is better than {_listed(worse)}"
    return f"{text}, and tied so far with {_listed(tied)}" if tied else text


def _cell(one: ScoreDifference) -> str:
    tie = ", a tie" * one.is_tie
    return f"{one.mean:+.4f} ({one.lower:+.4f} to {one.upper:+.4f}{tie})"


def _name(text: str) -> str:
    return cut(printable(text), _NAME)


def _listed(names: Sequence[str]) -> str:
    shown = [*map(_name, names)]
    return shown[0] if len(shown) < 2 else f"{', '.join(shown[:-1])} and {shown[-1]}"
