"""The attributes of an event, as ``[[attributes]]`` tables declare them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from streamnb.config.config_sections import Section, kinds_of, missing_keys, read_entries, tables
from streamnb.config.validators import FINITE, JSON_PATH, NAME, PROPORTION, VALUES, number, refused, whole
from streamnb.errors import ConfigError
from streamnb.features.attributes import EventModel
from streamnb.formats.json_paths import render_path
from streamnb.values.time_parts import PARTS


class AttributeConfig(Section, frozen=True):
    """One attribute: its name, kind, path in the event and smoothing.

    Attributes:
        name: what the model, its evidence and its metrics call it.
        kind: "text" (cut into words), "nominal" (one of some values) or "continuous" (a number).
        path: path of its value; by default ``$.text`` for a text named "text", else ``$.features.<name>``.
        alpha: added to every count; None leaves smoothing to the model.
        m: equivalent sample size of the m-estimate, in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen.
        event_model: "multinomial" or "bernoulli", for a text; None leaves it to the model.
        values: the texts of all values of a nominal attribute; an event with any other value is a dead
            letter.
        n_values: in place of them, how many there are at least.
        min, max: a number beyond them is read as the nearer of the two.
        part: the part of a time that is read: "hour", "weekday", "month" or "age".
    """

    name: Annotated[str, NAME]
    kind: Literal["text", "nominal", "continuous"]
    path: Annotated[str, JSON_PATH]
    alpha: Annotated[float | None, number(0)] = None
    m: Annotated[float | None, number(0)] = None
    p: Annotated[float | None, PROPORTION] = None
    event_model: EventModel | None = None
    values: Annotated[tuple[str, ...] | None, VALUES] = None
    n_values: Annotated[int | None, whole(1, 1 << 31)] = None
    min: Annotated[float | None, FINITE] = None
    max: Annotated[float | None, FINITE] = None
    part: Literal["hour", "weekday", "month", "age"] | None = None


class TimeConfig(Section, frozen=True):
    """A time, of which parts are attributes: ``created.hour``, ``created.weekday``.

    Attributes:
        name: the name before each part's.
        kind: "time".
        path: path of its value; by default ``$.features.<name>``.
        parts: "hour", "weekday", "month" and "age" (days before the event); without it all but the age.
    """

    name: Annotated[str, NAME]
    kind: Literal["time"]
    path: Annotated[str, JSON_PATH]
    parts: Annotated[tuple[str, ...] | None, VALUES] = None


def _read_time(key: str, table: object) -> tuple[AttributeConfig, ...]:
    """Return the attributes of the parts of a time."""
    values = read_entries(TimeConfig, key, table, "a table with name and kind")
    if missing := missing_keys(key, values, ["name"]):
        raise ConfigError(f"{missing}; expected {kinds_of(TimeConfig)['name'].expected}")
    name, parts = values["name"], values.get("parts") or ("hour", "weekday", "month")
    path = values.get("path") or _default_path(key, name, "time")
    for part in parts:
        if part not in PARTS:
            raise refused(f"{key}.parts", part, f"some of {', '.join(PARTS)}")
    made: Any = ((f"{name}.{part}", PARTS[part], part) for part in parts)
    return tuple(AttributeConfig(one, kind, path, part=part) for one, kind, part in made)


def check_smoothing(key: str, alpha: float | None, m: float | None, p: float | None) -> None:
    """Raise ConfigError where the smoothing given at `key` contradicts itself."""
    if alpha is not None and m is not None:
        raise ConfigError(f"{key}.m is {m} and {key}.alpha is {alpha}; expected one of them")
    if p is not None and m is None:
        raise refused(f"{key}.p", p, f"{key}.m with it")


def _read_table(key: str, table: object) -> AttributeConfig | tuple[AttributeConfig, ...]:
    if isinstance(table, dict) and table.get("kind") == "time":
        return _read_time(key, table)
    values = read_entries(AttributeConfig, key, table, "a table with name and kind")
    needed = [name for name in ("name", "kind") if name not in values]
    if missing := missing_keys(key, values, needed):
        expected = (kinds_of(AttributeConfig)[name].expected for name in needed)
        raise ConfigError(f"{missing}; expected {', and '.join(expected)}")
    if "path" not in values:
        values["path"] = _default_path(key, values["name"], values["kind"])
    attribute = AttributeConfig(**values)
    _check(key, attribute)
    return attribute


def _default_path(key: str, name: str, kind: str) -> str:
    is_text = (name, kind) == ("text", "text")
    return JSON_PATH.read(f"{key}.path", render_path(("text",) if is_text else ("features", name)))


def _check(key: str, attribute: AttributeConfig) -> None:
    """Refuse options that the attribute's kind does not have, and contradictory smoothing."""
    of_texts, declared, ends = ("event_model",), ("values", "n_values"), ("min", "max")
    refusing = {
        "text": (*declared, *ends),
        "nominal": (*of_texts, *ends),
        "continuous": ("alpha", "m", "p", *of_texts, *declared),
    }
    for name in refusing[attribute.kind]:
        if (value := getattr(attribute, name)) is not None:
            raise refused(f"{key}.{name}", value, f"no {name} for a {attribute.kind} attribute")
    if attribute.part is not None and attribute.kind != PARTS[attribute.part]:
        raise refused(f"{key}.part", attribute.part, f'kind = "{PARTS[attribute.part]}" with it')
    check_smoothing(key, attribute.alpha, attribute.m, attribute.p)
    if attribute.values is not None and attribute.n_values is not None:
        raise refused(f"{key}.n_values", attribute.n_values, f"{key}.values or {key}.n_values")
    if attribute.min is not None and attribute.max is not None and attribute.min >= attribute.max:
        raise refused(f"{key}.max", attribute.max, f"more than {key}.min, {attribute.min:g}")


ATTRIBUTES = tables("attributes", _read_table)
