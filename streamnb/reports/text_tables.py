"""Reports as text for people."""

from __future__ import annotations

from typing import Any

from streamnb.events import ActionReport, Interval, MetricsReport, PosteriorReport
from streamnb.formats.terminal_text import counted, printable
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.most_informative import InformativeValue, strongest
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.reports.text_columns import table
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.parameter_checks import brief, cut, pluralize

MOST_CLASSES = 10
"""Maximum number of classes with a readable table."""
_TELLING = 8


def print_summary(report: MetricsReport) -> None:
    """Print the number of events, the accuracy, and the confusion of classes."""
    if not print_numbers(report):
        return
    scores = ((report.cumulative, "accuracy"), (report.window, f"of the last {report.window.events:,}"))
    told = (f"{name} {one.accuracy:.4f} ({between(one.accuracy_interval)})" for one, name in scores)
    mass = "" if report.interval_mass is None else f"; in brackets the {mass_text(report.interval_mass)}"
    print(f"\n{', '.join(told)}{mass}")
    print_decisions(report)
    print_confusion(report)


def print_informative(model: StreamModel) -> None:
    """Print the most informative words and values of each class, for few classes and a model of counts."""
    labels = [label for label, weight in model.class_weights.items() if weight]
    if not isinstance(model, CountingModel) or not 2 <= len(labels) <= MOST_CLASSES:
        return
    found = {label: strongest(model.statistics, label, _TELLING) for label in sorted(labels)}
    if any(found.values()):
        print()
        for label, values in found.items():
            words = ", ".join(cut(printable(_named(model, one)), 60) for one in values)
            name = cut(printable(label), 60)
            print(f"{name}: {words}" if words else name)


def _named(model: CountingModel, one: InformativeValue) -> str:
    is_nominal = (NOMINAL, one.attribute) in model.statistics.layout.groups
    return f"{one.attribute}={one.value}" if is_nominal else one.value


def print_report(report: MetricsReport) -> None:
    """Print scores, and the confusion of few classes and the hypotheses if there are any."""
    if not print_numbers(report):
        return
    names = ("accuracy", "log_loss", "macro_f1", "kappa", "brier", "calibration_error")
    rows: list[tuple[object, ...]] = [
        (name.replace("_", " "), getattr(report.cumulative, name), getattr(report.window, name))
        for name in names
    ]
    if report.interval_mass is not None:
        intervals = (between(scores.accuracy_interval) for scores in (report.cumulative, report.window))
        rows.insert(1, (mass_text(report.interval_mass), *intervals))
    header = "", f"all {report.cumulative.events:,}", f"last {report.window.events:,}"
    print("\n" + table(rows, header))
    print_decisions(report)
    print_confusion(report)
    if report.classes <= MOST_CLASSES:
        print_rates(report)
    if report.posterior is not None:
        print_posterior(report.posterior)


def words_and_values(n: int) -> str:
    """Return the number as text; empty for 0, as for tenants."""
    return f", {n:,} words and values" if n else ""


def print_numbers(report: MetricsReport) -> bool:
    """Print the number of events; return whether any was scored."""
    told = counted(report, report.events)
    print(
        f"{told}, {report.learned:,} learned, {pluralize(report.dead_letters, 'dead letter')}; "
        f"{pluralize(report.classes, 'class', 'classes')}{words_and_values(report.attributes)}"
    )
    if report.cumulative.events == 0:
        print("no labelled event has been scored")
    return report.cumulative.events > 0


def print_decisions(report: MetricsReport) -> None:
    """Print the costs of decisions, if there are any."""
    if report.decisions is None:
        return
    scopes = report.decisions.cumulative, report.decisions.window
    names = {"mean_cost": "mean cost", "coverage": "share decided", "accuracy": "accuracy of these"}
    rows = [(told, *(getattr(one, name) for one in scopes)) for name, told in names.items()]
    print("\n" + table(rows, ("decisions", f"all {scopes[0].events:,}", f"last {scopes[1].events:,}")))


def print_confusion(report: MetricsReport) -> None:
    """Print the confusion of few classes, in the order of their names, if the report has it."""
    if report.classes > MOST_CLASSES or not report.confusion:
        return
    empty = "none"  # the column of events for which no class was predicted
    while empty in report.labels:
        empty = f"({empty})"
    # A truth that was never learned has a row of its own, but no name.
    order = sorted(range(len(report.labels)), key=report.labels.__getitem__)
    # Columns are in the order of the rows, which show more of a long name.
    rows = [(cut(report.labels[k], 60), *(report.confusion[k][j] for j in (*order, -1))) for k in order]
    header = ("truth \\ predicted", *(cut(report.labels[k], 24) for k in order), empty)
    print("\n" + table(rows, header))


def print_rates(report: MetricsReport) -> None:
    """Print the frequency of each class."""
    if report.interval_mass is None or not report.class_rates:
        return
    rows = (
        (label, _weight(one.weight), one.rate, between(Interval(one.lower, one.upper)))
        for label, one in zip(report.labels, report.class_rates, strict=True)
    )
    print("\n" + table(rows, ("class", "learned", "rate", mass_text(report.interval_mass))))


def print_posterior(report: PosteriorReport) -> None:
    """Print the hypotheses, the most probable first, and the regret of their mixture against the best.

    Losses belong to the hypotheses and their mixture, independent of the model that predicts.
    """
    print()
    events = report.observations
    if not events:
        print(f"{len(report.hypotheses)} hypotheses, and nothing has been learned to weigh them by")
        return
    ranked = sorted(report.hypotheses, key=lambda h: (-h.posterior, h.loss))
    rows: list[tuple[object, ...]]
    rows = [(h.name, h.posterior, h.loss / events, f"{h.loss - report.loss:+,.2f}") for h in ranked]
    rows.append(("mixture of all", 1.0, report.loss / events, f"{0.0:+,.2f}"))
    print(table(rows, ("hypothesis", "posterior", "log loss", "nats against the mixture")))
    rate = report.switching_rate
    terms = "ln(1/prior)" + (f" + T ln(1/(1-r)), T = {events:,}, r = {rate:g}" if rate else "")
    best = printable(report.best)
    print(f"regret {report.regret:,.2f} nats against {best}, at most {report.bound:,.2f} = {terms}")


def action_text(acted: ActionReport) -> str:
    """Return the effects of alarms as text."""
    paused = "learning is paused" if acted.is_paused else "learning continues"
    renewed = f"the model was renewed {pluralize(acted.renewed, 'time')}"
    return f"{paused}, {pluralize(acted.passed_over, 'label')} passed over so far; {renewed}"


def tenants(model: TenantModels, top: int) -> dict[str, Any]:
    """Return the number of models, and events, predictions and right predictions of the largest."""
    use = model.use(top)
    return {"models": use.tenants, "largest": [one._asdict() for one in use.top]}


def print_tenants(described: dict[str, Any] | None) -> None:
    """Print the same as text, if there are tenants; the model of events without one is unnamed."""
    if described is None:
        return
    print(f"\n{described['models']:,} tenants have a model of their own; the models with the most events:")
    rows = []
    for one in described["largest"]:
        accuracy = f"{one['right'] / one['tested']:.4f}" if one["tested"] else ""
        rows.append((brief(printable(one["name"])) or "(none)", f"{one['events']:,}", accuracy))
    print(table(rows, ("tenant", "events", "accuracy")))


def mass_text(probability: float) -> str:
    """Return the name of an interval of this probability."""
    return f"{100.0 * probability:g}% interval"


def between(interval: Interval | None) -> str:
    """Return the bounds of an interval as text; empty for None."""
    return "" if interval is None else f"{interval.lower:.4f}-{interval.upper:.4f}"


def _weight(weight: float) -> float:
    return int(weight) if weight.is_integer() else weight
