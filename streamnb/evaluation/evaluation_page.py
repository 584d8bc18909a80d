"""The page of an evaluation: one file of HTML, without a script, which loads nothing.

page_records.py      what is kept while events pass
page_verdict.py      the first section, in plain words
page_thresholds.py   ROC, precision-recall, calibration, costs
page_sections.py     the other sections
column_profile.py    kinds, missing and odd values of the columns
evaluation_page.css  the layout, also on paper
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from streamnb.charts import Markup, joined, stylesheet, tag
from streamnb.config import Config
from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import ConfigError
from streamnb.evaluation import page_sections
from streamnb.evaluation.page_records import PageRecords
from streamnb.evaluation.page_thresholds import costs, decisions, probabilities, ranked_classes, ranking
from streamnb.evaluation.page_verdict import Findings, verdict
from streamnb.scoring.ranking import OpenValidation
from streamnb.values.parameter_checks import pluralize


class _Section(NamedTuple):
    """A section of the page: the name of its place, its title, a sentence about it, and its contents."""

    place: str
    title: str
    lead: str
    parts: Sequence[Markup]


class EvaluationPage:
    """Collects the contents of an evaluation's report, within bounds.

    Args:
        file: the file to write.
        learner: the evaluated learner.
        config: of the learner.
        scores: of the learner.

    Raises ConfigError if the file cannot be written.
    """

    def __init__(self, file: Path, learner: EventProcessor, config: Config, scores: OpenValidation) -> None:
        if file.is_dir() or not file.parent.is_dir():
            why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
            raise ConfigError(f"--report {file}: {why}")
        self._file, self._learner, self._config, self._scores = file, learner, config, scores
        self._records = PageRecords(learner, scores)

    def batch_size(self) -> int:
        """Return the number of records to process next."""
        return self._records.batch_size()

    def timed(self, records: Sequence[Record], seconds: float) -> None:
        """Note the time that some records took, before their outputs."""
        self._records.timed(records, seconds)

    def note(self, output: NewRecord) -> None:
        """Note an output of the learner."""
        if output.topic == self._config.topics.predictions:
            self._records.note_prediction(output)
        elif self._config.drift.detectors and output.topic == self._config.topics.metrics:
            self._records.note_metrics(output)

    def write(self, found: Findings) -> None:
        """Write the file atomically; write to a device or a pipe directly."""
        self._records.finish(found.report)
        made = self._whole(found).encode(errors="replace")
        if self._file.exists() and not self._file.is_file():
            self._file.write_bytes(made)
            return
        file = self._file.resolve()
        temporary = file.with_name(f".{file.name}.tmp")
        temporary.write_bytes(made)
        temporary.replace(file)

    def _whole(self, found: Findings) -> Markup:
        css = _stylesheet()
        digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{found.what}, streamnb evaluate"),
            tag("style", Markup(css)),
        )
        made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        took = f"{pluralize(found.report.events, 'event')} in {found.seconds:.1f} s"
        about = "; ".join(filter(None, (found.cut, took, found.scores.model, made)))
        title = tag("h1", Path(found.what).name or found.what, title=found.what, dir="auto")
        sections = [one for one in self._sections(found) if one.parts]
        links = (tag("li", tag("a", one.title, href=f"#{one.place}")) for one in sections)
        main = tag(
            "main",
            title,
            tag("p", about, class_="soft"),
            tag("section", *verdict(found), class_="card verdict", aria_label="Verdict"),
            tag("nav", tag("h2", "Contents", id="contents"), tag("ol", *links), aria_labelledby="contents"),
            *map(_markup, sections),
        )
        return joined([Markup("<!doctype html>"), tag("html", head, tag("body", main), lang="en")])

    def _sections(self, found: Findings) -> Iterator[_Section]:
        if found.report.cumulative.events:
            yield from self._scored(found)
        data, experts = page_sections.data(found), page_sections.expert(found, self._records)
        yield _Section("data", "Data", "The records, and how they were read.", [*data])
        yield _Section(
            "experts", "For experts", "All scores, the weights of hypotheses, and speed.", [*experts]
        )

    def _scored(self, found: Findings) -> Iterator[_Section]:
        records, labels, given = self._records, found.report.labels, self._config.decision.costs
        lead = "Each event was predicted by the model of that time, which begins with nothing."
        yield _Section("time", "Over time", lead, [*page_sections.over_time(found, records)])
        lead = "The classes that are missed, and those for which they are taken."
        yield _Section("classes", "Classes and confusions", lead, [*page_sections.classes(found)])
        ranked = ranked_classes(found, records, self._scores)
        lead = (
            "The better the probability of a class separates its events from all others, the larger the area."
        )
        yield _Section("ranking", "Ranking", lead, [*ranking(ranked)])
        lead = "Calibrated probabilities are on the diagonal; larger circles have more events."
        yield _Section("probabilities", "Probabilities", lead, [*probabilities(found)])
        lead = "All costs are equal: a miss and a false alarm cost 1 each, a right decision nothing."
        if given and len(labels) == 2:
            lead = "The costs are configured in [decision]."
        yield _Section("costs", "Cost by threshold", lead, [*decisions(found), *costs(ranked, given, labels)])
        lead = "Attributes, words and values that the predictions depend on."
        decides = page_sections.importance(found, self._learner.model)
        yield _Section("importance", "What decides", lead, [*decides])
        lead = "The page contains ids, labels and texts of your events."
        yield _Section("errors", "Errors", lead, [*page_sections.errors(records)])


def _markup(one: _Section) -> Markup:
    title = tag("h2", one.title, id=one.place)
    cards = tag("div", *one.parts, class_="cards")
    return tag(
        "section", title, tag("p", one.lead, class_="soft"), cards, class_="part", aria_labelledby=one.place
    )


def _stylesheet() -> str:
    page = files("streamnb.serving").joinpath("page.css").read_text(encoding="utf-8")
    own = files("streamnb.evaluation").joinpath("evaluation_page.css").read_text(encoding="utf-8")
    return f"{stylesheet()}\n{page}\n{own}"
