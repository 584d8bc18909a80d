"""The page of an evaluation: one file of HTML, without a script, which loads nothing."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from streamnb.charts import Bar, Markup, bars, joined, number, percent, stylesheet, tag
from streamnb.config import Config
from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import ConfigError
from streamnb.evaluation.event_input import decoded
from streamnb.events import Drift, MetricsReport, Prediction
from streamnb.features.attributes import TEXT
from streamnb.formats.codec import decode_metrics
from streamnb.models.interface.feature_importances import FeatureImportance
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.most_informative import strongest
from streamnb.reports import report_charts
from streamnb.reports.evaluation_tables import EvaluationScores, verdict
from streamnb.reports.report_charts import card, listing, missing, tile
from streamnb.values.parameter_checks import cut, pluralize

AT_ONCE = 20
"""Records that are timed together."""
_POINTS = 400
_WORST, _CLASSES, _WORDS, _MARKS = 20, 12, 8, 100
_SHOWN = 120  # characters of an id or label in a table
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_NONE = "None: labels that come later, and a part that is held out, are scored and not listed."
_decode = msgspec.json.Decoder(Prediction).decode


class EvaluationPage:
    """Collects the contents of an evaluation's report, within bounds.

    Args:
        file: the file to write.
        learner: the evaluated learner.
        config: of the learner.

    Raises ConfigError if the file cannot be written.
    """

    def __init__(self, file: Path, learner: EventProcessor, config: Config) -> None:
        if file.is_dir() or not file.parent.is_dir():
            why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
            raise ConfigError(f"--report {file}: {why}")
        self._file, self._learner, self._config = file, learner, config
        self._points: list[MetricsReport] = []
        self._every = self._due = 1
        self._worst: list[tuple[float, int, Prediction, str]] = []
        self._slow: list[tuple[float, int, int, int]] = []  # seconds, first and last row, bytes
        self._drifts: list[Drift] = []
        self._noted = 0
        self._found: EvaluationScores
        self._decides: Sequence[FeatureImportance] = ()
        self._warnings: Sequence[str] = ()
        self._records: Sequence[Record] = ()

    def timed(self, records: Sequence[Record], seconds: float) -> None:
        """Note the time that some records took, before their outputs."""
        self._records = records
        size = sum(len(record.value) for record in records)
        _keep(self._slow, (seconds, records[0].offset, records[-1].offset, size))
        if self._learner.consumed >= self._due:
            self._take_point()

    def _take_point(self) -> None:
        """Add a point to the curves; beyond the maximum drop every second one and halve their rate."""
        report = self._learner.report(time.time())
        lean = msgspec.structs.replace(report, labels=(), confusion=(), class_rates=(), verdicts=None)
        self._points.append(lean)
        if len(self._points) > _POINTS:
            del self._points[::2]
            self._every *= 2
        self._due = self._learner.consumed + self._every

    def note(self, output: NewRecord) -> None:
        """Note an output of the learner."""
        if output.topic == self._config.topics.predictions:
            said = _decode(output.value)
            if said.truth is not None and said.label is not None:
                self._noted += 1
                surprise = -said.probabilities.get(said.truth, 0.0)
                if len(self._worst) < _WORST or surprise > self._worst[0][0]:
                    _keep(self._worst, (surprise, -self._noted, said, self._content(said.id)))
        elif self._config.drift.detectors and output.topic == self._config.topics.metrics:
            found = decode_metrics(output.value)
            if isinstance(found, Drift) and len(self._drifts) < _MARKS:
                self._drifts.append(found)

    def _content(self, event_id: str) -> str:
        """Return the text, or else the values, of an event among the last records."""
        schema = self._learner.settings.schema
        found = (decoded(record.value, schema) for record in self._records)
        x = next((event.x for event in found if event is not None and event.id == event_id), {})
        texts = [str(value) for name, value in x.items() if name == TEXT]
        return " ".join(texts) or ", ".join(f"{name}={value}" for name, value in x.items())

    def write(
        self,
        what: str,
        seconds: float,
        found: EvaluationScores,
        decides: Sequence[FeatureImportance],
        warnings: Sequence[str] = (),
    ) -> None:
        """Write the file atomically; write to a device or a pipe directly.

        Args:
            what: the evaluated file or log.
            seconds: of the evaluation.
            found: the scores that the report of the learner lacks.
            decides: importance of the attributes.
            warnings: sentences about columns that make the scores worthless, or teach nothing.
        """
        self._found, self._decides = found, decides
        self._warnings = [*([found.grouping] if found.grouping else ()), *warnings]
        report = self._learner.report(time.time())
        if self._points and self._points[-1].events < report.events:
            self._take_point()
        made = self._whole(report, what, seconds).encode(errors="replace")
        if self._file.exists() and not self._file.is_file():
            self._file.write_bytes(made)
            return
        file = self._file.resolve()
        temporary = file.with_name(f".{file.name}.tmp")
        temporary.write_bytes(made)
        temporary.replace(file)

    def _whole(self, report: MetricsReport, what: str, seconds: float) -> Markup:
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{what}, streamnb evaluate"),
            tag("style", Markup(_stylesheet())),
        )
        made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        told = f"{pluralize(report.events, 'event')} in {seconds:.1f} s; {self._config.model.kind}; {made}"
        cards = tag("div", *self._cards(report), class_="cards")
        main = tag("main", tag("h1", what), tag("p", told, class_="soft"), cards, id="main")
        return joined([Markup("<!doctype html>"), tag("html", head, tag("body", main), lang="en")])

    def _cards(self, report: MetricsReport) -> Iterator[Markup]:
        scores = report.cumulative
        interval = scores.accuracy_interval
        between = "" if interval is None else f"{percent(interval.lower)} to {percent(interval.upper)}"
        yield report_charts.tiles([
            tile("Accuracy", percent(scores.accuracy), between, scores.accuracy),
            self._log_loss(scores.log_loss),
            tile("Events learned", number(report.learned), pluralize(report.dead_letters, "dead letter")),
            tile("Classes", number(report.classes), f"{number(report.attributes)} words and values"),
        ])  # fmt: skip
        if (guesses := self._found.baselines) is not None:
            yield tag("p", verdict(report, guesses))
            yield report_charts.tiles(
                [
                    tile(
                        "Most frequent class so far",
                        percent(guesses.most_frequent),
                        "",
                        guesses.most_frequent,
                    ),
                    tile("Same label as before", percent(guesses.same_as_before), "", guesses.same_as_before),
                    tile("Kappa", f"{scores.kappa:.4f}", "0 is as good as chance", scores.kappa),
                    tile(
                        "Kappa-temporal",
                        f"{guesses.kappa_temporal:.4f}",
                        "0 is as good as the label before",
                        guesses.kappa_temporal,
                    ),
                ]
            )
        yield from (missing(f"Warning: {warning}") for warning in self._warnings)
        if rows := [Bar(str(one.attribute), one.share) for one in self._decides if one.nats > 0.0]:
            title = "Importance: share of the rise in log loss if the attribute is shuffled"
            yield card(bars(title, rows, text=percent, most=1.0))
        if confusions := self._found.confusions:
            header = ["label", "taken for", "events"]
            yield listing(
                "Most frequent confusions", header, [(_brief(a), _brief(b), n) for a, b, n in confusions]
            )
        if not scores.events:
            yield missing("No labelled event was scored; `--set events.label=PATH` sets where labels are.")
            return
        marks = [(one.events, f"drift: {one.detector} at {one.id}") for one in self._drifts]
        if self._points:
            yield card(report_charts.accuracy(self._points, report, marks), wide=True)
            yield card(report_charts.log_loss(self._points, report, marks))
        yield card(report_charts.rates(report))
        yield from report_charts.quality(report)
        yield from self._words()
        yield listing(
            "Worst predicted",
            ["event", "label", "its probability", "predicted", "with", "content"],
            [[*self._row(said), _brief(text)] for *_, said, text in sorted(self._worst, reverse=True)],
            _NONE,
        )
        slow = [(f"{first:,} to {last:,}", 1000 * spent, size) for spent, first, last, size in self._slow]
        slow.sort(key=lambda row: -row[1])
        title = f"Slowest, of {AT_ONCE} rows each"
        yield listing(title, ["rows", "milliseconds", "bytes"], slow, "Nothing was timed.")
        if report.posterior is not None and self._points:
            yield from report_charts.posterior(self._points)

    @staticmethod
    def _row(said: Prediction) -> list[object]:
        truth, label = said.truth or "", said.label or ""
        names = (percent(said.probabilities.get(truth, 0.0)), percent(said.probability))
        return [_brief(said.id), _brief(truth), names[0], _brief(label), names[1]]

    def _log_loss(self, closed: float) -> Markup:
        """Return the log loss that `evaluate` prints, and the log loss of the curve and the scores below."""
        price = self._found.open_log_loss
        if price is None:
            return tile("Log loss", number(closed), "nats", closed)
        return tile("Log loss", number(price), f"nats; {number(closed)} if a new label costs 34.5", price)

    def _words(self) -> Iterator[Markup]:
        model = self._learner.model
        if not isinstance(model, CountingModel):
            return
        weights = {label: weight for label, weight in model.class_weights.items() if weight}
        for label, weight in Counter(weights).most_common(_CLASSES) if len(weights) > 1 else ():
            found = strongest(model.statistics, label, _WORDS)
            rows = [Bar(f"{one.attribute}: {one.value}", one.log_odds) for one in found]
            rows.sort(key=lambda row: -row.value)
            yield card(bars(f"{_brief(str(label))}, {number(weight)} learned: log odds", rows))


def _keep(heap: list[Any], one: Any) -> None:
    (heapq.heappush if len(heap) < _WORST else heapq.heappushpop)(heap, one)


def _brief(text: str) -> str:
    return cut(text, _SHOWN)


def _stylesheet() -> str:
    page = files("streamnb.serving").joinpath("page.css").read_text(encoding="utf-8")
    return f"{stylesheet()}\n{page}"
