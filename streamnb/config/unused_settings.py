"""Keys that are given, and right, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from streamnb.config.config_schema import Config
from streamnb.config.setting_sources import GivenSetting

_READ_WHERE: tuple[tuple[tuple[str, ...], Callable[[Config], bool], str], ...] = (
    (
        (
            *("kafka.client", "kafka.username", "kafka.password", "kafka.token_file"),
            *("kafka.key_password_file", "kafka.transaction_timeout"),
            *("log.client", "topics.requests", "topics.replication", "topics.retention"),
        ),
        lambda config: config.log.is_kafka,
        "log.url is not a Kafka cluster",
    ),
    (
        ("labels.",),
        lambda config: config.keeps_events,
        'topics.labels is not set, and events.repeats is "learn"',
    ),
    (("posterior.",), lambda config: config.weighs, "the model weighs no hypotheses"),
    (
        ("predictions.hypotheses",),
        lambda config: config.weighs or config.model.kind == "semi_supervised",
        "the model weighs no hypotheses",
    ),
    (("topics.alerts",), lambda config: bool(config.monitors), "there are no [[monitors]]"),
    (("topics.tenants",), lambda config: config.model.kind == "tenants", 'model.kind is not "tenants"'),
)
"""Beginnings of keys, when they are read, and why not otherwise."""
_DEFAULT = Config()


def without_effect(config: Config, layers: Iterable[GivenSetting]) -> list[str]:
    """Return settings without effect: unused by this configuration, or overridden by another source.

    Settings equal to the default in force are not reported.
    """
    found: list[str] = []
    last: dict[str, str] = {}
    for one in layers:
        if one.key in last:
            found.append(f"{last[one.key]}: {one.key} has no effect: {one.origin} gives it, too")
        last[one.key] = one.origin
    given = {key: origin for key, origin in last.items() if _value(config, key) != _value(_DEFAULT, key)}
    for key, origin in given.items():
        reasons = (why for keys, is_read, why in _READ_WHERE if key.startswith(keys) and not is_read(config))
        found += [f"{origin}: {key} has no effect: {why}" for why in reasons]
    return found


def _value(config: Config, key: str) -> object:
    return reduce(getattr, key.split("."), config)
