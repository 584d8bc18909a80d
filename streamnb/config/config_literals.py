"""Values as people write them: durations and sizes, addresses, secrets, and literals of TOML.

Arithmetic of durations and sizes is decimal, so that "0.1s" and "100ms" are the same double. The standard
library reads TOML and does not write it.
"""

from __future__ import annotations

import ipaddress
import math
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal

import msgspec

SECONDS = {"d": Decimal(86400), "h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
"""Unit of time -> seconds, the longest first."""

BYTES = {
    "TiB": 1 << 40,
    "TB": 10**12,
    "GiB": 1 << 30,
    "GB": 10**9,
    "MiB": 1 << 20,
    "MB": 10**6,
    "KiB": 1 << 10,
    "KB": 10**3,
    "B": 1,
}
"""Unit of size -> bytes, the largest first; KB is 1000 bytes and KiB is 1024."""

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)([A-Za-z]+)")


def parse_duration(text: str) -> float | None:
    """Return the seconds in `text`, such as 30.0 for "30s"; "0" needs no unit. None if not finite."""
    seconds = _quantity(text, SECONDS)
    return None if seconds is None or not math.isfinite(float(seconds)) else float(seconds)


def _quantity(text: str, units: Mapping[str, Decimal | int]) -> Decimal | None:
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in units:
        return Decimal(0) if text == "0" else None
    return Decimal(found[1]) * units[found[2]]


def format_duration(seconds: float) -> str:
    """Return the duration in the longest unit that leaves a whole number, else in seconds.

    ``parse_duration(format_duration(s)) == s`` for every finite s >= 0.
    """
    if seconds == 0:
        return "0s"
    for unit, length in SECONDS.items():
        amount = Decimal(repr(seconds)) / length
        if amount < 10**15 and amount == amount.to_integral_value():  # exact: decimals hold 28 digits
            return f"{amount:.0f}{unit}"
    return f"{seconds!r}s"


def parse_size(text: str) -> int | None:
    """Return the bytes in `text`, such as 65536 for "64KiB"; "0" needs no unit. None if not whole."""
    size = _quantity(text, BYTES)
    return int(size) if size is not None and size == size.to_integral_value() and size < 1 << 63 else None


def format_size(size: int) -> str:
    """Return `size` bytes in the largest unit that gives a whole number; `parse_size` is the inverse."""
    unit = next(unit for unit, length in BYTES.items() if size % length == 0) if size else "B"
    return f"{size // BYTES[unit]}{unit}"


_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:]+)):(?P<port>[0-9]{1,5})")
_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"  # underscores are not in DNS, but in names of many containers
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)


def parse_address(text: str) -> tuple[str, int] | None:
    """Return host (an IPv6 address without brackets) and port, 0 to 65535; None for other texts."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        return None
    host = found["ipv6"] or found["host"]
    return (host, int(found["port"])) if _is_host(host, ipv6=found["ipv6"] is not None) else None


def _is_host(host: str, *, ipv6: bool) -> bool:
    try:
        if ipv6:
            ipaddress.IPv6Address(host)
        elif not host.strip("0123456789."):  # numbers alone are an address, or a slip
            ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return ipv6 or _HOST_NAME.fullmatch(host) is not None


class Secret:
    """A string that no repr, message, file or hash contains; only `reveal` returns it.

    It is deliberately not a str: written somewhere it gives asterisks, and encoders refuse it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the string itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(***)" if self else "Secret()"


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def literal(value: object) -> str:
    """Return the TOML literal of a string, number, boolean, list or table, on one line."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = (f"{_key(str(key))} = {literal(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return str(value)


def from_literal(text: str) -> object:
    """Return the value of one TOML literal; otherwise `text` itself, for the key's kind to refuse."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)
