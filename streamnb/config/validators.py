"""Kinds of values: how each is read, refused and written back, and what the manual calls it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from streamnb.config.config_literals import (
    BYTES,
    SECONDS,
    Secret,
    format_duration,
    format_size,
    from_literal,
    literal,
    parse_address,
    parse_duration,
    parse_size,
)
from streamnb.errors import ConfigError, MalformedEvent
from streamnb.formats.json_paths import parse_path, render_path
from streamnb.formats.json_value_checks import nominal

T = TypeVar("T")

_USER_INFO = re.compile(r"(?<=://).*@")


class Validator(msgspec.Struct, Generic[T], frozen=True):
    """One kind of value.

    Attributes:
        name: what the manual calls it.
        expected: the expectation in error messages.
        parse: a TOML value -> the value as the program uses it; None refuses it.
        write: the inverse of `parse`, as TOML text.
        is_text: in an environment variable or a flag it stands bare, and not as a TOML literal.
    """

    name: str
    expected: str
    parse: Callable[[object], T | None]
    write: Callable[[Any], str] = literal
    is_text: bool = False

    def read(self, key: str, value: object) -> T:
        """Return the value as the program uses it. Raises ConfigError for another kind."""
        parsed = self.parse(value)
        if parsed is None:
            raise refused(key, value, self.expected)
        return parsed


def refused(key: str, value: object, expected: str) -> ConfigError:
    """Return the error for a value refused at `key`; a URL's user name and password are not quoted."""
    found = _USER_INFO.sub("***@", literal(value))
    return ConfigError(f"{key} is {found if len(found) <= 80 else found[:77] + '...'}; expected {expected}")


# Text


def _text(name: str, expected: str, parse: Callable[[str], str | None]) -> Validator[str]:
    def parse_text(value: object) -> str | None:
        return parse(value) if isinstance(value, str) else None

    return Validator(name, expected, parse_text, is_text=True)


def _matching(name: str, expected: str, pattern: str) -> Validator[str]:
    regex = re.compile(pattern, re.DOTALL)
    return _text(name, expected, lambda text: text if regex.fullmatch(text) else None)


def choice(*options: str) -> Validator[str]:
    """Return the kind of a choice among a few words."""
    quoted = [literal(option) for option in options]
    expected = f"{', '.join(quoted[:-1])} or {quoted[-1]}"
    return _text(expected, expected, lambda text: text if text in options else None)


def _path(text: str) -> str | None:
    try:
        keys = parse_path(text)
        path = render_path(keys)
        return path if parse_path(path) == keys else None  # a path too long to be rendered whole
    except ConfigError:
        return None


def _log_url(text: str) -> str | None:
    if text.startswith("kafka://"):
        servers = map(parse_address, text.removeprefix("kafka://").split(","))
        return text if all(server and server[1] for server in servers) else None
    return text if re.fullmatch(r"sqlite:///(?!:memory:$).*[^/]", text, re.DOTALL) else None


def _topics(value: object) -> tuple[str, ...] | None:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        return None
    topics = tuple(topic for name in names if (topic := TOPIC.parse(name)))
    return topics if len(set(topics)) == len(names) else None


def _values(value: object) -> tuple[str, ...] | None:
    """Return the texts by which values are compared; None if a value has another type or is not finite."""
    if not isinstance(value, list) or not all(isinstance(one, (str, bool, int, float)) for one in value):
        return None
    try:
        texts = tuple(nominal(one, ()) for one in value)
    except MalformedEvent:
        return None
    return texts if texts and len(set(texts)) == len(texts) else None


def _labels(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        return None
    return tuple(value) if len(set(value)) == len(value) else None


def _partitions(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(one) is int and 0 <= one < 1 << 31 for one in value):
        return None
    return tuple(sorted(value)) if len(set(value)) == len(value) else None


STRING = _text("string", "a string", str)
NAME = _matching("string", "a string that is not empty", ".+")
LOG_URL = _text("URL", "sqlite:///FILE or kafka://HOST:PORT[,HOST:PORT ...]", _log_url)
PROXY_URL = _matching(
    "URL",
    "socks5://HOST:PORT, socks5h://HOST:PORT or http://HOST:PORT, without name and password",
    r"(socks5h?|http)://[^/@\s]+:[0-9]{1,5}/?",
)
HOOK_URL = _matching(
    "URL",
    "https://HOST/PATH or http://HOST/PATH, without name, password and fragment",
    r"https?://[^/@\s?#]+(?:/[^\s#]*)?",
)
REGISTRY_URL = _text(
    "URL",
    f'{HOOK_URL.expected}, or "" for none',
    lambda text: text if not text else HOOK_URL.parse(text),
)
HOOK_NAME = _matching("name", "1 to 60 letters, digits, underscores and hyphens", r"[A-Za-z0-9_-]{1,60}")
ADDRESS = _text(
    "address",
    'HOST:PORT, such as "127.0.0.1:9464" or "[::1]:9464", or "" for none',
    lambda text: text if not text or parse_address(text) else None,
)
TOPIC = _matching(
    "topic name",
    "1 to 249 letters, digits, dots, underscores and hyphens",
    r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}",
)
NO_TOPIC = _text(
    "topic name", f'{TOPIC.expected}, or "" for none', lambda text: text if not text else TOPIC.parse(text)
)
TOPICS = Validator(
    "topic names",
    f"topics, with commas between them or as a list, none of them twice, each {TOPIC.expected}",
    _topics,
    lambda topics: literal(topics[0] if len(topics) == 1 else topics),
    is_text=True,
)
JSON_PATH = _text(
    "JSON path", """a JSON path of at most 256 characters, such as $.user.age or $.user["e mail"]""", _path
)
OPTIONAL_PATH = _text(
    "JSON path", f'{JSON_PATH.expected}, or "" for none', lambda text: _path(text) if text else text
)

PARTITIONS = Validator("list", "a list of partitions, such as [0, 1], none of them twice", _partitions)
VALUES = Validator("list", "a list of strings, booleans or finite numbers, none of them twice", _values)
COLUMNS = Validator(
    "list",
    'a column, or a list of columns, none of them twice, such as ["id"]',
    lambda value: _labels([value] if isinstance(value, str) else value),
)
SECRET = Validator(
    "secret", "a string", lambda value: Secret(value) if isinstance(value, str) else None, is_text=True
)
"""Given by the environment alone, and never written."""

# Booleans and numbers

BOOLEAN = Validator("boolean", "true or false", lambda value: value if type(value) is bool else None)


def whole(least: int, most: int = (1 << 63) - 1) -> Validator[int]:
    """Return the kind of an integer from `least` to `most`."""
    limits = f"of {least} or more" if most == (1 << 63) - 1 else f"from {least} to {most}"

    def parse(value: object) -> int | None:
        return value if type(value) is int and least <= value <= most else None

    return Validator("integer", f"an integer {limits}", parse)


def _real(expected: str, accepts: Callable[[float], bool]) -> Validator[float]:
    def parse(value: object) -> float | None:
        real = _finite(value)
        return real if real is not None and accepts(real) else None

    return Validator("number", expected, parse)


def number(least: float) -> Validator[float]:
    """Return the kind of a finite number of at least `least`."""
    return _real(f"a finite number of {least:g} or more", lambda real: real >= least)


def _finite(value: object) -> float | None:
    if type(value) is not int and type(value) is not float:
        return None
    try:
        real = float(value) + 0.0
    except OverflowError:
        return None
    return real if math.isfinite(real) else None


FINITE = _real("a finite number", lambda _: True)
PROPORTION = _real("a number between 0 and 1, both excluded", lambda real: 0.0 < real < 1.0)
INNER_RATE = _real("a number from 1e-6 to 0.999999", lambda real: 1e-6 <= real <= 0.999999)
RATE = _real("a number of 0 or more, and below 1", lambda real: 0.0 <= real < 1.0)
SHARE = _real("a number above 0, and at most 1", lambda real: 0.0 < real <= 1.0)
PRIOR_WEIGHT = _real("a number from 1e-6 to 1e6", lambda real: 1e-6 <= real <= 1e6)
VARIANCE = _real("a number from 1e-12 to 1e12", lambda real: 1e-12 <= real <= 1e12)
NOVELTY = _real("0, or a number from 0.001 to 0.5", lambda real: real == 0.0 or 0.001 <= real <= 0.5)
ABOVE_ZERO = _real("a finite number above 0", lambda real: real > 0.0)


# Quantities with units


def duration(*, above_zero: bool = False) -> Validator[float]:
    """Return the kind of a duration, seconds."""

    def parse(value: object) -> float | None:
        seconds = parse_duration(_bare_zero(value))
        return None if above_zero and not seconds else seconds

    units = ", ".join(reversed(SECONDS))
    positive = "above 0 " if above_zero else ""
    expected = f'a duration {positive}with its unit ({units}), such as "30s"'
    return Validator(
        "duration", expected, parse, lambda seconds: literal(format_duration(seconds)), is_text=True
    )


def _bare_zero(value: object) -> str:
    return value if isinstance(value, str) else "0" if type(value) is int and value == 0 else ""


def _size(limits: str, example: str, *, above_zero: bool) -> Validator[int]:
    def parse(value: object) -> int | None:
        size = parse_size(_bare_zero(value))
        return None if above_zero and not size else size

    expected = f'{limits} with its unit ({", ".join(reversed(BYTES))}), such as "{example}"'
    return Validator("size", expected, parse, lambda size: literal(format_size(size)), is_text=True)


SIZE = _size("a size above 0", "512MiB", above_zero=True)
LIMIT = _size("0, or a size", "512KiB", above_zero=False)

# Tables


def _table(
    name: str,
    expected: str,
    parse: Callable[[Any], T | None],
    is_right: Callable[[dict[str, T]], bool] = lambda _: True,
) -> Validator[dict[str, T]]:
    def parse_table(value: object) -> dict[str, T] | None:
        if not isinstance(value, dict):
            return None
        found = {key: parsed for key, item in value.items() if (parsed := parse(item)) is not None}
        return found if len(found) == len(value) and is_right(found) else None

    return Validator(name, expected, parse_table)


def _rank(value: object) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 31 else None


def _names(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    return tuple(value) if all(isinstance(one, str) and one for one in value) else None


WEIGHTS = _table(
    "table of label = weight",
    "a table of label = weight, finite, none below 0 and not all 0",
    number(0).parse,
    lambda weights: not weights or 0.0 < sum(weights.values()) < math.inf,
)
RANKS = _table("table of source = rank", "a table of source = rank, each an integer", _rank, all)
SOURCE_WEIGHTS = _table(
    "table of source = weight",
    "a table of source = weight, each a number from 0 to 1000",
    _real("", lambda weight: 0.0 <= weight <= 1000.0).parse,
    all,
)
LABELS = Validator(
    "labels",
    "a list of labels, none of them empty or twice",
    _labels,
    lambda labels: literal(list(labels)),
)
ALIASES = _table(
    "table of label = label",
    'a table of label = the label that it is read as, such as { spma = "spam" }, or = "" for none; what one '
    "is read as is not read as another",
    lambda label: label if isinstance(label, str) else None,
    lambda aliases: "" not in aliases and not aliases.keys() & aliases.values(),
)
COSTS = _table(
    "table of tables",
    "a table of decision = { label = cost }, each a number from 0 to 1e12, such as { spam = { ham = 10 } }",
    _table("", "", _real("", lambda cost: 0.0 <= cost <= 1e12).parse).parse,
)


def _new_priors(value: object) -> str | dict[str, float] | None:
    if isinstance(value, str) and value.startswith("{"):  # in a variable or a flag
        value = from_literal(value)
    if isinstance(value, str):
        return value if value in {"learned", "uniform", "windowed"} else None
    return WEIGHTS.parse(value) or None


NEW_PRIORS = Validator(
    "string, or table of label = weight",
    f'"learned", "uniform", "windowed", or {WEIGHTS.expected}',
    _new_priors,
    is_text=True,
)
PARENTS = _table(
    "table of attribute = names",
    'a table of attribute = [names], such as { colour = ["label", "shape"] }',
    _names,
)
