"""The health of the learner in one line, on every view: state, rate, lag, alarms, latency and memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from streamnb.charts import Markup, count, joined, number, percent, tag
from streamnb.events import MonitorReport
from streamnb.formats.terminal_text import duration
from streamnb.serving.recent_records import RecentRecords
from streamnb.statistics.memory_budget import MemoryUse

_STALLED_SECONDS = 15.0


class LearnerHealth(NamedTuple):
    """The state of the learner in words.

    Attributes:
        word: the state, such as "Learning".
        note: the reason or the last commit; may be empty.
        style: "good", "warn" for a state to look at, "bad" without a living learner, or "" if unknown.
    """

    word: str
    note: str = ""
    style: str = "good"


def learner_health(watch: RecentRecords) -> LearnerHealth:
    """Return the state of the learner. Needs the lock."""
    if watch.problem:
        return LearnerHealth("The log cannot be read", style="bad")
    if watch.is_loading:
        return LearnerHealth("Reading the newest records", style="")
    age = time.time() - watch.commits[-1].now if watch.commits else None
    last = "nothing was learned yet" if age is None else f"last commit {duration(age)} ago"
    is_recent = age is not None and age <= _STALLED_SECONDS
    if watch.learner == "running" or (watch.learner == "not known" and is_recent):
        return _living(watch, last, is_recent=is_recent)
    words = {
        "silent": (f"Silent for {duration(watch.silent)}", "the learner was killed or hangs"),
        "stopped": ("No learner runs", last),
        "not known": ("No learner is known", last),
    }
    return LearnerHealth(*words[watch.learner], "bad")


def _living(watch: RecentRecords, last: str, *, is_recent: bool) -> LearnerHealth:
    actions = None if watch.report is None else watch.report.actions
    if actions is not None and actions.is_paused:
        return LearnerHealth("Learning is paused by an alarm", style="warn")
    if is_recent:
        return LearnerHealth("Learning")
    if watch.behind():
        return LearnerHealth("No commit although records wait", last, "warn")
    return LearnerHealth("Idle", last)


def health_strip(watch: RecentRecords, memory: MemoryUse | None) -> Markup:
    """Return the strip. `memory` is of the loaded model, if there is one. Needs the lock of `watch`."""
    health, behind, report = learner_health(watch), watch.behind(), watch.report
    parts = [health.note] if health.note else []
    parts.append(f"{watch.rate():.3g} events/s")
    parts += [] if behind is None else [f"{number(behind)} behind"]
    alarms = None if report is None or not report.monitors else _alarms(report.monitors)
    text = ", ".join(parts)
    state = tag("strong", health.word, class_="state")
    return tag(
        "p",
        tag("span", state, ". ", text[:1].upper(), text[1:], alarms, class_="sentence"),
        tag("span", *_measures(watch, memory), class_="soft measures"),
        id="strip",
        class_=health.style or None,
        data_behind=behind,
    )


def _alarms(monitors: Sequence[MonitorReport]) -> Markup:
    raised = [one.name for one in monitors if one.raised]
    if not raised:
        return joined([", no alarms"])
    told = f"{len(raised)} alarm{'s' * (len(raised) > 1)}"
    return joined([", ", tag("span", told, class_="alarmed", title=f"raised: {', '.join(raised)}")])


def _measures(watch: RecentRecords, memory: MemoryUse | None) -> list[Markup]:
    """Return latency and memory, as far as they are known."""
    found = []
    if (seconds := watch.latency.quantiles()) is not None:
        told = f"event to prediction, {watch.latency.n_events:,} events of the last minute"
        p50, p99 = (brief(each) for each in seconds)
        found.append(tag("span", f"latency p50 {p50}, p99 {p99}", title=told))
    if memory is not None and memory.parts:
        parts = [one for one in memory.parts.values() if one.most]
        taken, most = sum(one.taken for one in parts), sum(one.most for one in parts)
        text = f"memory {count(taken)}B of {count(most)}B"
        text += f", {memory.words:,} words forgotten" if memory.words else ""
        shares = ", ".join(f"{name} {percent(one.share)}" for name, one in memory.parts.items() if one.most)
        style = "alarmed" if memory.words else None
        found.append(tag("span", text, title=f"{shares}; counted since the model was loaded", class_=style))
    return found


def brief(seconds: float) -> str:
    """Return a short duration: 12 ms, 1.5 s, 3 h."""
    if seconds < 1.0:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60.0 else duration(seconds)
