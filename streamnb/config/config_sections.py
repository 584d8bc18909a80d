"""Sections: frozen structs whose fields are keys, each with the kind of its value, or nested sections.

A key may be a list of tables, each read as one section; errors name the table at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from streamnb.config.validators import BOOLEAN, Validator, choice, refused
from streamnb.errors import ConfigError
from streamnb.values.parameter_checks import brief, did_you_mean


class Section(msgspec.Struct, frozen=True):
    """Some keys that belong together; ``Annotated[type, kind]`` or a literal type declares one.

    Another Section nests.
    """


Member = Validator[Any] | type[Section]
"""A key of some kind, or a nested section."""


@cache
def members(section: type[Section]) -> dict[str, Member]:
    """Return name -> kind, or nested section, in the order of declaration."""
    hints = get_type_hints(section, include_extras=True)
    fields = {name: hints[name] for name in section.__struct_fields__}
    return {name: _member(hint) for name, hint in fields.items()}


def _member(hint: Any) -> Member:
    if hasattr(hint, "__metadata__"):
        return hint.__metadata__[0]  # type: ignore[no-any-return]
    of: Any = get_args(hint)[0] if get_origin(hint) in (Union, UnionType) else hint
    return choice(*get_args(of)) if get_origin(of) is Literal else BOOLEAN if of is bool else of


def walk(section: type[Section], prefix: str = "") -> Iterator[tuple[str, Member]]:
    """Yield every key and nested section below `section` with its dotted path, in declaration order."""
    for name, member in members(section).items():
        yield prefix + name, member
        if not isinstance(member, Validator):
            yield from walk(member, f"{prefix}{name}.")


def unknown(key: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a key that does not exist."""
    return ConfigError(f"{brief(key)} is unknown{did_you_mean(key, known)}")


def kinds_of(section: type[Section]) -> dict[str, Validator[Any]]:
    """Return key of a table -> kind of its value."""
    return {name: kind for name, kind in members(section).items() if isinstance(kind, Validator)}


def read_entries(section: type[Section], key: str, table: object, expected: str) -> dict[str, Any]:
    """Return the keys and values of the table at `key`, each value of its kind. Raises ConfigError."""
    if not isinstance(table, dict):
        raise refused(key, table, expected)
    return {name: _read_entry(section, key, name, value) for name, value in table.items()}


def missing_keys(key: str, table: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return a message that names every key of `names` that the table at `key` lacks; empty for none."""
    missing = [f"{key}.{name}" for name in names if name not in table]
    return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing" if missing else ""


def _read_entry(section: type[Section], key: str, name: str, value: object) -> Any:
    kinds = kinds_of(section)
    if name not in kinds:
        raise unknown(f"{key}.{name}", [f"{key}.{known}" for known in kinds])
    return kinds[name].read(f"{key}.{name}", value)


class TableList(Validator[Any], frozen=True, kw_only=True):
    """A list of tables with unique names.

    Attributes:
        read_one: reads the table at a key; a tuple stands for several tables.
        check: raises ConfigError for an invalid list; it receives the key and all tables.
    """

    read_one: Callable[[str, object], Any]
    check: Callable[[str, tuple[Any, ...]], None]

    def read(self, key: str, value: object) -> tuple[Any, ...]:
        """Return the tables in order; an error names the faulty table as ``attributes[0]``."""
        read = [self.read_one(f"{key}[{i}]", one) for i, one in enumerate(super().read(key, value))]
        found = tuple(table for one in read for table in (one if type(one) is tuple else (one,)))
        first: dict[str, int] = {}
        for i, one in enumerate(found):
            if one.name is not None and (same := first.setdefault(one.name, i)) != i:
                raise refused(f"{key}[{i}].name", one.name, f"another name than {key}[{same}] has")
        self.check(key, found)
        return found


def tables(
    key: str,
    read_one: Callable[[str, object], Any],
    check: Callable[[str, tuple[Any, ...]], None] = lambda *_: None,
) -> TableList:
    """Return the kind of the tables at a key; see `Tables`."""
    expected = f"[[{key}]] tables, or a list of tables"
    return TableList("list of tables", expected, _list, write_tables, read_one=read_one, check=check)


def _list(value: object) -> list[object] | None:
    return value if isinstance(value, list) else None


def write_tables(tables: tuple[Section, ...]) -> str:
    """Return a line for each table, as TOML, without keys that are not set."""
    return "[\n" + "".join(f"    {_line(table)},\n" for table in tables) + "]" if tables else "[]"


def _line(table: Section) -> str:
    values = {name: (kind, getattr(table, name)) for name, kind in kinds_of(type(table)).items()}
    pairs = [f"{name} = {kind.write(value)}" for name, (kind, value) in values.items() if value is not None]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
