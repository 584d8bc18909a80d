"""Monitors that alert on values out of bounds, as ``[[monitors]]`` tables declare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from streamnb.config.config_literals import literal
from streamnb.config.config_sections import Section, missing_keys, read_entries, tables
from streamnb.config.validators import INNER_RATE, NAME, STRING, Validator, duration, refused, whole
from streamnb.errors import ConfigError

MOST = 100
"""Monitors of one stream: each hears every event."""

_RATES = {"tolerated", "alarming", "false_alarm", "miss"}
_PAUSES = {"pause_records"}
_OWN: dict[str, set[str]] = {
    "error-rate": _RATES | _PAUSES,
    "class-rate": _RATES | _PAUSES | {"label", "of"},
    "calibration": _RATES | _PAUSES,
    "no-events": {"after"},
    "no-labels": {"after"},
    "new-class": set(),
}
"""Kind -> its keys other than name and kind."""
_GAP = 1e-6  # between rates; below it, or nearer to 0 or 1, their quotients are NaN or 1
_REQUIRED = ("tolerated", "alarming", "label", "after")


def _rates(value: object) -> tuple[float, ...] | None:
    given = value if isinstance(value, list) else [value]
    found = tuple(rate for one in given if (rate := INNER_RATE.parse(one)) is not None)
    return found if len(found) == len(given) and len(found) in {1, 2} else None


_BOUNDS = Validator(
    "rate, or two",
    f"{INNER_RATE.expected}, or a list of two: the lower and the upper bound",
    _rates,
    lambda rates: literal(rates[0] if len(rates) == 1 else list(rates)),
)


class MonitorConfig(Section, frozen=True):
    """One monitor; a key that its kind does not have keeps its default.

    Attributes: see `streamnb.engine.settings.MonitorSettings`.
    """

    name: Annotated[str, NAME]
    kind: Literal["error-rate", "class-rate", "calibration", "no-events", "no-labels", "new-class"]
    tolerated: Annotated[tuple[float, ...] | None, _BOUNDS] = None
    alarming: Annotated[tuple[float, ...] | None, _BOUNDS] = None
    label: Annotated[str | None, STRING] = None
    of: Literal["predictions", "labels"] | None = None
    after: Annotated[float | None, duration(above_zero=True)] = None
    false_alarm: Annotated[float | None, INNER_RATE] = None
    miss: Annotated[float | None, INNER_RATE] = None
    action: Literal["pause", "renew"] | None = None
    pause_records: Annotated[int | None, whole(1)] = None


def _read_named(key: str, table: object) -> MonitorConfig:
    """Return the monitor of one table; an error includes its name if it has one."""
    try:
        return _read_table(key, table)
    except ConfigError as error:
        name = table.get("name") if isinstance(table, dict) else None
        if not isinstance(name, str):
            raise
        raise ConfigError(f"{error}; {key} is {literal(name)}") from error


def _read_table(key: str, table: object) -> MonitorConfig:
    expected = 'a table such as { name = "silent", kind = "no-events", after = "10m" }'
    values = read_entries(MonitorConfig, key, table, expected)
    unnamed = missing_keys(key, values, ("name", "kind"))
    faults = [f"{unnamed}; expected {expected}"] if unnamed else []
    if "kind" not in values:
        raise ConfigError(faults[0])
    kind = values["kind"]
    for name in values.keys() - _OWN[kind] - {"name", "kind", "action"}:
        owners = " or ".join(literal(owner) for owner, own in _OWN.items() if name in own)
        raise ConfigError(
            f"{key}.{name} has no meaning with kind = {literal(kind)}; expected kind = {owners}"
        )
    if incomplete := missing_keys(key, values, (name for name in _REQUIRED if name in _OWN[kind])):
        faults.append(f"{incomplete}, which kind = {literal(kind)} needs")
    if faults:
        raise ConfigError("; ".join(faults))
    _check_action(key, kind, values)
    defaults: dict[str, Any] = {"of": "predictions", "false_alarm": 0.01, "miss": 0.05}
    monitor = MonitorConfig(**{name: one for name, one in defaults.items() if name in _OWN[kind]} | values)
    _check_bounds(key, monitor)
    return monitor


def _check_action(key: str, kind: str, values: Mapping[str, Any]) -> None:
    """Refuse a pause for a kind without a rate: a silence has nothing to learn, and a new class no end."""
    action = values.get("action")
    if action == "pause" and not _OWN[kind] >= _PAUSES:
        owners = " or ".join(literal(owner) for owner, own in _OWN.items() if own >= _PAUSES)
        raise ConfigError(
            f'{key}.action = "pause" has no meaning with kind = {literal(kind)}; expected kind = {owners}'
        )
    if action != "pause" and "pause_records" in values:
        raise ConfigError(f'{key}.pause_records has no meaning without action = "pause"')


def _check_bounds(key: str, monitor: MonitorConfig) -> None:
    tolerated, alarming = monitor.tolerated, monitor.alarming
    if tolerated is None or alarming is None:
        return
    if len(tolerated) == 2 and (monitor.kind != "class-rate" or tolerated[0] >= tolerated[1]):
        expected = "the lower and then the upper bound" if monitor.kind == "class-rate" else "one number"
        raise refused(f"{key}.tolerated", list(tolerated), expected)
    if len(alarming) != len(tolerated):
        raise refused(f"{key}.alarming", list(alarming), f"as many numbers as {key}.tolerated has")
    gaps = [alarming[-1] - tolerated[-1], tolerated[0] - alarming[0]]
    least = min(gaps[: len(alarming)])
    found = alarming[0] if len(alarming) == 1 else list(alarming)
    if least <= 0.0:
        raise refused(f"{key}.alarming", found, f"more than {key}.tolerated, or two numbers outside of it")
    if least < _GAP:
        raise refused(f"{key}.alarming", found, f"{_GAP:g} or more away from {key}.tolerated")


def _check(key: str, monitors: tuple[Any, ...]) -> None:
    if len(monitors) > MOST:
        raise ConfigError(f"{key} has {len(monitors)} tables; expected {MOST} at most")


MONITORS = tables("monitors", _read_named, _check)
