"""A key whose value is a list of tables, each read as one section; errors name the table at fault."""

from __future__ import annotations

from typing import Any

from streamnb.config.kinds import Kind, refused
from streamnb.config.sections import Section, members, unknown

__all__ = ["kinds_of", "read_entries", "write_tables"]


def kinds_of(section: type[Section]) -> dict[str, Kind[Any]]:
    """Key of a table -> kind of its value."""
    return {name: kind for name, kind in members(section).items() if isinstance(kind, Kind)}


def read_entries(section: type[Section], key: str, table: object, expected: str) -> dict[str, Any]:
    """What the table at `key` gives, each value of its kind. Raises ConfigError."""
    if not isinstance(table, dict):
        raise refused(key, table, expected)
    return {name: _read_entry(section, key, name, value) for name, value in table.items()}


def _read_entry(section: type[Section], key: str, name: str, value: object) -> Any:
    kinds = kinds_of(section)
    if name not in kinds:
        raise unknown(f"{key}.{name}", [f"{key}.{known}" for known in kinds])
    return kinds[name].read(f"{key}.{name}", value)


def write_tables(tables: tuple[Section, ...]) -> str:
    """A line for each table, as TOML; keys that are not set are left out."""
    return "[\n" + "".join(f"    {_line(table)},\n" for table in tables) + "]" if tables else "[]"


def _line(table: Section) -> str:
    values = {name: (kind, getattr(table, name)) for name, kind in kinds_of(type(table)).items()}
    pairs = [f"{name} = {kind.write(value)}" for name, (kind, value) in values.items() if value is not None]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
