"""``measure.py ablate``: what each part of a mixture brings on a stream.

Each part is left out in turn, and progressive validation is run anew: by how much the rest is worse is what
the part brings. Hypotheses that are left out leave their prior to the others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from streamnb.config import CLASSIFIERS, Config, HypothesisConfig
from streamnb.errors import ConfigError
from streamnb.evaluation.event_input import columns_of, numbered
from streamnb.evaluation.holdout import Row
from streamnb.evaluation.input_files import begun, settled_events
from streamnb.evaluation.prequential_evaluation import outputs_of, report_why_nothing_was_learned
from streamnb.formats.terminal_text import printable
from streamnb.reports.text_columns import _text, table
from streamnb.runtime import context, factories

_HEADER = ("variant", "hypotheses", "accuracy", "log loss", "calibration error", "time")


class _ScoredVariant(msgspec.Struct, frozen=True):
    """One variant on one stream.

    Attributes:
        variant: what it is.
        hypotheses: how many it weighs; 0 is a single naive Bayes model.
        accuracy, log_loss, calibration_error: as in `Scores`, over the whole stream.
        seconds: processor time from raw events to raw predictions, which others on the machine hardly change.
        time: that, as a multiple of what the whole set takes.
    """

    variant: str
    hypotheses: int
    accuracy: float
    log_loss: float
    calibration_error: float
    seconds: float
    time: float


class _Ablation(msgspec.Struct, frozen=True):
    """All variants on one stream, which has so many events, labelled ones among them, and dead letters."""

    stream: str
    events: int
    scored: int
    dead_letters: int
    variants: tuple[_ScoredVariant, ...]


def run(options: argparse.Namespace) -> int:
    """Score the whole mixture, then the rest of it without each of its parts, on each file."""
    if options.order is not None and len(options.files) > 1:
        raise ConfigError("--order: is the order of one file")
    if options.json and options.markdown:
        raise ConfigError("--markdown: not with --json")
    config = context.load_config(options)
    if config.model.kind in CLASSIFIERS:
        raise ConfigError(
            f'model.kind is "{config.model.kind}", which has no [[hypotheses]] that could be left out; '
            'expected "mixture" or "naive_bayes"'
        )
    if not config.weighs:
        config = replace(config, model=replace(config.model, kind="mixture"))
    columns = columns_of(options, context.schema(config), learns=True)
    streams = [begun(numbered(settled_events(path, columns)[1], options.order)) for path in options.files]
    factories.warm_up(config)
    ablations = []
    for path, rows in zip(options.files, streams, strict=True):
        ablation = _ablate(path, list(rows), config)
        if not ablation.scored:
            report_why_nothing_was_learned(path, config, ablation.events, ablation.dead_letters)
        ablations.append(ablation)
        if not options.json:
            _show(ablation, markdown=options.markdown)
    if options.json:
        print(msgspec.json.encode(ablations).decode())
    return 0 if all(ablation.scored for ablation in ablations) else 1


def _variants(config: Config) -> Iterator[tuple[str, Config]]:
    """The whole set, then without each of its parts, where that is another set and not empty."""
    whole = config.weighed
    plain = [h for h in whole if h.kind == "naive_bayes" and not h.calibrated]
    parts: tuple[tuple[str, Sequence[HypothesisConfig]], ...] = (
        ("without softmax with pairs", [h for h in whole if not h.pairs]),
        ("without softmax", [h for h in whole if h.kind != "softmax"]),
        ("without byte softmax", [h for h in whole if h.kind != "byte_softmax"]),
        ("without one dependence", [h for h in whole if h.kind != "one_dependence"]),
        ("without forests", [h for h in whole if h.kind != "mondrian_forest"]),
        ("without recent Gaussians", [h for h in whole if h.kind != "recent_gaussian"]),
        ("without pools", [h for h in whole if h.kind != "pool"]),
        ("without calibrated pools", [h for h in whole if h.kind != "pool" or not h.calibrated]),
        ("without calibrated naive Bayes", [h for h in whole if h.kind != "naive_bayes" or not h.calibrated]),
        ("without binned densities", [h for h in whole if h.density != "binned"]),
        ("without plain naive Bayes", [h for h in whole if h not in plain]),
        ("plain naive Bayes alone", plain),
    )
    yield "whole set", config
    met = {whole}
    for name, left in parts:
        rest = _pooled(left)
        if rest and rest not in met:
            met.add(rest)
            # declared hypotheses do not switch, unless they say how often
            posterior = replace(config.posterior, switching_rate=config.switching_rate)
            yield name, replace(config, hypotheses=rest, posterior=posterior)
    yield (
        "single naive Bayes",
        replace(config, hypotheses=(), model=replace(config.model, kind="naive_bayes")),
    )


def _pooled(left: Sequence[HypothesisConfig]) -> tuple[HypothesisConfig, ...]:
    """These, but for pools that have nothing to pool."""
    has_opinions = any(h.is_opinion for h in left)
    return tuple(h for h in left if has_opinions or h.kind != "pool")


def _ablate(path: str, rows: Sequence[Row], config: Config) -> _Ablation:
    scored: list[_ScoredVariant] = []
    for name, variant in _variants(config):
        learner = factories.learner(variant)
        started = time.process_time()
        for _ in outputs_of(learner, rows, variant):
            pass
        seconds = time.process_time() - started
        scores = learner.progressive.cumulative()
        whole = scored[0].seconds if scored else seconds
        scored.append(
            _ScoredVariant(
                name,
                len(variant.weighed),
                scores.accuracy,
                scores.log_loss,
                scores.calibration_error,
                seconds,
                seconds / whole,
            )
        )
    return _Ablation(path, learner.consumed, scores.events, learner.dead_letters, tuple(scored))


def _show(ablation: _Ablation, *, markdown: bool) -> None:
    """One stream's table, for a terminal or for a page."""
    rows = [
        (s.variant, s.hypotheses or "", s.accuracy, s.log_loss, s.calibration_error, f"{s.time:.2f}")
        for s in ablation.variants
    ]
    print(
        f"{ablation.stream}: {ablation.events:,} events, {ablation.scored:,} scored, "
        f"{ablation.dead_letters:,} dead letters\n"
    )
    print(f"{(_markdown_table if markdown else table)(rows, _HEADER)}\n")


def _markdown_table(rows: Iterable[Sequence[object]], header: Sequence[str]) -> str:
    """As `table`, in Markdown, for a page; the first column to the left, the others to the right."""
    lines = [
        [printable(name) for name in header],
        ["---", *["--:"] * (len(header) - 1)],
        *([_text(value) for value in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
